"""What was not sampled: gaps, processes that fall silent, clocks that jump."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.samples import APART, some

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.scenarios.scenario import Scenario
    from harness.verify.store import Finding, Store

# samples come every second, on a busy machine now and then a second late
GAP_S = 5.0
# NTP changes a clock slowly; one that jumps was set by hand
JUMP_S = 0.5
# processes that stay from the load's start to its end; others come and go
STAY = ("MWorker", "MWorkerQueue", "EventPublisher", "PubServerChannel", "fleet", "api", "master")
# roles that have a process as long as the master runs
ALWAYS = (*STAY, "Maintenance", "EventMonitor", "FileserverUpdate", "ReqServer_ProcessManager")
RESTART = "restart-master"
# CPU that the fleet counts itself against what the kernel says of its processes, the supervisor among them
FLEET_SHARE = 0.2
# for how long a process may have lived between two samples
HANDED_S = 2.0
FLEET_S = 2.0


def findings(store: Store, scenario: Scenario) -> Iterator[Finding]:
    """Yield what is missing between the samples."""
    if not store.timeline:
        return
    start, end = store.timeline["load_start"], store.timeline["settled"]
    for table in ("fleet", "processes"):
        yield from _gaps(store, table, start, end)
    if store.value("SELECT count(*) FROM machine"):
        yield from _gaps(store, "machine", start, end)
        yield from _pairs(store)
    else:
        text = "there are no samples of the machine, as in runs of before and on several machines"
        yield store.doubt(f"{text}: nobody can tell what else it did.")
    yield from _processes(store, scenario, start, end)
    yield from _fleet_cpu(store, start, end)
    yield from _jumps(store)


def _gaps(store: Store, table: str, start: float, end: float) -> Iterator[Finding]:
    """Yield what one file of samples lacks; of processes, what each container's lacks."""
    if table != "processes":
        times = [time for (time,) in store.rows(f"SELECT DISTINCT time FROM {table} ORDER BY rowid")]  # noqa: S608 - names of ours
        yield from _missing(store, times, f"{table}.csv", start, end)
        return
    query = "SELECT DISTINCT pid / :apart, time FROM processes ORDER BY rowid"
    taken: dict[int, list[float]] = {}
    for number, time in store.rows(query, apart=APART):
        taken.setdefault(number, []).append(time)
    if not taken:
        yield from _missing(store, [], "processes.csv", start, end)
    for number, times in sorted(taken.items()):
        of = f" of container {number}" if len(taken) > 1 else ""
        yield from _missing(store, times, f"processes.csv{of}", start, end)


def _missing(store: Store, times: list[float], file: str, start: float, end: float) -> Iterator[Finding]:
    if any(after <= before for before, after in itertools.pairwise(times)):
        yield store.wrong(f"the times in {file} do not rise: a clock was set back, or rows were moved.")
    inside = sorted(time for time in times if start <= time <= end)
    if not inside:
        yield store.wrong(f"{file} has no sample of the load.")
        return
    if inside[0] - start > GAP_S:
        yield store.doubt(f"{file} begins {inside[0] - start:.0f} s after the load's start.")
    if end - inside[-1] > GAP_S:
        yield store.doubt(f"{file} ends {end - inside[-1]:.0f} s before the load's end: whoever wrote it fell silent.")
    gaps = [after - before for before, after in itertools.pairwise(inside) if after - before > GAP_S]
    if gaps:
        text = f"{file} has {len(gaps):,} gaps in the load, the longest of {max(gaps):.0f} s instead of 1 s."
        yield store.doubt(text)


def _pairs(store: Store) -> Iterator[Finding]:
    """Yield samples of the fleet without one of the machine, or the other way round: they are taken together."""
    for one, other in (("fleet", "machine"), ("machine", "fleet")):
        query = f"SELECT count(*) FROM {one} WHERE time NOT IN (SELECT time FROM {other})"  # noqa: S608 - names of ours
        if count := store.value(query):
            yield store.wrong(f"{count:,} samples of {one}.csv have none of {other}.csv beside them.")
    for table in ("fleet", "machine"):
        query = f"SELECT count(*) - count(DISTINCT time) FROM {table}"  # noqa: S608 - names of ours
        if count := store.value(query):
            yield store.wrong(f"{table}.csv has {count:,} samples more than once.")


def _roles(store: Store, start: float, end: float) -> Iterator[Finding]:
    """Yield roles that nobody had at the load's end, or too few had."""
    query = "SELECT DISTINCT role FROM processes WHERE time BETWEEN :start AND :end"
    roles = {role for (role,) in store.rows(query, start=start, end=end)}
    ever = {role for (role,) in store.rows("SELECT DISTINCT role FROM processes WHERE time < :end", end=end)}
    missing = [role for role in ("MWorker", "fleet", "locust") if role not in roles]
    # those of containers are sampled each at its own times
    last = dict(store.rows(
        """SELECT role, count(DISTINCT pid) FROM processes WHERE time BETWEEN
           (SELECT max(time) FROM processes WHERE time <= :end) - :gap AND :end GROUP BY role""",
        gap=GAP_S,
        end=end,
    ))  # fmt: skip
    missing += [role for role in ALWAYS if role in ever and role not in last and role not in missing]
    if missing:
        yield store.wrong(f"processes.csv has no sample of {some(missing)} at the load's end.")
    workers = store.value("SELECT count(DISTINCT file) FROM jobs")
    # and one that directs them
    if "fleet" not in missing and last.get("fleet", 0) <= workers:
        text = f"processes.csv has {last.get('fleet', 0):,} processes of the fleet, which has {workers:,} workers."
        yield store.wrong(text)


