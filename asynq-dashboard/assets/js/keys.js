// Works the page by keyboard; `?` lists the keys.

const CLICKS = { a: "[data-all]", "[": "[rel=prev]", "]": "[rel=next]" };
const GO = { q: "queues", s: "search", v: "servers", p: "periodic", b: "broker" };
let prefix = false;

export function keys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    // A browser would empty the field.
    if (event.key === "Escape" && event.target.matches("input[type=search]")) { event.preventDefault(); return event.target.blur(); }
    if (event.target.matches("input:not([type=checkbox]), select, textarea") || document.querySelector("dialog[open]")) return;
    const done = prefix ? go(event.key) : press(event.key);
    prefix = !prefix && event.key === "g";
    if (done) event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-keys]")) document.querySelector("#keys").showModal();
  });
}

function go(key) {
  const link = GO[key] && document.querySelector(`[data-go="${GO[key]}"]`);
  link?.click();
  return Boolean(link);
}

function press(key) {
  if (key === "?") { document.querySelector("#keys").showModal(); return true; }
  if (key === "/") return focus(document.querySelector("main input[type=search]"));
  if (key === "j") return step(1);
  if (key === "k") return step(-1);
  if (key === "x") return click(row()?.querySelector("input[name=id]"));
  if (key === "d") { window.switchTheme(); return true; }
  if (CLICKS[key]) return click(document.querySelector(CLICKS[key]));
  if (/^[1-7]$/.test(key)) return click(document.querySelectorAll(".tabs a")[key - 1]);
  return false;
}

const links = () => [...document.querySelectorAll("main tbody tr")].map((tr) => tr.querySelector("a, button")).filter(Boolean);
const row = () => document.activeElement?.closest?.("tbody tr");

function step(by) {
  const all = links();
  const at = all.findIndex((link) => link.closest("tr") === row());
  return focus(all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)]);
}

function focus(element) {
  element?.focus();
  element?.scrollIntoView({ block: "nearest" });
  return Boolean(element);
}

function click(element) {
  element?.click();
  return Boolean(element);
}
