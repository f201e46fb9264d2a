"""
Jobs: what has been published, what waits to be, and what has come back.
"""

import datetime

from saltext.query.field import alias, read
from saltext.query.item import Item, ItemType, grain, named
from saltext.query.kinds import MISSING_NODATA, MISSING_UNAVAIL
from saltext.query.sources.job_cache import has_failed, started

_UTC = datetime.timezone.utc


class Job(Item):
    """
    :ivar str name: the job id
    """

    __slots__ = ("_load", "_results")

    def __init__(self, context, name):
        super().__init__(context, name)
        self._load = self._results = ()

    @property
    def source(self):
        """
        Where jobs are kept.
        """
        return self.context.source("job_cache")

    @property
    def queue(self):
        """
        What the job handler says.
        """
        return self.context.source("queue")

    def load(self):
        """
        Return what the query needs of what was published, or None.
        """
        if self._load == ():
            self._load = self.source.load(self.name, self.context.wanted["load"])
        return self._load

    def results(self):
        """
        Return the results of the minions that have returned, None for what can't be read.
        """
        if self._results == ():
            self._results = self.source.results(self.name)
        return self._results

    def line(self):
        """
        Return what the job handler knows of it while it waits, or why it knows nothing.
        """
        if not self.queue.enabled:
            return MISSING_UNAVAIL
        if self.queue.waiting is None:
            return MISSING_NODATA
        return self.queue.waiting.get(self.name, MISSING_UNAVAIL)


def _items(context, names):
    jobs = context.source("job_cache")
    if names is None:
        found = dict.fromkeys(jobs.ids())
    else:
        found = {name for name in names if jobs.has(name)}
    for name in named(found):
        yield Job(context, name)


def _given(value):
    return MISSING_UNAVAIL if value is None else value


def _load(key):
    def get(job):
        load = job.load()
        return MISSING_UNAVAIL if load is None else grain(load, key)

    return get


def _fun(job):
    found = grain(job.load() or {}, "fun")
    return ",".join(map(str, found)) if isinstance(found, list) else found


def _metadata(job):
    load = job.load() or {}
    if isinstance(load.get("metadata"), dict):
        return load["metadata"]
    args = load.get("arg")
    for one in (load.get("kwargs"), *(args if isinstance(args, list) else ())):
        if isinstance(one, dict) and isinstance(one.get("metadata"), dict):
            return one["metadata"]
    return MISSING_UNAVAIL


def _end(job):
    found = job.source.ended(job.name)
    for form in ("%Y, %b %d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f"):
        try:
            parsed = datetime.datetime.strptime(found or "", form)
            return parsed.replace(tzinfo=_UTC).timestamp()
        except ValueError:
            continue
    return MISSING_UNAVAIL


def _minions(job):
    return _given(job.source.minions(job.name))


def _expected(job):
    found = job.source.minions(job.name)
    return MISSING_UNAVAIL if found is None else len(found)


def _returned(job):
    """
    Return those of the minions that the job was for that have returned.
    """
    returned = job.source.returned(job.name)
    expected = job.source.minions(job.name)
    if expected is None:
        return returned
    return sorted(set(returned).intersection(expected))


def _others(job):
    returned = job.source.returned(job.name)
    return sorted(set(returned).difference(job.source.minions(job.name) or returned))


def _missing(job):
    found = job.source.minions(job.name)
    if found is None:
        return MISSING_UNAVAIL
    returned = set(job.source.returned(job.name))
    return [minion for minion in found if minion not in returned]


def _failed(job):
    return sum(
        1 for one in job.results().values() if one is not None and has_failed(one)
    )


def _retcodes(job):
    return {
        minion: result.get("retcode")
        for minion, result in job.results().items()
        if result is not None
    }


def _unread(job):
    return any(result is None for result in job.results().values())


def _success(job):
    missing = _missing(job)
    if missing is MISSING_UNAVAIL:
        return missing
    if _failed(job):
        return False
    return MISSING_NODATA if missing or _unread(job) else True


