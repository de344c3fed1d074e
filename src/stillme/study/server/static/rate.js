// The evaluation page. Every answer is an operation that is written into this browser first, then sent, and kept until
// the server says that it is on its disk: offline, through closed tabs and restarts, from several tabs at once. What
// the server refuses is said loudly and stays said until it is dealt with. Without this file the page is plain forms.
// On the study's other pages it only sends what still waits here.
// @ts-check

/** @typedef {"open" | "answer" | "comment" | "done" | "away"} Kind */
/** @typedef {{ id: string, kind: Kind, item: string, field: string, value: string, rev: number, ms: number | null }} Operation */
/** One operation on the shelf. `at`: when it happened; `due`: not to be sent before; `refused`: why it never will be.
 * @typedef {{ seq?: number, queue: string, at: number, due: number, refused: string, number: number, operation: Operation }} Kept */
/** @typedef {{ id: string, saved?: boolean, refused?: string, wait?: number | null }} Result */
/** @typedef {"saved" | "saving" | "offline" | "trouble"} State */
/** @typedef {{ main: HTMLElement, title: string, until: number }} Page */

const SHORTEST = 1000, LONGEST = 8000, PATIENCE = 20000; // milliseconds between tries, and for an answer
const MOST = 100, HEAVIEST = 48000; // operations and bytes of one request
const AHEAD = 3; // items that are fetched before they are needed
const MARGIN = 300; // milliseconds: requests do not all take equally long, and the server's clock decides
const LOADING = 30000; // milliseconds after which a picture counts as not loaded
const BRIEF = 1000; // milliseconds: a shorter look away is none
const TYPING = 700; // milliseconds after the last key of a comment
const SHORTCUTS = "stillme-study:shortcuts", JOTTED = "stillme-study:jotted:";

/** @template {Element} T @param {string} selector @param {new () => T} type @param {ParentNode} within @returns {T} */
function need(selector, type, within = document) {
  const found = within.querySelector(selector);
  if (!(found instanceof type)) throw new Error(`the page has no ${selector}`);
  return found;
}

/** @template {Element} T @param {string} selector @param {new () => T} type @param {ParentNode} within @returns {T[]} */
function every(selector, type, within = document) {
  return [...within.querySelectorAll(selector)].filter((one) => one instanceof type).map((one) => /** @type {T} */ (one));
}

/** @param {string} tag @param {string} text @param {string} name @returns {HTMLElement} */
function made(tag, text, name = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (name) element.className = name;
  return element;
}

