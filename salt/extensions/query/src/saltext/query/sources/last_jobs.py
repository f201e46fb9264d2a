"""The last job, and the last highstate, that was for each minion, out of the job cache.
"""

from saltext.query.sources.job_cache import has_failed, is_internal, started

#: The most jobs that are looked at, the newest first; internal ones do not count.
MAX_JOBS = 10_000


def is_highstate(load):
    """Return whether a job is a highstate, and no test of one."""
    functions, args = load.get("fun"), load.get("arg")
    if not isinstance(functions, list):
        functions, args = [functions], [args]
    for place, function in enumerate(functions):
        given = args[place] if isinstance(args, list) and place < len(args) else ()
        given = given if isinstance(given, list) else ()
        if any(isinstance(one, dict) and one.get("test") for one in given):
            continue
        named = any(not isinstance(one, dict) or one.get("mods") for one in given)
        if function == "state.highstate" or (function == "state.apply" and not named):
            return True
    return False


def source(context):
    """Return what is known of the last job, and highstate, of each minion that had one."""
    jobs = context.source("job_cache")
    wanted = {one.partition(".")[0] for one in context.wanted.get("last_jobs", ())}
    missing = {what: set(context.accepted()) for what in wanted}
    found = {what: {} for what in wanted}
    left = MAX_JOBS
    for jid in sorted(map(str, jobs.ids()), reverse=True):
        if not left or not any(missing.values()):
            break
        load = jobs.load(jid, {"fun", "arg", "kwargs"}) or {}
        if is_internal(load):
            continue
        left -= 1
        function = load.get("fun")
        if isinstance(function, list):
            function = ",".join(map(str, function))
        known = {"jid": jid, "fun": function, "start": started(jid)}
        returned = set(jobs.returned(jid))
        minions = returned.union(jobs.minions(jid) or ())
        for what in wanted:
            if what == "highstate" and not is_highstate(load):
                continue
            for minion in missing[what] & minions:
                result = "missing"
                if minion in returned:
                    result = jobs.result(jid, minion)
                    if result is not None:
                        result = "failed" if has_failed(result) else "success"
                found[what][minion] = {**known, "result": result}
            missing[what] -= minions
    return found
