"""Works the figures of one tree out of its samples; `harness.figures` has the definition of each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from harness.results import answers, cpu, gaps
from harness.results.followed import follow
from harness.results.percentiles import Percentiles, percentiles
from harness.results.treeresult import FunctionResult, Lateness, TreeResult
from harness.samples.rows import APART

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from evil_minions import JobRow, ReturnRow
    from harness.results.evidence import Evidence
    from harness.results.gaps import Gap
    from harness.samples.rows import ClientSample, Timeline
    from harness.scenarios.scenario import Scenario


FIND_JOB = "saltutil.find_job"


# a request that was sent so much later than it was due was not sent at its time
LATE_S = 0.1


def of_tree(samples: Evidence, scenario: Scenario) -> TreeResult:
    """Return the figures of one tree from its samples."""
    timeline = samples.timeline
    jobs = samples.load_jobs()
    followed = follow(samples, scenario.asked)
    published = sum(job.published for job in followed)
    wanted = {job.jid for job in followed}
    # a return without an attempt was still waiting behind the minion's other requests when its minion ended
    returns = [row for row in samples.returns if row.jid in jobs and row.attempts]
    sends = sum(row.attempts for row in returns)
    kept = sum(job.kept for job in followed)
    reached = sum(job.reached for job in followed)
    find_jobs = sum(row.targeted for rows in jobs.values() for row in rows if row.fun == FIND_JOB)
    useful = [row for row in returns if row.jid in wanted]
    unseen = _unseen(samples, timeline)
    of_fleet = gaps.find((row.time for row in samples.fleet), timeline)
    cut_off = any(gap.edge for gap in unseen)
    used = {} if cut_off else cpu.seconds(samples.processes, timeline.load_start, timeline.settled)
    master_s = None if cut_off else sum(value for role, value in used.items() if role not in cpu.OTHERS)
    blind = any(gap.edge for gap in of_fleet)
    fleet_s = None if blind else _fleet_cpu_s(samples)
    single = scenario.single_functions
    jobs_requested = sum(row.function in single for row in samples.clients)
    last = max((row.time for row in useful if row.acknowledged), default=None)
    complete = {(answer.clients, answer.number) for answer in samples.answers if not answer.error}
    return TreeResult(
        minions=samples.fleet[-1].minions,
        ramp_up_s=_rounded(timeline.ready - timeline.fleet_start),
        kb_per_minion=_kb_per_minion(samples),
        fleet_cpu_ms_per_return=_cost_ms(fleet_s, len(useful)),
        master_cpu_ms_per_return=_cost_ms(master_s, len(useful)),
        fleet_cpu_ms_per_any_return=_cost_ms(fleet_s, len(returns)),
        master_cpu_ms_per_any_return=_cost_ms(master_s, len(returns)),
        jobs_requested=jobs_requested,
        jobs_accepted=len(followed),
        jobs_unpublished=len(followed) - published,
        publications=published,
        publications_per_job=_ratio(sum(job.published and job.fun in single for job in followed), jobs_requested),
        returns_expected=sum(job.targeted for job in followed),
        returns_kept=kept,
        never_reached=sum(job.unreached for job in followed),
        returns_unfinished=sum(job.unfinished for job in followed),
        returns_lost=sum(job.lost for job in followed),
        returns_per_s=_ratio(kept, last - timeline.load_start) if last else None,
        acknowledged_ratio=_ratio(sum(row.acknowledged for row in returns), sends),
        duplicate_ratio=_ratio(sends - len(returns), len(returns)),
        heard_mb=None if blind else _rounded(_risen(samples, "heard_bytes") / 1e6),
        heard_per_execution=None if blind else _ratio(_risen(samples, "heard"), reached),
        find_jobs=find_jobs,
        find_jobs_per_execution=_ratio(find_jobs, reached),
        client_requests=len(samples.clients),
        client_errors=sum(bool(answer.error) for answer in samples.answers),
        longest_wait_s=None if (longest := answers.longest(samples.answers)) is None else _rounded(longest),
        client_latency_s=percentiles(row.latency_s for row in samples.clients),
        complete_latency_s=_complete_latency(samples.clients, complete),
        sent_late_s=_lateness(samples.clients),
        logins=len(samples.logins),
        login_errors=sum(bool(row.error) for row in samples.logins),
        login_s=percentiles(row.seconds for row in samples.logins),
        acknowledgement_s=percentiles(row.seconds for row in returns if row.acknowledged),
        settle_s=_rounded(timeline.settled - timeline.clients_done),
        settled_in_time=timeline.settled_in_time,
        peak_memory_mb={} if unseen else _peaks(samples),
        cpu_s={role: _rounded(value) for role, value in sorted(used.items())},
        per_function=_functions(samples, jobs, returns, complete),
        time={
            "ramp_up_s": _rounded(timeline.ready - timeline.fleet_start),
            "load_s": _rounded(timeline.clients_done - timeline.load_start),
            "settle_s": _rounded(timeline.settled - timeline.clients_done),
        },
        left_out={
            "jobs": sum(row.jid not in jobs for row in samples.jobs),
            "returns": sum(row.jid not in jobs for row in samples.returns),
        },
        clocks={
            clock.name: {"offset_s": clock.offset_s, "error_s": clock.error_s, "drift_s": clock.drift_s}
            for clock in samples.clocks
        },
        others_cores=None if cut_off else _others_cores(samples, sum(used.values())),
        gaps=(
            *(gap.told("CPU and memory were", timeline.load_start) for gap in unseen),
            *(gap.told("the fleet was", timeline.load_start) for gap in of_fleet),
        ),
    )


def _unseen(samples: Evidence, timeline: Timeline) -> list[Gap]:
    """Return the gaps in the samples of processes; each container's were taken by somebody else."""
    times: dict[int, list[float]] = {}
    for row in samples.processes:
        times.setdefault(row.pid // APART, []).append(row.time)
    return [gap for taken in times.values() or [[]] for gap in gaps.find(taken, timeline)]


def _others_cores(samples: Evidence, bed_s: float) -> float | None:
    """Return how many cores others kept busy or took away in the load phase, in which the bed used `bed_s` seconds."""
    timeline, rows = samples.timeline, samples.machine
    if not rows or timeline.settled <= timeline.load_start:
        return None
    times = [row.time for row in rows]
    values = [row.busy_s + row.stolen_s - row.harness_s for row in rows]
    busy_s = cpu.at(times, values, timeline.settled) - cpu.at(times, values, timeline.load_start)
    return _rounded(max(0.0, busy_s - bed_s) / (timeline.settled - timeline.load_start))


def _complete_latency(requests: Iterable[ClientSample], complete: Container[tuple[str, int]]) -> Percentiles:
    """Return the latency of the requests with a complete answer: failures that come fast must not look like speed."""
    return percentiles(row.latency_s for row in requests if (row.clients, row.number) in complete)


def _lateness(requests: Iterable[ClientSample]) -> Lateness:
    late = [max(0.0, row.started - row.scheduled) for row in requests]
    longest = _rounded(max(late)) if late else None
    return Lateness(percentiles(late).p95, longest, len(late), sum(seconds > LATE_S for seconds in late))


def _cost_ms(seconds: float | None, returns: int) -> float | None:
    """Return the CPU time of each return in milliseconds, None if it was not measured or there was none."""
    return None if seconds is None else _ratio(seconds * 1000, returns)


def _kb_per_minion(samples: Evidence) -> float:
    """Return the memory at the first sample in which every minion is ready, before any load."""
    full = next((row for row in samples.fleet if row.ready >= row.minions), samples.fleet[-1])
    return _rounded((full.rss_kb - full.base_rss_kb) / full.minions)


def _fleet_cpu_s(samples: Evidence) -> float:
    times, values = [row.time for row in samples.fleet], [row.cpu_s for row in samples.fleet]
    return cpu.at(times, values, samples.timeline.settled) - cpu.at(times, values, samples.timeline.load_start)


def _peaks(samples: Evidence) -> dict[str, float]:
    return {
        role: _rounded(max(mb for _, mb in values)) for role, values in sorted(cpu.memory_mb(samples.processes).items())
    }


def _functions(
    samples: Evidence,
    jobs: Mapping[str, list[JobRow]],
    returns: list[ReturnRow],
    complete: Container[tuple[str, int]],
) -> dict[str, FunctionResult]:
    functions = sorted({row.function for row in samples.clients} | {rows[0].fun for rows in jobs.values()})
    publications = Counter(rows[0].fun for rows in jobs.values())
    found = {}
    for function in functions:
        asked = [row for row in samples.clients if row.function == function]
        ended = [answer for answer in samples.answers if answer.function == function]
        sent = [row for row in returns if row.fun == function]
        acknowledged = [row for row in sent if row.acknowledged]
        found[function] = FunctionResult(
            jobs_requested=len(asked),
            publications=publications[function],
            executions=sum(row.targeted for rows in jobs.values() for row in rows if row.fun == function),
            returns=len(sent),
            return_sends=sum(row.attempts for row in sent),
            returns_acknowledged=len(acknowledged),
            returns_unacknowledged=len(sent) - len(acknowledged),
            client_errors=sum(bool(answer.error) for answer in ended),
            client_latency_s=percentiles(row.latency_s for row in asked),
            complete_latency_s=_complete_latency(asked, complete),
            acknowledgement_s=percentiles(row.seconds for row in acknowledged),
        )
    return found


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None


def _rounded(value: float) -> float:
    return round(value, 3)


def _risen(samples: Evidence, counter: str) -> int:
    """Return by how much a counter rose from the last sample before the load to the last one before the settled end."""
    timeline = samples.timeline
    before, after = (
        max((getattr(row, counter) for row in samples.fleet if row.time <= until), default=0)
        for until in (timeline.load_start, timeline.settled)
    )
    return int(after - before)