function uuid() { // crypto.randomUUID exists only on secure pages
  const hex = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** @param {number} count @param {string} one @param {string} many */
const counted = (count, one, many) => (count === 1 ? `1 ${one}` : `${count} ${many}`);

// The shelf: what is kept in this browser

class Shelf {
  constructor() {
    /** @type {Map<number, Kept>} where the browser keeps nothing */
    this.memory = new Map();
    this.last = -1;
    this.open = this.opened();
    this.found = this.open.then(() => this.recover());
  }

  /** @returns {Promise<IDBDatabase | null>} */
  opened() {
    return new Promise((resolve) => {
      try {
        const asked = indexedDB.open("stillme-study", 1);
        asked.onupgradeneeded = () => {
          asked.result.createObjectStore("kept", { keyPath: "seq", autoIncrement: true }).createIndex("queue", "queue");
        };
        asked.onsuccess = () => resolve(asked.result);
        asked.onerror = asked.onblocked = () => resolve(null);
      } catch { resolve(null); }
    });
  }

  /** What `work` asked for, once it is on the disk. @template T
   * @param {IDBTransactionMode} mode @param {(store: IDBObjectStore) => IDBRequest<T> | void} work @returns {Promise<T | undefined>} */
  async within(mode, work) {
    const base = await this.open;
    if (!base) throw new Error("nothing can be kept");
    return new Promise((resolve, reject) => {
      const deal = base.transaction("kept", mode, { durability: "strict" });
      const asked = work(deal.objectStore("kept"));
      deal.oncomplete = () => resolve(asked?.result);
      deal.onerror = deal.onabort = () => reject(deal.error);
    });
  }

  /** Writing takes a moment, in which a tab may be closed: until it is over, a note stays where writing is instant.
   * @param {Kept} kept */
  async put(kept) {
    if (kept.seq !== undefined && this.memory.has(kept.seq)) { this.memory.set(kept.seq, kept); return; }
    if (kept.seq === undefined) jot(kept);
    try {
      kept.seq = Number(await this.within("readwrite", (store) => store.put(kept)));
      unjot(kept);
    } catch {
      kept.seq = this.last--;
      this.memory.set(kept.seq, kept);
    }
  }

  /** Puts away what a tab that was closed had only noted down. Sent twice it still counts once. */
  async recover() {
    try {
      for (const name of Object.keys(localStorage).filter((one) => one.startsWith(JOTTED))) {
        const kept = JSON.parse(localStorage.getItem(name) ?? "null");
        if (kept) await this.within("readwrite", (store) => store.put(kept));
        localStorage.removeItem(name);
      }
    } catch { /* they stay noted down */ }
  }

  /** @param {Kept[]} all */
  async remove(all) {
    for (const one of all) { this.memory.delete(Number(one.seq)); unjot(one); }
    const stored = all.filter(({ seq }) => Number(seq) >= 0);
    if (stored.length) await this.within("readwrite", (store) => { for (const { seq } of stored) store.delete(Number(seq)); });
  }

  /** In the order in which they happened. @param {string | null} queue @returns {Promise<Kept[]>} */
  async all(queue) {
    await this.found;
    /** @type {Kept[]} */
    let stored = [];
    try {
      stored = (await this.within("readonly", (store) => (queue ? store.index("queue").getAll(queue) : store.getAll()))) ?? [];
    } catch { /* then only what this page knows */ }
    return [...stored, ...this.memory.values()];
  }
}

/** @param {Kept} kept */
function jot(kept) {
  try { localStorage.setItem(JOTTED + kept.operation.id, JSON.stringify(kept)); } catch { /* full or forbidden: the shelf has to do */ }
}

/** @param {Kept} kept */
function unjot({ operation }) {
  try { localStorage.removeItem(JOTTED + operation.id); } catch { /* as above */ }
}

// The queue: what is on its way to the server

class Queue {
  /** @param {string} name @param {string} token @param {Shelf} shelf */
  constructor(name, token, shelf) {
    this.name = name;
    this.token = token;
    this.shelf = shelf;
    this.wait = SHORTEST;
    /** @type {State} */
    this.state = "saved";
    /** @type {Map<string, Kept>} what this page made and the server has not confirmed */
    this.mine = new Map();
    /** @type {Set<string>} */
    this.flying = new Set();
    /** @type {Promise<void> | null} */
    this.running = null;
    this.again = false;
    this.barring = false;
    this.timer = 0;
    this.channel = "BroadcastChannel" in globalThis ? new BroadcastChannel(`stillme-study:${name}`) : null;
    /** @type {(state: State, waiting: Kept[]) => void} */
    this.tell = () => {};
    /** @type {(key: string, text: string, page?: string) => void} */
    this.cry = () => {};
    /** @type {(key: string) => void} */
    this.calm = () => {};
    /** @type {(kept: Kept, result: Result) => void} */
    this.settled = () => {};
    addEventListener("online", () => { this.wait = SHORTEST; void this.flush(); });
    addEventListener("offline", () => void this.say("offline"));
    document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") void this.flush(); });
    addEventListener("pagehide", () => this.part());
  }

  /** Kept first, then sent. @param {Operation} operation @param {number} number */
  async push(operation, number) {
    const kept = { queue: this.name, at: Date.now(), due: 0, refused: "", number, operation };
    this.mine.set(operation.id, kept);
    if (this.state === "saved") { this.state = "saving"; this.tell("saving", [kept]); }
    await this.shelf.put(kept);
    this.channel?.postMessage({ operation, number });
    await this.flush();
  }

  /** What may still be sent. */
  async waiting() { return (await this.shelf.all(this.name)).filter((one) => !one.refused); }

  async refusals() { return (await this.shelf.all(this.name)).filter((one) => one.refused); }

  /** "Saved" is said only when nothing waits, on the shelf or on its way there. @param {State} [state] */
  async say(state) {
    const waiting = await this.waiting(), known = new Set(waiting.map(({ operation }) => operation.id));
    for (const [id, { seq }] of this.mine) if (seq !== undefined && !known.has(id)) this.mine.delete(id); // another tab sent it
    if (waiting.length || this.mine.size) {
      this.state = state ?? (this.state === "saved" ? "saving" : this.state);
    } else {
      this.state = "saved";
      if (this.barring) { this.barring = false; this.calm("barred"); }
    }
    this.tell(this.state, waiting);
  }

  /** @returns {Promise<void>} */
  flush() {
    this.again = true;
    this.running ??= this.locked().finally(() => { this.running = null; });
    return this.running;
  }

  /** One tab sends at a time. */
  async locked() {
    while (this.again) {
      this.again = false;
      if ("locks" in navigator) await navigator.locks.request(`stillme-study:${this.name}`, () => this.drain());
      else await this.drain();
    }
  }

  async drain() {
    clearTimeout(this.timer);
    for (;;) {
      const waiting = await this.waiting(), now = Date.now();
      const batch = fitting(waiting.filter((one) => one.due <= now));
      if (!batch.length) {
        if (waiting.length) this.later(Math.min(...waiting.map((one) => one.due)) - now);
        else this.channel?.postMessage({ emptied: true });
        return this.say();
      }
      if (this.state === "saved") await this.say("saving");
      if (!(await this.send(batch))) return undefined;
    }
  }

  /** @param {number} milliseconds */
  later(milliseconds) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.flush(), Math.max(50, milliseconds));
  }

  /** @param {Kept[]} batch @param {boolean} parting @returns {Promise<Response>} */
  post(batch, parting = false) {
    const now = Date.now();
    const operations = batch.map((one) => ({ ...one.operation, age: Math.max(0, now - one.at) }));
    return fetch("/api/operations", {
      method: "POST", headers: { "Content-Type": "application/json", "X-Stillme-Token": this.token },
      body: JSON.stringify({ operations }), keepalive: true, redirect: "error",
      signal: parting ? null : AbortSignal.timeout(PATIENCE),
    });
  }

  /** Whether to go on. @param {Kept[]} batch @returns {Promise<boolean>} */
  async send(batch) {
    /** @type {Response} */
    let answer;
    /** @type {any} */
    let found;
    for (const one of batch) this.flying.add(one.operation.id);
    try {
      answer = await this.post(batch);
      found = await answer.json();
    } catch { return this.back(navigator.onLine ? "trouble" : "offline"); } finally { this.flying.clear(); }
    if (answer.ok && Array.isArray(found.results)) return this.took(batch, found.results);
    if (answer.status >= 500 || answer.status === 429 || answer.ok) {
      return this.back("trouble", Number(answer.headers.get("Retry-After")) * 1000);
    }
    if (answer.status === 403 && await this.renew()) return true;
    return [401, 403, 409].includes(answer.status) ? this.barred(answer.status, found) : this.misread(batch, found);
  }

  /** @param {State} state @param {number} wait */
  async back(state, wait = 0) {
    this.later(Math.max(wait, this.wait) * (0.8 + 0.4 * Math.random())); // not everybody at once
    this.wait = Math.min(this.wait * 2, LONGEST);
    await this.say(state);
    return false;
  }

  /** @param {number} status @param {{ refused?: string, page?: string }} found */
  async barred(status, found) {
    const count = (await this.waiting()).filter(isAnswer).length;
    const kept = count ? ` ${counted(count, "answer is", "answers are")} kept on this computer and not saved yet.` : "";
    const said = status === 401
      ? "Your session has ended. Please open the study again with your link from Prolific, in this browser: you come back to where you are."
      : found.refused ?? "The study did not take your answers. Please reload this page.";
    this.cry("barred", `Not saved. ${said}${kept}`, found.page?.startsWith("/") ? found.page : "");
    this.barring = true;
    this.later(LONGEST);
    await this.say("trouble");
    return false;
  }

  /** A request that was not understood as a whole is taken apart, so that one operation does not hold up others.
   * @param {Kept[]} batch @param {{ refused?: string }} found */
  async misread(batch, found) {
    const [first] = batch;
    if (!first) return false;
    if (batch.length > 1) return await this.send([first]) && this.send(batch.slice(1));
    return this.took([first], [{ id: first.operation.id, refused: found.refused ?? "It was not understood.", wait: null }]);
  }

  /** A new token, where the same person has entered again; never somebody else's. */
  async renew() {
    try {
      const found = await (await fetch("/api/progress", { redirect: "error" })).json();
      if (found.queue !== this.name || found.token === this.token) return false;
      this.token = found.token;
      return true;
    } catch { return false; }
  }

  /** @param {Kept[]} batch @param {Result[]} results */
  async took(batch, results) {
    const result = new Map(results.map((one) => [one.id, one]));
    /** @type {Kept[]} */
    const saved = [];
    for (const kept of batch) {
      const found = result.get(kept.operation.id);
      if (!found) return this.back("trouble");
      if (found.saved) saved.push(kept);
      else if (typeof found.wait === "number") await this.shelf.put({ ...kept, ...postponed(kept, found.wait) });
      else await this.shelf.put({ ...kept, refused: found.refused ?? "It was refused." });
      if (typeof found.wait !== "number") this.mine.delete(kept.operation.id);
      this.settled(kept, found);
    }
    await this.shelf.remove(saved);
    this.wait = SHORTEST;
    if (this.barring) { this.barring = false; this.calm("barred"); }
    this.state = "saving";
    return true;
  }

  /** The page goes away: what nobody is sending yet is sent without waiting for an answer. Once is enough or not;
   * the shelf keeps it, and the server takes an operation once. */
  part() {
    const left = fitting([...this.mine.values()].filter(({ operation }) => !this.flying.has(operation.id)));
    if (left.length) this.post(left, true).catch(() => {});
  }
}

