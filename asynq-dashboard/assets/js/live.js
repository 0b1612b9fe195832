// Keeps the page as the server would render it now: when the broker has news, the same address is fetched again.
import { morph } from "./morph.js";

const RETRY = 2000;
let running = false;
let again = false;
let timer = 0;
let seen = new Date();

// Fetches this page anew and puts it in place; a page that says data-live="off" only when `asked`.
export async function refresh(asked = false) {
  const main = document.querySelector("main");
  if (!asked && (main.dataset.live === "off" || document.hidden)) return;
  if (running) { again = true; return; }
  running = true;
  clearTimeout(timer);
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, signal: AbortSignal.timeout(15000) });
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
    document.dispatchEvent(new Event("page"));
  } catch {
    away("The dashboard does not answer");
  } finally {
    running = false;
    if (again) { again = false; refresh(); }
  }
}

function away(what) {
  const down = document.querySelector("#down");
  const text = `${what}. This is what was so at ${seen.toLocaleTimeString()}; trying again.`;
  if (down.textContent !== text) down.textContent = text;
  down.hidden = false;
  document.body.classList.add("stale", "away");
  clearTimeout(timer);
  timer = setTimeout(() => refresh(true), RETRY);
}

function back() {
  document.querySelector("#down").hidden = true;
  document.body.classList.remove("stale", "away");
}

export function live() {
  // A page that could not be made says so; it is tried again until it can.
  if (document.querySelector("main[data-failed]")) timer = setTimeout(() => refresh(true), RETRY);
  const events = document.documentElement.dataset.events;
  if (!events) return;
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  listen(events);
}

function listen(url) {
  const source = new EventSource(url);
  let lost = false;
  source.addEventListener("samples", () => refresh());
  source.addEventListener("broker", () => refresh());
  source.addEventListener("open", () => { if (lost) refresh(true); lost = false; });
  source.addEventListener("error", () => {
    lost = true;
    refresh(true);
    if (source.readyState === EventSource.CLOSED) setTimeout(() => listen(url), RETRY);
  });
}
