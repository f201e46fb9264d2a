// One minion: grains, jobs with results, package state, and pillar keys for who may see them.

import { call, may } from "./calls.js";
import { draw, items } from "./fleet.js";
import { answered, ask, html, Inquiry, Returned, text, Trouble, useLoad } from "./parts.js";

const JOBS = 50;

/** The document of one minion under a prefix such as `grain.`: names and values. */
async function values(id, prefix) {
  const { fields } = await call("fleet.fields", { what: "node" });
  const names = fields.map((one) => one.name).filter((one) => one.startsWith(prefix));
  if (!names.length) return [];
  const found = await items("node", names, { filter: ["=", "name", id], limit: 1 });
  return found.fields.map((field, index) => [field, (found.data[0] ?? [])[index]]).filter(([, cell]) => cell && !cell[0]);
}

export function Minion({ path }) {
  const id = path[0] ?? "";
  const [grains, noGrains] = useLoad(() => values(id, "grain."), [id]);
  const [jobs, noJobs] = useLoad(() => items("job", ["id", "fun", "user", "status"], { filter: ["=[]", "exp_list", id], limit: JOBS, sort: "-id" }), [id]);
  return html`<h1>${text(id)}</h1>
    <${Trouble} failure=${noGrains} what="query extension" how="Install saltext-query on the master." />
    ${may("states.status") && html`<${Packages} id=${id} />`}
    <h2>Newest jobs</h2>
    ${noJobs && html`<p class="note bad" role="alert">${text(noJobs.message)}</p>`}
    ${jobs && html`<div class="wide" tabindex="0"><table aria-label="Jobs"><thead><tr>${jobs.fields.map((one) => html`<th>${text(one.title)}</th>`)}<th>Result</th></tr></thead>
      <tbody>${jobs.data.map((row) => html`<tr key=${row[0][1]}>${row.map((cell, index) => html`<td>${draw("job", cell, { key: jobs.fields[index].name, kind: jobs.fields[index].kind })}</td>`)}
        <td>${may("jobs.result") && html`<button aria-label=${`Result of ${row[0][1]}`} onClick=${() => result(row[0][1], id)}>Result</button>`}</td></tr>`)}</tbody></table></div>`}
    <h2>Grains</h2><${Values} rows=${grains} label="Grains" />
    ${may("pillar.read") && html`<${Pillar} id=${id} />`}`;
}

function Values({ rows, label }) {
  return rows && html`<div class="wide" tabindex="0"><table aria-label=${label}><tbody>${rows.map(([field, cell]) => html`<tr key=${field.name}><th scope="row">${text(field.name)}</th><td>${draw("", cell, { key: field.name, kind: field.kind })}</td></tr>`)}</tbody></table></div>`;
}

function Pillar({ id }) {
  const [rows, failure] = useLoad(() => values(id, "pillar."), [id]);
  return html`<h2>Pillar keys</h2>${failure && html`<p class="note bad" role="alert">${text(failure.message)}</p>`}
    ${rows && (rows.length ? html`<ul>${rows.map(([field]) => html`<li key=${field.name}>${text(field.name.slice("pillar.".length))}</li>`)}</ul>` : html`<p>The master has no pillar of it in its cache.</p>`)}`;
}

async function result(jid, id) {
  let body;
  try {
    const found = await call("jobs.result", { jid });
    body = id in found ? html`<${Returned} value=${found[id]} />` : html`<p>The minion has not returned.</p>`;
  } catch (failure) {
    body = html`<p class="note bad">${text(failure.message)}</p>`;
  }
  ask({ title: `Result of ${jid}`, body });
}

/** What a run of package states would do. */
function Plan({ value }) {
  const rows = Object.entries(value);
  if (!rows.length) return html`<p>Nothing: what is wanted is there.</p>`;
  return html`<table aria-label="Plan"><thead><tr><th>Package</th><th>Action</th><th>Version</th><th>Why</th><th>Goes with it</th></tr></thead>
    <tbody>${rows.map(([key, one]) => html`<tr><td>${text(key)}</td><td class=${one.action === "refused" ? "bad" : ""}>${text(one.action)}</td><td>${text(one.version)}</td><td>${text(one.reason)}</td><td>${(one.also_removed ?? []).map(text).join(", ")}</td></tr>`)}</tbody></table>`;
}

/** What is wanted of each package, which source wins, and what is there. */
function Packages({ id }) {
  const [status, failure] = useLoad(() => call("states.status", { minion: id, table: false }), [id, answered(`refresh ${id}`), answered("refresh *")]);
  if (failure?.missing) return null;
  const rows = status?.rows ?? [];
  const never = status && !status.refreshed;
  return html`<h2>Packages</h2>
    ${failure && html`<p class="note bad" role="alert">${text(failure.message)}</p>`}
    ${status && html`<p>${never ? "Never sent its packages: what is installed is not known." : status.pending ? `Pending: ${text(status.pending)}` : status.consistent ? "Consistent." : "Inconsistent: see drift."}</p>`}
    <div class="line">
      ${may("states.refresh") && html`<${Inquiry} id=${`refresh ${id}`} label="Ask it for its packages" load=${() => call("states.refresh", { minion: id })} />`}
      ${may("states.dry_run") && html`<${Inquiry} id=${`plan ${id}`} label="Ask it what a run would do" load=${() => call("states.dry_run", { minion: id })} Shown=${Plan} />`}
    </div>
    ${rows.length > 0 && html`<div class="wide" tabindex="0"><table aria-label="Packages"><thead><tr><th>Package</th><th>Version</th><th>Condition</th><th>State</th><th>Source that wins</th><th>Overruled</th><th>Installed</th><th>Drift</th></tr></thead>
      <tbody>${rows.map((one) => html`<tr key=${one.package}><td><a href=${`#/package/${encodeURIComponent(one.package)}`}>${text(one.package)}</a></td><td>${text(one.version)}</td><td>${text(one.condition)}</td><td>${text(one.state)}</td><td>${text(one.source)}</td><td>${text(one.overruled.map(text).join("; "))}</td><td>${text(one.found)}</td><td class=${status.pending ? "dim" : "bad"}>${one.consistent ? "" : status.pending ? "not known" : text(one.reason) || "drift"}</td></tr>`)}</tbody></table></div>`}
    ${Object.entries(status?.errors ?? {}).map(([name, why]) => html`<p class="note bad">${text(name)}: ${text(why)}</p>`)}`;
}