/** @param {Kept} kept */
const isAnswer = ({ operation: { kind } }) => kind === "answer" || kind === "comment";

/** It happened too early for the server: let it have happened later. @param {Kept} kept @param {number} wait */
function postponed(kept, wait) {
  const at = Math.min(kept.at, Date.now()) + wait * 1000 + 20; // a clock may have been set back
  return { at, due: at };
}

/** As many as one request may carry. @param {Kept[]} all */
function fitting(all) {
  let room = HEAVIEST, taken = 0;
  const weigh = new TextEncoder();
  for (const { operation } of all.slice(0, MOST)) {
    room -= weigh.encode(JSON.stringify(operation)).length + 40;
    if (room < 0 && taken) break;
    taken += 1;
  }
  return all.slice(0, taken);
}

// Other pages of the study: send what waits, if the person is the same

async function deliver() {
  const shelf = new Shelf();
  if (!(await shelf.all(null)).length) return;
  try {
    const answer = await fetch("/api/progress");
    if (!answer.ok || answer.redirected) return;
    const { queue, token } = await answer.json();
    await new Queue(queue, token, shelf).flush();
  } catch { /* the page of an item says it, and tries again */ }
}

// The page

class Rating {
  /** @param {Queue} queue */
  constructor(queue) {
    this.queue = queue;
    this.main = need("main", HTMLElement);
    /** @type {Map<number, Promise<Page>>} */
    this.pages = new Map();
    /** @type {Set<number>} */
    this.done = new Set();
    /** @type {Set<string>} items that were opened, here or before */
    this.opened = new Set();
    /** @type {Map<string, Map<string, { value: string, rev: number }>>} item -> field -> what was answered in this browser */
    this.local = new Map();
    /** @type {Map<string, HTMLElement>} */
    this.cries = new Map();
    this.until = 0; // when the item may be left, on the page's own clock
    this.mark = 0; // when the question that is being answered began
    this.away = 0; // when the page was left, 0 while it is looked at
    this.rev = 0;
    this.typing = 0;
    this.closed = false; // the task was given in
    this.finishing = false; // it is to be, once everything is saved
    this.isReady = false; // every picture can be seen
    this.blocked = false; // one did not load
    this.counting = false;
    this.ticking = 0;
    this.worried = false; // the last that was said of saving was no good news
    this.wanted = 0; // the item that is on its way
    this.centred = 0;
    /** @type {HTMLFieldSetElement | null} */
    this.active = null;
  }

