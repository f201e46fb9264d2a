"""The page in Markdown: ten questions, what it costs, what was missed, what is not measured, and all rows.

The first words name the evidence, then follow the figure and the side of it: `stock`, `ours`, or `change` for what
the difference of the two means in words. A run that is not trustworthy fills none, and a busy machine is named.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from benchmarks.benchmark import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.benchmark import Aim, Figure
    from benchmarks.registry import Subject

# keys that have to be equal for the same machine
MACHINE = ("processor", "cores", "memory_gb", "distribution", "python")


@dataclass(frozen=True)
class Source:
    """A file of evidence: the command that measured it, when (UTC, ISO 8601), where, and on what.

    `marks` say why to read it with care: the machine had other work when it began, the check of a load run found a
    reason, the tree was not what the patches make, or the code has changed since.
    """

    file: str
    command: str
    date: str
    machine: Mapping[str, Any]
    salt: str
    commit: str
    marks: tuple[str, ...] = ()

    @property
    def where(self) -> tuple[str, ...]:
        """Return what tells the machine from another one, in words."""
        return tuple(str(self.machine.get(name, "")) for name in MACHINE)


BUSY, DOUBTED, EDITED, OLDER = "busy", "not trustworthy", "edited", "older code"


def read_source(file: str, values: Mapping[str, Any], older: bool) -> Source:  # noqa: FBT001 - one of the marks
    """Return what a file says of itself; raises KeyError, TypeError, ValueError or AttributeError if it is damaged."""
    datetime.fromisoformat(values["date"])
    machine = values["machine"]
    marks = {
        BUSY: float(machine["load_average_at_start"]) > float(machine["cores"]),
        DOUBTED: bool(values.get("doubts")),
        EDITED: any(tree.get("edited") for tree in values["trees"].values()),
        OLDER: older,
    }
    salt, commit = (
        str(values["versions"].get("salt_stock", "")),
        str(values["git"]["patches"] or values["git"]["commit"]),
    )
    command, shown = str(values["command"]), tuple(mark for mark, is_so in marks.items() if is_so)
    return Source(file, command, values["date"], machine, salt, commit, shown)


@dataclass(frozen=True)
class Row:
    """One figure that was measured, in `n` samples of ours."""

    figure: Figure
    what: str
    n: int
    stock: float | None = None
    ours: float | None = None
    ratio: float | None = None

    @property
    def met(self) -> bool | None:
        """Say whether the aim is met; None without an aim or a value."""
        aim = self.figure.aim
        value = self.ratio if aim is not None and aim.of == "ratio" else self.ours
        return None if aim is None or value is None else aim.met(value)


@dataclass(frozen=True)
class Section:
    """The figures of one benchmark or scenario; without a source nothing was measured."""

    subject: Subject
    source: Source | None = None
    rows: tuple[Row, ...] = ()


HEAD = """\
# Results

