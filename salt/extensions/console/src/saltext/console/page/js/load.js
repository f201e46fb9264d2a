// A load run that goes on: what its harness writes into live.json beside the page, once a second.

import { useEffect } from "preact/hooks";
import { signal } from "@preact/signals";
import { count, html, text } from "./parts.js";
import { Plot } from "./plot.js";

const REST_MS = 1000;
const POINTS = 900;

/** Seconds, returns and acknowledged returns a second. */
const series = signal([[], [], []]);
const now = signal(null);
const rates = signal({});
const over = signal(false);

/** Return what the run is at, null before its first sample, nothing if there is no run. */
async function read() {
  try {
    const answer = await fetch("static/live.json", { cache: "no-store" });
    return answer.ok ? await answer.json() : undefined;
  } catch {
    return undefined;
  }
}

/** Whether this page is that of a load run. */
export const running = signal(false);
read().then((found) => (running.value = found !== undefined));

async function look() {
  const found = await read();
  over.value = found === undefined;
  const last = now.value;
  if (!found || found.time === last?.time) return;
  if (last && found.time > last.time) {
    const seconds = found.time - last.time;
    const rate = (one) => (found[one] - last[one]) / seconds;
    series.value = series.value.map((one, index) => [...one, [found.time, rate("return_sends"), rate("returns_acked")][index]].slice(-POINTS));
    rates.value = Object.fromEntries(Object.entries(found.processes).map(([role, [cpu]]) => [role, (cpu - (last.processes[role]?.[0] ?? cpu)) / seconds]));
  }
  now.value = found;
}

export function Load() {
  useEffect(() => {
    look();
    const timer = setInterval(look, REST_MS);
    return () => clearInterval(timer);
  }, []);
  const at = now.value;
  if (!at) return html`<h1>Load run</h1><p>${over.value ? "No load run serves this page." : "Waiting for the first sample."}</p>`;
  const acknowledged = at.return_sends ? `${((100 * at.returns_acked) / at.return_sends).toFixed(1)} %` : "–";
  return html`<h1>Load run: ${text(at.name)}, ${text(at.phase)}</h1>
    ${over.value && html`<p class="note" role="status">This run is over: the terminal names its report. Below is the last sample.</p>`}
    <p>${at.connected.toLocaleString("en")} connected, ${at.ready.toLocaleString("en")} of ${count(at.minions, "minion")} ready; ${count(at.publications, "job")}, ${count(at.returns, "return")}, ${acknowledged} of the sends acknowledged.${at.clients ? ` ${text(at.clients)}.` : ""}</p>
    <${Plot} series=${series} names=${["returns a second", "acknowledged a second"]} label="Returns and acknowledged returns a second, over time" />
    <h2>Processes</h2>
    <table aria-label="Processes by role"><thead><tr><th>Role</th><th>Cores</th><th>CPU so far</th><th>Memory</th></tr></thead>
      <tbody>${Object.entries(at.processes)
        .sort(([, [one]], [, [other]]) => other - one)
        .map(([role, [cpu, memory]]) => html`<tr key=${role}><th scope="row">${text(role)}</th><td>${(rates.value[role] ?? 0).toFixed(2)}</td><td>${cpu.toFixed(1)} s</td><td>${memory.toFixed(0)} MB</td></tr>`)}</tbody></table>`;
}
