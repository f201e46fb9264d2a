"""
Jobs: what has been published, what waits to be, and what has come back.
"""

import datetime

from saltext.query.field import Field, alias
from saltext.query.item import Item, ItemType, grain, named
from saltext.query.kinds import MISSING_NODATA, MISSING_UNAVAIL

_UTC = datetime.timezone.utc

# where year, month, day, hour, minute, second and microsecond are in a job id
_PARTS = ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14), (14, 20))


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
        queue = self.context.source("queue")
        if not queue.enabled:
            return MISSING_UNAVAIL
        if queue.waiting is None:
            return MISSING_NODATA
        return queue.waiting.get(self.name, MISSING_UNAVAIL)


def _items(context, names):
    jobs = context.source("job_cache")
    if names is None:
        found = dict.fromkeys(jobs.ids())
    else:
        found = {name for name in names if jobs.has(name)}
    for name in named(found, names, context.absent):
        yield Job(context, name)


def _load_field(name, title, kind, doc, key):
    def get(job):
        load = job.load()
        return MISSING_UNAVAIL if load is None else grain(load, key)

    return Field(name, title, kind, doc, get, needs=(f"load:{key}",))


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


def started(jid):
    """
    Return when a job was started, as its id says, or None.
    """
    try:
        # strptime() takes ten times as long
        parts = [int(jid[start:end]) for start, end in _PARTS]
        return datetime.datetime(*parts, tzinfo=_UTC).timestamp()
    except ValueError:
        return None


def _start(job):
    found = started(job.name)
    return MISSING_UNAVAIL if found is None else found


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
    found = job.source.minions(job.name)
    return MISSING_UNAVAIL if found is None else found


def _expected(job):
    found = job.source.minions(job.name)
    return MISSING_UNAVAIL if found is None else len(found)


def _missing(job):
    found = job.source.minions(job.name)
    if found is None:
        return MISSING_UNAVAIL
    returned = set(job.source.returned(job.name))
    return [minion for minion in found if minion not in returned]


def has_failed(result):
    """
    Return whether a minion's result is a failure. A job of several functions has a
    dictionary with the outcome of each.
    """
    return any(one is False for one in _each(result.get("success"))) or any(
        one not in (None, 0) for one in _each(result.get("retcode"))
    )


def _each(outcome):
    return outcome.values() if isinstance(outcome, dict) else (outcome,)


