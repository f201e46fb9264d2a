// The queue of the job handler: what waits and why, and what one can do about it.

import { useEffect } from "preact/hooks";
import { signal } from "@preact/signals";
import { expired, listen, stale } from "./api.js";
import { call, may } from "./calls.js";
import { age, ask, count, html, text, Tiles, Trouble } from "./parts.js";
import { Plot } from "./plot.js";

const REST_MS = 5000;
const IDLE_MS = 60000;
const POINTS = 720;
const TAGS = /^salt\/(job\/\d+\/(queued|dispatched|excluded|discarded|new|ret)|job_handler)/;

const jobs = signal([]);
const figures = signal(null);
const ended = signal([]);
const failure = signal(null);
/** Seconds, used slots, limit. */
const series = signal([[], [], []]);

let last = 0;
let planned = 0;

/** Load everything, or the figures alone while no event tells of a job. */
async function load(idle = false) {
  clearTimeout(planned);
  last = Date.now();
  planned = setTimeout(() => load(may("queue.figures") && jobs.value.length === 0), IDLE_MS);
  if (document.hidden || expired.value) return;
  try {
    const [all, list, old] = await Promise.all(
      ["queue.figures", "queue.list", "queue.history"].slice(0, idle ? 1 : 3).map((one) => (may(one) ? call(one, one === "queue.figures" ? {} : { limit: 500 }) : null)),
    );
    figures.value = all;
    if (!idle) {
      jobs.value = list ?? [];
      ended.value = old ?? [];
    } else if (all.queued > 0) soon();
    failure.value = list === null && all === null ? Object.assign(new Error("Ask for job_handler.list in external_auth."), { forbidden: true }) : null;
    const { used, limit } = all?.capacity ?? {};
    if (used !== undefined) series.value = series.value.map((one, index) => [...one, [last / 1000, used, limit][index]].slice(-POINTS));
  } catch (error) {
    failure.value = error;
  }
}

/** Load after an event, at most once in five seconds. */
function soon() {
  clearTimeout(planned);
  planned = setTimeout(() => load(), Math.max(0, last + REST_MS - Date.now()));
}

export function Queue() {
  useEffect(() => {
    load();
    const stop = listen(TAGS, soon, () => {
      stale.value = "";
      soon();
    });
    const visible = () => document.hidden || soon();
    document.addEventListener("visibilitychange", visible);
    return () => {
      stop();
      clearTimeout(planned);
      document.removeEventListener("visibilitychange", visible);
    };
  }, []);
  const now = figures.value;
  const { used, limit } = now?.capacity ?? {};
  return html`<h1>Queue</h1>
    <${Trouble} failure=${failure.value} what="job handler" how="It is a part of the patched Salt: set rate_limiting in the master's configuration." />
    ${now && html`<${Summary} now=${now} />`}
    ${now && html`<${Plot} series=${series} names=${["used", "limit"]} label=${`Used slots over time: now ${used} of ${limit}`} />`}
    ${(now || jobs.value.length > 0) && html`<${Waiting} />`}
    ${ended.value.length > 0 && html`<${Ended} />`}`;
}

function Summary({ now }) {
  const { used, limit, full_minions: full } = now.capacity ?? {};
  return html`${now.paused && html`<p class="note"><strong>The queue is paused${now.paused_until ? ` until ${new Date(now.paused_until * 1000).toLocaleTimeString()}` : ""}.</strong></p>`}
    ${(now.pauses ?? []).map((one) => html`<p class="note">Paused until ${one.until ? new Date(one.until * 1000).toLocaleTimeString() : "resumed"}: jobs with ${Object.entries(one).filter(([key]) => !["action", "until"].includes(key)).map(([key, value]) => `${key} ${text(value)}`).join(", ")}</p>`)}
    <${Tiles} tiles=${[
      { name: now.queued === 1 ? "job waiting" : "jobs waiting", value: now.queued, more: now.oldest ? `the oldest for ${age(now.oldest)}` : "" },
      used !== undefined && { name: "slots used", value: `${used} of ${limit}`, of: [used, limit] },
      full !== undefined && { name: "minions at their own limit", value: full, more: full ? "jobs that run there take it up" : "" },
      { name: "silent minions left out", value: now.silent_minions },
    ]} />
    <div class="line">
      ${may("queue.pause") && html`<button onClick=${() => pause(now)}>Pause…</button>`}
      ${may("queue.resume") && (now.paused || now.pauses?.length > 0) && html`<button onClick=${resume}>Resume…</button>`}
      <button onClick=${() => load()}>Refresh</button>
    </div>`;
}

/** @param {string} name @param {Record<string, unknown>} kwarg */
async function act(name, kwarg) {
  await call(name, kwarg);
  await load();
}

function pause(now) {
  ask({
    title: "Pause the queue",
    body: html`<p>${count(now.queued, "job")} will wait, and all that are new. Exempt functions go on. Without a function, user or target it is for all jobs.</p>`,
    action: "Pause",
    fields: [
      { name: "seconds", label: "Seconds (0: until you resume)", type: "number", value: 3600, min: 0, required: true },
      { name: "function", label: "Only functions (such as state.*)" },
      { name: "user", label: "Only jobs of the user" },
      { name: "target", label: "Only the target" },
    ],
    act: ({ seconds, ...rule }) => {
      const given = Object.fromEntries(Object.entries(rule).filter(([, value]) => value));
      return act("queue.pause", { seconds: Number(seconds), ...given });
    },
  });
}

function resume() {
  ask({
    title: "Resume the queue",
    body: html`<p>All pauses end, and ${count(figures.value.queued, "waiting job")} may go to minions.</p>`,
    action: "Resume",
    act: () => act("queue.resume", {}),
  });
}