  get number() { return Number(this.main.dataset.number); }

  get of() { return Number(this.main.dataset.of); }

  get item() { return this.main.dataset.item ?? ""; }

  get cards() { return every("fieldset.card", HTMLFieldSetElement, this.main); }

  get lacking() { return this.cards.filter((card) => !chosen(card)); }

  async start() {
    this.listen();
    this.showSwitch();
    for (const { operation, number } of await this.queue.waiting()) this.learn(operation, number);
    for (const kept of await this.queue.refusals()) this.refuse(kept);
    this.pages.set(this.number, Promise.resolve({ main: this.main, title: document.title, until: 0 }));
    history.replaceState({ number: this.number }, "");
    void this.queue.flush();
    await this.begin(false);
  }

  /** The item that is shown now. @param {boolean} moved */
  async begin(moved) {
    const { main } = this;
    this.isReady = false;
    this.away = document.visibilityState === "visible" ? 0 : Date.now();
    for (const number of (main.dataset.done ?? "").split(" ")) if (number) this.done.add(Number(number));
    if (main.dataset.left !== undefined) this.opened.add(this.item);
    this.overlay();
    this.active = null;
    this.settle();
    for (const card of this.cards) card.disabled = true;
    if (moved) this.say(`Item ${this.number} of ${this.of}`);
    await this.pictures();
    if (main !== this.main) return;
    for (const card of this.cards) card.disabled = false;
    this.isReady = true;
    document.body.dataset.ready = this.item;
    await this.clock();
    this.focus(moved);
    this.settle();
    this.prefetch();
  }

  /** Time starts when every picture can be seen. */
  async clock() {
    const now = performance.now(), page = await this.pages.get(this.number);
    const whole = Number(this.main.dataset.minimum) * 1000;
    const left = this.main.dataset.left === undefined ? whole : Number(this.main.dataset.left) * 1000;
    if (page && !page.until) page.until = this.done.has(this.number) || !left ? now : now + left + MARGIN;
    this.until = page?.until ?? now;
    this.mark = now;
    if (!this.opened.has(this.item)) {
      this.opened.add(this.item);
      this.push("open", "", "", null);
    }
    const seconds = Math.ceil((this.until - now) / 1000);
    if (seconds > 0) this.say(`You can go on in ${counted(seconds, "second", "seconds")}.`);
    this.tick();
  }

  tick() {
    clearTimeout(this.ticking);
    const left = this.until - performance.now();
    if (left > 0) this.ticking = setTimeout(() => this.tick(), Math.min(left, 200));
    else if (this.counting) this.say("You can go on now.");
    this.counting = left > 0;
    this.settle();
  }

  // Pictures

  async pictures() {
    const images = every(".surround img", HTMLImageElement, this.main);
    this.blocked = false;
    await Promise.all(images.map((image) => this.seen(image)));
  }

  /** Comes back once the picture can be seen, however often it takes. @param {HTMLImageElement} image */
  async seen(image) {
    const figure = image.closest("figure");
    while (!(await isDecoded(image))) {
      if (!figure || !image.isConnected) return;
      this.blocked = true;
      this.settle();
      await this.again(figure, image);
    }
  }

  /** Says that a picture is missing, until somebody or the network asks for it again.
   * @param {HTMLElement} figure @param {HTMLImageElement} image @returns {Promise<void>} */
  again(figure, image) {
    const said = made("div", "", "broken");
    said.setAttribute("role", "alert");
    const button = made("button", "Load it again");
    button.setAttribute("type", "button");
    said.append(made("p", `The picture “${image.alt}” did not load. Questions can be answered once all pictures are there.`), button);
    figure.append(said);
    return new Promise((resolve) => {
      const retry = () => {
        removeEventListener("online", retry);
        said.remove();
        this.blocked = false;
        image.src = String(image.getAttribute("src"));
        resolve();
      };
      button.addEventListener("click", retry);
      addEventListener("online", retry);
    });
  }

  zoom() {
    const dialog = need("#zoom", HTMLDialogElement);
    if (dialog.open) { dialog.close(); return; }
    const figures = every("figure", HTMLElement, this.main).map((figure) => /** @type {HTMLElement} */ (figure.cloneNode(true)));
    for (const link of figures.flatMap((figure) => every("a", HTMLAnchorElement, figure))) link.removeAttribute("href");
    need(".large", HTMLElement, dialog).replaceChildren(...figures);
    dialog.showModal();
  }

  // What was answered

  /** @param {Kind} kind @param {string} field @param {string} value @param {number | null} ms */
  push(kind, field, value, ms) {
    if (this.closed) return;
    this.rev = Math.max(Date.now(), this.rev + 1);
    const operation = { id: uuid(), kind, item: this.item, field, value, rev: this.rev, ms };
    this.learn(operation, this.number);
    void this.queue.push(operation, this.number);
  }

