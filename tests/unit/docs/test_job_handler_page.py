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


def assigned(path: Path, name: str) -> list[Any]:
    """Return the values that are assigned to a name in a file, without what is no literal in them."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in node.targets):
            value = node.value
            if isinstance(value, ast.Tuple):
                found.append(tuple(ast.literal_eval(one) for one in value.elts if isinstance(one, ast.Constant)))
            else:
                found.append(ast.literal_eval(value))
    return found


def test_every_setting_has_its_row() -> None:
    """Those of the job handler with their defaults, and those of the criteria modules; no row is left over."""
    (defaults,) = assigned(CODE / "job_handler" / "config.py", "DEFAULTS")
    settings = rows("Settings")
    assert set(settings) == {"criteria", *defaults}
    for name, default in defaults.items():
        if not isinstance(default, list):
            assert settings[name].split("|")[0].strip().strip("`") == str(default)
    modules = [path for path in (CODE / "job_criteria").glob("*.py") if not path.name.startswith("_")]
    options = {option for path in modules for options in assigned(path, "options") for option in options}
    assert len(options) > 10
    assert set(rows("Criteria modules")) == options | {path.stem for path in modules}


def test_every_metric_has_its_row() -> None:
    """A metric that nobody knows is watched by nobody."""
    text = (CODE / "job_handler" / "metrics.py").read_text(encoding="utf-8")
    names = set(re.findall(r'"salt\.job_handler\.(\w+)"', text)) | set(
        re.findall(r'^ +\("(\w+)", "\w+", "', text, re.MULTILINE)
    )
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
    assert recommended["criteria"] == "adaptive"
    for path in (
        CODE.parent / "conf" / "master",
        CODE.parent / "doc" / "ref" / "configuration" / "master.rst",
        CODE.parent / "doc" / "topics" / "jobs" / "job_handler.rst",
    ):
        assert sections(path)[0] == recommended, path
    scenario = tomllib.loads((ROOT / "harness" / "scenarios" / "default.toml").read_text(encoding="utf-8"))
    assert scenario["trees"]["patched"]["master"]["rate_limiting"] == recommended
