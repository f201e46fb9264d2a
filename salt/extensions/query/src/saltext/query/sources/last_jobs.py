"""
The last job, and the last highstate, that was for each minion, out of the job cache.
"""

import saltext.query.sources.job_cache

#: The most jobs that are looked at, the newest first.
MAX_JOBS = 10_000

_NEVER = {"result": "never"}


def source(context):
    """
    Return what tells the last jobs of minions.
    """
    return LastJobs(context)


def is_highstate(load):
    """
    Return whether a job is a highstate, and no test of one.
    """
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


class LastJobs:
    """
    :param Context context: the context of the query
    """

    def __init__(self, context):
        self.jobs = context.source("job_cache")
        wanted = {one.partition(".")[0] for one in context.wanted.get("last_jobs", ())}
        self._found = {what: {} for what in wanted}
        self._missing = {what: set(context.accepted()) for what in self._found}
        for jid in sorted(map(str, self.jobs.ids()), reverse=True)[:MAX_JOBS]:
            if not any(self._missing.values()):
                break
            self._look(jid)

    def _look(self, jid):
        load = self.jobs.load(jid, {"fun", "arg"}) or {}
        returned = set(self.jobs.returned(jid))
        minions = returned.union(self.jobs.minions(jid) or ())
        for what, missing in self._missing.items():
            if what == "highstate" and not is_highstate(load):
                continue
            for minion in missing & minions:
                result = "missing"
                if minion in returned:
                    found = self.jobs.result(jid, minion)
                    failed = saltext.query.sources.job_cache.has_failed
                    if found is None:
                        result = None
                    else:
                        result = "failed" if failed(found) else "success"
                function = load.get("fun")
                if isinstance(function, list):
                    function = ",".join(map(str, function))
                self._found[what][minion] = {
                    "jid": jid,
                    "fun": function,
                    "start": saltext.query.sources.job_cache.started(jid),
                    "result": result,
                }
            missing -= minions

    def of_minion(self, minion, what):
        """
        Return what is known of the last job of a minion.

        :param str what: ``job`` or ``highstate``
        """
        never = _NEVER if what == "highstate" else {}
        return self._found[what].get(minion, never)