@dataclass(frozen=True)
class _Row:
    """A sample of a process; `tick` is the number of the round of samples that it was taken in."""

    tick: int
    time: float
    cpu_s: float
    role: str


def _processes(store: Store, scenario: Scenario, start: float, end: float) -> Iterator[Finding]:
    """Yield processes whose samples are not one series without a hole."""
    doubled = store.value("SELECT count(*) - count(DISTINCT pid || ' ' || time) FROM processes")
    if doubled:
        yield store.wrong(f"processes.csv has {doubled:,} samples of a process at the same time twice.")
    lives = _lives(store)
    silent, fell = [], []
    for pid, rows in lives.items():
        for before, after in itertools.pairwise(rows):
            name = f"{after.role} {pid}"
            if after.tick - before.tick > 1 and after.role == before.role and after.cpu_s >= before.cpu_s:
                silent.append(f"{name} for {after.time - before.time:.0f} s")
            elif after.tick - before.tick == 1 and after.cpu_s < before.cpu_s:
                fell.append(name)
    if silent:
        yield store.wrong(f"processes.csv lacks samples of processes that went on: {some(silent)}.")
    if fell:
        yield store.wrong(f"the CPU time of processes falls: {some(fell)}.")
    if not any(moment.do == RESTART for moment in scenario.timeline):
        yield from _ended(store, lives, start, end)
    yield from _roles(store, start, end)


def _lives(store: Store) -> dict[int, list[_Row]]:
    """Return the samples of each process; those of a container have times and numbers of their own."""
    ticks: dict[tuple[int, float], int] = {}
    taken: dict[int, int] = {}
    for number, time in store.rows("SELECT DISTINCT pid / :apart, time FROM processes ORDER BY 2", apart=APART):
        ticks[number, time] = taken[number] = taken.get(number, -1) + 1
    lives: dict[int, list[_Row]] = {}
    for pid, time, cpu_s, role in store.each("SELECT pid, time, cpu_s, role FROM processes ORDER BY rowid"):
        lives.setdefault(pid, []).append(_Row(ticks[pid // APART, time], time, cpu_s, role))
    return lives


def _ended(store: Store, lives: Mapping[int, list[_Row]], start: float, end: float) -> Iterator[Finding]:
    """Yield processes that were there when the load began, and were not when it ended, though such stay."""
    gone = []
    for pid, rows in lives.items():
        last = store.value(
            "SELECT max(time) FROM processes WHERE pid / :apart = :number AND time <= :end",
            apart=APART,
            number=pid // APART,
            end=end,
        )
        if rows[-1].role in STAY and rows[0].time <= start <= rows[-1].time < (last or end):
            gone.append(f"{rows[-1].role} {pid} {rows[-1].time - start:.0f} s after the load's start")
    if gone:
        text = f"{len(gone):,} processes ended or fell silent during the load, which no moment of the scenario explains"
        yield store.doubt(f"{text}: {some(gone)}.")


def _fleet_cpu(store: Store, start: float, end: float) -> Iterator[Finding]:
    """Yield a fleet that counted another CPU time than the kernel did for its processes."""
    edges = store.row(
        "SELECT min(time), max(time), max(cpu_s) - min(cpu_s) FROM fleet WHERE time BETWEEN :start AND :end",
        start=start,
        end=end,
    )
    if edges[0] is None:
        return
    kernel = store.value(
        """SELECT sum(used) FROM (SELECT max(cpu_s) - min(cpu_s) AS used FROM processes
           WHERE role = 'fleet' AND time BETWEEN :start AND :end GROUP BY pid)""",
        start=edges[0] - 1,
        end=edges[1] + 1,
    )
    if kernel is not None and edges[2] > kernel * (1 + FLEET_SHARE) + FLEET_S:
        text = f"the fleet counted {edges[2]:.1f} s of CPU in the load, the kernel {kernel:.1f} s"
        yield store.wrong(f"{text}: samples of it are missing, or a clock is off.")


def impossible(store: Store, cores: int) -> Iterator[Finding]:
    """Yield processes that used more CPU between two samples than a machine of so many `cores` has."""
    found = []
    for pid, rows in _lives(store).items():
        if pid >= APART:
            # containers may be on other machines
            continue
        for before, after in itertools.pairwise(rows):
            used, seconds = after.cpu_s - before.cpu_s, after.time - before.time
            # with what its children used that ended within a second of their start
            if after.tick - before.tick == 1 and used > cores * (seconds + HANDED_S):
                found.append(f"{after.role} {pid} {used:.1f} s of CPU in {seconds:.1f} s")
    if found:
        yield store.wrong(f"processes used more than the machine has: {some(found)}.")


def _jumps(store: Store) -> Iterator[Finding]:
    """Yield jumps of the wall clock beside the monotonic one: every time in the samples is one of the wall clock."""
    rows = store.rows("SELECT time, monotonic FROM machine ORDER BY rowid")
    jumps = [
        (time, (time - before) - (monotonic - earlier))
        for (before, earlier), (time, monotonic) in itertools.pairwise(rows)
        if abs((time - before) - (monotonic - earlier)) > JUMP_S
    ]
    if jumps:
        jumped = some(f"{off:+.1f} s at {time - rows[0][0]:.0f} s" for time, off in jumps)
        yield store.wrong(f"the machine's clock was set during the run: {jumped}.")