  /** What this tab or another did, sent or not. @param {Operation} operation @param {number} number */
  learn({ kind, item, field, value, rev }, number) {
    this.rev = Math.max(this.rev, rev);
    if (kind === "open") this.opened.add(item);
    if (kind === "done") this.done.add(number);
    if (kind !== "answer" && kind !== "comment") return;
    const known = this.local.get(item) ?? new Map();
    if ((known.get(field)?.rev ?? -1) < rev) known.set(field, { value, rev });
    this.local.set(item, known);
  }

  overlay() {
    for (const [field, { value }] of this.local.get(this.item) ?? []) {
      if (field === "comment") need("#comment", HTMLTextAreaElement, this.main).value = value;
      else for (const input of inputs(this.main, field)) input.checked = input.value === value;
    }
  }

  /** @param {HTMLFieldSetElement} card @param {HTMLInputElement} input */
  answer(card, input) {
    const now = performance.now(), field = String(card.dataset.field);
    const known = this.local.get(this.item)?.get(field);
    if (known?.value === input.value && !card.classList.contains("refused")) return;
    this.push("answer", field, input.value, Math.round(Math.max(0, now - this.mark)));
    this.mark = now;
    card.classList.remove("missing");
    void this.forgive(card);
    this.settle();
  }

  comment() {
    clearTimeout(this.typing);
    const { value } = need("#comment", HTMLTextAreaElement, this.main);
    const known = this.local.get(this.item)?.get("comment")?.value ?? need("#comment", HTMLTextAreaElement, this.main).defaultValue;
    if (value !== known) this.push("comment", "comment", value, null);
  }

  /** Marks what the server refused, until it is answered again. @param {Kept} kept */
  refuse(kept) {
    const { operation: { kind, item, field }, number, refused } = kept;
    if (kind === "done") this.done.delete(number);
    if (kind === "open" || kind === "away") { void this.queue.shelf.remove([kept]); return; }
    this.local.get(item)?.delete(field);
    const what = kind === "done" ? `Item ${number} is not done.` : `An answer about item ${number} was not saved.`;
    this.cry(`refused:${item}:${field}`, `${what} ${refused} Please answer again.`, number === this.number ? "" : `/items/${number}`);
    const card = item === this.item && this.cards.find((one) => one.dataset.field === field);
    if (card) {
      card.classList.add("refused");
      if (!card.querySelector(".note")) card.append(made("p", `Not saved: ${refused} Please answer again.`, "note"));
      for (const input of inputs(card, field)) input.checked = false;
    }
    this.settle();
  }

  /** @param {HTMLFieldSetElement} card */
  async forgive(card) {
    card.classList.remove("refused");
    card.querySelector(".note")?.remove();
    await this.drop(this.item, String(card.dataset.field));
  }

  /** @param {string} item @param {string} field */
  async drop(item, field) {
    this.calm(`refused:${item}:${field}`);
    const old = (await this.queue.refusals()).filter(({ operation }) => operation.item === item && operation.field === field);
    if (!old.length) return;
    await this.queue.shelf.remove(old);
    await this.queue.say();
  }

  // Going on

  get isTimely() { return performance.now() >= this.until; }

  get isComplete() { return this.isReady && !this.blocked && !this.lacking.length; }

  /** What has to be kept before the item is left. */
  leave() {
    this.comment();
    if (this.isComplete && this.isTimely && !this.done.has(this.number)) {
      void this.drop(this.item, "");
      this.push("done", "", "", null);
    }
  }

  next() {
    if (!this.isReady || this.blocked) return;
    const [first] = this.lacking;
    if (first) {
      for (const card of this.lacking) card.classList.add("missing");
      this.say(`${counted(this.lacking.length, "question is", "questions are")} not answered yet.`);
      this.choose(first);
      return;
    }
    if (!this.isTimely) { this.say(`Please look a little longer: ${this.seconds} more seconds.`); return; }
    this.leave();
    const following = this.following(1)[0];
    if (following === undefined) { this.settle(); need("#finish", HTMLButtonElement).focus(); }
    else void this.go(following);
  }

  get seconds() { return Math.max(0, Math.ceil((this.until - performance.now()) / 1000)); }

  /** The next items to do, from the start again after the last. @param {number} most */
  following(most) {
    const all = Array.from({ length: this.of }, (_, place) => (this.number + place) % this.of + 1);
    return all.filter((number) => number !== this.number && !this.done.has(number)).slice(0, most);
  }

  /** @param {number} number @param {boolean} back whether the browser's history leads there */
  async go(number, back = false) {
    this.leave();
    const wanted = this.wanted = number;
    /** @type {Page} */
    let page;
    try { page = await this.page(number); } catch (error) {
      const said = error instanceof Error ? error.message : "";
      this.cry("moving", said || `Item ${number} cannot be loaded at the moment. It opens as soon as the study answers; what you answered is kept.`);
      setTimeout(() => { if (this.wanted === wanted && this.number !== number) void this.go(number, back); }, 2000);
      return;
    }
    if (this.wanted !== wanted) return;
    this.wanted = 0;
    this.calm("moving");
    if (number === this.number) return;
    this.main.replaceWith(page.main);
    this.main = page.main;
    document.title = page.title;
    if (!back) history.pushState({ number }, "", `/items/${number}`);
    scrollTo(0, 0);
    await this.begin(true);
  }

  /** An item with its pictures, fetched once. @param {number} number @returns {Promise<Page>} */
  page(number) {
    const found = this.pages.get(number) ?? this.fetched(number);
    this.pages.set(number, found);
    found.catch(() => this.pages.delete(number));
    return found;
  }