function Waiting() {
  return html`<h2>Waiting</h2><div class="wide" tabindex="0"><table aria-label="Waiting jobs">
    <thead><tr><th>Place</th><th>Job</th><th>Function</th><th>User</th><th>Why it waits</th><th>Minions</th><th>Waiting since</th><th>Starts</th><th>Priority</th><th>Actions</th></tr></thead>
    <tbody>${jobs.value.map((job) => html`<${Job} key=${`${job.jid} ${job.position}`} job=${job} />`)}</tbody>
  </table></div>${jobs.value.length === 0 && html`<p>No job waits.</p>`}`;
}

const isHeld = (job) => job.reason.includes("administrator holds");

/** In words, when a job starts; of one that is partly sent the rest goes out as minions return. */
function starts(job) {
  const known = job.starts_in !== null && job.starts_in !== undefined;
  const when = known ? `in about ${age(job.starts_in)}` : "";
  if (isHeld(job)) return "when it is released";
  if (job.reason.includes("paused")) return "when the pause ends";
  if (job.sent) return `already on ${job.sent} of ${job.sent + job.waiting}; the next ${when || "when minions answer"}`;
  return when || "no estimate: how long the jobs before it run is not known yet";
}

/** How many of its minions a job has reached. */
const reached = (job) => (job.sent ? `${job.sent} of ${job.sent + job.waiting} sent, ${job.waiting} wait` : `${job.waiting} wait`);

/** Why a job waits, with the job in front of it. */
function why(job) {
  const before = jobs.value.find((one) => one.position === job.position - 1);
  return `${text(job.reason)}${job.reason === "other jobs are before it" && before ? `; the next in front is ${before.jid} (${text(before.fun)})` : ""}`;
}

function Job({ job }) {
  const held = isHeld(job);
  const what = `${job.jid} (${text(job.fun)} of ${text(job.user)})`;
  const minions = count(job.waiting, "minion");
  const button = (name, label, act) => may(name) && html`<button aria-label=${`${label} ${job.jid}`} onClick=${act}>${label}</button> `;
  const simply = (name, title, body, action) => () => ask({ title, body: html`<p>${what}: ${body}</p>`, action, act: () => act(name, { jid: job.jid }) });
  const cancel = async () => {
    const cancelled = await call("queue.cancel", { jid: job.jid });
    await load();
    if (!cancelled) throw new Error("The job did not wait any more: its minions have got it.");
  };
  return html`<tr>
    <td>${job.position}</td><td>${may("queue.show") ? html`<button class="link" onClick=${() => show(job.jid)}>${job.jid}</button>` : job.jid}</td>
    <td class="whole">${text(job.fun)}</td><td>${text(job.user)}</td><td>${why(job)}</td>
    <td>${reached(job)}</td><td>${age(job.waited)} ago</td><td>${starts(job)}</td><td>${job.priority}</td>
    <td class="acts">${!held && button("queue.hold", "Hold", simply("queue.hold", "Hold the job", `${minions} will not get it until it is released; others pass.`, "Hold"))}
      ${(held || figures.value?.paused) && button("queue.release", "Release", simply("queue.release", "Release the job", `${minions} may get it.`, "Release"))}
      ${button("queue.priority", "Priority", () => ask({
        title: "Set the priority",
        body: html`<p>${what}: it goes to ${minions} before all jobs of a lower priority.</p>`,
        action: "Set",
        fields: [{ name: "priority", label: "Priority", type: "number", value: job.priority, min: -1000000, max: 1000000, required: true }],
        act: ({ priority }) => act("queue.priority", { jid: job.jid, priority: Number(priority) }),
      }))}
      ${button("queue.cancel", "Cancel", () => ask({ title: "Cancel the job", body: html`<p>${what}: ${minions} will not get it. Minions that have got it go on.</p>`, action: "Cancel the job", act: cancel }))}</td>
  </tr>`;
}

/** Words that the fleet has for the same. */
const STATUS = { dispatched: "running" };

async function show(jid) {
  try {
    const job = await call("queue.show", { jid });
    const out = Object.entries(job.left_out ?? {});
    ask({
      title: `Job ${jid}`,
      body: html`<dl>
        <dt>Status</dt><dd>${job.waiting.some((one) => one.sent) ? "publishing" : STATUS[job.state] ?? text(job.state)}</dd>
        ${job.waiting.map((one) => html`<dt>Waits</dt><dd>${text(one.fun)} on ${text(one.tgt)} for ${count(one.waiting, "minion")}, since ${age(one.waited)}: ${why(one)}. Starts: ${starts(one)}.</dd>`)}
        <dt>Runs on</dt><dd>${text(job.running_on.join(", ")) || "no minion"}</dd>
        <dt>Left out</dt><dd>${out.length ? out.map(([minion, why]) => html`<div>${text(minion)}: ${text(why)}</div>`) : "nobody"}</dd></dl>`,
    });
  } catch (error) {
    failure.value = error;
  }
}

function Ended() {
  return html`<h2>Cancelled or discarded</h2><div class="wide" tabindex="0"><table aria-label="Cancelled or discarded jobs"><thead><tr><th>Job</th><th>User</th><th>State</th><th>When</th><th>Reason</th></tr></thead>
    <tbody>${ended.value.slice(0, 50).map((one) => html`<tr key=${`${one.jid} ${one.at}`}><td>${one.jid}</td><td>${text(one.user)}</td><td>${text(one.state)}</td><td>${text(one.at)}</td><td>${text(one.reason)}</td></tr>`)}</tbody></table></div>`;
}