`nox -s results` writes this page from the files in [evidence](evidence), and nothing here is typed by hand. To measure
a table again, run the command above it, then `nox -s results -- --collect`. `nox -s campaign` runs all of them.
"""
NOTES = """\
*Stock* is Salt as released, *Saltbed* is the same Salt with all patches. Both run on the same machine, one after the
other, so a ratio says more than a time. A number is the median of its samples unless its row says otherwise, and *n*
is the number of samples. The *change* is that from the first number shown to the second one. The *ratio* is the median
of the ratios of single turns, in which both were measured one after the other, so it may differ from the two medians.
Behind a date, *busy* means that the machine had other work when the run began, *not trustworthy* that the check of a
load run found a reason, which the evidence has as `doubts`, *edited* that `salt/` had edits that are in no patch, and
*older code* that Salt, or the extension that is measured, has changed since.
"""
COLUMNS = ("what", "stock", "Saltbed", "ratio", "aim", "met", "n")
HUNDRED = 100
MET = {True: "yes", False: "**no**", None: ""}
# ratios between these are no difference that one would tell of
SAME = 0.95, 1.05
# from here on a ratio reads better as "4 times" than as "-75 %"
TWICE = 2.0


@dataclass(frozen=True)
class Question:
    """A line of the first two tables: a figure of the evidence; `total` names the figure that it is a part of."""

    text: str
    name: str
    key: str
    total: str = ""


QUESTIONS = (
    Question("Ten people press return at once: answered", "load/default", "client_answered", "client_requests"),
    Question("20 commands to 1,000 minions at once: answered", "load/burst", "client_answered", "client_requests"),
    Question("One job to 10,000 minions: returns", "load/ten-thousand", "returns_kept", "returns_expected"),
    Question("CPU of the master for one return, 1,000 minions", "returns", "total"),
    Question("A pillar from PostgreSQL, 1,000 minions", "pillar", "fetch"),
    Question(
        "A broken pillar query: until there is an error, not half a pillar", "pillar-failures", "broken-second-query"
    ),
    Question("16 fields of 10,000 minions in one table", "query", "sixteen-time"),
    Question("Which of 10,000 minions differ from their package state", "package-fleet", "status"),
    Question("Memory of the job handler with 10,000 jobs in its queue", "handler", "queue"),
    Question("CPU to load all modules, while module interfaces are off", "interfaces", "all-off"),
)
COSTS = (
    Question("Job handler: CPU more for a return", "returns", "handler"),
    Question("Job handler: its CPU, 5,000 events a second", "handler", "feed-cores"),
    Question("Module interfaces, on: CPU to load all modules, beside off", "interfaces", "all-on"),
    Question("Package states: one save of one minion", "package-states", "save"),
    Question("Queries: memory of 16 fields of 10,000 minions", "query", "sixteen-memory"),
)

# why an aim is missed, as far as somebody has measured it
WHY: dict[tuple[str, str], str] = {
    ("pillar", "fetch"): (
        "A connection is no longer made, and merging is cheaper. What is left is Python: to decode the JSON of rows "
        "and to merge them takes more than half of the CPU of a fetch."
    ),
    ("pillar", "fetch-socket"): "The same, and stock saves the password's part of making a connection.",
    ("handler", "release"): (
        "The handler hears of each return alone: 10,000 leases are 10,000 calls of a Python function, about 2 us each."
    ),
    ("returns", "total"): (
        "The workers take most of it: they decrypt the return, write it to the job cache in a folder of its own with "
        "an fsync, and fire its event."
    ),
    ("returns", "rate"): "It is the time for a return once more, as a rate.",
}


def write(sections: Sequence[Section]) -> str:
    """Return the page."""
    measured = [section for section in sections if section.source is not None]
    rows = {(one.subject.name, row.figure.key): (row, one.source) for one in measured for row in one.rows if one.source}
    sources = [one.source for one in measured if one.source]
    letters = _machines(sources)
    parts = [HEAD, _header(sources, letters), NOTES, _questions("In one minute", QUESTIONS, rows, letters)]
    parts += [_questions("What it costs", COSTS, rows, letters), _missed(rows), _not_measured(sections)]
    parts += ["## By feature\n", *(_table(one, one.source, letters) for one in measured if one.source)]
    return "\n".join(parts)


def number(value: float, unit: str) -> str:
    """Return a number with its unit, in three digits or as a whole number."""
    if unit == "%":
        return f"{number(value * HUNDRED, '')} %"
    whole = value == int(value) or abs(value) >= HUNDRED
    text = f"{value:,.0f}" if whole else f"{value:.3g}"
    return f"{text} {unit}".strip() if unit != "x" else text


def change(ratio: float) -> str:
    """Return what a ratio of Saltbed to stock means, in words."""
    if SAME[0] <= ratio <= SAME[1]:
        return "the same"
    if 0 < ratio <= 1 / TWICE:
        return f"{_times(1 / ratio)} times less"
    if ratio >= TWICE:
        return f"{_times(ratio)} times as much"
    return f"{number(abs(ratio - 1), '%')} {'less' if ratio < 1 else 'more'}"


def shown_change(row: Row) -> str:
    """Return the change from the number of stock to that of Saltbed, as both are shown; empty if one is missing.

    The row's ratio is that of single turns, which two medians do not give.
    """
    return change(row.ours / row.stock) if row.stock and row.ours is not None else ""


def _times(value: float) -> str:
    return f"{value:.2g}" if value < HUNDRED else f"{value:,.0f}"


def aim_text(aim: Aim, unit: str) -> str:
    """Return an aim in words."""
    low, high = (
        limit if limit is None else f"{limit:.3g} of stock" if aim.of == "ratio" else number(limit, unit)
        for limit in (aim.minimum, aim.maximum)
    )
    if low == high or (aim.minimum is None and not aim.maximum):
        return str(high)
    if low is not None and high is not None:
        return f"{low} to {high}"
    return f"at most {high}" if low is None else f"at least {low}"


Letters = dict[tuple[str, ...], str]


def _machines(sources: Sequence[Source]) -> Letters:
    """Return the name of each machine, the one with most files first; no name if there is one machine."""
    found = [where for where, _ in Counter(source.where for source in sources).most_common()]
    return {where: f"machine {number}" if len(found) > 1 else "" for number, where in enumerate(found, 1)}


def _when(source: Source, letters: Letters) -> str:
    """Return the date with its evidence, and why to read it with care."""
    date = f"[{source.date[:10]}](evidence/{source.file})"
    return ", ".join(filter(None, (date, letters[source.where], *source.marks)))


def _header(sources: Sequence[Source], letters: Letters) -> str:
    """Return what was measured, where and when; the table's own line has what differs."""
    if not sources:
        return "Nothing is measured.\n"
    newest = max(sources, key=lambda source: source.date)
    days = sorted({source.date[:10] for source in sources})
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    lines = [f"Salt {newest.salt} with the patches of commit `{newest.commit[:10]}`, {span}."]
    for where, name in letters.items():
        facts = dict(zip(MACHINE, where, strict=True))
        words = f"{facts['processor']}, {facts['cores']} cores, {facts['memory_gb']} GB, {facts['distribution']}"
        lines.append(f"{name.capitalize() or 'Machine'}: {words}, Python {facts['python']}.")
    lines.append("Everything runs on it at once: master, salt-api, PostgreSQL, simulated minions, clients.")
    return "  \n".join(lines) + "\n"


