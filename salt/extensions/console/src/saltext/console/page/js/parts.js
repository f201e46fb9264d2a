// Parts that all pages share.

import { Component, h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import htm from "htm";
import { expired } from "./api.js";

export const html = htm.bind(h);
const LONGEST = 2000;

/** Text of any value, short enough to draw, with the characters that control a terminal or the direction of text made visible. */
export function text(value) {
  if (value === null || value === undefined) return "";
  const whole = typeof value === "string" ? value : typeof value === "object" ? JSON.stringify(value) : String(value);
  const cut = whole.length > LONGEST ? `${whole.slice(0, LONGEST)}… (${whole.length.toLocaleString("en")} characters)` : whole;
  // eslint-disable-next-line no-control-regex
  return cut.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function count(number, what) {
  return `${Number(number).toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
}

export function age(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${Math.round(seconds)} s`;
}

/** Numbers side by side: name, label (the name if there is none), value, what stands below it, and `of` [used, limit] for a bar.
 * With `pick` each is a button, and `picked` the name of the one that is pressed. */
export function Tiles({ tiles, pick, picked }) {
  const inside = ({ name, label, value, more, of }) => html`<b>${typeof value === "number" ? value.toLocaleString("en") : value}</b> <span>${label ?? name}</span>${of && html`<meter min="0" max=${of[1]} value=${of[0]} aria-label=${name}></meter>`}${more && html`<small>${more}</small>`}`;
  return html`<div class="tiles">${tiles.filter(Boolean).map((one) =>
    pick ? html`<button class="tile" key=${one.name} aria-pressed=${picked === one.name} onClick=${() => pick(one.name)}>${inside(one)}</button>` : html`<div class="tile" key=${one.name}>${inside(one)}</div>`)}</div>`;
}

/** The dialog that is open, and the sentence that a screen reader says. */
const asked = signal(null);
export const said = signal("");

/**
 * Ask before an action; `act` may throw a Failure, which the dialog shows.
 * @param {{title: string, body: unknown, action?: string, refuse?: string, fields?: any[], act?: (values: Record<string, string>) => Promise<unknown>}} question
 */
export function ask(question) {
  // a message would lie over the form to sign in again, which says the same
  if (!expired.value || question.act) asked.value = question;
}

export function Dialogs() {
  const question = asked.value;
  return question && html`<${Question} key=${question.title} question=${question} />`;
}

function Question({ question }) {
  const place = useRef(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const before = document.activeElement;
    place.current.showModal();
    return () => before instanceof HTMLElement && before.focus();
  }, []);
  const close = () => (asked.value = null);
  const submit = async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.target).entries());
    setBusy(true);
    setError("");
    try {
      await question.act(values);
      if (asked.value === question) close();
      said.value = `${question.action}: done`;
    } catch (failure) {
      setError(failure.message);
    }
    setBusy(false);
  };
  return html`<dialog ref=${place} onClose=${close} aria-labelledby="question">
    <form onSubmit=${submit}>
      <h2 id="question">${question.title}</h2>
      <div>${question.body}</div>
      ${(question.fields ?? []).map((one) => html`<label class="line">${one.label}
        ${one.options
          ? html`<select name=${one.name}>${Object.entries(one.options).map(([key, words]) => html`<option value=${key}>${words}</option>`)}</select>`
          : html`<input name=${one.name} defaultValue=${one.value ?? ""} type=${one.type ?? "text"} required=${one.required} min=${one.min} max=${one.max} />`}</label>`)}
      ${error && html`<p class="note bad" role="alert">${text(error)}</p>`}
      <div class="line">
        ${question.action && html`<button class="do" disabled=${busy}>${question.action}</button>`}
        <button type="button" onClick=${close}>${question.action ? (question.refuse ?? "Do nothing") : "Close"}</button>
      </div>
    </form>
  </dialog>`;
}

/** What minions were asked, by a key: `asked` and `done` are times; `value` or `error` is the answer. It outlives the page that shows it. */
const inquiries = signal({});
const clock = (at) => new Date(at).toLocaleTimeString("en-GB");

