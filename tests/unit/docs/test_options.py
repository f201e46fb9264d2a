"""Every option that the code of a feature reads stands on one of the feature's pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXTENSIONS = ROOT / "salt" / "extensions"
# a dictionary of defaults, by its quoted keys
DEFAULTS = re.compile(r"^DEFAULTS = \{(.*?)\}", re.MULTILINE | re.DOTALL)
KEY = re.compile(r'"(\w+)":')


def defaults(path: Path) -> set[str]:
    """Return the keys of the dictionary DEFAULTS of a file."""
    (body,) = DEFAULTS.findall(path.read_text(encoding="utf-8"))
    return set(KEY.findall(body))


def read_from(section: str, folder: Path) -> set[str]:
    """Return the keys that the files of a folder read from a section of the master's options."""
    direct = re.compile(rf'opts\.get\("{section}"\) or \{{\}}\)\.get\(\s*"(\w+)"')
    own = re.compile(rf'(\w+) = (?:self\.)?_*opts\.get\("{section}"\) or \{{\}}\n')
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found |= set(direct.findall(text))
        for name in own.findall(text):
            found |= set(re.findall(rf'\b{name}\.get\(\s*"(\w+)"', text))
    return found


def words_of(path: Path) -> set[str]:
    """Return the options that the docstring of a module of Salt describes: names on a line of their own."""
    text = path.read_text(encoding="utf-8").split('"""')[1]
    return set(re.findall(r"^(\w+)\n    \S", text, re.MULTILINE))


SALT = ROOT / "salt" / "salt"
STATES = EXTENSIONS / "package-states" / "src" / "saltext" / "package_states"
FEATURES = {
    "package states": (
        defaults(STATES / "store" / "connection.py") | read_from("package_states", STATES),
        ("package-states.md", "package-commands.md", "package-detection.md"),
    ),
    "query": (
        defaults(EXTENSIONS / "query" / "src" / "saltext" / "query" / "live.py"),
        ("query.md", "query-programs.md"),
    ),
    "Uyuni's pillars": (
        defaults(EXTENSIONS / "uyuni-pillar" / "src" / "saltext" / "uyuni_pillar" / "layout.py"),
        ("uyuni.md", "pillar-table.md", "pillar-storage.md"),
    ),
    "ext_pillar postgres": (words_of(SALT / "pillar" / "postgres.py"), ("pillar-storage.md", "pillar-table.md")),
    "module interfaces": ({"smi"}, ("module-interface.md",)),
}


@pytest.mark.parametrize("feature", FEATURES)
def test_every_option_is_on_a_page(feature: str) -> None:
    """In code letters, or as a key of an example."""
    options, pages = FEATURES[feature]
    assert options
    text = "\n".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in pages)
    named = {one for one in options if re.search(rf"`{one}\b|^[\s#-]*{one}:|[{{,] ?{one}:", text, re.MULTILINE)}
    assert sorted(options - named) == []
