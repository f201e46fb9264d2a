// Every call that the page makes on the master: the client and the function. Names of functions are nowhere else.

import { perms, send } from "./api.js";

/** @type {Record<string, [string, string]>} */
const CALLS = {
  "queue.list": ["runner", "job_handler.list"],
  "queue.figures": ["runner", "job_handler.figures"],
  "queue.show": ["runner", "job_handler.show"],
  "queue.history": ["runner", "job_handler.history"],
  "queue.cancel": ["runner", "job_handler.cancel"],
  "queue.hold": ["runner", "job_handler.hold"],
  "queue.release": ["runner", "job_handler.release"],
  "queue.priority": ["runner", "job_handler.prioritize"],
  "queue.pause": ["runner", "job_handler.pause"],
  "queue.resume": ["runner", "job_handler.resume"],
  "fleet.items": ["runner", "query.items"],
  "fleet.fields": ["runner", "query.fields"],
  "fleet.count": ["runner", "query.count"],
  "jobs.result": ["runner", "jobs.lookup_jid"],
  "pillar.read": ["runner", "cache.pillar"],
  "states.show": ["runner", "package_states.show"],
  "states.set": ["runner", "package_states.set"],
  "states.unset": ["runner", "package_states.unset"],
  "states.assign": ["runner", "package_states.assign"],
  "states.unassign": ["runner", "package_states.unassign"],
  "states.history": ["runner", "package_states.history"],
  "states.restore": ["runner", "package_states.restore"],
  "states.available": ["runner", "package_states.available"],
  "states.status": ["runner", "package_states.status"],
  "states.where": ["runner", "package_states.where"],
  "states.refresh": ["runner", "package_states.refresh"],
  "states.dry_run": ["runner", "package_states.dry_run"],
};

/**
 * Call a function on the master and return its answer; throw a Failure with one sentence.
 * @param {string} name
 * @param {Record<string, unknown>} kwarg
 */
export function call(name, kwarg = {}) {
  const [client, fun] = CALLS[name];
  return send({ client, fun, kwarg });
}

/** Whether the user may make a call: the same rule as Salt's, to offer nothing else. Salt decides.
 * @param {string} name */
export function may(name) {
  return allowed(perms(), CALLS[name][1]);
}

/** @param {unknown} rules @param {string} fun */
export function allowed(rules, fun) {
  const module = fun.split(".")[0];
  const list = Array.isArray(rules) ? rules : [];
  return list.some((rule) => {
    if (typeof rule === "string") return ["@runner", "@runners", `@${module}`].includes(rule);
    return Object.entries(rule).some(([kind, functions]) => {
      const wanted = kind === "@runner" || kind === "@runners" ? fun : kind === `@${module}` ? fun.slice(module.length + 1) : null;
      return wanted !== null && [functions].flat().some((one) => matches(typeof one === "string" ? one : Object.keys(one)[0], wanted));
    });
  });
}

/** @param {string} pattern @param {string} text */
function matches(pattern, text) {
  const glob = pattern.replace(/[.+^${}()|\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
  return [pattern, glob].some((one) => {
    try {
      return new RegExp(`^(?:${one})$`).test(text);
    } catch {
      return false;
    }
  });
}
