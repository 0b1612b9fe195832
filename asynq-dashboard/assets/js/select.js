// Picks rows of a table, and sends what is to be done with them.
import { run, runEach } from "./actions.js";

let every = false;
let last = null;
const boxes = () => [...document.querySelectorAll("input[name=id]")];

export function select() {
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) for (const box of boxes()) box.checked = event.target.checked;
    if (event.target.matches("[data-all], input[name=id]")) { every = false; show(); }
  });
  document.addEventListener("click", (event) => {
    if (event.target.matches("input[name=id]")) range(event);
    if (event.target.closest("[data-every]")) { every = true; show(); }
    if (event.target.closest("[data-none]")) none();
    const button = event.target.closest("[data-bulk]");
    if (button) bulk(button);
  });
  for (const name of ["page", "rows"]) document.addEventListener(name, show);
  // The browser may have ticked boxes of a page that it came back to.
  addEventListener("pageshow", show);
  show();
}

// With shift held, everything between two clicks.
function range(event) {
  const all = boxes();
  const [from, to] = [all.indexOf(last), all.indexOf(event.target)].sort((a, b) => a - b);
  if (event.shiftKey && from >= 0) for (const box of all.slice(from, to + 1)) box.checked = event.target.checked;
  last = event.target;
}

function none() {
  every = false;
  for (const box of boxes()) box.checked = false;
  show();
}

function show() {
  const bar = document.querySelector("#picked");
  if (!bar) return;
  const all = boxes();
  const picked = all.filter((box) => box.checked).length;
  if (!picked) every = false;
  bar.hidden = !picked;
  const [output, text] = [bar.querySelector("output"), every ? `All ${bar.dataset.total} ${bar.dataset.state}` : `${picked} picked`];
  // A screen reader hears each text that is put there.
  if (output.textContent !== text) output.textContent = text;
  const more = bar.querySelector("[data-every]");
  if (more) more.hidden = every || picked < all.length;
  const head = document.querySelector("[data-all]");
  if (head) { head.checked = picked > 0 && picked === all.length; head.indeterminate = picked > 0 && picked < all.length; }
}

// Cancels each picked run by itself, after one question. Runs that end meanwhile do not keep the others from it.
function cancel(button, asked) {
  const addresses = boxes().filter((box) => box.checked).map((box) => `${box.closest("tr").querySelector("a").pathname}/cancel`);
  const runs = (count) => (count === 1 ? "1 run" : `${count} runs`);
  const sum = (done, gone) => `${runs(done)} asked to cancel${gone ? `; ${runs(gone)} had ended before` : ""}`;
  return runEach(button, asked, addresses, sum);
}

// An archive keeps so many tasks and no more: what that costs is said before.
function beyond(over, archived, keeps) {
  const [lost, holds, most] = [over, archived, keeps].map((n) => Number(n).toLocaleString("en"));
  return ` The archive keeps ${most} tasks and holds ${holds}: the ${over === 1 ? "oldest one" : `${lost} oldest`} will be DELETED.`;
}

async function bulk(button) {
  const bar = document.querySelector("#picked");
  const { state, group, total, count, archived, keeps } = bar.dataset;
  const ids = boxes().filter((box) => box.checked).map((box) => box.value);
  const over = button.dataset.bulk === "archive" ? Math.max(0, Number(archived) + (every ? Number(count) : ids.length) - Number(keeps)) : 0;
  const body = {
    action: button.dataset.bulk, state, ...(group && { group }), ...(every ? { all: true, most: Number(count) } : { ids }),
    ...(over && { beyond_archive: true }),
  };
  const many = every ? `all ${total} ${state} tasks of this ${group ? "group" : "queue"}` : ids.length === 1 ? "1 task" : `${ids.length} tasks`;
  const label = button.textContent;
  const ask = `${label} ${many}?${button.dataset.bulk === "delete" ? " This cannot be undone." : ""}${over ? beyond(over, archived, keeps) : ""}`;
  const asked = { post: bar.dataset.url, ask, verb: `${label} ${every ? `all ${total}` : ids.length}`, ...(over && { type: "delete" }) };
  const done = button.dataset.bulk === "cancel" ? await cancel(button, asked) : await run(button, asked, body);
  // Tasks that were not reached in time stay picked, to ask again for them.
  if (!done || (!every && done.left)) return;
  const hadFocus = document.activeElement === button;
  none();
  // The button is hidden now.
  if (hadFocus) document.querySelector("[data-all]")?.focus({ preventScroll: true });
}
