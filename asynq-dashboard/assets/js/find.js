// Goes on with a search where the server's answer ended, until there is a page of tasks, all was looked at, or it is stopped.
import { say } from "./actions.js";
import { back, fetchPage, isLoggedOut, loggedOut, old, reason } from "./live.js";

const RETRY = 2000;
let turn = 0;

export function find() {
  document.addEventListener("page", further);
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-stop]")) return;
    turn += 1;
    shown(document.querySelector("[data-search]"), false);
  });
  further();
}

// Adds one look after the other to what the page shows; a page that was put in its place meanwhile begins anew.
async function further() {
  const own = (turn += 1);
  for (;;) {
    const bar = document.querySelector("[data-search]");
    const next = bar?.querySelector("[rel=next]");
    const goes = Boolean(next) && rows(document).length < Number(bar.dataset.enough);
    if (bar) shown(bar, goes);
    if (!goes) return;
    const fresh = document.hidden ? await visible() : await look(next.href);
    if (own !== turn) return;
    // It cannot go on, such as in a queue that was deleted.
    if (typeof fresh === "string") { shown(bar, false); return say(`${fresh}.`, true); }
    if (fresh) add(bar, fresh);
  }
}

const rows = (page) => [...page.querySelectorAll("section:has([data-search]) tbody > tr")];
const visible = () => new Promise((done) => document.addEventListener("visibilitychange", () => done(null), { once: true }));

// Returns the page of results at `address`, or why it is refused; null when the server could not be asked.
async function look(address) {
  try {
    const [answer, page] = await fetchPage(address);
    if (isLoggedOut(answer, page)) loggedOut();
    else if (page.querySelector("[data-search]")) { back(); return page; }
    else if (answer.status < 500) return reason(answer, page);
    else old(reason(answer, page));
  } catch { old("The dashboard does not answer"); }
  await new Promise((done) => setTimeout(done, RETRY));
  return null;
}

function add(bar, page) {
  const fresh = page.querySelector("[data-search]");
  const panel = bar.closest("section");
  const [body, list] = ["tbody", ".scroll, .empty"].map((part) => panel.querySelector(part));
  if (body) {
    // A task that was found by its id comes once more, and so does one that moved meanwhile.
    for (const row of rows(page)) if (!document.getElementById(row.id)) body.append(document.importNode(row, true));
  } else list.replaceWith(document.importNode(page.querySelector("section:has([data-search]) :is(.scroll, .empty)"), true));
  const looked = Number(bar.dataset.search) + Number(fresh.dataset.search);
  const link = fresh.querySelector("[rel=next]");
  const count = (number) => number.toLocaleString("en");
  bar.dataset.search = looked;
  const end = fresh.querySelector("span").textContent.match(/:.*/)?.[0] ?? "";
  bar.querySelector("span").textContent = `${count(rows(document).length)} found, ${count(looked)} looked at${end}`;
  if (link) bar.querySelector("[rel=next]").href = link.href;
  else bar.querySelector("[rel=next]").remove();
  document.dispatchEvent(new Event("rows"));
}

function shown(bar, goes) {
  bar.setAttribute("aria-busy", goes);
  const [stop, next] = [bar.querySelector("[data-stop]"), bar.querySelector("[rel=next]")];
  if (stop) stop.hidden = !goes;
  if (next) next.hidden = goes;
}
