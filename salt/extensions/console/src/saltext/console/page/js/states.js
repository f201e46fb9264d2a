// Package states: the table that the specification draws, with its history and its assignments.

import { useEffect, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { call, may } from "./calls.js";
import { age, answered, ask, count, html, Inquiry, Paged, text, Tiles, Trouble, useLoad } from "./parts.js";

const HOW = "Install saltext-package-states on the master, then run: salt-run package_states.setup.";
const LATEST = "Latest";
const CONDITIONS = { "=": "Equal", ">": "More than", "<": "Less than", "<=": "Less or equal", ">=": "More or equal" };
const WORDS = { installed: "Installed", removed: "Absent" };
/** Entries that the specification's table does not draw: shown as they are, and kept until they are changed. */
const OTHERS = { purged: "Absent, without configuration", kept: "Keep the current version", unmanaged: "Not managed" };
const SIMPLE = /^(=|>=|<=|>|<)?([^<>=!,*\s]+)$/;

/** An entry such as `installed <1.22` as a row of the table. */
export function row(entry) {
  const [wanted, ...rest] = entry.split(" ");
  const rule = rest.join(" ");
  if (wanted === "latest") return { version: LATEST, condition: "=", state: "installed" };
  if (!rule) return { version: wanted === "removed" ? LATEST : "", condition: "=", state: wanted };
  const simple = SIMPLE.exec(rule);
  return simple ? { version: simple[2], condition: simple[1] ?? "=", state: wanted } : { version: "", condition: "=", rule, state: wanted };
}

/** The arguments for one row: Latest has no condition. */
export function wanted({ version, condition, state, rule }) {
  if (version === LATEST) return state === "installed" ? { wanted: "latest" } : { wanted: state };
  if (rule) return { wanted: state, version: rule };
  return version ? { wanted: state, version: `${condition}${version}` } : { wanted: state };
}

export function States({ path }) {
  return path[0] ? html`<${Editor} name=${path[0]} />` : html`<${List} />`;
}

function List() {
  const [states, failure, again] = useLoad(() => call("states.show"), []);
  const create = () => ask({
    title: "Make a package state",
    body: html`<p>It is empty and changes no minion. One with the id of a minion is that minion's own state.</p>`,
    action: "Make",
    fields: [{ name: "name", label: "Name", required: true }],
    act: async ({ name }) => {
      await call("states.set", { name });
      location.hash = `#/states/${encodeURIComponent(name)}`;
    },
  });
  return html`<h1>Package states</h1>
    <${Trouble} failure=${failure} what="package states" how=${HOW} />
    ${states && html`<div class="wide" tabindex="0"><table aria-label="Package states"><thead><tr><th>State</th><th>Revision</th><th>Packages</th><th>Assigned to</th></tr></thead>
      <tbody>${Object.entries(states).map(([name, one]) => html`<tr key=${name}><td><a href=${`#/states/${encodeURIComponent(name)}`}>${text(name)}</a></td><td>${one.revision}</td><td>${one.packages}</td><td>${text(one.assigned.join("; "))}</td></tr>`)}</tbody></table></div>`}
    ${may("states.set") && !failure && html`<div class="line"><button onClick=${create}>Make a state…</button></div>`}
    ${states && may("states.where") && html`<${WhereForm} />`}
    ${states && may("states.status") && html`<${Verdicts} />`}`;
}

/** The age of a time as PostgreSQL writes it. */
function time(words) {
  const at = Date.parse(words.replace(" ", "T").replace(/([+-]\d\d)$/, "$1:00"));
  return html`<time title=${words}>${Number.isNaN(at) ? words : `${age((Date.now() - at) / 1000)} ago`}</time>`;
}

const minionLink = (id) => html`<a href=${`#/minion/${encodeURIComponent(id)}`}>${text(id)}</a>`;

/** Words that say more than the master's. */
const VERDICTS = { "never heard": "never sent packages", silent: "sent none for long" };

/** The verdict whose minions are shown, none for all. */
const verdict = signal("");

/** How many minions are consistent, drifting and so on; a click shows which. */
function Verdicts() {
  const only = verdict.value;
  const [page, setPage] = useState(1);
  const [fleet, failure] = useLoad(() => call("states.status", { table: false, page, ...(only ? { only } : {}) }), [only, page, answered("refresh *")]);
  const pick = (name) => {
    verdict.value = name === only || name === "minions" ? "" : name;
    setPage(1);
  };
  const why = (one) => text(one.error ?? one.pending ?? (one.drifted ? `${one.drifted} of ${count(one.managed, "package")}` : ""));
  return html`<h2>Minions</h2>${!fleet && !failure && html`<p role="status">Asking the master…</p>`}${failure && html`<p class="note bad" role="alert">${text(failure.message)}</p>`}
    ${fleet && html`<${Tiles} tiles=${Object.entries(fleet.counts).map(([name, value]) => ({ name, label: VERDICTS[name], value }))} pick=${pick} picked=${only || "minions"} />
      <${Paged} label="Minions" found=${fleet} onPage=${setPage} heads=${["Minion", "Verdict", "Why", "Packages sent"]}
        draw=${(one) => [minionLink(one.minion), VERDICTS[one.verdict] ?? one.verdict, why(one), one.refreshed ? time(one.refreshed) : "–"]} />`}`;
}

function WhereForm() {
  const go = (event) => {
    event.preventDefault();
    location.hash = `#/package/${encodeURIComponent(String(new FormData(event.target).get("package")).trim())}`;
  };
  return html`<form class="line" onSubmit=${go}><label>Which minions have a package, or lack it <input name="package" required placeholder="nginx" /></label><button>Show</button></form>`;
}

/** What came of asking all minions. */
function Sent({ value: { stored, failed, silent } }) {
  const why = [...new Set(Object.values(failed))];
  return html`<p class=${why.length || silent.length ? "note bad" : "note"}>${count(stored.length, "minion")} sent their packages.
    ${silent.length > 0 && ` ${count(silent.length, "minion")} did not answer in time: busy or down.`}
    ${why.length > 0 && ` ${count(Object.keys(failed).length, "minion")} failed: ${why.slice(0, 3).map(text).join("; ")}`}</p>`;
}

/** One package on all minions: where it is, who wants it, and what keeps it. */
export function Where({ path }) {
  const name = path[0] ?? "";
  const [page, setPage] = useState(1);
  const [lacking, setLacking] = useState(false);
  const [found, failure] = useLoad(() => call("states.where", { package: name, page, lacking }), [name, page, lacking, answered("refresh *")]);
  const unknown = found?.counts["not known"];
  const told = found && found.counts["have it"] + found.counts["lack it"];
  const tiles = { minions: { label: "listed without the filter" }, "lack it": { value: told ? found.counts["lack it"] : "–", more: unknown ? `of ${count(told, "minion")} that sent their packages` : "" } };
  const confirm = (go) => ask({
    title: "Ask all minions for their packages",
    body: html`<p>${count(told + unknown, "minion")} will run package_state.inventory, 200 at a time. Nothing changes there.</p>`,
    action: "Ask all",
    act: async () => go(),
  });
  const note = (one) => [one.held && "held on the minion", one.halted].filter(Boolean).join("; ");
  return html`<p><a href="#/states">All package states</a></p><h1>Package ${text(name)}</h1>
    <${Trouble} failure=${failure} what="package states" how=${HOW} />
    ${found && html`<${Tiles} tiles=${Object.entries(found.counts).map(([title, value]) => ({ name: title, value, ...tiles[title] }))} />
      <label><input type="checkbox" checked=${lacking} onChange=${(event) => { setLacking(event.target.checked); setPage(1); }} /> Only minions that lack it</label>
      ${unknown > 0 && html`<p class="note">${count(unknown, "minion")} never sent ${unknown === 1 ? "its" : "their"} packages: whether the package is there is not known.
        ${may("states.status") && html` <a href="#/states" onClick=${() => (verdict.value = "never heard")}>Which minions</a>`}</p>`}
      ${may("states.refresh_all") && html`<${Inquiry} id="refresh *" label="Ask all minions for their packages…" load=${() => call("states.refresh_all", { tgt: "*" })} Shown=${Sent} confirm=${confirm} />`}
      <${Paged} label="Minions with the package" found=${found} onPage=${setPage} heads=${["Minion", "Installed", "Wanted", "Source", "Remarks"]}
        none=${unknown ? `None of the ${count(told, "minion")} that sent their packages; of ${unknown.toLocaleString("en")} it is not known.` : "No minion."}
        draw=${(one) => [minionLink(one.minion), text(one.installed) || html`<span class="dim">${one.unknown ? "not known: it never sent its packages" : "not installed"}</span>`, text(one.wanted) || html`<span class="dim">nothing</span>`, text(one.source), text(note(one))]} />
      <p class="dim">What is installed is what minions sent last.${lacking ? "" : " Minions that lack the package and want nothing of it are only listed with the filter above."}</p>`}`;
}

/** What was typed and not saved survives a reload: the revision that it is based on, and the changed rows. */
function useDraft(name) {
  const key = `draft ${name}`;
  const [draft, setDraft] = useState(() => JSON.parse(sessionStorage.getItem(key) ?? "null") ?? { revision: null, rows: {} });
  useEffect(() => sessionStorage.setItem(key, JSON.stringify(draft)), [draft]);
  return [draft, setDraft];
}

function Editor({ name }) {
  const [shown, failure, again] = useLoad(() => call("states.show", { name }), [name]);
  const [draft, setDraft] = useDraft(name);
  const edits = Object.keys(draft.rows).length;
  const saved = shown?.packages ?? {};
  const change = (key, next) => setDraft((before) => ({ revision: before.revision ?? shown.revision, rows: { ...before.rows, [key]: next } }));
  const drop = () => setDraft({ revision: null, rows: {} });
  const names = [...new Set([...Object.keys(saved), ...Object.keys(draft.rows)])].sort();
  const editable = may("states.set");
  return html`<p><a href="#/states">All package states</a></p><h1>${text(name)}</h1>
    <${Trouble} failure=${failure} what="package states" how=${HOW} />
    ${shown && html`<p class="dim">Revision ${shown.revision}${shown.author ? ` by ${text(shown.author)}` : ""} ${text(shown.comment)}</p>
      <div class="wide" tabindex="0"><table aria-label="Packages of the state"><thead><tr><th>Package</th><th>Version</th><th>Condition</th><th>State</th><th>Change</th></tr></thead>
        <tbody>${names.map((key) => html`<${Entry} key=${key} name=${key} editable=${editable} one=${key in draft.rows ? draft.rows[key] : row(saved[key])} changed=${key in draft.rows} onChange=${(next) => change(key, next)} />`)}</tbody></table></div>
      ${editable && html`<${Search} onAdd=${(key) => change(key, { version: LATEST, condition: "=", state: "installed" })} />
        <div class="line"><button class="do" disabled=${!edits} onClick=${() => review(name, draft, shown, { drop, again, setDraft })}>Review ${count(edits, "change")}…</button>
          ${edits > 0 && html`<button onClick=${() => ask({ title: "Discard what you changed", body: html`<p>${count(edits, "change")} that nobody saved will be lost; no minion changes.</p>`, action: "Discard", act: async () => drop() })}>Discard changes…</button>`}</div>`}
      <${Assignments} name=${name} shown=${shown} again=${again} />
      ${may("states.history") && html`<${History} name=${name} revision=${shown.revision} again=${again} />`}`}`;
}

/** A row of the specification's table: a condition exists only beside a version. */
function Entry({ name, one, changed, editable, onChange }) {
  const [found] = useLoad(async () => (may("states.available") ? call("states.available", { search: name.split(":")[0], size: 5 }).catch(() => null) : null), [name]);
  const [other, setOther] = useState(false);
  if (one === null) return html`<tr><td>${text(name)}</td><td colspan="3">Not managed by this state</td><td>will be removed from the state</td></tr>`;
  const offered = (found?.packages ?? []).filter((entry) => entry.package === name || entry.name === name).flatMap((entry) => [...(entry.versions ?? []), ...(entry.some ?? [])]).map((entry) => (typeof entry === "string" ? entry : entry.version));
  const versions = [...new Set([one.version, ...offered])].filter((entry) => entry && entry !== LATEST);
  const set = (part) => onChange({ ...one, rule: undefined, ...part });
  const states = { ...WORDS, ...(one.state in OTHERS ? { [one.state]: OTHERS[one.state] } : {}) };
  const pick = (event) => (event.target.value === "…" ? setOther(true) : set({ version: event.target.value }));
  return html`<tr><td>${text(name)}</td>
    <td>${other
      ? html`<input aria-label=${`Version of ${name}`} required ref=${(node) => node?.focus()} onInput=${(event) => event.target.value.trim() && set({ version: event.target.value.trim() })} onBlur=${() => setOther(false)} />`
      : html`<select aria-label=${`Version of ${name}`} disabled=${!editable} value=${one.version} onChange=${pick}>
          ${one.version === "" && html`<option value="">${text(one.rule) || "Any version"}</option>`}
          <option>${LATEST}</option>${versions.map((version) => html`<option value=${version}>${text(version)}</option>`)}<option value="…">Another version…</option></select>`}</td>
    <td>${one.version && one.version !== LATEST && html`<select aria-label=${`Condition of ${name}`} disabled=${!editable} value=${one.condition} onChange=${(event) => set({ condition: event.target.value })}>
      ${Object.entries(CONDITIONS).map(([mark, words]) => html`<option value=${mark}>${words}</option>`)}</select>`}</td>
    <td><select aria-label=${`State of ${name}`} disabled=${!editable} value=${one.state} onChange=${(event) => set({ state: event.target.value })}>
      ${Object.entries(states).map(([key, words]) => html`<option value=${key}>${words}</option>`)}</select></td>
    <td>${changed ? "changed " : ""}${editable && may("states.unset") && html`<button aria-label=${`Stop managing ${name}`} onClick=${() => onChange(null)}>Stop managing</button>`}</td></tr>`;
}

function Search({ onAdd }) {
  const [typed, setTyped] = useState("");
  const [asked, setAsked] = useState("");
  const [found, failure] = useLoad(async () => (asked && may("states.available") ? call("states.available", { search: `*${asked}*`, size: 20 }) : null), [asked]);
  const submit = (event) => {
    event.preventDefault();
    setAsked(typed.trim());
  };
  return html`<form class="line" onSubmit=${submit}><label>Package <input value=${typed} required onInput=${(event) => setTyped(event.target.value)} /></label>
      <button>Search</button><button type="button" disabled=${!typed.trim()} onClick=${() => { onAdd(typed.trim()); setTyped(""); }}>Add</button></form>
    ${failure && html`<p class="note">${text(failure.message)}</p>`}
    ${found?.packages && html`<ul>${found.packages.map((one) => html`<li><button onClick=${() => onAdd(one.package ?? one.name)}>Add ${text(one.package ?? one.name)}</button></li>`)}</ul>`}`;
}

/** Save nothing yet: show what the master says would change, then save with the revision that the editor saw. */
async function review(name, draft, shown, { drop, again, setDraft }) {
  const packages = Object.entries(draft.rows).filter(([, one]) => one).map(([key, one]) => ({ package: key, ...wanted(one) }));
  const gone = Object.entries(draft.rows).filter(([key, one]) => !one && key in shown.packages).map(([key]) => key);
  const save = async (more) => {
    const found = [];
    let revision = draft.revision;
    if (packages.length) found.push(await call("states.set", { name, package: packages, revision, ...more }));
    for (const key of gone) {
      if (found.length && !more.dry_run) revision = found[found.length - 1].revision;
      found.push(await call("states.unset", { name, package: key, revision, ...more }));
    }
    return found;
  };
  try {
    const found = await save({ dry_run: true });
    const minions = new Set(found.flatMap((one) => one.minions ?? []));
    const changes = found.flatMap((one) => Object.entries(one.changes));
    ask({
      title: `Review: ${name}`,
      body: html`<p>Nothing is saved yet. ${rules(minions.size)}; packages change there when the minions apply their states next.</p><${Changes} changes=${changes} /><${Members} minions=${[...minions]} />
        ${minions.size > 0 && minions.size <= FEW && may("states.where") && html`<${Installed} minions=${[...minions]} packages=${changes.map(([key]) => key)} />`}`,
      action: "Save",
      refuse: "Keep editing",
      fields: [{ name: "comment", label: "Why" }],
      act: async ({ comment }) => {
        await save({ comment });
        drop();
        again();
      },
    });
  } catch (failure) {
    const [, number, author] = /is at revision (\d+) of (.+?), and you saw/.exec(failure.message) ?? [];
    if (!number) return ask({ title: "This cannot be saved", body: html`<p class="note bad">${text(failure.message)}</p>` });
    const theirs = await call("states.show", { name, against: draft.revision }).catch(() => ({}));
    ask({
      title: "Somebody else saved this state",
      body: html`<p>${text(author)} saved revision ${number} after you began with ${draft.revision}. This is what changed:</p><${Changes} changes=${Object.entries(theirs.changes ?? {})} />
        <p>Your ${count(Object.keys(draft.rows).length, "change")} stays typed. Take the new revision as the base, then review again.</p>`,
      action: "Take the new revision",
      act: async () => {
        setDraft({ ...draft, revision: Number(number) });
        await again();
      },
    });
  }
}

const MOST_NAMES = 200;
/** So many minions are shown without a click, and what is installed on them. */
const FEW = 10;

const rules = (number) => `${count(number, "minion")} ${number === 1 ? "gets" : "get"} a new rule`;

/** What minions that a change is about have now; what a run does to it only they can say. */
function Installed({ minions, packages }) {
  const [found, failure] = useLoad(() => Promise.all(packages.slice(0, FEW).map((one) => call("states.where", { package: one, minion: minions }))), []);
  const word = (one) => text(one.installed) || (one.unknown ? "effect not known: it has not sent its packages" : "not installed");
  if (failure) return html`<p class="note">What is installed there is not known: ${text(failure.message)}</p>`;
  return html`<table aria-label="Installed now"><thead><tr><th>Minion</th><th>Package</th><th>Installed now</th></tr></thead>
    <tbody>${(found ?? []).flatMap((one, index) => one.minions.map((row) => html`<tr><td>${text(row.minion)}</td><td>${text(packages[index])}</td><td>${word(row)}</td></tr>`))}</tbody></table>
    ${!found ? html`<p role="status">Asking the master…</p>` : html`<p class="dim">After saving, the page of a minion asks it what a run would do.</p>`}`;
}

/** Which minions a change is about. */
function Members({ minions }) {
  const more = minions.length - MOST_NAMES;
  return minions.length > 0 && html`<details open=${minions.length <= FEW}><summary>Which minions</summary><p>${minions.slice(0, MOST_NAMES).map(text).join(", ")}${more > 0 ? ` and ${more.toLocaleString("en")} more` : ""}</p></details>`;
}

function Changes({ changes }) {
  return html`<table aria-label="Changes"><thead><tr><th>Package</th><th>Before</th><th>After</th></tr></thead>
    <tbody>${changes.map(([key, one]) => html`<tr><td>${text(key)}</td><td>${text(one.old) || "not managed"}</td><td>${text(one.new) || "not managed"}</td></tr>`)}</tbody></table>`;
}

const KINDS = { group: "group", grains: "grain match", minion: "minion", organization: "organization" };

function Assignments({ name, shown, again }) {
  /** Ask the master which files would change, then show that before it is done. */
  const confirm = async (action, fun, wanted) => {
    const found = await call(fun, { ...wanted, dry_run: true });
    ask({
      title: `${action} ${name}: ${KINDS[wanted.kind]} ${wanted.target}`,
      body: html`<p>${rules((found.minions ?? []).length)}. ${fun === "states.assign" ? "Packages change there at the next run." : "The next run there releases the locks of this state."}</p><${Members} minions=${found.minions ?? []} />`,
      action,
      act: async () => {
        await call(fun, wanted);
        again();
      },
    });
  };
  const assign = () => ask({
    title: `Assign ${name}`,
    body: html`<p>Nothing is saved yet: the next question says how many minions the target has.</p>`,
    action: "Continue…",
    fields: [
      { name: "kind", label: "Kind", options: KINDS },
      { name: "target", label: "Target (for a grain match such as os:Debian)", required: true },
      { name: "priority", label: "Priority", type: "number", value: 0 },
      { name: "comment", label: "Why" },
    ],
    act: ({ priority, ...given }) => confirm("Assign", "states.assign", { name, ...given, priority: Number(priority) }),
  });
  const unassign = (kind, target) =>
    confirm("Unassign", "states.unassign", { name, kind, target }).catch((failure) => ask({ title: "This cannot be unassigned", body: html`<p class="note bad">${text(failure.message)}</p>` }));
  return html`<h2>Assigned to</h2><ul>${shown.assigned.map((one) => {
    const [, kind, target] = /^(\S+) (.*) \(priority [^)]*\)$/.exec(one) ?? [];
    return html`<li>${text(one)} ${kind && may("states.unassign") && html`<button aria-label=${`Unassign ${one}`} onClick=${() => unassign(kind, target)}>Unassign…</button>`}</li>`;
  })}</ul>
    ${may("states.assign") && html`<button onClick=${assign}>Assign…</button>`}`;
}

function History({ name, revision, again }) {
  const [rows, failure] = useLoad(async () => (await call("states.history", { name })).filter((one) => one.change === "saved"), [name, revision]);
  const difference = async (number) => {
    const found = await call("states.show", { name, revision, against: number }).catch((error) => error);
    ask({ title: `Revision ${number} and ${revision}`, body: found instanceof Error ? html`<p class="note bad">${text(found.message)}</p>` : html`<${Changes} changes=${Object.entries(found.changes)} />` });
  };
  const back = async (number) => {
    const found = await call("states.restore", { name, revision: number, dry_run: true }).catch((error) => error);
    if (found instanceof Error) return ask({ title: "This cannot be rolled back", body: html`<p class="note bad">${text(found.message)}</p>` });
    ask({
      title: `Roll back to revision ${number}`,
      body: html`<p>${rules((found.minions ?? []).length)}.</p><${Changes} changes=${Object.entries(found.changes)} /><${Members} minions=${found.minions ?? []} />`,
      action: "Roll back",
      act: async () => {
        await call("states.restore", { name, revision: number });
        again();
      },
    });
  };
  return html`<h2>Revisions</h2>${failure && html`<p class="note bad">${text(failure.message)}</p>`}
    ${rows && html`<div class="wide" tabindex="0"><table aria-label="Revisions"><thead><tr><th>Revision</th><th>Author</th><th>When</th><th>Why</th><th>Packages</th><th>Actions</th></tr></thead>
      <tbody>${[...rows].reverse().map((one) => html`<tr key=${one.revision}><td>${one.revision}</td><td>${text(one.author)}</td><td>${time(one.created)}</td><td>${text(one.comment)}</td><td>${one.packages}</td>
        <td>${one.revision !== revision && may("states.show") && html`<button aria-label=${`Difference to ${one.revision}`} onClick=${() => difference(one.revision)}>Difference</button> `}
          ${one.revision !== revision && may("states.restore") && html`<button aria-label=${`Roll back to ${one.revision}`} onClick=${() => back(one.revision)}>Roll back…</button>`}</td></tr>`)}</tbody></table></div>`}`;
}
