// Actions on their way to the server. Each is kept in this browser until the server says that it is on disk, and sent
// again under the same name until then. An action has an entry of its own, so that tabs do not overwrite each other's.

const SHORTEST = 1000, LONGEST = 10000, PATIENCE = 15000; // milliseconds

export function uuid() { // crypto.randomUUID exists only on secure pages; a plain address in a network is none
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

export class Queue {
  // tell(kind, text): kind is saving, saved, failing or refused. done(item, answer), refused(item): what came of one.
  constructor(prefix, address, { tell, done, refused }) {
    Object.assign(this, { prefix, address, tell, done, refused });
    this.memory = new Map(); // where the browser keeps nothing
    this.wait = SHORTEST;
    this.count = 0;
    addEventListener("online", () => this.flush());
  }

  push(item) {
    const key = `${this.prefix}${String(Date.now()).padStart(15, "0")}-${String(this.count++).padStart(6, "0")}-${item.op}`;
    try { localStorage.setItem(key, JSON.stringify(item)); } catch { this.memory.set(key, item); }
    this.flush();
  }

  keys() {
    const kept = Object.keys(localStorage).filter((key) => key.startsWith(this.prefix));
    return [...new Set([...kept, ...this.memory.keys()])].sort();
  }

  item(key) { return this.memory.get(key) ?? JSON.parse(localStorage.getItem(key)); }

  items() { return this.keys().map((key) => this.item(key)).filter(Boolean); }

  drop(key) { this.memory.delete(key); localStorage.removeItem(key); }

  // True once nothing waits any more; false where sending failed.
  flush() {
    if (!this.running) this.running = this.drain().finally(() => { this.running = null; });
    return this.running;
  }

  async drain() {
    clearTimeout(this.timer);
    let last = null, refusal = "";
    for (let [key] = this.keys(); key; [key] = this.keys()) {
      const item = this.item(key);
      if (!item) continue; // another tab was quicker
      if (this.wait === SHORTEST) this.tell("saving", "Saving …");
      let status, answer;
      try { ({ status, answer } = await this.post(item)); } catch { return this.later("The server does not answer."); }
      if (status === 401) return this.later("Your session has ended: open your link again in this browser.");
      if (status >= 500 || status === 429) return this.later(answer.refused ?? "The server could not save it.");
      this.drop(key);
      this.wait = SHORTEST;
      if (status < 300) { this.done(item, answer); last = answer; }
      else { refusal = answer.refused ?? "It was not done."; this.refused(item); }
    }
    if (refusal) this.tell("refused", refusal);
    else if (last) this.tell("saved", "Saved", last);
    return true;
  }

  async post(item) {
    const sent = await fetch(this.address, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(item),
      keepalive: true, signal: AbortSignal.timeout(PATIENCE),
    });
    return { status: sent.status, answer: await sent.json() };
  }

  later(reason) {
    const count = this.keys().length, which = count === 1 ? "1 action is" : `${count} actions are`;
    this.tell("failing", `Not saved. ${reason} ${which} kept in this browser and sent again every few seconds.`);
    this.timer = setTimeout(() => this.flush(), this.wait);
    this.wait = Math.min(this.wait * 2, LONGEST);
    return false;
  }
}
