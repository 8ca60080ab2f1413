// Searches the hub while a person types: after a pause, and an answer to an earlier text is dropped. The arrow keys go from the
// field through the models found and back, as Tab does; a press takes one.
(() => {
  const PAUSE_MS = 300, LEAST = 3;
  let timer = 0, asked = null;

  const part = (name) => document.querySelector(`#lv-search .lv-search ${name}`);
  const word = (name) => document.querySelector('#lv-search .lv-search')?.dataset[name] ?? '';

  function show(hits, said) {
    const list = part('.lv-hits'), status = part('[role=status]');
    if (list && status) { list.innerHTML = hits; status.textContent = said; }
  }

  async function look(text) {
    const mine = asked = new AbortController();
    const found = { hits: '', said: word('failed') };
    try {
      const where = new URL('levers/search', location.href);
      where.searchParams.set('text', text);
      const answer = await fetch(where, { signal: mine.signal });
      if (answer.ok) { Object.assign(found, await answer.json()); }
    } catch { /* it is said below, unless a newer text is asked for already */ }
    if (mine === asked) { show(found.hits, found.said); }
  }

  function drop() {
    clearTimeout(timer);
    asked?.abort();
    asked = null;
  }

  document.addEventListener('input', (event) => {
    if (event.target.id !== 'lv-search-text') { return; }
    drop();
    const text = event.target.value.trim();
    show('', text.length < LEAST ? '' : word('searching'));
    if (text.length >= LEAST) { timer = setTimeout(look, PAUSE_MS, text); }
  });

  document.addEventListener('click', (event) => {
    const model = event.target.closest?.('#lv-search [data-model]')?.dataset.model;
    if (!model) { return; }
    drop();
    document.getElementById('lv-search').dataset.taken = model;
    document.getElementById('lv-take').click();
    part('input').value = '';
    part('input').focus();
    show('', word('taken').replace('{model}', () => model));
  });

  document.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? (event.key === 'Escape' ? -Infinity : 0);
    const field = part('input');
    if (!step || !event.target.closest?.('.lv-search')) { return; }
    const stops = [field, ...document.querySelectorAll('#lv-search [data-model]')], at = stops.indexOf(document.activeElement);
    if (at < 0 || (at === 0 && step < 0)) { return; }
    event.preventDefault();
    stops[Math.min(stops.length - 1, Math.max(0, at + step))].focus();
  });
})();
