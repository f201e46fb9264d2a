// Parts that all pages share.

import { h } from "preact";
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

/** The dialog that is open, and the sentence that a screen reader says. */
const asked = signal(null);
export const said = signal("");

/**
 * Ask before an action; `act` may throw a Failure, which the dialog shows.
 * @param {{title: string, body: unknown, action?: string, fields?: any[], act?: (values: Record<string, string>) => Promise<unknown>}} question
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
        <button type="button" onClick=${close}>${question.action ? "Do nothing" : "Close"}</button>
      </div>
    </form>
  </dialog>`;
}

/** What a page shows instead of what it can't: nothing installed, no right, or an error. */
export function Trouble({ failure, what, how }) {
  if (!failure) return null;
  const sentence = failure.forbidden ? `You may not see ${what}.` : failure.missing ? `This master has no ${what}. ${how}` : "";
  return html`<p class="note bad" role="alert">${sentence} ${text(failure.message)}</p>`;
}

/**
 * A table of which only the visible rows are drawn.
 * @param {{label: string, columns: {key: string, title: string, number?: boolean, doc?: string}[], rows: any[], draw: (row: any, column: any) => unknown, sort?: string, onSort?: (key: string) => void}} given
 */
export function Grid({ label, columns, rows, draw, sort, onSort }) {
  const place = useRef(null);
  const [top, setTop] = useState(0);
  const height = 36;
  const shown = 60;
  // steps of ten rows: a new step is drawn at most once a frame
  const first = Math.min(Math.max(0, Math.floor(top / height / 10) * 10 - 10), Math.max(0, rows.length - 1));
  useEffect(() => {
    if (place.current) place.current.scrollTop = 0;
    setTop(0);
  }, [rows]);
  const frame = useRef(0);
  const scrolled = () => {
    cancelAnimationFrame(frame.current);
    frame.current = requestAnimationFrame(() => place.current && setTop(Math.floor(place.current.scrollTop / height / 10) * height * 10));
  };
  return html`<div class="grid" ref=${place} onScroll=${scrolled} tabindex="0" role="table" aria-label=${label} aria-rowcount=${rows.length + 1} aria-colcount=${columns.length}>
    <div role="rowgroup" class="head"><div role="row" class="head" aria-rowindex="1">
      ${columns.map((one) => html`<div role="columnheader" class="cell" key=${one.key} title=${one.doc} aria-sort=${sort === one.key ? "ascending" : sort === `-${one.key}` ? "descending" : "none"}>
        ${onSort ? html`<button onClick=${() => onSort(one.key)}>${text(one.title)} ${sort === one.key ? "▲" : sort === `-${one.key}` ? "▼" : ""}</button>` : text(one.title)}</div>`)}
    </div></div>
    <div role="rowgroup" ref=${(node) => node && (node.style.height = `${rows.length * height}px`)}>
      ${rows.slice(first, first + shown).map((row, index) => html`<div role="row" class="row" key=${first + index} aria-rowindex=${first + index + 2} style=${{ top: `${(first + index + 1) * height}px` }}>
        ${columns.map((one) => html`<div role="cell" class=${one.number ? "cell number" : "cell"} key=${one.key}>${draw(row, one)}</div>`)}</div>`)}
    </div>
  </div>`;
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
