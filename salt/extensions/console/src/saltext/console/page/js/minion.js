// One minion: grains, jobs with results, package state, and pillar keys for who may see them.

import { call, may } from "./calls.js";
import { draw, items } from "./fleet.js";
import { ask, html, text, Trouble, useLoad } from "./parts.js";

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
    body = html`<pre tabindex="0">${text(id in found ? JSON.stringify(found[id], null, 1) : "The minion has not returned.")}</pre>`;
  } catch (failure) {
    body = html`<p class="note bad">${text(failure.message)}</p>`;
  }
  ask({ title: `Result of ${jid}`, body });
}

/** What is wanted of each package, which source wins, and what is there. */
function Packages({ id }) {
  const [status, failure, again] = useLoad(() => call("states.status", { minion: id, table: false }), [id]);
  if (failure?.missing) return null;
  const rows = status?.rows ?? [];
  const run = async (name, title) => {
    try {
      const found = await call(name, { minion: id });
      ask({ title, body: html`<pre tabindex="0">${text(JSON.stringify(found, null, 1))}</pre>` });
      again();
    } catch (error) {
      ask({ title, body: html`<p class="note bad">${text(error.message)}</p>` });
    }
  };
  return html`<h2>Packages</h2>
    ${failure && html`<p class="note bad" role="alert">${text(failure.message)}</p>`}
    ${status && html`<p>${status.pending ? `Pending: ${text(status.pending)}` : status.consistent ? "Consistent." : "Inconsistent: see drift."}</p>`}
    <div class="line">
      ${may("states.refresh") && html`<button onClick=${() => run("states.refresh", "Packages of the minion")}>Ask it for its packages</button>`}
      ${may("states.dry_run") && html`<button onClick=${() => run("states.dry_run", "What a run would do")}>Ask it what a run would do</button>`}
    </div>
    ${rows.length > 0 && html`<div class="wide" tabindex="0"><table aria-label="Packages"><thead><tr><th>Package</th><th>Wanted</th><th>Source that wins</th><th>Overruled</th><th>There</th><th>Drift</th></tr></thead>
      <tbody>${rows.map((one) => html`<tr key=${one.package}><td>${text(one.package)}</td><td>${text(one.verdict)}</td><td>${text(one.source)}</td><td>${text(one.overruled.map(text).join("; "))}</td><td>${text(one.found)}</td><td>${one.consistent ? "" : text(one.reason) || "drift"}</td></tr>`)}</tbody></table></div>`}
    ${Object.entries(status?.errors ?? {}).map(([name, why]) => html`<p class="note bad">${text(name)}: ${text(why)}</p>`)}`;
}
