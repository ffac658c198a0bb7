// Shows "no connection" when no sign of life came for a while: a page cannot be told by a server
// that has died.
(() => {
  const STALE_MS = 10000;
  let beat = null;
  let since = Date.now();
  setInterval(() => {
    const element = document.querySelector(".st-beat");
    const now = element ? element.getAttribute("data-beat") : null;
    if (now !== beat) {
      beat = now;
      since = Date.now();
    }
    document.body.classList.toggle("st-lost", Date.now() - since > STALE_MS);
  }, 1000);
})();
