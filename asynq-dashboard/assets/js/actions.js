// Sends what a button stands for, after asking where it says so, and tells how it ended.
//   data-post  address            data-body  JSON to send
//   data-ask   question to confirm, data-type a word to type first, data-verb the button's word there
//   data-then  address to go to afterwards
import { refresh } from "./live.js";

export function actions() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-post]");
    if (button) run(button, button.dataset.body ? JSON.parse(button.dataset.body) : {});
  });
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-post], form[data-edit]");
    if (!form) return;
    event.preventDefault();
    if (form.dataset.edit) edit(form, event.submitter);
    else run(event.submitter ?? form, Object.fromEntries(new FormData(form)), form);
  });
}

// Asks if `from` wants it, posts `body`, and shows the outcome. True if it was done.
export async function run(from, body, form = null) {
  const data = { ...form?.dataset, ...from.dataset };
  if (data.ask && !(await ask(data))) return false;
  from.disabled = true;
  from.setAttribute("aria-busy", "true");
  try {
    return await post(data, body);
  } finally {
    from.disabled = false;
    from.removeAttribute("aria-busy");
    refresh(true);
  }
}

// New arguments for a task, and another run of it.
async function edit(form, button) {
  const { edit: address, run: again, as: kind } = form.dataset;
  let text = form.elements.text.value;
  if (kind === "arguments") {
    try { text = JSON.parse(text); } catch (error) { return say(`That is no JSON: ${error.message}`, true); }
  }
  button.dataset.post = address;
  const done = await run(button, { [kind]: text });
  if (done && button.value === "run") {
    button.dataset.post = again;
    await run(button, {});
  }
  delete button.dataset.post;
}

async function post(data, body) {
  let answer;
  try {
    const headers = { "content-type": "application/json", "x-asynq-dashboard": "1", accept: "application/json" };
    answer = await fetch(data.post, { method: "POST", headers, body: JSON.stringify(body) });
  } catch {
    say("The dashboard does not answer; nothing is known of what was asked. Look, and ask again.", true);
    return false;
  }
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401) { location.reload(); return false; }
  say(answer.ok ? told.message ?? "Done." : told.error?.message ?? told.error ?? `Refused (${answer.status}).`, !answer.ok);
  if (answer.ok && told.more) return post(data, body);
  if (answer.ok && data.then) location.assign(data.then);
  return answer.ok;
}

// A dialog that must be confirmed, and for what cannot be undone by typing a word.
function ask({ ask: question, type, verb }) {
  const dialog = document.querySelector("#ask");
  const [ok, word] = [dialog.querySelector("[value=ok]"), dialog.querySelector("input")];
  dialog.querySelector("p").textContent = question;
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

let fades = 0;
export function say(text, bad = false) {
  const said = document.querySelector("#said");
  said.textContent = text;
  said.classList.toggle("bad", bad);
  clearTimeout(fades);
  fades = setTimeout(() => { said.textContent = ""; }, bad ? 12000 : 6000);
}