/** When the last answer to an inquiry came: a key for `useLoad`. */
export const answered = (key) => inquiries.value[key]?.done ?? 0;

/** Ask minions, without waiting for their answer. */
export async function inquire(key, load) {
  const put = (one) => (inquiries.value = { ...inquiries.value, [key]: one });
  const asked = Date.now();
  put({ asked });
  try {
    put({ asked, value: await load(), done: Date.now() });
  } catch (failure) {
    put({ asked, error: failure.message, done: Date.now() });
  }
}

/** A button that asks minions, and what came of it; `confirm` may ask before, and calls what it gets to go on. */
export function Inquiry({ id, label, load, Shown, confirm = (go) => go() }) {
  const { asked: at, done, value, error } = inquiries.value[id] ?? {};
  return html`<div><button disabled=${at && !done} onClick=${() => confirm(() => void inquire(id, load))}>${label}</button>
    <span role="status">${at && ` Asked at ${clock(at)}${done ? `, ended at ${clock(done)}.` : ", waits for the answer."}`}</span>
    ${error && html`<p class="note bad" role="alert">${text(error)}</p>`}${value && Shown && html`<${Shown} value=${value} />`}</div>`;
}

/** What a page shows instead of what it can't: nothing installed, no right, or an error. */
export function Trouble({ failure, what, how }) {
  if (!failure) return null;
  const sentence = failure.forbidden ? `You may not see ${what}.` : failure.missing ? `This master has no ${what}. ${how}` : "";
  return html`<p class="note bad" role="alert">${sentence} ${text(failure.message)}</p>`;
}

/** Ids differ at their end, which must not be cut off. */
const kind = (column) => `cell${column.number ? " number" : ""}${column.key === "id" ? " id" : ""}`;

/** A row of a `Grid`, drawn again only if something of it has changed: the others stay while it scrolls. */
class Row extends Component {
  shouldComponentUpdate(next) {
    return ["row", "columns", "draw", "tab"].some((key) => next[key] !== this.props[key]);
  }

  render({ row, columns, draw, tab, number, height }) {
    return html`<div role="row" class="row" aria-rowindex=${number + 2} style=${{ top: `${(number + 1) * height}px` }}>
      ${columns.map((one) => html`<div role="cell" class=${kind(one)} key=${one.key}>${draw(row, one, tab)}</div>`)}</div>`;
  }
}

/**
 * A table of which only the visible rows are drawn. Of all rows, Tab reaches the links of the current one; arrows, Page Up and Down,
 * Home and End choose another one. `draw` gets what a link needs as its `tabindex`.
 * @param {{label: string, columns: {key: string, title: string, number?: boolean, doc?: string}[], rows: any[], draw: (row: any, column: any, tab: number) => unknown, sort?: string, onSort?: (key: string) => void}} given
 */
