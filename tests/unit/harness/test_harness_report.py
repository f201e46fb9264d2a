"""The report: what a reader finds on the page."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from harness import figures
from harness.errors import SettingsError
from harness.report import page, theme, verdict
from harness.results import result
from harness.results.comparison import Change

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
    """The verdict tells in words and numbers how each tree fared, before anything else."""
    expected = (
        "1 of the scenario's 3 limits missed: stock collapsed and patched went well. "
        "stock collapsed 1 of 2 client requests got a complete answer. 2 requested jobs became 3. "
        "70.0 % of the sends were acknowledged; minions sent each return 1.33 times on average. "
        "1 of 12 returns were lost. "
        "patched went well 2 of 2 client requests got a complete answer. "
        "100.0 % of the sends were acknowledged; minions sent each return 1.00 times on average. "
        "0 of 8 returns were lost."
    )
    assert expected in found.text
    assert found.text.index(expected) < found.text.index("Client errors")


def test_limits_are_listed(found: Text) -> None:
    """Every limit of the scenario is there with what was found."""
    assert "met patched client_errors is 0, at most 0" in found.text
    assert "missed stock acknowledged_ratio is 0.70, at least 0.90" in found.text


def test_trees_are_compared(found: Text) -> None:
    """A figure shows both trees and which one is better by how much."""
    assert "Client latency, 95 % stock 7.70 s patched 1.95 s ▲ 3.9× better" in found.text  # noqa: RUF001


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
    assert len(labels) == 12
    assert "2 client requests over time: 1 complete, 1 incomplete, 0 without an answer." in labels
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
    assert "The scenario's 2 limits met: patched went well." in text
    assert "better" not in text


def test_without_result(tmp_path: Path) -> None:
    """A run without a result is refused in a sentence that says how to get one."""
    folder = Path(shutil.copytree(RUN, tmp_path / "run"))
    with pytest.raises(SettingsError, match="run `python -m harness result "):
        page.write(folder)


@pytest.mark.parametrize(
    ("name", "stock", "patched", "expected"),
    [
        ("returns_lost", 10.0, 10.0, Change("", "alike")),
        ("returns_lost", 100.0, 104.0, Change("", "alike")),
        ("returns_lost", 10.0, 2.0, Change("good", "5.0× better")),  # noqa: RUF001
        ("returns_lost", 2.0, 50.0, Change("bad", "25× worse")),  # noqa: RUF001
        ("returns_lost", 3.0, 0.0, Change("good", "down to none")),
        ("returns_lost", 0.0, 3.0, Change("bad", "up from none")),
        ("acknowledged_ratio", 0.08, 0.97, Change("good", "+89.0 points, better")),
        ("returns_per_s", 100.0, 50.0, Change("bad", "2.0× worse")),  # noqa: RUF001
        ("minions", 10.0, 20.0, None),
    ],
)
def test_change(name: str, stock: float, patched: float, expected: Change | None) -> None:
    """A comparison says better or worse by the figure's own direction, and nothing below the noise."""
    assert page.change(figures.BY_NAME[name], {"stock": stock, "patched": patched}) == expected


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
    values = {
        "client_requests": 10,
        "client_errors": errors,
        "returns_lost": lost,
        "returns_expected": 100,
        "acknowledged_ratio": acknowledged,
        "duplicate_ratio": None if acknowledged is None else 0.0,
        "publications": 10,
        "jobs_requested": 10,
        "settled_in_time": True,
    }
    assert verdict.of_tree("stock", values).word == expected


def test_unknown_roles_join_the_rest() -> None:
    """A process without a colour of its own is shown with others of its kind, of the master or of the bed."""
    assert [theme.group(role) for role in ("MWorker", "ReqServer", "cli")] == ["MWorker", theme.REST, theme.OTHERS]