def _failed(job):
    return sum(
        1
        for result in job.results().values()
        if result is not None and has_failed(result)
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
        return (
            "running"
            if job.context.source("queue").running_on(job.name)
            else "published"
        )
    if _failed(job):
        return "failed"
    return MISSING_NODATA if _unread(job) else "success"


def _line_field(name, title, kind, doc, key, span=False):
    def get(job):
        line = job.line()
        return grain(line, key) if isinstance(line, dict) else line

    return Field(name, title, kind, doc, get, needs=("queue",), span=span)


def _running(job):
    queue = job.context.source("queue")
    if not queue.enabled:
        return MISSING_UNAVAIL
    found = queue.running_on(job.name)
    return MISSING_NODATA if found is None else found


def _capacity_field(name, title, kind, doc, key):
    def get(job):
        queue = job.context.source("queue")
        if not queue.enabled:
            return MISSING_UNAVAIL
        if queue.status is None:
            return MISSING_NODATA
        return grain({**queue.status, **queue.status["capacity"]}, key)

    return Field(name, title, kind, doc, get, needs=("queue",))


def _batch(job):
    found = job.source.is_batch(job.name)
    return MISSING_UNAVAIL if found is None else found


def _returned(job):
    return job.source.returned(job.name)


_ID = Field("id", "ID", "text", "Job identifier", lambda job: job.name)

_JOB = ItemType(
    "job",
    "Jobs of the master's job cache",
    [
        _ID,
        alias("name", _ID),
        alias("jid", _ID),
        Field(
            "status",
            "Status",
            "text",
            "State of the job: queued, publishing, running, published, success or failed",
            _status,
            needs=("queue", "minions", "returns"),
        ),
        Field("fun", "Function", "text", "Function", _fun, needs=("load:fun",)),
        _load_field("args", "Arguments", "other", "Arguments", "arg"),
        _load_field("tgt", "Target", "other", "Target", "tgt"),
        _load_field("tgt_type", "TargetType", "text", "Type of target", "tgt_type"),
        _load_field("user", "User", "text", "User who started the job", "user"),
        _load_field("ret", "Returner", "text", "Further returners", "ret"),
        Field(
            "metadata",
            "Metadata",
            "other",
            "Metadata that the user gave the job",
            _metadata,
            needs=("load:metadata", "load:kwargs", "load:arg"),
        ),
        Field(
            "start_ts",
            "Start",
            "timestamp",
            "Time at which the job got its identifier",
            _start,
        ),
        Field(
            "end_ts",
            "End",
            "timestamp",
            "Time at which the job ended, if job_cache_store_endtime is on",
            _end,
            needs=("endtime",),
        ),
        Field(
            "exp_cnt",
            "Expected",
            "number",
            "Number of minions that the job was for",
            _expected,
            needs=("minions",),
        ),
        Field(
            "exp_list",
            "ExpectedList",
            "other",
            "Minions that the job was for",
            _minions,
            needs=("minions",),
        ),
        Field(
            "ret_cnt",
            "Returned",
            "number",
            "Number of minions that have returned",
            lambda job: len(_returned(job)),
            needs=("returned",),
        ),
        Field(
            "ret_list",
            "ReturnedList",
            "other",
            "Minions that have returned",
            _returned,
            needs=("returned",),
        ),
        Field(
            "missing_list",
            "MissingList",
            "other",
            "Minions that have not returned",
            _missing,
            needs=("minions", "returned"),
        ),
        Field(
            "fail_cnt",
            "Failed",
            "number",
            "Number of minions that returned a failure",
            _failed,
            needs=("returns",),
        ),
        Field(
            "retcodes",
            "RetCodes",
            "other",
            "Return code of each minion that has returned",
            _retcodes,
            needs=("returns",),
        ),
        Field(
            "success",
            "Success",
            "bool",
            "Whether all minions have returned without a failure",
            _success,
            needs=("minions", "returns"),
        ),
        Field(
            "batch",
            "Batch",
            "bool",
            "Whether the job is run in batches",
            _batch,
            needs=("batch",),
        ),
        _line_field(
            "queue_place",
            "QueuePlace",
            "number",
            "Place in the job handler's queue",
            "position",
        ),
        _line_field(
            "queue_reason",
            "QueueReason",
            "text",
            "Why the job waits in the job handler's queue",
            "reason",
        ),
        _line_field(
            "wait_cnt",
            "Waiting",
            "number",
            "Number of minions that the job handler has yet to send the job to",
            "waiting",
        ),
        _line_field(
            "sent_cnt",
            "Sent",
            "number",
            "Number of minions that the job handler has sent the waiting job to",
            "sent",
        ),
        _line_field(
            "waited",
            "Waited",
            "float",
            "Seconds for which the job has waited in the job handler's queue",
            "waited",
            span=True,
        ),
        Field(
            "running_list",
            "RunningList",
            "other",
            "Minions that run the job as the job handler knows",
            _running,
            needs=("queue",),
        ),
        _capacity_field(
            "capacity",
            "Capacity",
            "number",
            "Points that the job handler's criteria allow at the same time",
            "limit",
        ),
        _capacity_field(
            "capacity_used",
            "CapacityUsed",
            "float",
            "Points that are in use of the job handler's capacity",
            "used",
        ),
        _capacity_field(
            "capacity_full",
            "CapacityFull",
            "number",
            "Number of minions at their own limit of jobs",
            "full_minions",
        ),
    ],
    _items,
    usual=("id", "fun", "user", "tgt", "exp_cnt", "start_ts"),
    usual_sort="-id",
    usual_limit=50,
)


def item_type():
    """
    Return the item type.
    """
    return _JOB
