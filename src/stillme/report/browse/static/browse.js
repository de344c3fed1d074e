// Every edit of a run, from a folder: no server, nothing fetched. data/index.js says what there is to filter by; what
// is known of an edit, and its raw exchange, come as script files when somebody opens it. The words after # are the
// review tool's, and mean the same. Texts of judges and providers are only ever put in as text.
"use strict";

/**
 * @typedef {{ width: number, codes: string }} Packed
 * @typedef {Packed & { values: string[] }} Column
 * @typedef {{ axis: string, at_least: number | null, at_most: number | null }} Outcome
 * @typedef {{ counts: Packed, axis: Column, score: Record<string, Packed>, rounding: string, spread: Packed, standing: Column, why: Column, bits: Packed }} Scores
 * @typedef {{
 *   name: string, faces: string, originals: string, notes: string[], main: [string, string], total: number,
 *   sizes: { records: number, exchanges: number }, shared: [string, string][], dimensions: string[],
 *   filters: { trial: string[], score: string[], happened: string[], flags: string[] },
 *   facets: string[], one: string[], sorts: string[], trials: Record<string, Column>, keys: string,
 *   pictures: string[], places: { source: Packed, partner: Packed, image: Packed }, scores: Scores,
 *   titles: Record<string, string>, labels: Record<string, [string, string][]>, judges: string[],
 *   axes: Record<string, { label: string, scale: Record<string, string> }>, outcomes: Record<string, Outcome>,
 *   measures: [string, string, [string, string][]][]
 * }} Index
 * @typedef {{ values: string[], codes: Int32Array }} Coded
 * @typedef {{ start: Int32Array, axis: Coded, score: Record<string, Int32Array>, spread: Int32Array, standing: Coded, why: Coded, bits: Int32Array }} Read
 * @typedef {{ name: string, test: (row: number) => boolean }} Condition
 * @typedef {Record<string, Record<string, number>>} Counts
 * @typedef {[string, (number | string | null)[], number | null, [string, string, number | null, boolean, string][]]} ScoreRecord
 * @typedef {[number, string, string, [string, number | null, string][], [string, string][]]} Opinion
 * @typedef {{ lead: string, text: string, detail: string, facts: [string, string][], scores: ScoreRecord[], opinions: Opinion[], measured: [string, string[]][] }} Told
 * @typedef {[string, string, number, number, number, string, string, [string, number][], string, string]} Call
 * @typedef {{ settings: string, seed: number, instruction: string, made: string, notes: [string, string][], edit: Call[], judges: [number, number | null, Call[]][] }} Exchange
 * @typedef {{ questions: string[], trials: (Exchange | null)[] }} Exchanges
 */

