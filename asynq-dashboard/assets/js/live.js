// Keeps the page as the server would render it now: when the broker notifies it of a change, the same address is fetched again.
import { morph } from "./morph.js";

const RETRY = 2000;
const FRESH = 3000;
const SOON = 500;
const ASK = 5000;
const PLACES = 4;
const SETTLED = 60000;
const MOST_WHY = 200;
const RELOADED = "asynq-reloaded";
let running = null;
let waiting = null;
let source = null;
let leave = null;
let asks = 0;
let timer = 0;
let seen = new Date();
// The clock of a machine may be set back, and this one not.
let fetchedAt = performance.now();
// Whether this page was loaded again because a fetch was refused, and none has succeeded since.
let cameBack = stored(RELOADED) !== null;

// Fetches this page anew and puts it in place; a page that says data-live="off" only when `asked`.
// A caller that asks while one is fetched gets one that is fetched after that.
export async function refresh(asked = false) {
  if (!asked && (document.querySelector("main").dataset.live === "off" || document.hidden)) return;
  if (!running) running = fetched().finally(() => { running = null; });
  else await (waiting ??= running.then(() => { waiting = null; return refresh(true); }));
  await running;
}

// The address of what the page shows. Where it names no state, the server chose one, and might choose another now.
function here() {
  const address = new URL(location.href);
  const shown = document.querySelector("main .tabs [aria-current]");
  if (shown?.pathname === address.pathname && !address.searchParams.has("state")) {
    address.searchParams.set("state", new URL(shown.href).searchParams.get("state"));
  }
  return address;
}

// Says whether a user has typed arguments that are not saved. Text that is as it was when typing began is not typed, also where the
// page shows by now what another user has saved.
function typed() {
  return [...document.querySelectorAll("textarea")].some((text) => text.value && text.value !== text.defaultValue && text.value !== text.seen);
}

// Says whether `page` has the scripts of another version of the dashboard, which this page must load because its own do not know
// the markup. It waits while that would lose what a user does here; the focus of a row or a button, open details and a selection of
// text are lost, once for each version, because an open page may have them for days. A page is a minute old before: two versions may
// answer at one address while a deploy lasts.
function isOutdated(page) {
  const script = (of) => of.querySelector("script[type=module]")?.getAttribute("src");
  const inUse = "dialog[open], input[name=id]:checked, [aria-busy=true], #said:not(:empty), input:not([type=checkbox]):focus, select:focus, textarea:focus";
  const isOther = script(page) && script(page) !== script(document);
  return isOther && performance.now() > SETTLED && !typed() && !document.querySelector(inUse);
}

// Says whether an answer tells that the login is over: the dashboard's, or that of a proxy, which leads to another origin. A script
// cannot follow a redirect there, so each fetch follows none. `page` is the document of the answer, which may be the proxy's own.
export function isLoggedOut(answer, page) {
  return answer.type === "opaqueredirect" || answer.status === 401 || (answer.status === 403 && page && !page.querySelector("main"));
}

// Leaves the page, whose login is over, unless a user has typed arguments there: they stay until they can be saved. A browser
// that loads the page again is led to the login. A proxy that refuses each fetch may let the page itself through: then the page
// stays, because it would load itself again for ever.
export function loggedOut() {
  if (typed()) return stay("You are logged out. Log in again in another tab; what you typed stays here, and can be saved then.");
  if (!cameBack) {
    try {
      sessionStorage.setItem(RELOADED, "1");
      return location.reload();
    } catch { /* without the mark the page would not see that it came back */ }
  }
  away("The login or a proxy refuses to refresh this page");
}

// Returns a text of the session's storage and removes it; null if there is none.
export function stored(name) {
  try {
    const text = sessionStorage.getItem(name);
    sessionStorage.removeItem(name);
    return text;
  } catch {
    return null;
  }
}

// Says why an answer is not a page that can be shown. The page of a failure says what is away. An answer without it is that of a
// proxy, whose dashboard is away.
export function reason(answer, page) {
  const [title, why] = ["main h1", "main .notice"].map((part) => page.querySelector(part)?.textContent);
  if (!why) return `There is no page of the dashboard, but an answer with the status ${answer.status}`;
  return `${title}: ${why.slice(0, MOST_WHY).replace(/\.$/, "")}`;
}