  /** @param {number} number @returns {Promise<Page>} */
  async fetched(number) {
    const answer = await fetch(`/items/${number}`).catch(() => null);
    if (!answer) throw new Error();
    if (answer.status === 401) throw new Error("Your session has ended. Please open the study again with your link from Prolific, in this browser.");
    if (answer.redirected) { location.href = answer.url; throw new Error(); }
    if (!answer.ok) throw new Error();
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    const main = document.adoptNode(need("main", HTMLElement, found));
    await Promise.all(every(".surround img", HTMLImageElement, main).map(loaded));
    return { main, title: found.title, until: 0 };
  }

  prefetch() {
    for (const number of this.following(AHEAD)) void this.page(number).catch(() => {});
  }

  async finish() {
    this.finishing = false;
    this.comment();
    this.cry("finish", "Sending the last answers …");
    await this.queue.flush();
    const left = (await this.queue.waiting()).length;
    if (left) {
      this.cry("finish", `${counted(left, "entry is", "entries are")} not saved yet. The task can be finished once everything is saved; this is tried again by itself.`);
      this.finishing = true;
      return;
    }
    try {
      const { done, of } = await (await fetch("/api/progress", { redirect: "error" })).json();
      this.done = new Set(done);
      this.settle();
      if (done.length !== of) { this.cry("finish", `${counted(of - done.length, "item is", "items are")} not done yet. The numbers above show which.`); return; }
    } catch { this.cry("finish", "The study does not answer at the moment. Everything is saved; please try again."); return; }
    this.closed = true;
    need("#finishing", HTMLFormElement).submit();
  }

  // What is seen and said

  /** Everything that follows from what is answered and what time it is. */
  settle() {
    const { lacking, number, of } = this, size = this.done.size;
    put("#place", `${number}/${of}`);
    put("#count", `(${size} done)`);
    put("#share", `${Math.round((100 * size) / of)} %`);
    this.strip();
    for (const card of this.cards) card.classList.toggle("active", card === this.active);
    for (const panel of every(".panel", HTMLElement, this.main)) this.panel(panel);
    const next = need("#next", HTMLButtonElement), ready = this.isComplete && this.isTimely;
    next.setAttribute("aria-disabled", String(!ready));
    put("#next", this.isTimely || !this.isReady ? "Next " : `Next in ${this.seconds} s `, true);
    const all = size === of;
    next.classList.toggle("primary", !all);
    need("#finishing", HTMLElement).hidden = !all;
    put("#lacking", this.blocked ? "A picture is missing" : !this.isReady ? "Loading the pictures …"
      : lacking.length ? `${counted(lacking.length, "question", "questions")} left` : all ? "Every item is done" : "All answered");
  }

  strip() {
    for (const box of every("#strip button", HTMLButtonElement)) {
      const number = Number(box.value), done = this.done.has(number), here = number === this.number;
      if (box.classList.contains("done") !== done) {
        box.classList.toggle("done", done);
        box.querySelector(".unseen")?.remove();
        if (done) box.append(made("span", ", done", "unseen"));
      }
      box.tabIndex = here ? 0 : -1;
      if (here === box.hasAttribute("aria-current")) continue;
      if (here) box.setAttribute("aria-current", "step"); else box.removeAttribute("aria-current");
    }
    const strip = need("#strip", HTMLElement), box = strip.children[this.number - 1];
    if (box instanceof HTMLElement && this.centred !== this.number) {
      strip.scrollLeft = box.offsetLeft - (strip.clientWidth - box.offsetWidth) / 2;
      this.centred = this.number;
    }
  }

  /** Which picture is being rated, and which is done. @param {HTMLElement} panel */
  panel(panel) {
    const caption = panel.querySelector("figcaption");
    panel.classList.toggle("active", this.active !== null && panel.contains(this.active));
    if (!caption) return;
    const done = every("fieldset.card", HTMLFieldSetElement, panel).every(chosen);
    const said = done ? "✓ Done" : panel.classList.contains("active") ? "evaluating" : "";
    let mark = caption.querySelector(".mark");
    if (!mark) { mark = made("span", "", "mark"); caption.append(" ", mark); }
    if (mark.textContent !== said) mark.textContent = said;
    panel.classList.toggle("done", done);
  }

  /** For those who listen. @param {string} text */
  say(text) { put("#told", text); }

  /** Loud, and there until it is dealt with. @param {string} key @param {string} text @param {string} page */
  cry(key, text, page = "") {
    const old = this.cries.get(key);
    if (old?.dataset.said === text) return;
    const line = made("div", "", "notice");
    line.dataset.said = text;
    line.append(made("p", text));
    if (page) {
      const link = /** @type {HTMLAnchorElement} */ (made("a", /^\/items\/\d+$/.test(page) ? "Go there" : "Continue there", "button"));
      link.href = page;
      line.append(link);
    }
    if (old) old.replaceWith(line); else need("#alerts", HTMLElement).append(line);
    this.cries.set(key, line);
  }

  /** @param {string} key */
  calm(key) {
    this.cries.get(key)?.remove();
    this.cries.delete(key);
  }

