"""The report: what a reader finds on the page."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness import figures
from harness import report as page
from harness.errors import SettingsError
from harness.report import rows, series, theme, verdict
from harness.results import evidence, result
from harness.results.comparison import Change
from harness.results.differences import Pair
from harness.samples import ClientSample
from tests.unit.harness import repeated_run

RUN = Path(__file__).parent / "data" / "run"
VOID = {"meta", "br", "link", "img", "hr", "path", "use", "rect"}


class Text(HTMLParser):
    """Collects the visible text and the attributes of a page, and checks that its elements are closed in order."""

    def __init__(self, source: str) -> None:
        """Read `source`."""
        super().__init__()
        self.words: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.feed(source)
        self.close()

    @property
    def text(self) -> str:
        """Return the visible text with single spaces."""
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID or tag in {"path", "use", "rect"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that has no end of its own."""
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        """Close an element."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note text."""
        if not {"style", "svg"} & set(self.open):
            self.words.append(data)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the page of a run of two trees."""
    folder = Path(shutil.copytree(RUN, tmp_path_factory.mktemp("report") / "run"))
    result.write(result.compute(folder), folder)
    return page.write(folder).read_text()


@pytest.fixture(scope="module")
def found(source: str) -> Text:
    """Return the text of that page."""
    return Text(source)


@pytest.mark.slow
def test_page_is_well_formed(found: Text) -> None:
    """Every element is closed."""
    assert found.open == []


def test_page_needs_nothing_else(found: Text) -> None:
    """The page loads nothing: no script, no picture, no style or font from anywhere."""
    loading = [entry for entry in found.attributes if entry[1] in {"src", "srcset"} or entry[0] in {"link", "script"}]
    assert loading == []
    links = {value for _, name, value in found.attributes if name == "href" and not value.startswith("#")}
    assert links == set()


def test_verdict_comes_first(found: Text) -> None:
    """The first sentence says what the difference is, and the verdict how each tree fared, before anything else."""
    body = found.text.partition(" ")[2]
    sentence = "stock: 1 of 2 requests got a complete answer, the longest wait was 8.0 s; patched: 2 of 2, 2.0 s."
    assert found.text.startswith(f"two: {sentence} {sentence} Two CLIs at once on four minions. "), body
    expected = (
        "stock collapsed 1 of 2 client requests got a complete answer. 2 requested jobs became 3. "
        "70.0 % of the sends were acknowledged; minions sent each return 1.33 times on average. "
        "1 of 12 returns were lost after execution. "
        "patched went well 2 of 2 client requests got a complete answer. "
        "100.0 % of the sends were acknowledged; minions sent each return 1.00 times on average. "
        "0 of 8 returns were lost after execution. ✗ 1 of the scenario's 3 limits missed: acknowledged_ratio (stock)."
    )
    assert expected in found.text
    assert found.text.index("How long each request waited") < found.text.index(expected)
    assert found.text.index(expected) < found.text.index("Longest wait")


def test_what_is_not_told_apart_is_small(found: Text, source: str) -> None:
    """Two requests of one run tell no trees apart: no figure has a card, all share a line below that says so."""
    assert '<div class="card"' not in source
    assert "Not told apart by one run of each: client errors 1 and 0, longest wait 8 s and 2 s, " in found.text
    told = "patched differs from stock by more than chance in 0 of 20 figures (1 run each)."
    assert told in found.text
    assert "a time or rate differs beyond" in found.text


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Text]:
    """Return a run with five repeats of the two trees, and its page."""
    folder = repeated_run.repeated(tmp_path_factory.mktemp("repeated"), 5)
    result.write(result.compute(folder), folder)
    return folder, Text(page.write(folder).read_text())


@pytest.mark.slow
def test_repeats_tell_trees_apart(repeated: tuple[Path, Text]) -> None:
    """Figures whose ranges are apart have cards, with their range and the number of repeats."""
    folder, found = repeated
    cards = re.findall(r'<div class="card".*?<h3>(.*?)</h3>', (folder / page.FILE).read_text(), re.DOTALL)
    assert cards == [
        "Client errors",
        "Longest wait",
        "Lost after execution",
        "Publications per job",
        "find_jobs per execution",
        "Sends acknowledged",
        "Master CPU per requested return",
        "Returns kept per second",
    ]
    assert "stock 8.04 s 8 s to 8.08 s in 5 runs patched 2.04 s 2 s to 2.08 s in 5 runs ▲ 3.9× better" in found.text  # noqa: RUF001 - a multiplication sign
    assert "stock and patched took turns, 5 times each; who came first changed." in found.text
    assert "patched differs from stock by more than chance in 15 of 20 figures (5 runs each): " in found.text
    assert "by chance that comes once in 126 figures" in found.text


def test_repeats_are_summed_in_words(repeated: tuple[Path, Text]) -> None:
    """The first sentence counts the requests of all repeats, and limits hold for the worst of them."""
    sentence = "stock: 5 of 10 requests got a complete answer in 5 runs, the longest wait was 8.1 s; patched: 10 of 10"
    assert sentence in repeated[1].text
    assert "missed stock acknowledged_ratio is 0.70 in 5 of 5 repeats, at least 0.90" in repeated[1].text


def test_trees_are_explained(found: Text) -> None:
    """Who has never seen a report learns what the trees are, and what settings one of them alone has."""
    assert re.search(r"stock Salt (\S+ )?as it is released patched Salt (\S+ )?with our patches", found.text)
    scenario = {"tree_master": {"patched": {"rate_limiting": {"criteria": "capacity", "adaptive": True}}}}
    versions = {"versions": {"salt_patched": "3008.5"}}
    assert page.meaning("patched", scenario, versions) == (
        'Salt 3008.5 with our patches, set to "rate_limiting": {"criteria": "capacity", "adaptive": true}'
    )
    assert page.meaning("stock", scenario, {}) == "Salt as it is released"


def test_limits_are_listed(found: Text) -> None:
    """Every limit of the scenario is there with what was found."""
    assert "met patched client_errors is 0, at most 0" in found.text
    assert "missed stock acknowledged_ratio is 0.70, at least 0.90" in found.text


def test_trees_are_compared(found: Text) -> None:
    """A figure shows both trees and which one is better by how much."""
    assert re.search(
        r"Client latency, median client_latency_s.p50 .*? 5 s \(n = 2\) 1.50 s \(n = 2\) not told apart", found.text
    )
    assert re.search(r"Peak memory, MWorker peak_memory_mb.MWorker [\d.]+ MB", found.text)


def test_every_figure_has_its_definition(found: Text) -> None:
    """Each figure stands on the page with its name in `result.json` and its definition."""
    missing = [
        figure.name
        for figure in figures.FIGURES
        if figure.name not in figures.BY_ROLE and f"{figure.label} {figure.name} {figure.definition}" not in found.text
    ]
    assert missing == []


def test_plots_speak(found: Text) -> None:
    """Every plot says what it shows to those who can't see it."""
    labels = [value for tag, name, value in found.attributes if tag == "svg" and name == "aria-label"]
    assert len(labels) == 11
    expected = (
        "How long each request waited. stock: 1 of 2 complete (ping all 1 of 2). "
        "patched: 2 of 2 complete (ping all 2 of 2)."
    )
    assert labels[0] == expected
    assert (
        "Minions over time at ramp-up. stock: all 4 minions ready after 2 s; patched: all 4 minions ready after 2 s."
        in labels
    )


