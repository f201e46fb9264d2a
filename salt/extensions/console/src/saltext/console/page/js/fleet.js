// The fleet: the typed table of the query extension.

import { useMemo, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { call, may } from "./calls.js";
import { age, ask, count, Grid, html, text, Trouble, useLoad } from "./parts.js";

const USUAL = {
  node: ["name", "key_state", "os", "os_release", "mtotal", "seen_ts"],
  job: ["id", "fun", "user", "status", "exp_cnt", "ret_cnt", "fail_cnt"],
  package: ["name", "version", "node", "held"],
};
/** Types that may have far more items than there are minions: how many are shown, and what the bars count. */
const MOST = { job: 500, package: 2000 };
const BARS = { node: "os", job: "status", package: "name" };
const TYPES = { node: "minions", job: "jobs", package: "packages", os: "operating systems", lock: "locks", instance: "virtual machines" };
const HOW = "Install saltext-query on the master: salt-pip install saltext_query-*.whl.";
const MARKS = { 1: "no such field", 2: "no data", 3: "not available", 4: "offline" };

/** What an answer leaves out, by the name of its count. */
const NOTES = {
  left_out: "of runners and the like left out",
  undecided: "that the master lacks data to judge",
  untold: "minions never sent this",
  damaged: "with a damaged document",
  too_large: "values too large to show",
};

const what = signal("node");
const filter = signal("");
const chosen = signal(restore());
const onlyFailed = signal(false);

function restore() {
  try {
    return { ...USUAL, ...JSON.parse(localStorage.getItem("columns") ?? "{}") };
  } catch {
    return { ...USUAL };
  }
}

/** All rows of a query: the master ends an answer that is too large for an event. */
export async function items(type, fields, more = {}) {
  let found = null;
  for (let offset = 0; offset !== null; ) {
    const answer = await call("fleet.items", { what: type, fields, offset, ...more });
    if (found) found.data.push(...answer.data);
    else found = answer;
    found.live = answer.live ?? found.live;
    offset = answer.next && !more.limit ? answer.next : null;
  }
  return found;
}

const asks = (field) => (field.doc ?? "").includes("asks the minion");

export function Fleet() {
  const type = what.value;
  const columns = chosen.value[type] ?? ["name"];
  const [sort, setSort] = useState("");
  const [live, setLive] = useState(false);
  const [typed, setTyped] = useState(filter.value);
  // the list of all fields costs the master a look at each minion: only what opens a menu asks for it
  const [menus, setMenus] = useState(false);
  const usual = USUAL[type] ?? ["name"];
  const listed = menus || columns.some((one) => !usual.includes(one));
  const [found, noFields] = useLoad(async () => ({ type, listed, fields: listed ? (await call("fleet.fields", { what: type })).fields : [] }), [type, listed]);
  const menu = { onFocus: () => setMenus(true), onMouseEnter: () => setMenus(true) };
  const told = found?.type === type && found.listed === listed;
  const known = told ? found.fields : [];
  const asking = known.filter((one) => columns.includes(one.name) && asks(one)).map((one) => one.name);
  // before the fields are known, what is not usual may ask minions
  const sure = (one) => told || noFields || usual.includes(one);
  const wanted = [type === "node" ? "name" : columns[0], ...columns].filter((one, index, all) => all.indexOf(one) === index && sure(one) && (live || !asking.includes(one)));
  const terms = [filter.value && `(${filter.value})`, type === "job" && onlyFailed.value && "(fail_cnt > 0)"].filter(Boolean);
  const text_ = terms.join(" and ");
  const [answer, failure, again, busy] = useLoad(
    () => items(type, wanted, { ...(text_ ? { filter: terms.length === 1 && filter.value ? filter.value : text_ } : {}), ...(type in MOST ? { limit: MOST[type] } : {}), ...(type === "job" ? { sort: "-id" } : {}) }),
    [type, wanted.join(), text_],
  );
  const rows = useMemo(() => sorted(answer, sort), [answer, sort]);
  const heads = (answer?.fields ?? []).map((one) => ({ key: one.name, title: one.title ?? one.name, doc: one.doc, number: ["number", "unit", "float"].includes(one.kind), kind: one.kind }));
  const choose = (name) => {
    const next = columns.includes(name) ? columns.filter((one) => one !== name) : [...columns, name];
    chosen.value = { ...chosen.value, [type]: next };
    localStorage.setItem("columns", JSON.stringify(chosen.value));
  };
  return html`<h1>Fleet</h1>
    <${Trouble} failure=${failure?.missing || failure?.forbidden ? failure : noFields} what="query extension" how=${HOW} />
    <div class="line">
      <label>Show <select value=${type} onChange=${(event) => { what.value = event.target.value; filter.value = ""; setTyped(""); setSort(""); setLive(false); }}>
        ${Object.entries(TYPES).map(([key, name]) => html`<option value=${key}>${name}</option>`)}</select></label>
      <${Filter} fields=${known} menu=${menu} value=${typed} applied=${filter.value} onInput=${setTyped} onDone=${(value) => (value === filter.value ? again() : (filter.value = value))} error=${failure && !failure.missing && !failure.forbidden ? failure.message.replace("a fields query lists them", "the list below Columns has them") : ""} />
      ${type === "job" && html`<label><input type="checkbox" checked=${onlyFailed.value} onChange=${(event) => (onlyFailed.value = event.target.checked)} /> Only failed jobs</label>`}
    </div>
    <details onToggle=${() => setMenus(true)}><summary>Columns</summary><fieldset><legend>Columns to show</legend>
      ${known.slice(0, 2000).map((one) => html`<label title=${one.doc}><input type="checkbox" checked=${columns.includes(one.name)} onChange=${() => choose(one.name)} /> ${text(one.name)}</label>`)}
    </fieldset></details>
    <div class="line">
      <span role="status">${busy ? "Asking the master…" : answer ? `${count(rows.length, "row")}${answer.total > rows.length ? ` of ${answer.total.toLocaleString("en")}; a filter shows others` : ""}${failure ? ", of the last filter without an error" : ""}` : ""}</span>
      ${asking.length > 0 && !live && html`<button onClick=${() => ask({ title: "Ask minions", body: html`<p>${count(rows.length, "minion")} will run the functions behind ${asking.join(", ")}.</p>`, action: "Ask", act: async () => setLive(true) })}>Ask ${count(rows.length, "minion")} for ${asking.join(", ")}…</button>`}
      ${answer?.live && html`<span>${count(answer.live.answered, "minion")} answered, ${answer.live.offline} offline, ${answer.live.not_asked} not asked.</span>`}
      ${Object.entries(NOTES).map(([key, words]) => answer?.[key] > 0 && html`<span class="dim" key=${key}>${answer[key].toLocaleString("en")} ${words}.</span>`)}
      <button disabled=${!answer} onClick=${() => download(heads, rows)}>Save as CSV</button>
    </div>
    ${may("fleet.count") && html`<${Counts} key=${type} type=${type} fields=${known} menu=${menu} filter=${filter.value} quiet=${Boolean(failure)} onPick=${(term) => setTyped((filter.value = filter.value ? `(${filter.value}) and ${term}` : term))} />`}
    ${type === "package" && answer && html`<p class="dim">This list only has installed packages. <a href="#/states">Package states</a> says which minions lack one.</p>`}
    ${answer && html`<${Grid} label="Fleet" columns=${heads} rows=${rows} sort=${sort} onSort=${(key) => setSort(sort === key ? `-${key}` : key)} draw=${(row, column, tab) => draw(type, row[heads.indexOf(column)], column, tab)} />`}`;
}

function sorted(answer, sort) {
  if (!answer) return [];
  const name = sort.replace(/^-/, "");
  const place = answer.fields.findIndex((one) => one.name === name);
  if (place < 0) return answer.data;
  const turn = sort.startsWith("-") ? -1 : 1;
  const key = ([status, value]) => (status ? null : typeof value === "number" || typeof value === "boolean" ? Number(value) : text(value));
  return answer.data.map((row) => [key(row[place]), row]).sort(([one], [two]) => {
    if (one === null || two === null) return (one === null) - (two === null);
    return turn * (typeof one === typeof two ? (one < two ? -1 : Number(one > two)) : typeof one === "number" ? -1 : 1);
  }).map(([, row]) => row);
}

export function draw(type, [status, value], column, tab = 0) {
  if (status) return html`<span class="dim">${MARKS[status] ?? "?"}</span>`;
  if (column.kind === "timestamp") return html`<time title=${new Date(value * 1000).toISOString()}>${age(Date.now() / 1000 - value)} ago</time>`;
  if (column.kind === "bool") return value ? "yes" : "no";
  const shown = text(value);
  if (type === "node" && column.key === "name") return html`<a tabindex=${tab} href=${`#/minion/${encodeURIComponent(value)}`}>${shown}</a>`;
  return html`<span title=${shown.length > 20 ? shown : null}>${shown}</span>`;
}

/** A filter with completion of field names; the error of the master stands below it. */
function Filter({ fields, menu, value, applied, onInput, onDone, error }) {
  const [place, setPlace] = useState(-1);
  const word = /[\w./]+$/.exec(value)?.[0] ?? "";
  const found = word ? fields.filter((one) => one.name.startsWith(word) && one.name !== word).slice(0, 8) : [];
  const take = (name) => {
    onInput(value.slice(0, value.length - word.length) + name);
    setPlace(-1);
  };
  const key = (event) => {
    if (event.key === "Enter") {
      if (place >= 0 && found[place]) take(found[place].name);
      else onDone(value.trim());
    } else if (event.key === "ArrowDown" && found.length) setPlace((place + 1) % found.length);
    else if (event.key === "ArrowUp" && found.length) setPlace((place - 1 + found.length) % found.length);
    else if (event.key === "Escape") setPlace(-1);
    else return;
    event.preventDefault();
  };
  return html`<div class="combo"><label>Filter
    <input role="combobox" aria-expanded=${found.length > 0} aria-controls="completions" aria-autocomplete="list" aria-invalid=${Boolean(error)} aria-describedby="filter-error" aria-activedescendant=${place >= 0 ? `completion-${place}` : null}
      ...${menu} placeholder='os == "Debian" and mtotal < 4G' value=${value} onInput=${(event) => onInput(event.target.value)} onKeyDown=${key} /></label>
    <ul id="completions" role="listbox" aria-label="Fields" hidden=${found.length === 0}>${found.map((one, index) => html`<li role="option" id=${`completion-${index}`} aria-selected=${index === place} onMouseDown=${() => take(one.name)}>${text(one.name)}</li>`)}</ul>
    ${value.trim() !== applied && html`<div class="dim" role="status">Not applied yet: press Enter.</div>`}
    <div id="filter-error" class="bad" role="alert">${text(error)}</div></div>`;
}

/** How many there are of each value; a click on a value shows those. */
function Counts({ type, fields, menu, filter: wanted, quiet, onPick }) {
  const [field, setField] = useState(BARS[type] ?? "");
  const [answer, failure] = useLoad(async () => (field ? call("fleet.count", { what: type, fields: [field], limit: 8, sort: "-count", ...(wanted ? { filter: wanted } : {}) }) : null), [type, field, wanted]);
  const most = Math.max(1, ...(answer?.data ?? []).map((row) => row[1][1]));
  const names = fields.filter((one) => !asks(one)).slice(0, 2000).map((one) => one.name);
  return html`<label>Count by <select ...${menu} value=${field} onChange=${(event) => setField(event.target.value)}><option value="">–</option>
      ${(names.includes(field) || !field ? names : [field, ...names]).map((name) => html`<option value=${name}>${text(name)}</option>`)}</select></label>
    ${failure && !quiet && html`<p class="note bad" role="alert">${text(failure.message)}</p>`}
    ${answer && html`<div class="bars">${answer.data.map(([[status, value], [, number]]) => html`<span>${status || typeof value !== "string" ? text(status ? MARKS[status] : value) : html`<button class="link" onClick=${() => onPick(`${field} == ${JSON.stringify(value)}`)}>${text(value)}</button>`}</span><meter min="0" max=${most} value=${number} aria-label=${text(value)}></meter><span>${number}</span>`)}</div>`}`;
}

function download(heads, rows) {
  // a spreadsheet would run a text that begins like a formula
  const cell = ([status, value]) => {
    if (status) return "";
    const shown = typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "");
    const safe = typeof value !== "number" && /^[=+\-@\t\r]/.test(shown) ? `'${shown}` : shown;
    return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
  };
  const lines = [heads.map((one) => cell([0, one.key])), ...rows.map((row) => row.map(cell))].map((line) => line.join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }));
  link.download = "fleet.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
