// Starts the parts of the page; each works on what the server rendered.
import { actions } from "./actions.js";
import { charts } from "./charts.js";
import { find } from "./find.js";
import { keys } from "./keys.js";
import { live } from "./live.js";
import { select } from "./select.js";

charts();
select();
actions();
keys();
live();
find();
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-theme-switch]")) window.switchTheme();
  const dialog = event.target.closest("[data-close]")?.closest("dialog");
  if (dialog) dialog.close();
});
document.addEventListener("change", (event) => {
  if (event.target.matches("select[data-submit]")) event.target.form.requestSubmit();
});