export function Grid({ label, columns, rows, draw, sort, onSort }) {
  const place = useRef(null);
  const [top, setTop] = useState(0);
  const height = 36;
  const shown = 60;
  // steps of five rows: a new step is drawn at most once a frame
  const first = Math.min(Math.max(0, Math.floor(top / height / 5) * 5 - 10), Math.max(0, rows.length - 1));
  const [current, setCurrent] = useState(0);
  const moved = useRef(false);
  useEffect(() => {
    if (place.current) place.current.scrollTop = 0;
    setTop(0);
    setCurrent(0);
  }, [rows]);
  useEffect(() => {
    if (moved.current) place.current.querySelector(".row [tabindex='0']")?.focus();
    moved.current = false;
  }, [current]);
  const pressed = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -rows.length, End: rows.length }[event.key];
    if (!step || !rows.length) return;
    event.preventDefault();
    const next = Math.min(Math.max(0, current + step), rows.length - 1);
    // the head covers the first row of what is visible
    const most = next * height;
    const least = (next + 2) * height - place.current.clientHeight;
    place.current.scrollTop = Math.min(Math.max(place.current.scrollTop, least), most);
    setTop(place.current.scrollTop);
    moved.current = true;
    setCurrent(next);
  };
  const frame = useRef(0);
  const scrolled = () => {
    cancelAnimationFrame(frame.current);
    frame.current = requestAnimationFrame(() => place.current && setTop(Math.floor(place.current.scrollTop / height / 5) * height * 5));
  };
  return html`<div class="grid" ref=${place} onScroll=${scrolled} onKeyDown=${pressed} tabindex="0" role="table" aria-label=${label} aria-rowcount=${rows.length + 1} aria-colcount=${columns.length}>
    <div role="rowgroup" class="head"><div role="row" class="head" aria-rowindex="1">
      ${columns.map((one) => html`<div role="columnheader" class=${kind(one)} key=${one.key} title=${one.doc} aria-sort=${sort === one.key ? "ascending" : sort === `-${one.key}` ? "descending" : "none"}>
        ${onSort ? html`<button onClick=${() => onSort(one.key)}>${text(one.title)} ${sort === one.key ? "▲" : sort === `-${one.key}` ? "▼" : ""}</button>` : text(one.title)}</div>`)}
    </div></div>
    <div role="rowgroup" ref=${(node) => node && (node.style.height = `${rows.length * height}px`)}>
      ${rows.slice(first, first + shown).map((row, index) => html`<${Row} key=${first + index} number=${first + index} tab=${first + index === current ? 0 : -1} ...${{ row, columns, draw, height }} />`)}
    </div>
  </div>`;
}

/** A table of one page of rows, and the way to the other pages. `found` has `minions`, `page` and `pages`; `draw` gives the cells of a row;
 * `none` stands for no row. */
export function Paged({ label, found, heads, draw, onPage, none = "No minion." }) {
  return html`<div class="wide" tabindex="0"><table aria-label=${label}><thead><tr>${heads.map((one) => html`<th>${one}</th>`)}</tr></thead>
      <tbody>${found.minions.length === 0 && html`<tr><td colspan=${heads.length}>${none}</td></tr>`}${found.minions.map((one) => html`<tr key=${one.minion}>${draw(one).map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>
    ${found.pages > 1 && html`<div class="line"><button disabled=${found.page <= 1} onClick=${() => onPage(found.page - 1)}>Previous page</button>
      <span role="status">Page ${found.page} of ${found.pages}</span><button disabled=${found.page >= found.pages} onClick=${() => onPage(found.page + 1)}>Next page</button></div>`}`;
}

/** What minions answer: a run of states as a table, anything else as text. */
export function Returned({ value }) {
  const rows = value && typeof value === "object" ? Object.values(value) : [];
  if (typeof value === "object" && value !== null && !rows.length) return html`<p>Nothing.</p>`;
  if (!rows.length || !rows.every((one) => one && typeof one === "object" && "result" in one && "comment" in one)) return html`<pre tabindex="0">${text(typeof value === "string" ? value : JSON.stringify(value, null, 1))}</pre>`;
  const words = (one) => (one.result === null ? "would change" : one.result ? (Object.keys(one.changes ?? {}).length ? "changed" : "as wanted") : "failed");
  return html`<table aria-label="States of the run"><thead><tr><th>State</th><th>Result</th><th>What</th></tr></thead>
    <tbody>${rows.map((one) => html`<tr><td>${text(one.name ?? one.__id__)}</td><td class=${one.result === false ? "bad" : ""}>${words(one)}</td><td>${text(one.comment)}</td></tr>`)}</tbody></table>`;
}

/** Load something, again whenever `keys` change. Returns [value, failure, again, busy]. */
export function useLoad(load, keys) {
  const [state, setState] = useState({ value: null, failure: null, busy: true });
  const turn = useRef(0);
  const again = async () => {
    const mine = ++turn.current;
    setState((before) => ({ ...before, busy: true }));
    try {
      const value = await load();
      if (mine === turn.current) setState({ value, failure: null, busy: false });
    } catch (failure) {
      if (mine === turn.current) setState((before) => ({ ...before, failure, busy: false }));
    }
  };
  useEffect(() => {
    again();
    return () => void turn.current++;
  }, keys);
  return [state.value, state.failure, again, state.busy];
}
