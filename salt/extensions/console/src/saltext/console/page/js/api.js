// salt-api: who has signed in, requests, and the stream of events.

import { effect, signal } from "@preact/signals";

const KEY = "salt-console";
const base = new URL(".", location.href);
const AGAIN_MS = 3000;

/** @typedef {{token: string, user: string, eauth: string, expire: number, perms: unknown}} Session */
/** @type {import("@preact/signals").Signal<Session | null>} */
export const session = signal(restore());
/** Why the user has to sign in again; what was typed stays. */
export const expired = signal("");
/** Why what the page shows may be old. */
export const stale = signal("");

effect(() => {
  if (session.value) sessionStorage.setItem(KEY, JSON.stringify(session.value));
  else sessionStorage.removeItem(KEY);
});

function restore() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  } catch {
    return null;
  }
}

export const perms = () => session.value?.perms ?? [];

/** An error of one sentence. `missing`: the master has no such function. */
export class Failure extends Error {
  constructor(message, { missing = false, forbidden = false } = {}) {
    super(message);
    this.missing = missing;
    this.forbidden = forbidden;
  }
}

async function request(path, options = {}) {
  try {
    return await fetch(new URL(path, base), { credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer", ...options });
  } catch {
    stale.value = "salt-api does not answer: what you see may be old. The page tries again.";
    throw new Failure("salt-api does not answer; see that it runs, then try again.");
  }
}

const JSON_HEAD = { Accept: "application/json", "Content-Type": "application/json" };

/** Sign in; throw a Failure that says why not. */
export async function signIn(username, password, eauth) {
  const answer = await request("login", { method: "POST", headers: JSON_HEAD, body: JSON.stringify({ username, password, eauth }) });
  if (answer.status === 401) throw new Failure("salt-api does not let you in: check the name, the password and the kind of account.");
  if (!answer.ok) throw new Failure(`salt-api answered ${answer.status}; see that the master runs.`);
  const found = (await answer.json()).return[0];
  session.value = { token: found.token, user: found.user, eauth: found.eauth, expire: found.expire, perms: found.perms };
  good = null;
  expired.value = "";
  stale.value = "";
}

export async function signOut() {
  const token = session.value?.token;
  session.value = null;
  expired.value = "";
  if (token) await request("logout", { method: "POST", headers: { ...JSON_HEAD, "X-Auth-Token": token } }).catch(() => null);
}

/** The last call with this session that only read, and that the user may make. */
let good = null;
const READS = /\.(show|list|items|fields|figures|history|status|available)$/;

const post = (head, low) => request("", { method: "POST", headers: head, body: JSON.stringify([low]) });

/** Send one call and return its answer. A text stands for an error: all functions that the page calls return something else. */
export async function send(low) {
  const token = session.value?.token ?? "";
  const head = { ...JSON_HEAD, "X-Auth-Token": token };
  const answer = await post(head, low);
  if (answer.status === 401) {
    await whyRefused(token, head);
    throw new Failure(`You may not call ${low.fun}: ask for it in external_auth.`, { forbidden: true });
  }
  if (answer.status === 500) throw new Failure(`The master has no ${low.fun}, or its log says why it failed.`, { missing: true });
  if (answer.status === 400) throw new Failure("salt-api refuses the call: netapi_enable_clients needs runner.", { missing: true });
  if (!answer.ok) throw new Failure(`salt-api answered ${answer.status}; see that the master runs, then try again.`);
  stale.value = "";
  if (READS.test(low.fun)) good = low;
  const found = (await answer.json()).return[0];
  if (typeof found === "string") throw failure(found);
  return found;
}

/** Tell a session that has ended from a right that is lacking: salt-api answers 401 to both. A request that was under way
 * at the log-out may have kept the session, and then only its token has ended: what was allowed before is refused. */
async function whyRefused(token, head) {
  const ended =
    Date.now() / 1000 > (session.value?.expire ?? 0) ||
    (await request("stats", { headers: head })).status === 401 ||
    (good !== null && (await post(head, good)).status === 401);
  if (!ended) return;
  if (session.value?.token === token) expired.value = "Your session has ended. Sign in again; nothing that you typed is lost.";
  throw new Failure("Your session has ended; sign in again, then repeat this.");
}

function failure(text) {
  const line = text.trim().split("\n").pop() ?? "";
  const missing = /is not available|Did you mean|not found, or has an error/.test(line);
  return new Failure(line.replace(/^(Exception occurred in runner \S+: )?([\w.]+(Error|Exception): )?/, ""), { missing });
}

/**
 * Call `heard` when events have come whose tags match, until the returned function is called.
 * @param {RegExp} wanted @param {() => void} heard @param {() => void} connected
 */
export function listen(wanted, heard, connected) {
  const stop = new AbortController();
  const once = async () => {
    const token = session.value?.token ?? "";
    const answer = await request("events", { headers: { Accept: "text/event-stream", "X-Auth-Token": token }, signal: stop.signal });
    if (!answer.ok || !answer.body) {
      if (answer.status === 401) await whyRefused(token, { ...JSON_HEAD, "X-Auth-Token": token });
      throw new Failure(`salt-api answered ${answer.status} to /events.`);
    }
    connected();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop() ?? "";
      if (lines.some((line) => line.startsWith("tag: ") && wanted.test(line.slice(5)))) heard();
    }
  };
  const run = async () => {
    while (!stop.signal.aborted) {
      await once().catch(() => null);
      if (stop.signal.aborted) return;
      if (!stale.value) stale.value = "The stream of events is cut: what you see may be old. The page connects again.";
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  };
  run();
  return () => stop.abort();
}
