// Sorting a table of results by a column: by its head, or where heads are hidden by a list. Rows without figures stay last.
(() => {
  const value = (row, column) => {
    const raw = row.children[column]?.dataset.value;
    return raw === undefined ? NaN : Number(raw);
  };

  function order(table, column, direction) {
    const body = table.tBodies[0], rows = [...body.rows];
    rows.forEach((row, place) => { row.dataset.place ??= place; });
    const planned = (one, two) => one.dataset.place - two.dataset.place;
    rows.sort((one, two) => {
      if (!direction) { return planned(one, two); }
      const [left, right] = [value(one, column), value(two, column)];
      if (Number.isNaN(left) || Number.isNaN(right)) { return Number.isNaN(left) - Number.isNaN(right) || planned(one, two); }
      return direction * (left - right) || planned(one, two);
    });
    body.append(...rows);
    [...table.tHead.rows[0].cells].forEach((head, at) => {
      head.setAttribute('aria-sort', at !== column || !direction ? 'none' : direction > 0 ? 'ascending' : 'descending');
    });
    const list = table.closest('.lv-results').querySelector('.lv-sort-list select');
    if (list) { list.value = direction ? `${column}:${direction}` : ''; }
  }

  document.addEventListener('click', (event) => {
    const head = event.target.closest?.('.lv-sort')?.closest('th');
    if (!head) { return; }
    const first = Number(head.dataset.first), now = { none: 0, ascending: 1, descending: -1 }[head.getAttribute('aria-sort')];
    order(head.closest('table'), head.cellIndex, now === 0 ? first : now === first ? -first : 0);
  });

  document.addEventListener('change', (event) => {
    const list = event.target.closest?.('.lv-sort-list select');
    if (!list) { return; }
    const [column, direction] = list.value ? list.value.split(':').map(Number) : [0, 0];
    order(list.closest('.lv-results').querySelector('table'), column, direction);
  });
})();