def test_plots_use_the_themes_colours_only(source: str) -> None:
    """No colour is fixed within a plot, so that the dark theme reaches all of it; ids are unique on the page."""
    plots = re.findall(r"<svg.*?</svg>", source, re.DOTALL)
    fixed = {colour for plot in plots for colour in re.findall(r"(?:fill|stroke): (#\w+)", plot)}
    assert fixed <= {"#000000"}
    ids = re.findall(r'\bid="([^"]+)"', source)
    assert len(ids) == len(set(ids))
    wanted = set(re.findall(r'href="#([^"]+)"', source)) | set(re.findall(r"url\(#([^)]+)\)", source))
    assert wanted <= set(ids)


def test_errors_are_listed(found: Text) -> None:
    """What went wrong is listed with its count, whatever the numbers in its text."""
    assert "reason requests stock some of 4 minions answered 1" in found.text


def test_the_command_repeats_the_run(found: Text) -> None:
    """The page ends with how to repeat the run, and where it ran."""
    assert "python -m harness load --scenario two --tree both" in found.text
    assert "salt stock 3008.5" in found.text


def test_one_tree_only(tmp_path: Path) -> None:
    """A run of one tree has a report without comparisons."""
    folder = Path(shutil.copytree(RUN, tmp_path / "run"))
    path = folder / "run.json"
    path.write_text(path.read_text().replace('"stock",', ""))
    result.write(result.compute(folder), folder)
    text = Text(page.write(folder).read_text()).text
    sentence = "patched: 2 of 2 requests got a complete answer, the longest wait was 2.0 s."
    assert text.startswith(f"two: {sentence} {sentence} ")
    assert "The scenario's 2 limits met." in text
    assert "better" not in text


def test_without_result(tmp_path: Path) -> None:
    """A run without a result is refused in a sentence that says how to get one."""
    folder = Path(shutil.copytree(RUN, tmp_path / "run"))
    with pytest.raises(SettingsError, match="run `build/venv/bin/python -m harness result "):
        page.write(folder)


