// Copying a recipe. Where the browser has no clipboard for this page (plain http) the code is selected instead.
(() => {
  function mark(code) {
    const range = document.createRange(), chosen = window.getSelection();
    range.selectNodeContents(code);
    chosen.removeAllRanges();
    chosen.addRange(range);
  }

  document.addEventListener('click', async (event) => {
    const button = event.target.closest?.('.lv-copy');
    if (!button) { return; }
    const root = button.closest('.lv-recipe'), code = root.querySelector('code'), said = root.querySelector('[role="status"]');
    try {
      await navigator.clipboard.writeText(code.textContent);
      said.textContent = button.dataset.copied;
    } catch {
      mark(code);
      root.querySelector('pre').focus();
      said.textContent = button.dataset.marked;
    }
  });
})();