// Fetches a page for a script, and returns the answer and its document. The second header says that no person asks for the page: it
// does not keep a session alive.
export async function fetchPage(address) {
  const headers = { accept: "text/html", "x-asynq-live": "1" };
  const answer = await fetch(address, { headers, redirect: "manual", signal: AbortSignal.timeout(15000) });
  return [answer, new DOMParser().parseFromString(await answer.text(), "text/html")];
}

async function fetched() {
  const main = document.querySelector("main");
  clearTimeout(timer);
  try {
    const [answer, page] = await fetchPage(here());
    if (isLoggedOut(answer, page)) return loggedOut();
    const fresh = page.querySelector("main");
    if (answer.status >= 500 || answer.status === 429 || !fresh) return away(reason(answer, page));
    // A task that runs, has ended or is gone has no editor.
    if (typed() && !fresh.querySelector("textarea")) return stay("This task cannot be edited now; what you typed stays here.");
    const [shown, where] = [document, page].map((of) => of.querySelector(".where"));
    // The page of a refusal has no bar on top.
    if (isOutdated(page) || (where && !shown)) return location.reload();
    morph(main, fresh);
    document.title = page.title;
    if (where) morph(shown, where);
    seen = new Date();
    fetchedAt = performance.now();
    cameBack = false;
    back();
    again();
    document.dispatchEvent(new Event("page"));
  } catch {
    away("The dashboard does not answer");
  }
}

const asOf = () => `This is what was so at ${seen.toISOString().slice(11, 19)} UTC`;

function away(what) {
  stay(`${what}. ${asOf()}; trying again.`);
}

// Keeps the page as it is, says why, and asks for it again later.
function stay(why) {
  down(why);
  clearTimeout(timer);
  timer = setTimeout(() => refresh(true), RETRY);
}

// Says that what the page shows cannot be refreshed now, and why.
export function old(why) {
  down(`${why}. ${asOf()}.`);
}

function down(text) {
  const down = document.querySelector("#down");
  if (down.textContent !== text) down.textContent = text;
  document.body.classList.add("stale", "away");
}

export function back() {
  document.querySelector("#down").textContent = "";
  document.body.classList.remove("stale", "away");
}

// Part of what the page shows is on its way to the server.
function again() {
  if (document.querySelector("main[data-again]")) timer = setTimeout(() => refresh(true), SOON);
}

export function live() {
  again();
  // A browser asks before it leaves a page on which text was typed.
  addEventListener("beforeunload", (event) => { if (typed()) event.preventDefault(); });
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

// Says whether the page has gathered results of a search, which must not be thrown away.
function keeps() {
  return Boolean(document.querySelector("main[data-live=off] [data-search]"));
}

// A page that is kept learns only here that its login is over, or that no server answers.
async function ask(url) {
  const stop = new AbortController();
  try {
    const answer = await fetch(url, { redirect: "manual", signal: stop.signal });
    if (isLoggedOut(answer)) loggedOut();
  } catch {
    old("The dashboard does not answer");
  }
  stop.abort();
}

// A browser opens six connections to a host at most: a tab in the background holds none, and four windows one each.
function deaf() {
  source?.close();
  leave?.();
  source = leave = null;
}

// Takes one of the places for windows that listen, and returns how to leave it; null if all are taken.
async function place(n = 0) {
  if (!navigator.locks) return () => {};
  const taken = await new Promise((done) => {
    const name = `asynq-events-${n}`;
    navigator.locks.request(name, { ifAvailable: true }, (lock) => (lock ? new Promise((free) => done(free)) : done(null)));
  });
  return taken ?? (n + 1 < PLACES ? place(n + 1) : null);
}

async function listen(url) {
  if (source || document.hidden) return;
  const left = await place();
  if (source || document.hidden) return left?.();
  clearTimeout(asks);
  if (!left) {
    refresh();
    asks = setTimeout(() => listen(url), ASK);
    return;
  }
  leave = left;
  const own = source = new EventSource(url);
  let lost = false;
  // The first event tells the numbers that the page shows already.
  own.addEventListener("samples", () => { if (performance.now() - fetchedAt > FRESH) refresh(); });
  own.addEventListener("broker", () => refresh());
  own.addEventListener("open", () => { if (keeps()) back(); else if (lost) refresh(true); lost = false; });
  own.addEventListener("error", () => {
    if (own !== source) return;
    // The server also ends each stream after a while.
    lost = true;
    if (keeps()) ask(url); else refresh(true);
    if (own.readyState === EventSource.CLOSED) {
      deaf();
      // The server has no room for another stream, or a proxy is in its place: the page asks as seldom as one that has no place.
      setTimeout(() => listen(url), ASK);
    }
  });
}
