// Keys, saving without leaving the page, and pictures that are decoded before they are shown.
// The page works without this: every button is a form. Nothing is marked as done before the server has answered.

import { Queue, uuid } from "/static/web/queue.js";

const find = (selector, within = document) => within.querySelector(selector);
const every = (selector, within = document) => [...within.querySelectorAll(selector)];
const main = find("main"), status = find("#status"), help = find("#help"), note = find("#note");
const cell = main.dataset.cell, cards = every(".card");
const A_DAY = 24 * 3600 * 1000; // a page can stay open longer; the log counts no further
let shownAt = performance.now(), noted = note?.value ?? "";

// Saving

const queue = new Queue(`stillme-select:${document.body.dataset.reviewer}:`, "/api/act", {
  tell(kind, text, answer) {
    status.className = `status ${kind}`;
    status.textContent = answer?.cell === cell && cell ? `${text} · ${answer.standing}` : text;
  },
  done(item, answer) {
    if (item.verb === "undo" && answer.cell !== cell) visit(`/cell/${answer.cell}`);
    else if (answer.cell === cell) show(answer);
  },
  refused(item) {
    for (const card of cards) mark(card, isChosen(card));
    const box = find(`.card[data-candidate="${item.candidate}"] [data-criterion="${item.criterion}"]`);
    if (box) box.checked = !item.value;
    remind();
  },
});

const visit = (address) => { location.href = `${address}?show=${main.dataset.show ?? "all"}`; };

function push(verb, fields = {}) {
  const milliseconds = Math.min(Math.round(performance.now() - shownAt), A_DAY);
  queue.push({ op: uuid(), verb, cell, ...fields, milliseconds });
  remind();
}

// What waits to be saved is marked as waiting, and as nothing else.
function remind() {
  const waiting = new Set(queue.items().filter((item) => item.verb === "choose").map((item) => item.candidate));
  for (const card of cards) card.classList.toggle("pending", waiting.has(card.dataset.candidate));
}

// The cell as the server has it

function show(state) {
  for (const card of cards) {
    const told = state.cards[card.dataset.candidate];
    mark(card, state.chosen.includes(card.dataset.candidate));
    find(".summary", card).textContent = told.summary;
    for (const box of every("[data-criterion]", card)) showCheck(box, told.checks[box.dataset.criterion]);
  }
  find("#standing").textContent = state.standing;
  find("#standing").classList.toggle("decided", state.decided);
  find("#progress").textContent = state.progress;
  document.title = document.title.replace(/·[^·]*$/, `· ${state.progress}`);
  press(find("#flag"), state.flagged);
  find("#undo").disabled = !state.undoable;
  find("#undo").title = state.undoable;
  showMarks(state.marks);
  if (note.value === noted && document.activeElement !== note) note.value = noted = state.note;
  remind();
}

const isChosen = (card) => card.classList.contains("chosen");

function mark(card, chosen) {
  card.classList.toggle("chosen", chosen);
  delete card.dataset.wanted;
  press(find(".choose", card), chosen);
  find(".choose .word", card).textContent = chosen ? "Give up" : "Choose";
}

function press(button, pressed) {
  delete button.dataset.wanted;
  button.setAttribute("aria-pressed", String(pressed));
  button.form.elements.value.value = pressed ? "no" : "yes";
}

function showCheck(box, check) {
  const waits = queue.items().some((item) => item.criterion === box.dataset.criterion
    && item.candidate === box.closest(".card").dataset.candidate);
  if (!waits) box.checked = check.met === true;
  find(".by", box.parentElement).textContent = check.note;
}

function showMarks(marks) {
  const list = document.createElement("ul");
  list.className = "marks";
  for (const [shape, words] of marks) {
    const sign = document.createElement("span"), line = document.createElement("li");
    sign.ariaHidden = "true";
    sign.textContent = shape;
    line.append(sign, ` ${words}`);
    list.append(line);
  }
  find("#marks").replaceChildren(...(marks.length ? [list] : []));
}

// What a reviewer does

function choose(card) {
  if (!card) return;
  if (document.body.dataset.ready !== "yes") { say("The pictures are still loading."); return; }
  const value = !(card.dataset.wanted ? card.dataset.wanted === "yes" : isChosen(card));
  if (value && main.dataset.single === "yes") for (const other of cards) other.dataset.wanted = "no";
  card.dataset.wanted = value ? "yes" : "no";
  push("choose", { candidate: card.dataset.candidate, value });
}

