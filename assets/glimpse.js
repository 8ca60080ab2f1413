// Looks at a run while its turns are timed, every two seconds, and changes only those words of the page that are new: the
// cheapest way to watch a machine that is being measured. Lanes that are to be watched so name their run.
(() => {
  const EVERY_MS = 2000, FRAME_MS = 1000;
  let run = '', seen = '', whole = '', waiting = false, calm = false;

  // Gradio's loading screen leaves a loop behind that asks for every frame, which alone takes a twentieth of a core.
  // While turns are timed frames come once a second.
  const frame = window.requestAnimationFrame.bind(window), cancel = window.cancelAnimationFrame.bind(window);
  const late = new Set();
  window.requestAnimationFrame = (draw) => {
    if (!calm) { return frame(draw); }
    const id = setTimeout(() => { late.delete(id); draw(performance.now()); }, FRAME_MS);
    late.add(id);
    return id;
  };
  window.cancelAnimationFrame = (id) => { if (late.delete(id)) { clearTimeout(id); } else { cancel(id); } };

  function settle(here, there) {
    if (here.nodeType !== there.nodeType || here.nodeName !== there.nodeName) { here.replaceWith(there); return; }
    if (here.nodeType === Node.TEXT_NODE) { if (here.data !== there.data) { here.data = there.data; } return; }
    if (here.nodeType !== Node.ELEMENT_NODE) { return; }
    for (const { name, value } of [...there.attributes]) {
      if (here.getAttribute(name) !== value) { here.setAttribute(name, value); }
    }
    for (const { name } of [...here.attributes]) { if (!there.hasAttribute(name)) { here.removeAttribute(name); } }
    const ours = [...here.childNodes], theirs = [...there.childNodes];
    theirs.forEach((child, place) => { if (place < ours.length) { settle(ours[place], child); } else { here.append(child); } });
    ours.slice(theirs.length).forEach((child) => child.remove());
  }

  function put(here, html) {
    const made = document.createElement('template');
    made.innerHTML = html;
    if (here && made.content.firstElementChild) { settle(here, made.content.firstElementChild); }
  }

  async function look() {
    const lanes = document.querySelector('.lv-lanes[data-watch]');
    calm = lanes !== null;
    if (!lanes || document.hidden || waiting) { return; }
    if (run !== lanes.dataset.watch) { run = lanes.dataset.watch; seen = whole = ''; }
    waiting = true;
    try {
      const asked = new URL('levers/glimpse/' + encodeURIComponent(run), location.href);
      asked.searchParams.set('seen', seen);
      const answer = await fetch(asked);
      const now = answer.ok ? await answer.json() : { whole: 'gone' };
      if (!lanes.isConnected) { return; }
      if (now.lanes) { put(document.querySelector('.lv-head'), now.head); put(lanes, now.lanes); }
      seen = now.seen || '';
      if (whole && whole !== now.whole) { document.getElementById('lv-look')?.click(); }
      whole = now.whole;
    } catch { /* the banner says that nothing answers */ } finally { waiting = false; }
  }

  setInterval(look, EVERY_MS);
})();
