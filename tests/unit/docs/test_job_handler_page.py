"""The pages of the job handler have every setting and metric of the code, and one recommended configuration."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "job-handler.md"
REFERENCE = ROOT / "docs" / "job-handler-reference.md"
CODE = ROOT / "salt" / "salt"


def rows(title: str) -> dict[str, str]:
    """Return the rows of the tables of a chapter by what is in their first cell."""
    chapter = REFERENCE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return {match[1]: match[2] for match in re.finditer(r"^\| `([\w.]+)` \|(.*)$", chapter, re.MULTILINE)}


def cells(row: str) -> list[str]:
    """Return the cells of a row behind the first one."""
    return [cell.strip() for cell in row.split(" | ")]


def assigned(path: Path, name: str) -> Any:
    """Return the literal that is assigned to a name in a file, wherever it is."""
    (value,) = [
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in node.targets)
    ]
    return ast.literal_eval(value)


def default_in(row: str) -> Any:
    """Return the default that a row names in its second cell."""
    return yaml.safe_load(cells(row)[0].strip("`"))


def test_every_setting_has_its_row() -> None:
    """Each setting of the job handler has a row with its default; no row is left over."""
    defaults = assigned(CODE / "job_handler" / "config.py", "DEFAULTS")
    settings = rows("Settings")
    assert set(settings) == {"criteria", *defaults}
    for name, default in defaults.items():
        if name != "exempt":
            assert default_in(settings[name]) == default, name


def test_every_setting_of_the_criteria_module_has_its_row() -> None:
    """Each setting of `capacity` has a row with its default, and a paragraph in the module; no row is left over."""
    module = CODE / "job_criteria" / "capacity.py"
    defaults = assigned(module, "_DEFAULTS")
    settings = rows("Settings of the criteria module")
    assert set(settings) == set(defaults)
    for name, default in defaults.items():
        assert default is None or default_in(settings[name]) == default, name
    described = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    assert [name for name in defaults if f"``{name}``" not in described] == []


def test_every_action_of_a_rule_has_its_row() -> None:
    """The table of the page has the actions of the code, in their order."""
    actions = assigned(CODE / "job_handler" / "policy.py", "ACTIONS")
    chapter = PAGE.read_text(encoding="utf-8").partition("\n## Rules, pauses and priorities\n")[2].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", chapter, re.MULTILINE)[1:]) == actions


def test_every_function_of_the_runner_is_on_the_page() -> None:
    """The table of the page names the functions of the runner, and no others."""
    tree = ast.parse((CODE / "runners" / "job_handler.py").read_text(encoding="utf-8"))
    functions = {node.name.rstrip("_") for node in tree.body if isinstance(node, ast.FunctionDef)}
    table = "\n".join(
        re.findall(r"^\| (`salt-run job_handler\.[^|]*) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    )
    named = set(re.findall(r"(?:job_handler\.|, `)(\w+)", table))
    assert named == {name for name in functions if not name.startswith("_")}


def test_every_metric_has_its_row() -> None:
    """A metric that nobody knows is watched by nobody."""
    names: set[str] = set()
    for path in (CODE / "job_handler").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        names.update(re.findall(r'(?:counter|histogram|gauge)\(\s*"salt\.job_handler\.(\w+)"', text))
    names.update(assigned(CODE / "job_handler" / "report.py", "GAUGES"))
    assert len(names) > 5
    assert set(rows("Metrics")) == {f"salt.job_handler.{name}" for name in names}


def sections(path: Path) -> list[Any]:
    """Return what stands as `rate_limiting` in examples of a file, commented out or not."""
    text = re.sub(r"^#(?=rate_limiting:| {2}\w)", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = re.findall(r"^( *)rate_limiting:\n((?:\1 +\S.*\n)+)", text, re.MULTILINE)
    return [yaml.safe_load("x:\n" + body)["x"] for _, body in found]


def test_one_configuration_is_recommended() -> None:
    """The page, Salt's reference and the scenario of the README's picture begin with the same one."""
    recommended = sections(PAGE)[0]
    assert recommended == {"criteria": "capacity", "adaptive": True, "return_seconds": 2, "sync_wait": "extend"}
    for path in (
        CODE.parent / "conf" / "master",
        CODE.parent / "doc" / "ref" / "configuration" / "master.rst",
        CODE.parent / "doc" / "topics" / "jobs" / "job_handler.rst",
    ):
        assert sections(path)[0] == recommended, path
    scenario = tomllib.loads((ROOT / "harness" / "scenarios" / "default.toml").read_text(encoding="utf-8"))
    assert scenario["trees"]["patched"]["master"]["rate_limiting"] == recommended
