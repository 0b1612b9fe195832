// Sets light or dark before anything is drawn, and switches it. A classic script in <head>: no flash of the other one.
(() => {
  const root = document.documentElement;
  const read = () => { try { return localStorage.getItem("asynq-theme"); } catch { return null; } };
  const set = (theme) => { if (theme) root.dataset.theme = theme; else delete root.dataset.theme; };
  set(read());
  window.switchTheme = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    set(dark ? "light" : "dark");
    try { localStorage.setItem("asynq-theme", root.dataset.theme); } catch { /* it lasts for this page */ }
    document.dispatchEvent(new Event("theme"));
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("theme")));
})();