const stillme = (() => {
  const KEY = 64, NAME = 20, LONGEST = 200, PAGE = 10000, GAP = 14, NARROWEST = 264;
  const REQUESTED = 1, SINGLE = 2;
  /** @type {Record<string, number>} */
  const FLAG = { flagged: 4, open: 8, adjudicated: 16, contested: 32 };
  const OPEN = ["editor", "flag", "outcome"]; // facets that are unfolded from the start
  const UNCOUNTED = ["person", "trial"];

  // Columns of letters

  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const VALUE = new Uint8Array(128);
  for (let at = 0; at < 64; at++) VALUE[LETTERS.charCodeAt(at)] = at;

  /** @param {Packed} packed */
  function unpack({ width, codes }) {
    const found = new Int32Array(codes.length / width);
    for (let at = 0, row = 0; at < codes.length; row++) {
      let number = 0;
      for (let place = 0; place < width; place++) number = number * 64 + (VALUE[codes.charCodeAt(at++)] ?? 0);
      found[row] = number;
    }
    return found;
  }

  /** @param {Column} column @returns {Coded} */
  const coded = (column) => ({ values: column.values, codes: unpack(column) });

  // What is asked: filters with their values, in one order

  class Query {
    /** @param {[string, string][]} chosen */
    constructor(chosen) { this.chosen = chosen; }

    /** @param {string} text @param {string[]} order */
    static read(text, order) {
      /** @type {[string, string][]} */
      const chosen = [];
      for (const [name, given] of new URLSearchParams(text)) {
        const value = [...given.trim()].slice(0, LONGEST).join("");
        if (order.includes(name) && value && !chosen.some((pair) => pair[0] === name && pair[1] === value)) chosen.push([name, value]);
      }
      chosen.sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]));
      return new Query(chosen);
    }

    /** @param {string} name */
    all(name) { return this.chosen.filter((pair) => pair[0] === name).map((pair) => pair[1]); }
    /** @param {string} name @param {string} otherwise */
    one(name, otherwise = "") { return this.all(name)[0] ?? otherwise; }
    /** @param {string} name */
    number(name) {
      const found = this.one(name);
      return /^[0-9]{1,8}$/.test(found) ? Number(found) : null;
    }
    names() { return [...new Set(this.chosen.map((pair) => pair[0]))]; }
    /** @param {string} name @param {string} value */
    without(name, value = "") { return new Query(this.chosen.filter((pair) => pair[0] !== name || (value !== "" && pair[1] !== value))); }
    /** @param {string} name @param {string} value */
    plus(name, value) { return new Query([...this.chosen, [name, value]]); }
    /** @param {Record<string, string>} more */
    text(more = {}) { return new URLSearchParams([...this.chosen, ...Object.entries(more)]).toString(); }
  }

  // Which edits, and how many under every other filter: the rules of the review tool

  class Edits {
    /** @param {Index} index */
    constructor(index) {
      this.index = index;
      this.total = index.total;
      this.order = [...index.filters.trial, ...index.filters.score, "text", "rounding", "sort"];
      /** @type {Record<string, Coded>} */
      this.trials = Object.fromEntries(Object.entries(index.trials).map(([name, column]) => [name, coded(column)]));
      const { scores } = index, counts = unpack(scores.counts), start = new Int32Array(counts.length + 1);
      counts.forEach((count, row) => { start[row + 1] = (start[row] ?? 0) + count; });
      /** @type {Read} */
      this.scores = {
        start, axis: coded(scores.axis), standing: coded(scores.standing), why: coded(scores.why), bits: unpack(scores.bits),
        spread: unpack(scores.spread), score: Object.fromEntries(Object.entries(scores.score).map(([mode, one]) => [mode, unpack(one)])),
      };
      const { source, partner, image } = index.places;
      this.places = { source: unpack(source), partner: unpack(partner), image: unpack(image) };
    }

    /** @param {string} text */
    query(text) { return Query.read(text, this.order); }
    /** @param {number} row */
    key(row) { return this.index.keys.slice(row * KEY, row * KEY + KEY); }
    /** @param {string} key */
    row(key) {
      if (!/^[0-9a-f]{64}$/.test(key)) return -1;
      for (let at = this.index.keys.indexOf(key); at >= 0; at = this.index.keys.indexOf(key, at + 1)) if (at % KEY === 0) return at / KEY;
      return -1;
    }
    /** @param {string} name @param {number} row */
    value(name, row) {
      const column = this.trials[name];
      return column ? column.values[column.codes[row] ?? 0] ?? "" : "";
    }
    /** @param {Query} query */
    given(query) {
      const { score } = this.scores, usual = this.index.scores.rounding;
      return score[query.one("rounding", usual)] ?? score[usual] ?? new Int32Array();
    }

    /** @param {Query} query @param {string} name @returns {(row: number) => boolean} */
    ofTrial(query, name) {
      const wanted = query.all(name);
      if (name === "trial") {
        const rows = new Set(wanted.map((key) => this.row(key)));
        return (row) => rows.has(row);
      }
      const column = this.trials[name];
      if (!column) return () => true;
      const { codes } = column, kept = column.values.map((value) => wanted.includes(value));
      return (row) => kept[codes[row] ?? 0] ?? false;
    }

    /** Whether a score is one that an outcome is read off. @param {string} name @returns {(row: number) => boolean} */
    about(name) {
      const outcome = Object.hasOwn(this.index.outcomes, name) ? this.index.outcomes[name] : undefined, { axis, bits } = this.scores;
      if (!outcome) return () => false;
      const code = axis.values.indexOf(outcome.axis);
      return (row) => axis.codes[row] === code && !((bits[row] ?? 0) & REQUESTED);
    }

    /** What was read off it. @param {string} name @param {string} word @param {Int32Array} given @returns {(row: number) => boolean} */
    read(name, word, given) {
      const outcome = Object.hasOwn(this.index.outcomes, name) ? this.index.outcomes[name] : undefined;
      if (!outcome) return () => false;
      const low = outcome.at_least ?? -Infinity, high = outcome.at_most ?? Infinity; // a score is one more; 0 is none
      /** @param {number} row */
      const hit = (row) => { const score = (given[row] ?? 0) - 1; return score >= 0 && score >= low && score <= high; };
      switch (word) {
        case "yes": return hit;
        case "no": return (row) => (given[row] ?? 0) > 0 && !hit(row);
        case "judged": return (row) => (given[row] ?? 0) > 0;
        case "missing": return (row) => given[row] === 0;
        case "any": return () => true;
        default: return () => false;
      }
    }

    /** @param {Query} query @returns {Condition[]} */
    conditions(query) {
      const { axis, bits, why, standing } = this.scores, given = this.given(query);
      /** @type {Condition[]} */
      const found = [], outcome = query.one("outcome"), on = query.one("axis"), flag = query.one("flag");
      const low = query.number("low"), high = query.number("high");
      if (outcome) {
        found.push({ name: "outcome", test: this.about(outcome) });
        found.push({ name: "happened", test: this.read(outcome, query.one("happened", "yes"), given) });
      }
      if (on) { const code = axis.values.indexOf(on); found.push({ name: "axis", test: (row) => axis.codes[row] === code }); }
      if (low !== null) found.push({ name: "low", test: (row) => (given[row] ?? 0) > 0 && (given[row] ?? 0) - 1 >= low });
      if (high !== null) found.push({ name: "high", test: (row) => (given[row] ?? 0) > 0 && (given[row] ?? 0) - 1 <= high });
      for (const [name, column] of /** @type {[string, Coded][]} */ ([["why", why], ["standing", standing]])) {
        const wanted = query.all(name), kept = column.values.map((value) => value !== "" && wanted.includes(value));
        if (wanted.length) found.push({ name, test: (row) => kept[column.codes[row] ?? 0] ?? false });
      }
      if (flag) { const bit = (Object.hasOwn(FLAG, flag) && FLAG[flag]) || 0; found.push({ name: "flag", test: (row) => ((bits[row] ?? 0) & bit) !== 0 }); }
      if (query.one("single")) found.push({ name: "single", test: (row) => ((bits[row] ?? 0) & SINGLE) !== 0 && (given[row] ?? 0) > 0 });
      return found;
    }

    /** @param {Query} query */
    asksOfScores(query) { return query.names().some((name) => this.index.filters.score.includes(name)); }

    /** @param {number} row @param {Condition[]} conditions */
    hasMatch(row, conditions) {
      const { start } = this.scores;
      for (let at = start[row] ?? 0; at < (start[row + 1] ?? 0); at++) if (conditions.every((one) => one.test(at))) return true;
      return false;
    }

    /** The rows that fulfil everything, in the order that is asked for. @param {Query} query */
    kept(query) {
      const tests = query.names().filter((name) => this.index.filters.trial.includes(name)).map((name) => this.ofTrial(query, name));
      const conditions = this.conditions(query), asks = this.asksOfScores(query);
      /** @type {number[]} */
      const rows = [];
      for (let row = 0; row < this.total; row++) {
        if (tests.every((test) => test(row)) && (!asks || this.hasMatch(row, conditions))) rows.push(row);
      }
      const sort = query.one("sort");
      return sort && this.index.sorts.includes(sort) ? this.sorted(rows, conditions, sort, this.given(query)) : rows;
    }

    /** By the score, or how far judges are apart, on the axis in question; what has none comes last.
     * @param {number[]} rows @param {Condition[]} conditions @param {string} sort @param {Int32Array} given */
    sorted(rows, conditions, sort, given) {
      const { start, spread } = this.scores, sign = sort === "lowest" ? 1 : -1;
      const keyed = rows.map((row) => {
        let key = 0;
        for (let at = start[row] ?? 0; at < (start[row + 1] ?? 0); at++) {
          if (!conditions.every((one) => one.test(at))) continue;
          if (sort !== "apart") { key = given[at] ?? 0; break; }
          key = Math.max(key, spread[at] ?? 0);
        }
        return { row, key };
      });
      keyed.sort((a, b) => (!a.key || !b.key ? (a.key ? -1 : b.key ? 1 : 0) : sign * (a.key - b.key)));
      return keyed.map((one) => one.row);
    }

    /** @param {number[]} rows */
    persons(rows) {
      const codes = this.trials["person"]?.codes;
      return new Set(rows.map((row) => codes?.[row])).size;
    }

    /** Filter -> value -> how many trials there would be, with every other filter as it is. @param {Query} query @returns {Counts} */
    counts(query) {
      const names = [...this.index.filters.trial.filter((name) => !UNCOUNTED.includes(name))];
      const tests = query.names().filter((name) => this.index.filters.trial.includes(name)).map((name) => ({ name, test: this.ofTrial(query, name) }));
      const conditions = this.conditions(query), asks = this.asksOfScores(query);
      const tallies = new Map(names.map((name) => [name, new Int32Array(this.trials[name]?.values.length ?? 0)]));
      const scores = new ScoreCounts(this, query);
      /** @param {string} name @param {number} row */
      const add = (name, row) => { const tally = tallies.get(name), code = this.trials[name]?.codes[row] ?? 0; if (tally) tally[code] = (tally[code] ?? 0) + 1; };
      for (let row = 0; row < this.total; row++) {
        const failing = tests.filter((one) => !one.test(row));
        if (failing.length > 1) continue;
        if (!failing.length) scores.add(row, conditions);
        if (asks && !this.hasMatch(row, conditions)) continue;
        if (failing[0]) add(failing[0].name, row);
        else for (const name of names) add(name, row);
      }
      /** @type {Counts} */
      const found = scores.found();
      for (const [name, tally] of tallies) found[name] = counted(this.trials[name]?.values ?? [], tally);
      return found;
    }
  }

  /** @param {string[]} values @param {Int32Array} tally */
  function counted(values, tally) {
    return Object.fromEntries(values.map((value, code) => [value, tally[code] ?? 0]).filter(([value, count]) => value && count));
  }

  /** Counts each trial once a value. */
  class Tally {
    /** @param {string[]} values */
    constructor(values) {
      this.values = values;
      this.last = new Int32Array(values.length).fill(-1);
      this.count = new Int32Array(values.length);
    }
    /** @param {number} code @param {number} trial */
    add(code, trial) {
      if (this.last[code] === trial) return;
      this.last[code] = trial;
      this.count[code] = (this.count[code] ?? 0) + 1;
    }
    found() { return counted(this.values, this.count); }
  }

  class ScoreCounts {
    /** @param {Edits} edits @param {Query} query */
    constructor(edits, query) {
      const given = edits.given(query), word = query.one("happened", "yes"), outcome = query.one("outcome");
      const outcomes = Object.keys(edits.index.outcomes), words = outcome ? edits.index.filters.happened : [];
      this.scores = edits.scores;
      this.bits = Object.values(FLAG);
      this.outcomes = outcomes.map((name) => ({ about: edits.about(name), read: edits.read(name, word, given) }));
      this.about = edits.about(outcome);
      this.words = words.map((name) => edits.read(outcome, name, given));
      const { axis, why, standing } = edits.scores;
      /** @type {Record<string, Tally>} */
      this.tallies = {
        flag: new Tally(Object.keys(FLAG)), axis: new Tally(axis.values), outcome: new Tally(outcomes),
        happened: new Tally(words), why: new Tally(why.values), standing: new Tally(standing.values),
      };
      this.names = Object.keys(this.tallies);
    }

    /** A score counts for a filter where it fails no other one. @param {number} trial @param {Condition[]} conditions */
    add(trial, conditions) {
      const { start } = this.scores;
      for (let at = start[trial] ?? 0; at < (start[trial + 1] ?? 0); at++) {
        let failing = 0, first = "", second = "";
        for (const one of conditions) {
          if (one.test(at)) continue;
          if (++failing === 1) first = one.name;
          else if (failing === 2) second = one.name;
          else break;
        }
        if (failing === 0) for (const name of this.names) this.note(name, at, trial);
        else if (failing === 1 && first in this.tallies) this.note(first, at, trial);
        if ((failing === 1 && first === "happened") || (failing === 2 && first === "outcome" && second === "happened")) this.note("outcome", at, trial);
      }
    }

    /** @param {string} name @param {number} at @param {number} trial */
    note(name, at, trial) {
      const { axis, why, standing, bits } = this.scores, tally = this.tallies[name];
      if (!tally) return;
      if (name === "flag") this.bits.forEach((bit, code) => { if ((bits[at] ?? 0) & bit) tally.add(code, trial); });
      else if (name === "outcome") this.outcomes.forEach((one, code) => { if (one.about(at) && one.read(at)) tally.add(code, trial); });
      else if (name === "happened") { if (this.about(at)) this.words.forEach((read, code) => { if (read(at)) tally.add(code, trial); }); }
      else tally.add((name === "axis" ? axis : name === "why" ? why : standing).codes[at] ?? 0, trial);
    }

    found() { return Object.fromEntries(Object.entries(this.tallies).map(([name, tally]) => [name, tally.found()])); }
  }

  // Elements: whatever is put in is text

  /** @typedef {Node | string | null | undefined | false} Content */

  /** @param {string} tag @param {Record<string, string | number | boolean | null>} about @param {Content[]} inside @returns {HTMLElement} */
  function el(tag, about = {}, ...inside) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(about)) {
      if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null) made.setAttribute(name, String(value));
    }
    made.append(.../** @type {(Node | string)[]} */ (inside.filter((one) => one !== null && one !== undefined && one !== false)));
    return made;
  }

  /** @param {string} id @returns {HTMLElement} */
  function by(id) {
    const found = document.getElementById(id);
    if (!found) throw new Error(`no element ${id}`);
    return found;
  }

  const number = new Intl.NumberFormat("en");
  /** @param {number} count @param {string} one @param {string} many */
  const plural = (count, one, many) => `${number.format(count)} ${count === 1 ? one : many}`;

  // Files that are loaded when they are asked for

  /** @type {Map<string, { promise: Promise<unknown>, done: (data: unknown) => void }>} */
  const files = new Map();
  const KEPT = 24; // files that are kept in memory

  /** @param {string} name @returns {Promise<any>} */
  function load(name) {
    const known = files.get(name);
    if (known) return known.promise;
    /** @type {(data: unknown) => void} */
    let done = () => {};
    const promise = new Promise((resolve, reject) => {
      const script = document.createElement("script");
      done = (data) => { script.remove(); resolve(data); };
      script.src = `data/${name}`;
      script.onerror = () => { script.remove(); files.delete(name); reject(new Error(`The file data/${name} is not beside this page.`)); };
      document.head.append(script);
    });
    files.set(name, { promise, done });
    if (files.size > KEPT) { const oldest = files.keys().next().value; if (oldest !== undefined) files.delete(oldest); }
    return promise;
  }

  /** @param {string} name @param {unknown} data */
  function loaded(name, data) { files.get(name)?.done(data); }

  // The page

  class Page {
    /** @param {Edits} edits */
    constructor(edits) {
      this.edits = edits;
      this.index = edits.index;
      this.query = edits.query("");
      this.asked = " "; // the query that `rows` answer
      /** @type {number[]} */
      this.rows = [];
      this.page = 1;
      this.at = 0; // the card that keys are about
      this.turned = 0; // counts what was opened: what comes late for another sample is not shown
      /** @type {Map<string, Map<string, string>>} */
      this.labels = new Map(Object.entries(this.index.labels).map(([name, pairs]) => [name, new Map(pairs)]));
      this.wall = new Wall(by("grid"), (place) => this.card(place));
      this.scrolls = 0; // where the grid was left
      this.listen();
      for (const note of this.index.notes) by("notes").append(el("p", { class: "notice" }, note));
      this.route();
    }

    /** @param {string} name @param {string} value */
    label(name, value) {
      if (name === "text" || name === "low" || name === "high") return value;
      if (name === "person" || name === "trial") return `${value.slice(0, 8)}…`;
      return this.labels.get(name)?.get(value) ?? value.replaceAll("_", " ");
    }
    /** @param {string} name */
    title(name) { return this.index.titles[name] ?? name; }

    // Where we are: the words after #

    route() {
      const text = location.hash.slice(1), params = new URLSearchParams(text);
      this.query = this.edits.query(text);
      this.page = Math.max(1, Number.parseInt(params.get("page") ?? "1", 10) || 1);
      const asked = this.query.text();
      if (asked !== this.asked) {
        this.rows = this.edits.kept(this.query.without("text"));
        this.asked = asked;
        this.stale = true;
      }
      const show = params.get("show") ?? "", row = show ? this.edits.row(show) : -1, place = this.rows.indexOf(row);
      if (place >= 0) this.page = Math.floor(place / PAGE) + 1; // where the grid has it
      if (row >= 0) this.showSample(row); else this.showGrid(show !== "");
    }

    /** @param {Query} query */
    go(query) { location.hash = query.text(); }
    /** @param {number} row */
    address(row) { return `#${this.query.text({ show: this.edits.key(row) })}`; }
    grid() { return `#${this.query.text(this.page > 1 ? { page: String(this.page) } : {})}`; }

    // The grid

    /** @param {boolean} unknown whether an edit was asked for that is not here */
    showGrid(unknown) {
      const from = this.opened;
      this.opened = undefined;
      this.turned++;
      by("sample").hidden = true;
      by("sample").replaceChildren();
      by("desk").hidden = false;
      if (this.stale) { this.facets(); this.chips(); this.stale = false; this.at = 0; this.scrolls = 0; }
      this.heading();
      const ignored = this.query.all("text").length ? "The filter “Written by judges” is only in the review tool (stillme review); it is left out here." : "";
      const missing = unknown ? "There is no such edit in this run." : "";
      by("unknown").hidden = !(ignored || missing);
      by("unknown").textContent = missing || ignored;
      by("nothing").hidden = this.rows.length > 0;
      const pages = Math.max(1, Math.ceil(this.rows.length / PAGE));
      this.page = Math.min(this.page, pages);
      this.turn(pages);
      this.wall.show(Math.min(PAGE, this.rows.length - (this.page - 1) * PAGE));
      if (from !== undefined) this.comeBack(from);
    }

    /** @param {number} from the row of the sample that was open */
    comeBack(from) {
      scrollTo(0, this.scrolls);
      const place = this.rows.indexOf(from) - (this.page - 1) * PAGE;
      if (place >= 0 && place < this.wall.total) { this.at = place; this.wall.focus(place); }
    }

    heading() {
      const { rows } = this, every = this.edits.total, persons = plural(this.edits.persons(rows), "person", "persons");
      const count = plural(rows.length, "edit", "edits");
      by("count").replaceChildren(`${count} `, el("small", {}, `of ${persons}${rows.length === every ? "" : `; ${number.format(every)} edits in all`}`));
      by("status").textContent = count;
      document.title = `${count} · ${this.index.name}`;
    }

    /** @param {number} pages */
    turn(pages) {
      const list = el("ul"), where = `page ${number.format(this.page)} of ${number.format(pages)}`;
      /** @param {string} text @param {number} page */
      const link = (text, page) => el("li", {}, el("a", { class: "button", href: `#${this.query.text(page > 1 ? { page: String(page) } : {})}` }, text));
      if (this.page > 1) list.append(link("Previous page", this.page - 1));
      list.append(el("li", { class: "where" }, where));
      if (this.page < pages) list.append(link("Next page", this.page + 1));
      by("pages").replaceChildren(...(pages > 1 ? [el("nav", { "aria-label": "Pages of edits" }, list)] : []));
    }

    chips() {
      const set = this.query.chosen.filter(([name]) => name !== "sort");
      const made = set.map(([name, value]) => el("li", {}, el("a", { class: "button", href: `#${this.query.without(name, value).text()}` },
        el("span", {}, `${this.title(name)}: `, el("strong", {}, this.label(name, value))), el("span", { "aria-hidden": "true" }, "×"),
        el("span", { class: "unseen" }, " take this filter away"))));
      if (made.length > 1) made.push(el("li", {}, el("a", { class: "button", href: "#" }, "Take all away")));
      by("chips").replaceChildren(...made);
      by("chips").hidden = !made.length;
    }

    /** @param {number} place on the page @returns {HTMLElement} */
    card(place) {
      const row = this.rows[(this.page - 1) * PAGE + place] ?? 0, { edits } = this, { places } = edits;
      const groups = this.index.dimensions.map((name) => [name, edits.value(name, row)]).filter(([, value]) => value);
      const arm = edits.value("arm", row), usual = arm === this.index.main[1];
      const sides = el("span", { class: "sides" }, this.small(places.source[row] ?? 0, "Source", "source"));
      if (places.partner[row]) sides.append(this.small(places.partner[row] ?? 0, "Second source", ""));
      sides.append(this.small(places.image[row] ?? 0, "Edit", edits.value("status", row)));
      const lines = [
        el("strong", {}, this.label("prompt", edits.value("prompt", row))),
        el("span", {}, `${this.label("editor", edits.value("editor", row))}${usual ? "" : ` · ${this.label("arm", arm)}`}`),
        el("span", { class: "muted" }, groups.map(([name, value]) => this.label(name ?? "", value ?? "")).join(", ")),
        el("span", {}, ...this.marks(row)),
      ];
      const total = this.wall.total;
      return el("li", { "aria-setsize": total, "aria-posinset": place + 1 },
        el("a", { class: "card", href: this.address(row), "data-place": place, "data-trial": edits.key(row) }, sides, el("span", { class: "caption" }, ...lines)));
    }

    /** @param {number} place @param {string} alt @param {string} status */
    small(place, alt, status) {
      const name = this.index.pictures[place - 1];
      if (name) return el("span", { class: "surround" }, el("img", { src: thumb(name), alt, loading: "lazy", decoding: "async", width: 192, height: 192 }));
      return el("span", { class: "surround none" }, status === "ok" || status === "source" ? `${alt}: not shown` : this.label("status", status));
    }

    /** The scores on the axis that is asked about, and what a person should know before opening it. @param {number} row */
    marks(row) {
      const { scores } = this.edits, { start, axis, bits, why } = scores, given = this.edits.given(this.query);
      const outcome = this.query.one("outcome"), asked = [this.query.one("axis"), Object.hasOwn(this.index.outcomes, outcome) ? this.index.outcomes[outcome]?.axis ?? "" : ""];
      /** @type {Record<string, number>} */
      const marked = { open: 0, adjudicated: 0, contested: 0 };
      /** @type {(Node | string)[]} */
      const found = [];
      for (let at = start[row] ?? 0; at < (start[row + 1] ?? 0); at++) {
        const id = axis.values[axis.codes[at] ?? 0] ?? "", score = (given[at] ?? 0) - 1;
        for (const name of Object.keys(marked)) if ((bits[at] ?? 0) & (FLAG[name] ?? 0)) marked[name] = (marked[name] ?? 0) + 1;
        if (asked.includes(id)) found.push(`${this.label("axis", id)}: `, el("strong", {}, score < 0 ? this.label("why", why.values[why.codes[at] ?? 0] ?? "") : String(score)), " ");
      }
      for (const [name, shape, said] of [["open", "◆", "open"], ["adjudicated", "◇", "decided"], ["contested", "≠", "contested"]]) {
        const count = marked[name ?? ""];
        if (count) found.push(el("span", { class: "mark" }, el("span", { "aria-hidden": "true" }, shape), ` ${count} ${said}`));
      }
      return found;
    }

    // Filters

    facets() {
      const counts = this.edits.counts(this.query.without("text")), held = document.activeElement;
      const focused = held instanceof HTMLInputElement && by("facets").contains(held) ? [held.name, held.value] : null;
      const folded = new Map([...by("facets").querySelectorAll("details")].map((one) => [one.dataset["name"] ?? "", one.open]));
      by("facets").replaceChildren(...this.index.facets.flatMap((name) => this.facet(name, counts[name] ?? {}, folded) ?? []));
      if (focused) for (const field of by("facets").querySelectorAll("input")) if (field.name === focused[0] && field.value === focused[1]) field.focus();
      this.choices(counts);
    }

    /** @param {string} name @param {Record<string, number>} counts @param {Map<string, boolean>} folded */
    facet(name, counts, folded) {
      const chosen = this.query.all(name), single = this.index.one.includes(name);
      const values = this.ordered(name, counts, chosen);
      if (!values.length || (values.length < 2 && !chosen.length && !OPEN.includes(name))) return null;
      const usual = name === "happened" && !chosen.length ? "yes" : "";
      const open = folded.get(name) ?? (OPEN.includes(name) || chosen.length > 0 || name === "happened");
      const inside = el("fieldset", {}, el("legend", { class: "unseen" }, this.title(name)));
      if (single && name !== "happened") inside.append(choice(name, "radio", "", "any", null, !chosen.length));
      for (const [value, label] of values) inside.append(choice(name, single ? "radio" : "checkbox", value, label, counts[value] ?? 0, chosen.includes(value) || value === usual));
      return el("details", { class: "facet", "data-name": name, open },
        el("summary", {}, this.title(name), chosen.length ? el("span", { class: "set" }, `${chosen.length} set`) : null), inside);
    }

    /** Values in the protocol's order. @param {string} name @param {Record<string, number>} counts @param {string[]} always @returns {[string, string][]} */
    ordered(name, counts, always) {
      const known = this.index.labels[name] ?? [], rest = always.filter((value) => !known.some((pair) => pair[0] === value));
      /** @type {[string, string][]} */
      const unknown = rest.map((value) => [value, this.label(name, value)]);
      return [...known.filter(([value]) => counts[value] || always.includes(value)), ...unknown];
    }

    /** @param {Counts} counts */
    choices(counts) {
      const axes = this.ordered("axis", counts["axis"] ?? {}, this.query.all("axis"));
      fill("axis", [["", "any"], ...axes.map(([id, label]) => /** @type {[string, string]} */ ([id, `${label} (${number.format(counts["axis"]?.[id] ?? 0)})`]))], this.query.one("axis"));
      /** @type {[string, string][]} */
      const points = [["", "any"], ["1", "1"], ["2", "2"], ["3", "3"], ["4", "4"], ["5", "5"]];
      for (const name of ["low", "high"]) fill(name, points, this.query.one(name));
      fill("sort", this.index.labels["sort"] ?? [], this.query.one("sort"));
      const { rounding: usual, score } = this.index.scores, mode = this.query.one("rounding"), isOther = mode !== usual && Object.hasOwn(score, mode);
      fill("rounding", (this.index.labels["rounding"] ?? []).map(([one, label]) => one === usual ? ["", `${label} (the audit’s)`] : [one, label]), isOther ? mode : "");
    }

    filter() {
      const form = /** @type {HTMLFormElement} */ (by("filters"));
      /** @type {[string, string][]} */
      const chosen = this.query.chosen.filter(([name]) => ["single", "person", "trial"].includes(name));
      for (const [name, value] of new FormData(form)) if (value && !(name === "happened" && value === "yes")) chosen.push([name, String(value)]);
      const asked = chosen.some(([name]) => name === "outcome") ? chosen : chosen.filter(([name]) => name !== "happened");
      this.go(this.edits.query(new URLSearchParams(asked).toString()));
    }

    // One edit

    /** @param {number} row */
    showSample(row) {
      if (this.opened === undefined && !by("desk").hidden) this.scrolls = scrollY;
      this.opened = row;
      const turned = ++this.turned;
      by("desk").hidden = true;
      by("unknown").hidden = true;
      const size = this.index.sizes.records, sheet = by("sample");
      sheet.hidden = false;
      document.title = `${this.label("prompt", this.edits.value("prompt", row))} · ${this.label("editor", this.edits.value("editor", row))} · ${this.index.name}`;
      load(`records/${Math.floor(row / size)}.js`).then((/** @type {Told[]} */ told) => {
        const found = told[row % size];
        if (turned !== this.turned || !found) return;
        sheet.replaceChildren(...new Sample(this, row, found).parts());
        scrollTo(0, 0);
        sheet.querySelector("h1")?.focus();
        by("status").textContent = document.title;
      }, (/** @type {Error} */ error) => {
        if (turned === this.turned) sheet.replaceChildren(el("p", { class: "notice" }, error.message), el("p", {}, el("a", { class: "button", href: this.grid() }, "Grid")));
      });
    }

    /** @param {number} row @param {number} step */
    neighbour(row, step) {
      const at = this.rows.indexOf(row), { length } = this.rows;
      if (at >= 0) return length < 2 ? null : this.rows[(at + step + length) % length] ?? null;
      return this.rows[step > 0 ? 0 : length - 1] ?? null;
    }

    // Keys

    listen() {
      addEventListener("hashchange", () => this.route());
      by("filters").addEventListener("change", () => this.filter());
      by("filters").addEventListener("submit", (event) => event.preventDefault());
      document.querySelector(".skip")?.addEventListener("click", (event) => { event.preventDefault(); by("main").focus(); });
      const help = /** @type {HTMLDialogElement} */ (by("help")), on = /** @type {HTMLInputElement} */ (by("keys-on"));
      by("open-help").addEventListener("click", () => help.showModal());
      by("close-help").addEventListener("click", () => help.close());
      on.checked = keysOn();
      on.addEventListener("change", () => { try { localStorage.setItem("stillme:keys", on.checked ? "on" : "off"); } catch { /* then not */ } });
      addEventListener("keydown", (event) => this.keyed(event));
      if (innerWidth < 832) /** @type {HTMLDetailsElement} */ (by("whole")).open = false;
    }

    /** @param {KeyboardEvent} event */
    keyed(event) {
      const help = /** @type {HTMLDialogElement} */ (by("help")), target = event.target instanceof Element ? event.target : document.body;
      if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || help.open || !(event.key === "Escape" || keysOn())) return;
      if (event.key !== "Escape" && target.matches("select, textarea, input:not([type=checkbox]):not([type=radio])")) return;
      if (event.key.startsWith("Arrow") && target.matches("input, summary, .scroll, pre")) return;
      const act = this.opened === undefined ? this.inGrid(event.key) : this.inSample(event.key, this.opened);
      const found = act ?? { "?": () => help.showModal(), "/": () => this.toFilters() }[event.key];
      if (found) { event.preventDefault(); found(); }
    }

    /** @param {string} key @returns {(() => void) | undefined} */
    inGrid(key) {
      const { columns } = this.wall, step = { j: 1, k: -1, ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[key];
      if (step === undefined || !this.wall.total) return undefined;
      return () => {
        const held = document.activeElement, from = held instanceof HTMLElement && held.dataset["place"] !== undefined ? Number(held.dataset["place"]) : null;
        this.at = from === null ? this.wall.first() : Math.max(0, Math.min(this.wall.total - 1, from + step));
        this.wall.focus(this.at);
      };
    }

    /** @param {string} key @param {number} row @returns {(() => void) | undefined} */
    inSample(key, row) {
      const step = { j: 1, k: -1, n: 1, p: -1, ArrowRight: 1, ArrowLeft: -1 }[key];
      if (step !== undefined) return () => { const found = this.neighbour(row, step); if (found !== null) location.hash = this.address(found); };
      if (key === "Escape" || key === "g") return () => { location.hash = this.grid(); };
      if (key === "r") return () => { const raw = document.getElementById("raw"); if (raw instanceof HTMLDetailsElement) { raw.open = true; raw.querySelector("summary")?.focus(); } };
      return undefined;
    }

    toFilters() {
      if (this.opened !== undefined) { location.hash = this.grid(); setTimeout(() => this.toFilters(), 50); return; }
      const whole = /** @type {HTMLDetailsElement} */ (by("whole"));
      whole.open = true;
      whole.querySelector("summary")?.focus();
    }
  }

  function keysOn() { try { return localStorage.getItem("stillme:keys") !== "off"; } catch { return true; } }
  /** @param {string} name */
  function thumb(name) { return `thumbs/${name.slice(0, 2)}/${name.slice(0, NAME)}.webp`; }

  /** @param {string} name @param {string} type @param {string} value @param {string} label @param {number | null} count @param {boolean} checked */
  function choice(name, type, value, label, count, checked) {
    return el("label", { class: "choice" }, el("input", { type, name, value, checked }), el("span", {}, label), count === null ? null : el("span", { class: "count" }, number.format(count)));
  }

  /** @param {string} id @param {[string, string][]} options @param {string} chosen */
  function fill(id, options, chosen) {
    by(id).replaceChildren(...options.map(([value, label]) => el("option", { value, selected: value === chosen }, label)));
  }

  // A wall of cards of which only those near the screen exist

  class Wall {
    /** @param {HTMLElement} list @param {(place: number) => HTMLElement} make */
    constructor(list, make) {
      this.list = list;
      this.make = make;
      this.total = 0;
      this.columns = 1;
      this.width = 0;
      this.height = 1;
      /** @type {Map<number, HTMLElement>} */
      this.cards = new Map();
      let waiting = false;
      const soon = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; this.draw(); }); } };
      addEventListener("scroll", soon, { passive: true });
      new ResizeObserver(() => { this.measure(); soon(); }).observe(list);
    }

    /** @param {number} total */
    show(total) {
      this.total = Math.max(0, total);
      for (const card of this.cards.values()) card.remove();
      this.cards.clear();
      this.width = 0;
      this.measure();
      this.draw();
    }

    measure() {
      const width = this.list.clientWidth;
      if (!width || width === this.width) return;
      this.width = width;
      const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
      this.columns = Math.max(1, Math.floor((width + GAP) / (NARROWEST + GAP)));
      this.side = (width - GAP * (this.columns - 1)) / this.columns;
      this.height = Math.round((this.side - 12) / 2 + 5.5 * rem + 10) + GAP;
      this.list.style.height = `${Math.ceil(this.total / this.columns) * this.height}px`;
      for (const [place, card] of this.cards) this.put(place, card);
    }

    /** @param {number} place @param {HTMLElement} card */
    put(place, card) {
      const column = place % this.columns, row = Math.floor(place / this.columns);
      card.style.width = `${this.side}px`;
      card.style.height = `${this.height - GAP}px`;
      card.style.transform = `translate(${column * ((this.side ?? 0) + GAP)}px, ${row * this.height}px)`;
    }

    /** The first place that can be seen whole. */
    first() {
      const above = Math.max(0, -this.list.getBoundingClientRect().top);
      return Math.min(this.total - 1, Math.ceil(above / this.height) * this.columns);
    }

    draw() {
      if (!this.list.offsetParent || !this.total) return;
      const top = -this.list.getBoundingClientRect().top, near = innerHeight * 0.75;
      const from = Math.max(0, Math.floor((top - near) / this.height)) * this.columns;
      const to = Math.min(this.total, Math.ceil((top + innerHeight + near) / this.height) * this.columns);
      for (const [place, card] of this.cards) {
        if ((place < from || place >= to) && !card.contains(document.activeElement)) { card.remove(); this.cards.delete(place); }
      }
      for (let place = from; place < to; place++) if (!this.cards.has(place)) this.add(place);
    }

    /** In the order of places, so that keys and readers go through them in turn. @param {number} place */
    add(place) {
      const card = this.make(place), after = [...this.cards.keys()].filter((one) => one > place);
      this.put(place, card);
      this.list.insertBefore(card, after.length ? this.cards.get(Math.min(...after)) ?? null : null);
      this.cards.set(place, card);
    }

    /** @param {number} place */
    focus(place) {
      const bar = document.querySelector("header")?.offsetHeight ?? 0, top = this.list.getBoundingClientRect().top + Math.floor(place / this.columns) * this.height;
      if (top < bar + 4) scrollBy(0, top - bar - 8);
      else if (top + this.height > innerHeight) scrollBy(0, top + this.height - innerHeight + 8);
      this.draw();
      if (!this.cards.has(place)) this.add(place);
      this.cards.get(place)?.querySelector("a")?.focus({ preventScroll: true });
    }
  }

  // One edit: everything that is known of it

  class Sample {
    /** @param {Page} page @param {number} row @param {Told} told */
    constructor(page, row, told) {
      this.page = page;
      this.row = row;
      this.told = told;
      this.edits = page.edits;
      this.index = page.index;
    }

    parts() {
      return [this.heading(), this.looking(), this.scores(), this.opinions(), this.measured(), this.raw()].filter((one) => one !== null);
    }

    /** @param {string} name */
    value(name) { return this.edits.value(name, this.row); }
    /** @param {string} name */
    words(name) { return this.page.label(name, this.value(name)); }

    heading() {
      const { page, row } = this, place = page.rows.indexOf(row), total = number.format(page.rows.length);
      const before = page.neighbour(row, -1), after = page.neighbour(row, 1);
      const where = place < 0 ? `Not among the ${total} that are filtered for` : `${number.format(place + 1)} of ${total}`;
      const set = page.query.chosen.filter(([name]) => name !== "sort").map(([name, value]) => ` · ${page.title(name)}: ${page.label(name, value)}`);
      /** @param {string} text @param {string} key @param {string} href @param {string} id */
      const move = (text, key, href, id) => el("li", {}, el("a", { class: "button", href, id }, `${text} `, el("kbd", {}, key)));
      return el("div", { class: "heading" },
        el("div", {}, el("h1", { tabindex: -1 }, `${this.words("prompt")} `, el("small", {}, this.words("editor"))), el("p", { class: "muted" }, where, ...set)),
        el("nav", { class: "moves", "aria-label": "Moving" }, el("ul", {}, move("Grid", "g", page.grid(), "back"),
          before === null ? null : move("Previous", "k", page.address(before), "previous"), after === null ? null : move("Next", "j", page.address(after), "next"))));
    }

    looking() {
      const { places } = this.edits, pictures = el("div", { class: "large" }, this.side(places.source[this.row] ?? 0, "Source", ""));
      if (places.partner[this.row]) pictures.append(this.side(places.partner[this.row] ?? 0, "Second source", ""));
      const made = this.value("status") === "ok";
      pictures.append(this.side(places.image[this.row] ?? 0, made ? "Edit" : "No edit", made ? "" : this.words("status")));
      return el("div", { class: "looking" }, pictures, this.asked());
    }

    /** @param {number} place @param {string} title @param {string} why there is no picture */
    side(place, title, why) {
      const name = this.index.pictures[place - 1], inside = el("span", { class: name ? "surround" : "surround none" });
      if (!name) inside.append(why || "The picture is left out");
      else {
        const image = /** @type {HTMLImageElement} */ (el("img", { alt: title, decoding: "async" }));
        const small = thumb(name), whole = this.index.originals ? `${this.index.originals}${name.slice(0, 2)}/${name}` : small;
        image.addEventListener("error", () => { if (image.getAttribute("src") !== small) image.src = small; });
        image.src = whole;
        inside.append(image);
      }
      return el("figure", { class: "side" }, inside, el("figcaption", {}, title));
    }

    asked() {
      const { told, page } = this, person = this.value("person");
      /** @type {[string, string][]} */
      const facts = [["Editor", this.words("editor")], ["Prompt", this.words("prompt")], ["Experiment", this.words("experiment")], ["Arm", this.words("arm")]];
      for (const name of this.index.dimensions) if (this.value(name)) facts.push([page.title(name), this.words(name)]);
      facts.push(...told.facts);
      if (this.value("status") !== "ok") facts.push(["How the edit ended", `${this.words("status")}${told.detail ? `: ${told.detail}` : ""}`]);
      facts.push(["Trial", this.edits.key(this.row)]);
      return el("div", { class: "told" }, el("h2", {}, "What was asked"),
        el("p", { class: "quote" }, told.lead ? el("span", { class: "lead" }, told.lead) : null, told.lead ? " " : null, told.text),
        told.lead ? el("p", { class: "muted small" }, "The first part is what the arm puts before the prompt.") : null,
        el("dl", { class: "facts" }, ...facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
        el("p", { class: "muted small" }, "Groups are how annotators perceived the person. ", el("a", { class: "inline", href: `#${new URLSearchParams({ person })}` }, "All edits of this portrait")));
    }

    scores() {
      const { start, axis, standing, why, bits } = this.edits.scores, given = this.edits.given(this.page.query), { page } = this;
      const listed = this.told.scores, first = start[this.row] ?? 0;
      if (!listed.length) return null;
      const judges = this.told.opinions.map((one) => this.index.judges[one[0]] ?? "");
      const head = el("tr", {}, ...["Axis", ...judges, "What holds", "How it came to be"].map((name) => el("th", { scope: "col" }, name)));
      const lines = listed.map(([id, scores, mean, decisions], place) => {
        const at = first + place, bit = bits[at] ?? 0, score = (given[at] ?? 0) - 1, about = this.index.axes[axis.values[axis.codes[at] ?? 0] ?? id];
        const held = score < 0 ? page.label("why", why.values[why.codes[at] ?? 0] ?? "") : about?.scale[String(score)] ?? "";
        const open = (bit & (FLAG["open"] ?? 0)) !== 0;
        return el("tr", {}, el("th", { scope: "row" }, about?.label ?? id, bit & REQUESTED ? el("small", {}, " asked for") : null),
          ...scores.map((one, judge) => typeof one === "number" ? el("td", {}, el("strong", {}, String(one)), " ", el("small", {}, about?.scale[String(one)] ?? ""))
            : el("td", {}, el("small", {}, one ? page.label("why", one) : this.told.opinions[judge]?.[1] || "no score"))),
          el("td", { class: "held" }, score < 0 ? null : el("strong", {}, String(score)), " ", el("small", {}, `${held}${mean === null || mean === score ? "" : ` (mean ${mean})`}`)),
          el("td", {}, page.label("standing", standing.values[standing.codes[at] ?? 0] ?? ""),
            bit & (FLAG["flagged"] ?? 0) ? el("span", { class: "mark" }, el("span", { "aria-hidden": "true" }, open ? "◆" : "◇"), open ? " flag open" : " flag closed") : null,
            ...decisions.map(([at_, who, said, withdrawn, because]) => el("p", { class: "small" }, `${at_} ${who}: ${withdrawn ? "took it back" : said === null ? "cannot tell" : said}. ${because}`))));
      });
      return section("Scores", el("div", { class: "scroll", role: "region", "aria-label": "Table of scores", tabindex: 0 },
        el("table", {}, el("caption", { class: "unseen" }, "Scores by axis: each judge’s, and what holds"), el("thead", {}, head), el("tbody", {}, ...lines))));
    }

    opinions() {
      const made = this.told.opinions.map(([judge, status, evidence, people, seen]) => {
        const name = this.index.judges[judge] ?? "";
        return el("article", { "aria-label": name }, el("h3", {}, name, status ? el("small", {}, ` ${status}`) : null), evidence ? el("p", { class: "verbatim" }, evidence) : null,
          people.length ? el("ol", { class: "people" }, ...people.map(([role, gender, note]) => el("li", {}, el("strong", {}, role), `, gender presentation ${gender === null ? "unclear" : `${gender} (1 masculine to 5 feminine)`}${note ? `: ${note}` : ""}`))) : null,
          seen.length ? el("dl", { class: "seen" }, ...seen.flatMap(([name_, text]) => [el("dt", {}, name_), el("dd", { class: "verbatim" }, text)])) : null);
      });
      return made.length ? section("What judges wrote", el("div", { class: "opinions" }, ...made)) : null;
    }

    measured() {
      const lines = this.told.measured.flatMap(([status, figures], at) => {
        const [, kind, names] = this.index.measures[at] ?? ["", "", []];
        const shown = figures.map((value, place) => ({ value, name: names[place]?.[0] ?? "", what: names[place]?.[1] ?? "" })).filter((one) => one.value);
        if (!shown.length) return [el("tr", {}, el("th", { scope: "row" }, kind), el("td", { colspan: 3 }, status || "no figure"))];
        return shown.map((one) => el("tr", {}, el("th", { scope: "row" }, kind), el("td", {}, one.name), el("td", { class: "n" }, one.value), el("td", {}, el("small", {}, one.what))));
      });
      if (!lines.length) return null;
      const head = el("tr", {}, ...["Measure", "Figure", "Value", "What it is"].map((name) => el("th", { scope: "col", class: name === "Value" ? "n" : "" }, name)));
      return section("Measured", el("details", {}, el("summary", {}, `What instruments read off the two pictures (${plural(lines.length, "figure", "figures")})`),
        el("div", { class: "scroll", role: "region", "aria-label": "Table of measurements", tabindex: 0 },
          el("table", {}, el("caption", { class: "unseen" }, "What instruments read off the two pictures"), el("thead", {}, head), el("tbody", {}, ...lines)))));
    }

    // The raw exchange

    raw() {
      const box = el("div", { class: "exchange" }, el("p", { class: "muted" }, "Loading …")), fold = el("details", { id: "raw" }, el("summary", {}, "Requests and answers as the ledger keeps them"), box);
      let asked = false;
      fold.addEventListener("toggle", () => {
        if (asked || !(/** @type {HTMLDetailsElement} */ (fold)).open) return;
        asked = true;
        const size = this.index.sizes.exchanges;
        load(`exchanges/${Math.floor(this.row / size)}.js`).then((/** @type {Exchanges} */ found) => {
          const one = found.trials[this.row % size];
          box.replaceChildren(...(one ? this.exchange(one, found.questions) : [el("p", {}, "The raw exchange of this edit is left out of this bundle; the run’s ledger has it.")]));
        }, (/** @type {Error} */ error) => { asked = false; box.replaceChildren(el("p", { class: "notice" }, error.message)); });
      });
      return section("Raw exchange", fold);
    }

    /** @param {Exchange} one @param {string[]} questions */
    exchange(one, questions) {
      const shared = new Map(this.index.shared), settings = shared.get(one.settings) ?? "", made = shared.get(one.made) ?? "";
      const editor = this.words("editor");
      const parts = [el("h3", {}, `Editor: ${editor}`), text("Instruction as it was sent", one.instruction), text(`Settings, seed ${one.seed}`, settings)];
      if (made) parts.push(text("Circumstances", made));
      for (const [name, said] of one.notes) parts.push(text(name, said));
      parts.push(...calls(one.edit, editor));
      for (const [judge, question, made_] of one.judges) {
        const name = this.index.judges[judge] ?? "";
        parts.push(el("h3", {}, `Judge: ${name}`));
        if (question !== null) parts.push(text("Request as it was sent, but for the pictures", questions[question] ?? ""));
        parts.push(...calls(made_, name));
      }
      return parts;
    }
  }

  /** @param {string} title @param {Content[]} inside */
  function section(title, ...inside) {
    const id = `part-${title.toLowerCase().replaceAll(" ", "-")}`;
    return el("section", { "aria-labelledby": id }, el("h2", { id }, title), ...inside);
  }

  let texts = 0;
  /** @param {string} title @param {string} content */
  function text(title, content) {
    if (!content) return el("p", { class: "small muted" }, `${title}: nothing is kept.`);
    const id = `text-${++texts}`;
    return el("div", {}, el("p", { class: "small", id }, title), el("pre", { tabindex: 0, role: "region", "aria-labelledby": id }, content));
  }

  /** @param {Call[]} listed @param {string} whose */
  function calls(listed, whose) {
    if (!listed.length) return [el("p", { class: "muted small" }, "No call is noted.")];
    return listed.flatMap(([status, started, seconds, cost, http, code, request, usage, detail, raw], place) => {
      const told = [started, `${seconds.toFixed(2)} s`, `${cost.toFixed(4)} USD`, http ? `HTTP ${http}` : "", code, request, ...usage.map(([name, count]) => `${name} ${number.format(count)}`)];
      return [el("p", { class: "small" }, el("strong", {}, status), ...told.filter((one) => one).map((one) => ` · ${one}`)), detail ? el("p", { class: "small verbatim" }, detail) : null,
        raw ? text(`Answer ${place + 1} of ${whose} as it came`, raw) : el("p", { class: "small muted" }, "No answer text is kept.")].filter((one) => one !== null);
    });
  }

  /** @type {Edits | null} */
  let edits = null;

  return {
    /** @param {Index} content */
    index(content) { edits = new Edits(content); new Page(edits); },
    loaded,
    /** The trials that a query selects, by their keys: what a test asks. @param {string} query */
    select(query) { const all = edits; return all ? all.kept(all.query(query)).map((row) => all.key(row)) : []; },
    /** @param {string} query */
    counts(query) { return edits ? edits.counts(edits.query(query)) : {}; },
  };
})();
