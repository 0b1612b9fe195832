// Keeps the page as the server would render it now: when the broker notifies it of a change, the same address is fetched again.
import { morph } from "./morph.js";

const RETRY = 2000;
const FRESH = 3000;
const SOON = 500;
let running = null;
let waiting = null;
let source = null;
let timer = 0;
let seen = new Date();

// Fetches this page anew and puts it in place; a page that says data-live="off" only when `asked`.
// Who asks while one is fetched gets one that is fetched after that.
export async function refresh(asked = false) {
  if (!asked && (document.querySelector("main").dataset.live === "off" || document.hidden)) return;
  if (!running) running = fetched().finally(() => { running = null; });
  else await (waiting ??= running.then(() => { waiting = null; return refresh(true); }));
  await running;
}

async function fetched() {
  const main = document.querySelector("main");
  clearTimeout(timer);
  try {
    // The second header says that no person asked for the page: it does not keep a session alive.
    const headers = { accept: "text/html", "x-asynq-live": "1" };
    const answer = await fetch(location.href, { headers, signal: AbortSignal.timeout(15000) });
    if (answer.redirected && new URL(answer.url).pathname !== location.pathname) return location.assign(answer.url);
    if (answer.status === 401) return location.reload();
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("main");
    if (answer.status >= 500) return away("The broker does not answer");
    if (!fresh) return away("The dashboard gave no page");
    morph(main, fresh);
    document.title = page.title;
    const where = page.querySelector(".where");
    if (where) morph(document.querySelector(".where"), where);
    seen = new Date();
    back();
    again();
    document.dispatchEvent(new Event("page"));
  } catch {
    away("The dashboard does not answer");
  }
}

function away(what) {
  down(`${what}. This is what was so at ${seen.toLocaleTimeString()}; trying again.`);
  clearTimeout(timer);
  timer = setTimeout(() => refresh(true), RETRY);
}

function down(text) {
  const down = document.querySelector("#down");
  if (down.textContent !== text) down.textContent = text;
  down.hidden = false;
  document.body.classList.add("stale", "away");
}

function back() {
  document.querySelector("#down").hidden = true;
  document.body.classList.remove("stale", "away");
}

// Part of what the page shows is on its way to the server.
function again() {
  if (document.querySelector("main[data-again]")) timer = setTimeout(() => refresh(true), SOON);
}

export function live() {
  again();
  // A page that could not be made says so; it is tried again until it can.
  if (document.querySelector("main[data-failed]")) timer = setTimeout(() => refresh(true), RETRY);
  const events = document.documentElement.dataset.events;
  if (!events) return;
  const look = () => { if (document.hidden) deaf(); else { listen(events); refresh(); } };
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", deaf);
  addEventListener("pageshow", (event) => { if (event.persisted) look(); });
  listen(events);
}

// What a search has gathered must not be thrown away.
function keeps() {
  return Boolean(document.querySelector("main[data-live=off] [data-search]"));
}

// A page that is kept learns only here that its login is over, or that nobody answers.
async function ask(url) {
  const stop = new AbortController();
  try {
    const answer = await fetch(url, { signal: stop.signal });
    if (answer.status === 401) location.reload();
  } catch {
    down(`The dashboard does not answer. This is what was so at ${seen.toLocaleTimeString()}.`);
  }
  stop.abort();
}

// A browser opens six connections to a host at most: a tab in the background holds none.
function deaf() {
  source?.close();
  source = null;
}

function listen(url) {
  if (source || document.hidden) return;
  const own = source = new EventSource(url);
  let lost = false;
  // What is told first is what the page shows already.
  own.addEventListener("samples", () => { if (Date.now() - seen > FRESH) refresh(); });
  own.addEventListener("broker", () => refresh());
  own.addEventListener("open", () => { if (keeps()) back(); else if (lost) refresh(true); lost = false; });
  own.addEventListener("error", () => {
    if (own !== source) return;
    // The server also ends each stream after a while.
    lost = true;
    if (keeps()) ask(url); else refresh(true);
    if (own.readyState === EventSource.CLOSED) {
      deaf();
      setTimeout(() => listen(url), RETRY);
    }
  });
}
