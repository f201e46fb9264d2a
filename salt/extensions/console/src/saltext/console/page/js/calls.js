// Every call that the page makes on the master: a function of a runner. Names of functions are nowhere else.

import { perms, send } from "./api.js";

/** @type {Record<string, string>} */
const CALLS = {
  "queue.list": "job_handler.list",
  "queue.figures": "job_handler.status",
  "queue.show": "job_handler.show",
  "queue.history": "job_handler.history",
  "queue.cancel": "job_handler.cancel",
  "queue.hold": "job_handler.hold",
  "queue.release": "job_handler.release",
  "queue.priority": "job_handler.prioritize",
  "queue.pause": "job_handler.pause",
  "queue.resume": "job_handler.resume",
  "fleet.items": "query.items",
  "fleet.fields": "query.fields",
  "fleet.count": "query.count",
  "jobs.result": "jobs.lookup_jid",
  "pillar.read": "cache.pillar",
  "states.show": "package_states.show",
  "states.set": "package_states.set",
  "states.unset": "package_states.unset",
  "states.assign": "package_states.assign",
  "states.unassign": "package_states.unassign",
  "states.history": "package_states.history",
  "states.restore": "package_states.restore",
  "states.available": "package_states.available",
  "states.status": "package_states.status",
  "states.where": "package_states.where",
  "states.refresh": "package_states.refresh",
  "states.refresh_all": "pkgset.refresh",
  "states.dry_run": "package_states.dry_run",
};

/**
 * Call a function on the master and return its answer; throw a Failure with one sentence.
 * @param {string} name
 * @param {Record<string, unknown>} kwarg
 */
export function call(name, kwarg = {}) {
  return send({ client: "runner", fun: CALLS[name], kwarg });
}

/** Whether the user may make a call: the same rule as Salt's, to offer nothing else. Salt decides.
 * @param {string} name */
export function may(name) {
  return allowed(perms(), CALLS[name]);
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
