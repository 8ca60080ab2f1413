// The headline: which of its sentences is shown follows the two sliders. All of them are in the page, drawn by the server.
(() => {
  document.addEventListener('input', (event) => {
    const slider = event.target.closest?.('.lv-slider input');
    const root = slider?.closest('[data-wish]');
    if (!root) { return; }
    const said = JSON.parse(slider.dataset.said)[Number(slider.value)];
    slider.setAttribute('aria-valuetext', said);
    slider.closest('.lv-slider').querySelector('b').textContent = said;
    const places = JSON.parse(root.dataset.wish);
    const at = (name, otherwise) => { const one = root.querySelector(`[data-of="${name}"] input`); return one ? Number(one.value) : otherwise; };
    const place = places[at('memory', places.length - 1)][at('quality', 0)];
    root.querySelectorAll('.lv-advice').forEach((advice, index) => { advice.hidden = index !== place; });
  });
})();
