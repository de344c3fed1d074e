// Keys, filters that are shown at once, and decisions that are kept until the server has them.
// The page works without this: every filter is a form's, every button is a form. Nothing is called saved before the
// server has answered.

import { Queue, uuid } from "/static/web/queue.js";

const find = (selector, within = document) => within.querySelector(selector);
const every = (selector, within = document) => [...within.querySelectorAll(selector)];
const main = find("main"), status = find("#status"), help = find("#help"), filters = find("#filters");
const { kind, trial } = main.dataset;
const FOCUSED = "stillme-review:focus";

// Going elsewhere

const follow = (link) => { if (link) link.click(); };

function remember(name, value, where = localStorage) { try { where.setItem(name, value); } catch { /* then not */ } }

// Filters: the address has only what is set, and the focus stays where it was

function show() {
  const asked = new URLSearchParams();
  for (const [name, value] of new FormData(filters)) {
    if (value && !(name === "happened" && value === "yes")) asked.append(name, value);
  }
  if (!asked.has("outcome")) asked.delete("happened");
  const at = document.activeElement;
  if (filters.contains(at)) remember(FOCUSED, JSON.stringify([at.name, at.value, at.type]), sessionStorage);
  location.href = `/samples?${asked}`;
}

function refocus() {
  let kept = null;
  try { kept = JSON.parse(sessionStorage.getItem(FOCUSED)); sessionStorage.removeItem(FOCUSED); } catch { /* none */ }
  if (!kept || !filters) return;
  const [name, value, type] = kept, ticked = type === "checkbox" || type === "radio";
  const field = [...filters.elements].find((one) => one.name === name && (!ticked || one.value === value));
  if (!field) return;
  for (let fold = field.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  field.focus();
}

filters?.addEventListener("submit", (event) => { event.preventDefault(); show(); });
filters?.addEventListener("change", ({ target }) => { if (target.id !== "text") show(); });

// Decisions

const queue = new Queue(`stillme-review:${document.body.dataset.reviewer}:`, "/api/decide", {
  tell(kind_, text) { status.className = `status ${kind_}`; status.textContent = text; },
  done(item) {
    if (item.trial !== trial) return;
    const asked = new URLSearchParams(location.search);
    asked.set("saved", "1");
    location.replace(`${location.pathname}?${asked}`);
  },
  refused() {},
});

function decide(form) {
  if (!form.reportValidity()) return;
  const said = new FormData(form), score = said.get("score");
  const item = { op: uuid(), trial: said.get("trial"), axis: said.get("axis"), why: said.get("why") };
  if (said.get("who")) item.who = said.get("who");
  if (said.get("withdraw")) item.withdraw = true;
  else if (score === "cannot_tell") item.cannot_tell = true;
  else item.score = Number(score);
  queue.push(item);
}

addEventListener("submit", (event) => {
  if (event.target.matches(".decide form")) { event.preventDefault(); decide(event.target); }
});

const deciding = () => every(".decide");
let chosen = null; // the axis that keys are about

function choose(fold) {
  chosen = fold;
  for (const other of deciding()) other.open = other === fold;
  const field = find("input[type=radio]:checked", fold) ?? find("input[type=radio]", fold);
  field.focus();
  fold.scrollIntoView({ block: "nearest" });
}

function nextToDecide() {
  const folds = deciding(), open = folds.filter((fold) => fold.dataset.open === "yes");
  const among = open.length ? open : folds;
  if (among.length) choose(among[(among.indexOf(chosen) + 1) % among.length]);
}

function score(key) {
  const here = document.activeElement.closest?.(".decide") ?? chosen;
  if (!here) nextToDecide();
  const fold = here ?? chosen;
  if (!fold) return;
  if (!fold.open) choose(fold);
  const field = find(`input[name=score][value="${key === "0" ? "cannot_tell" : key}"]`, fold);
  if (!field) return;
  field.checked = true;
  find("textarea[name=why]", fold).focus();
}

// Pictures

function zoom(on = !main.classList.contains("zoomed")) {
  main.classList.toggle("zoomed", on);
  find("#zoom")?.setAttribute("aria-pressed", String(on));
}

// Moving in the grid

function columns(cards) {
  const top = cards[0].getBoundingClientRect().top;
  return cards.findIndex((card) => card.getBoundingClientRect().top > top + 4);
}

function move(step) {
  const cards = every(".card");
  if (!cards.length) return;
  const at = cards.indexOf(document.activeElement);
  cards[at < 0 ? 0 : Math.max(0, Math.min(cards.length - 1, at + step))].focus();
}

function row(step) {
  const cards = every(".card");
  if (cards.length) move(step * Math.max(1, columns(cards)));
}

// Keys

const GRID = {
  j: () => move(1), k: () => move(-1), ArrowRight: () => move(1), ArrowLeft: () => move(-1),
  ArrowDown: () => row(1), ArrowUp: () => row(-1),
  n: () => follow(find(".next")), p: () => follow(find(".previous")),
};
const ITEM = {
  j: () => follow(find("#next")), k: () => follow(find("#previous")),
  ArrowRight: () => follow(find("#next")), ArrowLeft: () => follow(find("#previous")),
  n: () => follow(find("#next")), p: () => follow(find("#previous")),
  z: () => zoom(), a: nextToDecide, g: () => follow(find("#back")),
};
const EVERYWHERE = {
  "?": () => help.showModal(), f: () => follow(find("#flagged")), "/": toFilters,
  g: () => { location.href = "/samples"; },
};

function toFilters() {
  if (filters) { find(".whole", filters).open = true; find("#text").focus(); }
  else { remember(FOCUSED, JSON.stringify(["text", "", "text"]), sessionStorage); follow(find("#back") ?? { click: EVERYWHERE.g }); }
}

const keysOn = () => localStorage.getItem("stillme:keys") !== "off";
const isTyping = (at) => at.matches?.("textarea, select, input:not([type=checkbox]):not([type=radio])") || at.isContentEditable;
// The arrows belong to a group of radio buttons and to a part that scrolls.
const isArrows = (event) => event.key.startsWith("Arrow") && event.target.matches?.("input, summary, .scroll, pre");

addEventListener("keydown", (event) => {
  const form = event.target.closest?.(".decide form");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && form) { event.preventDefault(); decide(form); return; }
  if (event.key === "Escape") { zoom(false); if (isTyping(event.target)) event.target.blur(); return; }
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  if (isTyping(event.target) || isArrows(event) || help.open || !keysOn()) return;
  const act = keyed(event.key);
  if (act && !(event.repeat && kind === "item")) { event.preventDefault(); act(); }
});

function keyed(key) {
  if (kind === "item" && /^[0-5]$/.test(key) && deciding().length) return () => score(key);
  return { grid: GRID, item: ITEM }[kind]?.[key] ?? EVERYWHERE[key];
}

find("#zoom")?.addEventListener("click", () => zoom());
find("#open-help").addEventListener("click", () => help.showModal());
find("#close-help").addEventListener("click", () => help.close());
find("#keys-on").checked = keysOn();
find("#keys-on").addEventListener("change", ({ target }) => remember("stillme:keys", target.checked ? "on" : "off"));
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

// The start: what the page is, where one was, and what was left unsent

for (const one of every(".scripted")) one.hidden = false;
for (const one of every(".unscripted")) one.hidden = true;
if (filters && matchMedia("(max-width: 52rem)").matches) find(".whole", filters).open = false;
refocus();
if (kind === "grid" && location.hash) document.getElementById(location.hash.slice(1))?.focus();
if (queue.keys().length) queue.flush();
for (const sha256 of (main.dataset.following ?? "").split(" ").filter(Boolean)) new Image().src = `/image/${sha256}`;
document.body.dataset.ready = "yes";