Measured = dict[tuple[str, str], tuple["Row", "Source"]]


def _questions(title: str, questions: Sequence[Question], rows: Measured, letters: Letters) -> str:
    lines = [_line(("question", "stock", "Saltbed", "change", "n", "evidence")), _line(["---"] * 6)]
    for one in questions:
        row, source = rows.get((one.name, one.key), (None, None))
        if row is None or source is None:
            lines.append(_line((one.text, "", "not measured", "", "", "")))
            continue
        whole, _ = rows.get((one.name, one.total), (None, None))
        stock = _part(row.stock, None if whole is None else whole.stock, row)
        ours = _part(row.ours, None if whole is None else whole.ours, row)
        change = "" if whole is not None else shown_change(row)
        if whole is not None and None not in (row.stock, row.ours):
            change = f"{number((row.ours or 0) - (row.stock or 0), '')} more"
        lines.append(_line((one.text, stock, ours, change, str(row.n), _when(source, letters))))
    return f"## {title}\n\n" + "\n".join(lines) + "\n"


def _part(value: float | None, total: float | None, row: Row) -> str:
    if value is None:
        return ""
    text = number(value, row.figure.unit)
    return text if total is None else f"{text} of {number(total, '')}"


def _missed(rows: Measured) -> str:
    lines = []
    for (name, _), (row, source) in rows.items():
        if row.met is False and row.figure.aim is not None:
            value = row.ratio if row.figure.aim.of == "ratio" else row.ours
            found = number(value or 0, "x" if row.figure.aim.of == "ratio" else row.figure.unit)
            why = (
                "The machine had other work: measure it again."
                if {BUSY, DOUBTED} & {*source.marks}
                else WHY.get((name, row.figure.key), "Not known yet.")
            )
            marks = f" ({', '.join(source.marks)})" if source.marks else ""
            aim = aim_text(row.figure.aim, row.figure.unit)
            if found in aim:  # it is missed by less than three digits show
                found = f"{value:.5g}"
            # as a Markdown renderer makes an anchor of a heading
            anchor = name.replace("/", "")
            lines.append(f"- [{name}](#{anchor}): {row.what}: {found}{marks}, the aim is {aim}. {why}")
    return "## Aims missed, and why\n\n" + ("\n".join(lines) or "None of those that are measured.") + "\n"