  /** @param {State} state @param {Kept[]} waiting */
  tell(state, waiting) {
    const count = waiting.filter(isAnswer).length;
    const where = this.queue.shelf.memory.size ? "in this window only (please leave it open)" : "on this computer";
    const kept = count ? `${counted(count, "answer is", "answers are")} kept ${where} and will be sent` : "nothing is lost";
    const refused = [...this.cries.keys()].filter((key) => key.startsWith("refused:")).length;
    const text = {
      saved: refused ? `${counted(refused, "entry was", "entries were")} not saved: please look above` : "All answers saved", saving: "Saving …", offline: `You are offline: ${kept}`,
      trouble: `The study does not answer: ${kept}`,
    }[state];
    const line = need("#state", HTMLElement);
    if (line.textContent !== text) line.textContent = text;
    if (line.dataset.state !== state && state !== "saving" && (state !== "saved" || this.worried)) this.say(text);
    if (state !== "saving") this.worried = state !== "saved";
    line.dataset.state = state === "saved" && refused ? "trouble" : state;
    if (state === "saved" && this.finishing) setTimeout(() => void this.finish());
  }

  // Questions and keys

  /** @param {HTMLFieldSetElement} card */
  choose(card) {
    this.active = card;
    const input = chosen(card) ?? card.querySelector("input");
    if (input instanceof HTMLInputElement) {
      input.focus({ preventScroll: true });
      card.scrollIntoView({ block: "nearest" });
    }
    this.settle();
  }

  /** @param {boolean} moved */
  focus(moved) {
    const at = document.activeElement, [first] = this.lacking;
    if (!moved && at && at !== document.body && at !== this.main) return;
    if (document.querySelector("dialog[open]")) return;
    if (first) this.choose(first); else this.main.focus({ preventScroll: true });
  }

  /** @param {number} by */
  move(by) {
    const { cards } = this, at = this.active ? cards.indexOf(this.active) : by > 0 ? -1 : cards.length;
    const card = cards[Math.max(0, Math.min(cards.length - 1, at + by))];
    if (card && this.isReady) this.choose(card);
  }

  /** The option with a number, of the question that is marked; then the next that has no answer. @param {string} key */
  pick(key) {
    if (!this.isReady) return;
    const card = this.active ?? this.lacking[0];
    if (!card) return;
    const all = inputs(card, String(card.dataset.field)), cannot = all.find((one) => one.closest(".cannot"));
    const input = key === "0" ? cannot : all.filter((one) => one !== cannot)[Number(key) - 1];
    if (!input) return;
    input.checked = true;
    this.answer(card, input);
    const { cards } = this, place = cards.indexOf(card);
    const onward = [...cards.slice(place + 1), ...cards.slice(0, place)].find((one) => !chosen(one));
    if (onward) this.choose(onward); else { this.active = card; this.settle(); need("#next", HTMLButtonElement).focus(); }
  }

