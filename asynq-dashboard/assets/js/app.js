// Starts the parts of the page; each works on what the server rendered.
import { actions } from "./actions.js";
import { charts } from "./charts.js";
import { find } from "./find.js";
import { keys } from "./keys.js";
import { fetchPage, live } from "./live.js";
import { select } from "./select.js";

charts();
select();
actions();
keys();
live();
find();
// On a phone the bars of links are wider than the screen: the current link is scrolled to the middle.
for (const shown of document.querySelectorAll(":is(.tabs, .top nav) [aria-current]")) {
  const bar = shown.closest("nav");
  bar.scrollLeft = shown.offsetLeft - bar.offsetLeft - (bar.clientWidth - shown.offsetWidth) / 2;
}
// A link of another site comes without the strict cookie, a request of our own with it: a user who is logged in goes on.
const next = document.querySelector("form.login")?.dataset.then;
if (next) {
  fetchPage(next).then(([answer]) => { if (answer.ok) location.replace(next); }).catch(() => { /* there is the form */ });
}
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-theme-switch]")) window.switchTheme();
  const close = event.target.closest("[data-close]");
  close?.closest("dialog")?.close(close.value);
});
document.addEventListener("change", (event) => {
  if (event.target.matches("select[data-submit]")) event.target.form.requestSubmit();
});
