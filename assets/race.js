// The race: every answer of a prompt is written again, all of them together, each token when its clock said that it came.
// Answers that can be raced carry their times; the texts, the words and the marks are the server's and are put back.
(() => {
  const races = new WeakMap();

  function upTo(times, elapsed) {  // how many of these times are over
    let low = 0, high = times.length;
    while (low < high) { const middle = (low + high) >> 1; if (times[middle] <= elapsed) { low = middle + 1; } else { high = middle; } }
    return low;
  }

  function runner(card) {
    const prose = card.querySelector('.lv-prose'), ghost = document.createElement('p');
    ghost.className = 'lv-prose lv-ghost';
    ghost.setAttribute('aria-hidden', 'true');
    prose.after(ghost);
    card.classList.remove('lv-finished');
    return { card, ghost, times: JSON.parse(card.dataset.times), ends: JSON.parse(card.dataset.ends), come: -1,
      letters: Array.from(card.dataset.text), bar: card.querySelector('.lv-track span'), clock: card.querySelector('.lv-time'),
      at: card.querySelector('.lv-time').textContent };
  }

  function show(one, elapsed) {
    const come = upTo(one.times, elapsed), total = one.times.length, last = one.times[total - 1];
    one.clock.textContent = come === total ? one.at : elapsed.toFixed(2) + ' s';
    if (come === one.come) { return; }
    one.come = come;
    one.ghost.textContent = one.letters.slice(0, come ? one.ends[come - 1] : 0).join('');
    one.bar.style.width = (100 * come / total) + '%';
    if (come === total) { one.card.classList.add('lv-finished'); }
  }

  function label(race, word) { race.button.textContent = race.button.dataset[word]; race.root.dataset.race = word; }

  function end(race) {
    race.runners.forEach((one) => one.ghost.remove());
    race.root.classList.remove('lv-racing');
    races.delete(race.root);
    label(race, 'again');
  }

  function step(race) {
    if (!race.root.isConnected) { races.delete(race.root); return; }
    if (!race.going) { return; }
    const now = performance.now();
    race.elapsed += (now - race.seen) / 1000 * race.speed;
    race.seen = now;
    race.runners.forEach((one) => show(one, race.elapsed));
    if (race.runners.every((one) => one.come === one.times.length)) { end(race); return; }
    requestAnimationFrame(() => step(race));
  }

  function begin(root, button) {
    const cards = [...root.querySelectorAll('[data-times]')];
    const race = { root, button, elapsed: 0, speed: speedOf(root), going: true, seen: performance.now(), runners: cards.map(runner) };
    races.set(root, race);
    root.classList.add('lv-racing');
    label(race, 'pause');
    step(race);
  }

  function speedOf(root) { return Number(root.querySelector('[data-speed][aria-pressed="true"]')?.dataset.speed || 1); }

  document.addEventListener('click', (event) => {
    const button = event.target.closest?.('.lv-race button');
    const root = button?.closest('.lv-race');
    if (!root) { return; }
    const race = races.get(root);
    if (button.dataset.speed) {
      root.querySelectorAll('[data-speed]').forEach((one) => one.setAttribute('aria-pressed', String(one === button)));
      if (race) { race.speed = speedOf(root); }
    } else if (!race) {
      begin(root, button);
    } else {
      race.going = !race.going;
      race.seen = performance.now();
      label(race, race.going ? 'pause' : 'go');
      if (race.going) { step(race); }
    }
  });
})();