def _not_measured(sections: Sequence[Section]) -> str:
    """Return a line for each section that lacks something: everything, or figures that its evidence does not have."""
    lines = []
    for one in sections:
        lacking = len(one.subject.figures) - len(one.rows)
        if lacking:
            what = "" if one.source is None else f"{lacking} of {len(one.subject.figures)} figures. "
            lines.append(f"- `{one.subject.command}`: {what}{_sentence(one.subject.about)}")
    return "## Not measured yet\n\n" + ("\n".join(lines) or "Nothing.") + "\n"


def _table(section: Section, source: Source, letters: Letters) -> str:
    lines = [_line(COLUMNS), _line(["---"] * len(COLUMNS)), *(_line(_cells(row)) for row in section.rows)]
    about = _sentence(section.subject.about)
    return (
        f"### {section.subject.name}\n\n{about} `{source.command}`, {_when(source, letters)}.\n\n"
        + "\n".join(lines)
        + "\n"
    )


def _cells(row: Row) -> Iterator[str]:
    unit, aim = row.figure.unit, row.figure.aim
    yield row.what
    yield "" if row.stock is None else number(row.stock, unit)
    yield "" if row.ours is None else number(row.ours, unit)
    yield "" if row.ratio is None else number(row.ratio, "x")
    yield "" if aim is None else aim_text(aim, unit)
    yield MET[row.met]
    yield str(row.n)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _line(cells: Sequence[str] | Iterator[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


MARKER = re.compile(r"(?P<start><!-- figure: (?P<place>\S+) -->)(?P<text>.*?)(?P<end><!-- /figure -->)", re.DOTALL)
SIDES = ("stock", "ours", "change")
NOT_MEASURED = "(not measured)"
WHILE_BUSY = " (on a busy machine)"


def fill(text: str, sections: Sequence[Section]) -> str:
    """Return a page with the figures of the evidence; raises BenchmarkError if a marker names none."""
    known = {f"{one.subject.name}/{figure.key}" for one in sections for figure in one.subject.figures}
    believed = [one for one in sections if one.source is not None and DOUBTED not in one.source.marks]
    rows = {f"{one.subject.name}/{row.figure.key}": row for one in believed for row in one.rows}
    busy = {one.subject.name for one in believed if one.source is not None and BUSY in one.source.marks}

    def replaced(found: re.Match[str]) -> str:
        name, _, side = found["place"].rpartition("/")
        if name not in known or side not in SIDES:
            raise BenchmarkError(
                f"There is no figure {found['place']!r}: write NAME/KEY/SIDE, with the name and the key of a file in "
                f"docs/evidence, and {', '.join(SIDES)} as the side."
            )
        text = _value(rows.get(name), side)
        beside = WHILE_BUSY if text and name.rpartition("/")[0] in busy else ""
        return f"{found['start']}{text or NOT_MEASURED}{beside}{found['end']}"

    return MARKER.sub(replaced, text)


def _value(row: Row | None, side: str) -> str:
    if row is None:
        return ""
    if side == "change":
        return shown_change(row)
    value: float | None = getattr(row, side)
    return "" if value is None else number(value, row.figure.unit)