def _tree(requests: int = 10, errors: int = 0) -> dict[str, Any]:
    return {
        "client_requests": requests,
        "client_errors": errors,
        "returns_lost": 0,
        "never_reached": 0,
        "returns_unfinished": 0,
        "jobs_accepted": 10,
        "jobs_unpublished": 0,
        "returns_expected": 100,
        "acknowledged_ratio": 1.0,
        "duplicate_ratio": 0.0,
        "publications": 10,
        "jobs_requested": 10,
        "publications_per_job": 1.0,
        "settled_in_time": True,
    }


def test_missed_limits_are_named() -> None:
    """The verdict names the missed limits, each once with its trees."""
    trees = {tree: _tree() for tree in ("stock", "patched")}
    missed = [{"tree": tree, "field": "settle_s", "passed": False} for tree in trees]
    found = {"trees": trees, "thresholds": [*missed, {"tree": "stock", "field": "find_jobs", "passed": True}]}
    headline = verdict.headline(found, [verdict.of_tree(*pair) for pair in trees.items()])
    assert headline.state == "bad"
    assert headline.limits == "2 of the scenario's 3 limits missed: settle_s (stock and patched)."


def test_log_ins_are_told() -> None:
    """Where users log in, the verdict says how many could and how long that took; a result of before has none."""
    told = [verdict.of_tree("stock", _tree()).sentences]
    for logins, failed, median in ((60, 2, 1.24), (1, 0, None), (0, 0, None)):
        values = _tree() | {"logins": logins, "login_errors": failed, "login_s": {"p50": median}}
        told.append(verdict.of_tree("stock", values).sentences)
    assert [[text for text in texts if "log-in" in text] for texts in told] == [
        [],
        ["58 of 60 log-ins worked, half of them within 1.2 s."],
        ["1 of 1 log-ins worked."],
        [],
    ]


def test_sentence() -> None:
    """The sentence is made of complete answers and the longest wait, whatever the scenario and the trees."""
    trees = {"stock": _tree(52, 21), "patched": _tree(52), "other": _tree(0)}
    trees["stock"]["longest_wait_s"], trees["patched"]["longest_wait_s"] = 240.2, 40.4
    expected = (
        "stock: 31 of 52 requests got a complete answer, the longest wait was 4 min; patched: 52 of 52, 40 s; "
        "other: no request was sent."
    )
    assert verdict.sentence(trees) == expected
    assert verdict.sentence({"stock": _tree(2)}) == "stock: 2 of 2 requests got a complete answer."


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.99, "10 s"),
        (119.4, "119 s"),
        (119.6, "2 min"),
        (125.0, "2 min 5 s"),
        (3599.9, "60 min"),
    ],
)
def test_duration(seconds: float, expected: str) -> None:
    """A time is told as somebody who waits would tell it."""
    assert verdict.duration(seconds) == expected


def test_a_run_without_requests_is_no_success() -> None:
    """Nothing asked is nothing proven."""
    found = verdict.of_tree("stock", _tree(requests=0))
    assert (found.state, found.sentences) == ("warn", ("No request was sent.",))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "–"), (0.0, "0"), (0.001, "0.001"), (0.06, "0.06"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234")],  # noqa: RUF001 - a dash is what the page shows
)
def test_number(value: float | None, expected: str) -> None:
    """A number has three digits, and a small one is not taken for none."""
    assert rows.number(value) == expected


def test_none_is_not_some() -> None:
    """A request that no minion answered is told apart from one that some answered."""
    row = ClientSample("a", "api", "f", "sync", 0, 0, 0, 1, "", 50, 0, "0 of 50 minions answered")
    rows = [row, replace(row, error="10 of 50 minions answered"), replace(row, error="9 of 50 minions answered")]
    samples = SimpleNamespace(answers=evidence.answers(rows, [], []))
    expected = [("stock", "some of 50 minions answered", 2), ("stock", "0 of 50 minions answered", 1)]
    assert page.errors({"stock": cast("Any", samples)}) == expected


def test_processes_that_one_tree_lacks() -> None:
    """A process that a tree does not have has no figure there; one that is not the master's gets no badge."""
    functions = {"test.ping": {"returns": 10, "jobs_requested": 1}}
    trees = {
        "stock": {"cpu_s": {"EventPublisher": 1.0, "MWorker": 1.0, "locust": 1.0}, "per_function": functions},
        "patched": {"cpu_s": {"MWorker": 3.0, "locust": 9.0}, "per_function": functions},
    }
    pair = Pair(("stock",), ("patched",), control=False, lines=())
    rows = series.cpu_rows([trees], ["MWorker", "EventPublisher", "locust"], [pair])
    assert rows[0][2] == Change("", "differs 3.0×")  # noqa: RUF001 - a multiplication sign
    assert series.cpu_rows([trees], ["MWorker"], [])[0][2] is None
    assert rows[1] == ("EventPublisher", {"stock": "100 ms (10/s)", "patched": "–"}, None)  # noqa: RUF001 - a dash is what the page shows
    assert rows[2][2] is None