  /** Of keys that are held, only arrows go on. @param {KeyboardEvent} event */
  key(event) {
    const { target, key } = event;
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.altKey || event.metaKey || !isOn()) return;
    if (target instanceof HTMLTextAreaElement) return;
    const dialog = document.querySelector("dialog[open]");
    const act = dialog ? { z: dialog.id === "zoom", g: dialog.id === "panel", "?": dialog.id === "panel" }[key] && (() => /** @type {HTMLDialogElement} */ (dialog).close())
      : this.acts(key, target);
    if (!act) return;
    event.preventDefault();
    if (!event.repeat || key.startsWith("Arrow")) act();
  }

  /** What a key does, if anything. @param {string} key @param {EventTarget | null} target @returns {(() => void) | undefined} */
  acts(key, target) {
    if (/^[0-9]$/.test(key)) return () => this.pick(key);
    const inStrip = target instanceof HTMLElement && target.closest("#strip");
    const isOwn = target instanceof HTMLElement && target.closest("button, a, summary");
    /** @type {Record<string, (() => void) | undefined>} */
    const known = {
      c: () => this.pick("0"), z: () => this.zoom(), g: guide, "?": guide, n: () => this.next(), p: () => void this.go(this.before()),
      ArrowUp: () => this.move(-1), ArrowDown: () => this.move(1),
      ArrowLeft: inStrip ? () => this.along(target, -1) : undefined, ArrowRight: inStrip ? () => this.along(target, 1) : undefined,
      Enter: isOwn ? undefined : () => this.next(),
    };
    return known[key];
  }

  before() { return this.number > 1 ? this.number - 1 : this.of; }

  /** @param {EventTarget | null} box @param {number} by */
  along(box, by) {
    const boxes = every("#strip button", HTMLButtonElement);
    boxes[boxes.indexOf(/** @type {HTMLButtonElement} */ (box)) + by]?.focus();
  }

  showSwitch() {
    for (const one of every(".scripted", HTMLElement)) one.hidden = false;
    const box = need("#keys", HTMLInputElement);
    box.checked = isOn();
    box.addEventListener("change", () => {
      try { localStorage.setItem(SHORTCUTS, box.checked ? "on" : "off"); } catch { /* then for this page */ }
      document.body.dataset.keys = box.checked ? "on" : "off";
    });
    document.body.dataset.keys = isOn() ? "on" : "off";
    const panel = need("#panel", HTMLDialogElement);
    panel.append(need("#guidelines", HTMLElement));
    need("#guide", HTMLElement).hidden = true;
    const top = need(".top", HTMLElement); // pictures stay below it, whatever it says
    new ResizeObserver(() => document.documentElement.style.setProperty("--hold", `${top.offsetHeight}px`)).observe(top);
  }

  listen() {
    const { queue } = this;
    queue.tell = (state, waiting) => this.tell(state, waiting);
    queue.cry = (key, text, page) => this.cry(key, text, page);
    queue.calm = (key) => this.calm(key);
    queue.settled = (kept, result) => this.settled(kept, result);
    queue.channel?.addEventListener("message", ({ data }) => this.heard(data));
    document.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("change", ({ target }) => this.changed(target));
    document.addEventListener("input", ({ target }) => {
      if (!(target instanceof HTMLTextAreaElement)) return;
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.comment(), TYPING);
    });
    document.addEventListener("focusin", ({ target }) => {
      const card = target instanceof HTMLElement && target.closest("fieldset.card");
      if (card instanceof HTMLFieldSetElement && card !== this.active) { this.active = card; this.settle(); }
    });
    document.addEventListener("focusout", ({ target }) => { if (target instanceof HTMLTextAreaElement) this.comment(); });
    document.addEventListener("submit", (event) => this.submitted(event));
    document.addEventListener("click", (event) => this.clicked(event));
    addEventListener("popstate", ({ state }) => { if (state?.number) void this.go(state.number, true); });
    addEventListener("pagehide", () => { this.comment(); queue.part(); });
    document.addEventListener("visibilitychange", () => (document.visibilityState === "visible" ? this.back() : this.gone()));
    addEventListener("blur", () => this.gone());
    addEventListener("focus", () => this.back());
    addEventListener("online", () => this.prefetch());
  }

  /** @param {EventTarget | null} target */
  changed(target) {
    const card = target instanceof HTMLInputElement && target.type === "radio" && target.closest("fieldset.card");
    if (card instanceof HTMLFieldSetElement) this.answer(card, /** @type {HTMLInputElement} */ (target));
  }

  /** Buttons of the page's form lead somewhere without leaving the page. @param {SubmitEvent} event */
  submitted(event) {
    const form = event.target, by = event.submitter;
    if (!(form instanceof HTMLFormElement)) return;
    event.preventDefault();
    if (form.id === "finishing") { void this.finish(); return; }
    const go = by instanceof HTMLButtonElement ? by.id === "previous" ? String(this.before()) : by.value : "next";
    if (go === "next") this.next();
    else if (go === "leave") { this.leave(); void this.queue.flush().finally(() => { location.href = "/leave"; }); }
    else void this.go(Number(go));
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const at = event.target instanceof Element ? event.target : null;
    if (event.ctrlKey || event.metaKey || event.shiftKey || !at) return;
    if (at.closest("#zoom")) need("#zoom", HTMLDialogElement).close();
    else if (at.closest(".close") || at instanceof HTMLDialogElement) at.closest("dialog")?.close();
    else if (at.closest("a.surround")) { event.preventDefault(); this.zoom(); }
    else if (at.closest("#open-guide")) { event.preventDefault(); guide(); }
    else this.followed(event, at);
  }

  /** A link to an item, in a notice. @param {MouseEvent} event @param {Element} at */
  followed(event, at) {
    const to = at.closest("a")?.getAttribute("href")?.match(/^\/items\/(\d+)$/);
    if (!to) return;
    event.preventDefault();
    void this.go(Number(to[1]));
  }

  /** @param {Kept} kept @param {Result} result */
  settled(kept, result) {
    if (result.refused && typeof result.wait !== "number") this.refuse({ ...kept, refused: result.refused });
  }

  /** From another tab. @param {{ operation?: Operation, number?: number }} data */
  heard({ operation, number }) {
    if (operation && number) {
      this.learn(operation, number);
      if (operation.item === this.item) this.overlay();
      this.settle();
    }
    void this.queue.say();
  }

  // Looking away

  gone() { this.away ||= Date.now(); }

  back() {
    if (!this.away || document.visibilityState !== "visible") return;
    const ms = Date.now() - this.away;
    this.away = 0;
    this.mark += ms;
    if (ms > BRIEF) this.push("away", "", "", Math.min(ms, 24 * 3600 * 1000));
  }
}

/** @param {string} selector @param {string} text @param {boolean} first only the text before other elements */
function put(selector, text, first = false) {
  const element = need(selector, HTMLElement), node = first ? element.firstChild : element;
  if (node && node.textContent !== text) node.textContent = text;
}

/** @param {ParentNode} within @param {string} field @returns {HTMLInputElement[]} */
const inputs = (within, field) => every("input[type=radio]", HTMLInputElement, within).filter((one) => one.name === field);

/** @param {HTMLFieldSetElement} card @returns {HTMLInputElement | null} */
const chosen = (card) => card.querySelector("input:checked");

function isOn() {
  if (document.body.dataset.keys) return document.body.dataset.keys === "on";
  try { return localStorage.getItem(SHORTCUTS) !== "off"; } catch { return true; }
}

function guide() {
  const panel = need("#panel", HTMLDialogElement);
  if (!panel.open) panel.showModal();
}

/** @param {HTMLImageElement} image @returns {Promise<boolean>} */
function isDecoded(image) {
  const late = new Promise((resolve) => { setTimeout(() => resolve(false), LOADING); });
  return /** @type {Promise<boolean>} */ (Promise.race([image.decode().then(() => true, () => false), late]));
}

/** Puts an image that this document has loaded in the place of one that another parsed: it is not fetched again.
 * @param {HTMLImageElement} image */
async function loaded(image) {
  const own = document.createElement("img");
  for (const { name, value } of image.attributes) own.setAttribute(name, value);
  image.replaceWith(own);
  await isDecoded(own);
}

const { queue, token } = document.body.dataset;
if (queue && token) void new Rating(new Queue(queue, token, new Shelf())).start();
else void deliver();
