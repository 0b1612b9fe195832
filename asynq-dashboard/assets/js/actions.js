// Sends what a button stands for, after asking where it says so, and tells how it ended.
//   data-post  address            data-body  JSON to send
//   data-ask   question to confirm, data-type a word to type first, data-verb the button's word there
//   data-then  address to go to afterwards
import { isLoggedOut, loggedOut, refresh, stored } from "./live.js";

export function actions() {
  // A button may be another one after the first click of a double click, or do the same once more: a click counts once.
  document.addEventListener("click", (event) => {
    if (event.detail > 1 && event.target.closest("button")) { event.preventDefault(); event.stopImmediatePropagation(); }
  }, true);
  // An Enter that is held would press the button again when its answer has come.
  document.addEventListener("keydown", (event) => {
    if (event.repeat && event.key === "Enter" && event.target.localName === "button") event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-post]");
    // A copy: the page may be redrawn while the question is read, and the button stand for something else.
    if (button && button.localName === "button") run(button, { ...button.dataset }, button.dataset.body ? JSON.parse(button.dataset.body) : {});
  });
  // The previous page leaves its message in the session storage.
  const said = stored("asynq-said");
  if (said) say(said);
  document.addEventListener("input", ({ target }) => {
    if (target.matches("form[data-edit] textarea")) target.seen ??= target.defaultValue;
  });
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-post], form[data-edit]");
    if (!form) return;
    event.preventDefault();
    if (form.dataset.edit) edit(form, event.submitter);
    else run(event.submitter ?? form, { ...form.dataset }, Object.fromEntries(new FormData(form)));
  });
}

// Asks if `data` wants it, posts `body`, an object or its JSON, and shows the outcome. Returns the answer if it was done, else false or null.
export async function run(from, data, body) {
  if (data.ask && !(await ask(data))) return false;
  return busy(from, () => post(data, body));
}

// Asks once and then posts to each address. An address whose task is gone (404) or in another state (409) is counted, and
// the others are tried all the same. Shows `sum` of how many posts were done and how many tasks were not there any more.
// True unless a post failed for another reason.
export async function runEach(from, data, addresses, sum) {
  if (!(await ask(data))) return false;
  return busy(from, async () => {
    let [done, gone] = [0, 0];
    for (const address of addresses) {
      const answer = await send(address, {});
      if (answer.ok) done += 1;
      else if (answer.status === 404 || answer.status === 409) gone += 1;
      else return refused(answer, done ? ` (${sum(done, gone)})` : "");
    }
    say(`${sum(done, gone)}.`, !done);
    return true;
  });
}

async function busy(from, work) {
  const hadFocus = document.activeElement === from;
  from.disabled = true;
  from.setAttribute("aria-busy", "true");
  try {
    return await work();
  } finally {
    from.disabled = false;
    from.removeAttribute("aria-busy");
    // A browser takes the focus from a button that is disabled. A user may have scrolled away meanwhile.
    if (hadFocus && document.activeElement === document.body) from.focus({ preventScroll: true });
    refresh(true);
  }
}

// New arguments for a task, and another run of it.
async function edit(form, button) {
  const { edit: address, run: again, as: kind, state } = form.dataset;
  const text = form.elements.text.value;
  // The page shows JSON laid out: saving it unchanged would change the bytes, which may be signed.
  const isUnchanged = text === form.elements.text.defaultValue;
  if (isUnchanged && button.value !== "run") return say("Nothing was changed.");
  // A user has seen what the page showed when typing began; it may show what another user has saved since.
  const was = form.elements.text.seen ?? form.elements.text.defaultValue;
  let body = { was, [kind]: text };
  if (kind === "arguments") {
    try { JSON.parse(text); } catch (error) { return say(`That is no JSON: ${error.message}`, true); }
    // The text itself is sent: a number in it may have more digits than a number has here.
    body = `{"was":${JSON.stringify(was)},"arguments":${text}}`;
  }
  const done = isUnchanged || (await run(button, { post: address }, body));
  // Arguments that were refused because of another user's can be saved once the page shows those. Any other failure shows nothing.
  if (done || done === null) delete form.elements.text.seen;
  if (done) {
    // Saved text counts as typed no more, and the page shows it as the server lays it out. Letters that were typed meanwhile stay.
    form.elements.text.defaultValue = text;
    if (form.elements.text.value === text) form.reset();
  }
  if (done && button.value === "run") await run(button, { post: again }, { state });
}