@pytest.mark.parametrize(
    ("load", "end"),
    [(1.5, " on 2 cores."), (2.5, " on 2 cores: the machine was busy, so treat differences in time as noise.")],
)
def test_conditions(load: float, end: str) -> None:
    """A reader is told the order of the trees, and whether the machine was busy."""
    trees = {"stock": {"load_average": load}, "patched": {"load_average": 3.5}}
    said = page.conditions(["stock", "patched"], {"machine": {"cores": 2}, "trees": trees})
    words = f"The load average was {load:g} before stock and 3.5 before patched{end}"
    assert said == f"stock ran first, then patched. {words}"


LATE_WORDS = (
    "4 of 30 requests were sent more than 0.1 s after they were due, at most 2.40 s: the clients had to wait for the "
    "processor."
)
CLOCK_WORDS = (
    "The clock of fleet-1 was 1.500 s behind this machine's (± 0.002 s), which is corrected; it moved by 0.900 s "
    "during the run, which is not."
)


def _remarked(**values: object) -> dict[str, Any]:
    quiet = {"sent_late_s": {"p95": None, "max": None, "n": 0, "late": 0}, "clocks": {}, "left_out": {"jobs": 0}}
    return {"stock": {**quiet, **values}}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, []),
        (
            {"sent_late_s": {"p95": 0.01, "max": 0.04, "n": 30, "late": 0}},
            ["All 30 requests were sent within 0.04 s of their time."],
        ),
        (
            {"sent_late_s": {"p95": 1.9, "max": 2.4, "n": 30, "late": 4}},
            [LATE_WORDS],
        ),
        (
            {"clocks": {"fleet-1": {"offset_s": 200.0, "error_s": 0.002, "drift_s": 0.0}}},
            ["The clock of fleet-1 was 200.000 s ahead of this machine's (± 0.002 s), which is corrected."],
        ),
        (
            {"clocks": {"fleet-1": {"offset_s": -1.5, "error_s": 0.002, "drift_s": 0.9}}},
            [CLOCK_WORDS],
        ),
        (
            {"left_out": {"jobs": 2, "returns": 4}},
            ["Of before the load's start and left out of every figure: 2 jobs, 4 returns."],
        ),
    ],
)
def test_remarks(values: dict[str, object], expected: list[str]) -> None:
    """The page says how late requests were sent, what was wrong with clocks, and what no figure has in it."""
    assert page.remarks(_remarked(**values)) == [("stock", text) for text in expected]


def test_percentiles_say_of_how_many() -> None:
    """Beside every percentile stands of how many times it is, also where they are too few for it."""
    latency = {"p50": 5.0, "p95": None, "p99": None, "n": 2}
    shown = [
        rows.row(figures.BY_NAME[f"client_latency_s.{name}"], {"stock": {"client_latency_s": latency}}).values["stock"]
        for name in ("p50", "p95")
    ]
    assert shown == ["5 s (n = 2)", "– (n = 2)"]  # noqa: RUF001 - a dash is what the page shows


def test_an_edited_tree_is_named() -> None:
    """A run of an edited tree says which files were edited, beside the figures and among the facts."""
    machine = {"trees": {"patched": {"hash": "0123456789abcdef", "edited": ["salt/master.py"]}}}
    expected = "patched: tree 0123456789ab, edited: salt/master.py"
    assert page.conditions(["patched"], machine) == f"Only patched ran. {expected}."
    assert page.facts(machine) == [("tree", expected)]


@pytest.mark.parametrize(
    ("errors", "lost", "acknowledged", "expected"),
    [
        (0, 0, 1.0, "went well"),
        (0, 0, None, "went well"),
        (1, 0, 1.0, "struggled"),
        (0, 1, 1.0, "struggled"),
        (0, 0, 0.9, "struggled"),
        (0, 0, 0.4, "collapsed"),
        (5, 0, 1.0, "collapsed"),
    ],
)
def test_verdict_without_thresholds(errors: int, lost: int, acknowledged: float | None, expected: str) -> None:
    """A tree's own figures tell whether its master was healthy."""
    duplicates = None if acknowledged is None else 0.0
    values = _tree(errors=errors)
    values |= {"returns_lost": lost, "acknowledged_ratio": acknowledged, "duplicate_ratio": duplicates}
    assert verdict.of_tree("stock", values).word == expected


def test_unknown_roles_join_the_rest() -> None:
    """A process without a colour of its own is shown with others of its kind, of the master or of the bed."""
    assert [theme.group(role) for role in ("MWorker", "ReqServer", "cli")] == ["MWorker", theme.REST, theme.OTHERS]