function flag() {
  const button = find("#flag");
  button.dataset.wanted = (button.dataset.wanted ?? button.getAttribute("aria-pressed")) === "true" ? "false" : "true";
  push("flag", { value: button.dataset.wanted === "true" });
}

function undo() {
  if (find("#undo").disabled && !queue.keys().length) say("There is nothing to take back.");
  else push("undo");
}

function saveNote() {
  if (note && note.value !== noted) { noted = note.value; push("note", { value: noted }); }
}

function say(text) { status.className = "status"; status.textContent = text; }

// The next page comes from the server, so nothing is left behind unsaved.
async function follow(link) {
  saveNote();
  if (await queue.flush()) location.href = link.href;
}

function toggleCriteria() {
  const hide = !main.classList.contains("plain");
  remember("stillme:criteria", hide ? "hidden" : "shown");
  applyCriteria(hide);
  say(hide ? "Criteria hidden" : "Criteria shown");
}

function applyCriteria(hide) {
  main.classList.toggle("plain", hide);
  find("#toggle-criteria").setAttribute("aria-pressed", String(!hide));
}

function remember(name, value) { try { localStorage.setItem(name, value); } catch { /* then not */ } }

const ACTS = {
  choose: (form) => choose(form.closest(".card")), flag, undo, note: saveNote, ticks: () => {},
};

addEventListener("submit", (event) => {
  const act = ACTS[event.target.dataset.verb];
  if (act) { event.preventDefault(); act(event.target); }
});
addEventListener("change", ({ target }) => {
  if (target === note) saveNote();
  else if (target.dataset.criterion) {
    const { candidate } = target.closest(".card").dataset;
    push("tick", { candidate, criterion: target.dataset.criterion, value: target.checked });
  }
});
addEventListener("click", (event) => {
  const link = event.target.closest(".moves a");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) { event.preventDefault(); follow(link); }
});
addEventListener("pagehide", saveNote);
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

// Keys

const KEYS = {
  n: () => follow(find("#next")), p: () => follow(find("#previous")), u: undo, c: toggleCriteria, f: flag,
  m: () => note.focus(),
};
const keysOn = () => localStorage.getItem("stillme:keys") !== "off";
const isTyping = (at) => at.matches?.("textarea, select, input:not([type=checkbox])") || at.isContentEditable;

addEventListener("keydown", (event) => {
  if (event.key === "Escape") { note?.blur(); main.classList.add("dismissed"); return; }
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.repeat) return;
  if (isTyping(event.target) || help.open || !keysOn()) return;
  const act = keyed(event.key);
  if (act) { event.preventDefault(); act(); }
});

function keyed(key) {
  if (key === "?") return () => help.showModal();
  if (key === "g") return () => follow({ href: `/?show=${main.dataset.show ?? "all"}` });
  if (!cell) return undefined;
  if (/^[1-9]$/.test(key)) return () => choose(cards[key - 1]);
  return KEYS[key];
}

for (const kind of ["pointermove", "focusin"]) {
  main.addEventListener(kind, ({ target }) => {
    const line = target.closest(".criteria li");
    if (line) main.classList.remove("dismissed");
    if (line && kind === "focusin" && target.matches(":focus-visible")) find(".why", line).scrollIntoView({ block: "nearest" });
  });
}
find("#open-help").addEventListener("click", () => help.showModal());
find("#close-help").addEventListener("click", () => help.close());
find("#keys-on").checked = keysOn();
find("#keys-on").addEventListener("change", ({ target }) => remember("stillme:keys", target.checked ? "on" : "off"));

// Pictures

async function reveal(image) {
  const box = image.parentElement;
  if (!image.complete) {
    box.classList.add("waiting");
    await new Promise((resolve) => { image.onload = image.onerror = resolve; });
  }
  try { await image.decode(); } catch {
    const said = document.createElement("p");
    said.textContent = "This picture could not be loaded.";
    image.replaceWith(said);
  }
  box.classList.remove("waiting");
}

// The start: first what the page is, then its pictures, then what was left unsent

for (const one of every(".scripted")) one.hidden = false;
for (const one of every(".unscripted")) one.hidden = true;
if (cell) applyCriteria(localStorage.getItem("stillme:criteria") === "hidden");
const revealed = every(".surround img").map(reveal);
if (queue.keys().length) { remind(); queue.flush(); }
if (cell) {
  await Promise.all(revealed);
  shownAt = performance.now();
  for (const sha256 of main.dataset.following.split(" ").filter(Boolean)) new Image().src = `/image/${sha256}`;
}
document.body.dataset.ready = "yes";