// Posts `body`, and returns the status of the answer and its JSON; a status of 0 if the dashboard does not answer. An answer without
// JSON is that of a proxy, such as its login with the status 200, unless it is empty (204).
async function send(address, body) {
  const headers = { "content-type": "application/json", "x-asynq-dashboard": "1", accept: "application/json" };
  try {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const answer = await fetch(address, { method: "POST", headers, body: text, redirect: "manual", signal: AbortSignal.timeout(60000) });
    const told = await answer.json().catch(() => null);
    const ok = answer.ok && (told !== null || answer.status === 204);
    return { ok, status: isLoggedOut(answer) ? 401 : answer.status, told: told ?? {} };
  } catch {
    return { ok: false, status: 0, told: {} };
  }
}

// Says why a post was refused, and returns false, or null if the task is no longer as the page showed it (409).
function refused({ status, told }, besides = "") {
  if (status === 401) loggedOut();
  else if (status === 0) say(`The dashboard does not answer; nothing is known of what was asked. Look, and ask again.${besides}`, true);
  else say(`${told.error?.message ?? `There is no answer of the dashboard, but one with the status ${status}: look, and ask again.`}${besides}`, true);
  return status === 409 ? null : false;
}

// Posts `body`, and again as long as the answer says that there is more. `said` is the message of the request before.
async function post(data, body, said = "") {
  const answer = await send(data.post, body);
  if (!answer.ok) return refused(answer, said && ` (before that: ${said})`);
  const { told } = answer;
  say(told.message ?? "Done.");
  // No more than were asked about: what comes meanwhile is left.
  const rest = body.most === undefined ? {} : { most: body.most - told.treated };
  // The next message counts what was done so far.
  const before = (body.before ?? 0) + (told.changed ?? told.tasks ?? 0);
  if (told.more && rest.most !== 0) return post(data, { ...body, ...rest, before }, told.message);
  if (data.then) {
    try { sessionStorage.setItem("asynq-said", told.message ?? ""); } catch { /* it was said here */ }
    // Arguments that are typed for a task which is gone cannot be saved: the browser need not ask about them.
    if (data.post.endsWith("/delete")) document.querySelectorAll("form[data-edit]").forEach((form) => form.reset());
    location.assign(data.then);
  }
  return told;
}

// A dialog that must be confirmed, and for what cannot be undone by typing a word.
function ask({ ask: question, type, verb }) {
  const dialog = document.querySelector("#ask");
  const [ok, word] = [dialog.querySelector("[value=ok]"), dialog.querySelector("input")];
  dialog.querySelector("p").textContent = straight(question);
  ok.textContent = verb ?? "Go on";
  word.parentElement.hidden = !type;
  word.value = "";
  dialog.querySelector("code").textContent = type ?? "";
  const check = () => { ok.disabled = Boolean(type) && word.value !== type; };
  word.oninput = check;
  check();
  dialog.returnValue = "";
  dialog.showModal();
  (type ? word : dialog.querySelector("[value=no]")).focus();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "ok"), { once: true }));
}

// Names are those of other programs: their control characters must not turn around the text that follows.
const straight = (text) => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

let fades = 0;
export function say(text, bad = false) {
  const said = document.querySelector("#said");
  said.textContent = straight(text);
  said.classList.toggle("bad", bad);
  clearTimeout(fades);
  fades = setTimeout(() => { said.textContent = ""; }, bad ? 12000 : 6000);
}