def _status(job):
    """
    Return how far a job is. Only the job handler knows which minions run a job; without
    it, a job that has not come back whole is just published.
    """
    line = job.line()
    if isinstance(line, dict):
        return "publishing" if line["sent"] else "queued"
    missing = _missing(job)
    if missing is MISSING_UNAVAIL:
        return missing
    if missing:
        state = job.queue.show(job.name)
        return "running" if state and state["running_on"] else "published"
    if _failed(job):
        return "failed"
    return MISSING_NODATA if _unread(job) else "success"


def _line(key):
    def get(job):
        line = job.line()
        return grain(line, key) if isinstance(line, dict) else line

    return get


def _running(job):
    if not job.queue.enabled:
        return MISSING_UNAVAIL
    state = job.queue.show(job.name)
    return MISSING_NODATA if state is None else state["running_on"]


def _capacity(key):
    def get(job):
        if not job.queue.enabled:
            return MISSING_UNAVAIL
        status = job.queue.status
        if status is None:
            return MISSING_NODATA
        return grain({**status, **status["capacity"]}, key)

    return get


_FIELDS = """
id            ID           text      -             Job identifier
status        Status       text      returns       State of the job: queued, publishing, running, published, success or failed
fun           Function     text      load:fun      Function
args          Arguments    other     load:arg      Arguments
tgt           Target       other     load:tgt      Target
tgt_type      TargetType   text      load:tgt_type Type of target
user          User         text      load:user     User who started the job
ret           Returner     text      load:ret      Further returners
metadata      Metadata     other     load:metadata,load:kwargs,load:arg Metadata that the user gave the job
start_ts      Start        timestamp -             Time at which the job got its identifier
end_ts        End          timestamp endtime       Time at which the job ended, if job_cache_store_endtime is on
exp_cnt       Expected     number    minions       Number of minions that the job was for
exp_list      ExpectedList other     minions       Minions that the job was for
ret_cnt       Returned     number    returned      Number of these minions that have returned
ret_list      ReturnedList other     returned      Those of these minions that have returned
extra_list    ExtraList    other     returned      Minions that have returned and that the job was not for
missing_list  MissingList  other     returned      Minions that have not returned
fail_cnt      Failed       number    returns       Number of minions that returned a failure
retcodes      RetCodes     other     returns       Return code of each minion that has returned
success       Success      bool      returns       Whether all minions have returned without a failure
batch         Batch        bool      batch         Whether the job is run in batches
queue_place   QueuePlace   number    line:position Place in the job handler's queue
queue_reason  QueueReason  text      line:reason   Why the job waits in the job handler's queue
wait_cnt      Waiting      number    line:waiting  Number of minions that the job handler has yet to send the job to
sent_cnt      Sent         number    line:sent     Number of minions that the job handler has sent the waiting job to
waited        Waited       float     line:waited   Seconds for which the job has waited in the job handler's queue
running_list  RunningList  other     queue         Minions that run the job as the job handler knows
capacity      Capacity     number    capacity:limit        Slots that the job handler allows at the same time
capacity_used CapacityUsed float     capacity:used         Slots of the job handler that are occupied
capacity_full CapacityFull number    capacity:full_minions Number of minions at their own limit of jobs
"""
_KNOWN = read(
    _FIELDS,
    {
        "id": lambda job: job.name,
        "status": _status,
        "fun": _fun,
        "metadata": _metadata,
        "start_ts": lambda job: _given(started(job.name)),
        "end_ts": _end,
        "exp_cnt": _expected,
        "exp_list": _minions,
        "ret_cnt": lambda job: len(_returned(job)),
        "ret_list": _returned,
        "extra_list": _others,
        "missing_list": _missing,
        "fail_cnt": _failed,
        "retcodes": _retcodes,
        "success": _success,
        "batch": lambda job: _given(job.source.is_batch(job.name)),
        "running_list": _running,
        "load:": _load,
        "line:": _line,
        "capacity:": _capacity,
    },
    waited={"span": True},
)
_JOB = ItemType(
    "job",
    "Jobs of the master's job cache",
    [*_KNOWN, alias("name", _KNOWN[0]), alias("jid", _KNOWN[0])],
    _items,
    usual=("id", "fun", "user", "tgt", "exp_cnt", "start_ts"),
    usual_sort="-id",
    usual_limit=50,
    usual_filter=["|", ["missing", "fun"], ["!", ["=~", "fun", r"^(runner|wheel)\."]]],
)


def item_type():
    """
    Return the item type.
    """
    return _JOB
