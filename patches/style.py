"""Salt's own style for what we change in Salt: black, isort, pyupgrade, pylint with Salt's plugins, Salt's hooks.

Upstream's configuration of black and isort is in its pyproject.toml; that of pylint is not in the source
distribution, so ``tests/upstream/pylintrc`` stands for it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from patches.errors import UsageError
from patches.hooks import Hooks
from patches.series import read_series
from patches.state import read_state
from patches.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patches.layout import Layout
    from patches.repository import Repository

VERMIN = ("--target=3.9-", "--violations", "--quiet", "--format", "parsable")
PYUPGRADE = ("--py310-plus", "--keep-mock")
# runs in the Python of another program, which may be 2.7
FOREIGN = "/plugin/"
# nothing was rewritten, or something
REWRITTEN = (0, 1)
BANDIT = ("--quiet", "-lll", "--skip=B701,B324", "--format=custom", "--msg-template={relpath}:{line}: {test_id} {msg}")
# the places in a message of pylint: its own, and the one that it refers to
LINE = re.compile(r":\d+:\d*:|\bline \d+\b")


@dataclass(frozen=True)
class Verdict:
    """What one linter said of our files."""

    linter: str
    code: int
    output: str


def files(repository: Repository) -> tuple[str, ...]:
    """Return the Python files of Salt and of its extensions that are ours or that our topics change.

    Raises:
        UsageError: when there is no tree.
    """
    salt = repository.layout.salt
    extensions = (path.relative_to(salt).as_posix() for path in repository.layout.extensions.rglob("*.py"))
    return tuple(name for name in sorted({*all_files(repository), *extensions}) if name.endswith(".py"))


def all_files(repository: Repository) -> tuple[str, ...]:
    """Return the files of Salt that our topics change or add, edits that are not saved included.

    Raises:
        UsageError: when there is no tree.
    """
    state = read_state(repository.layout)
    if state is None:
        raise UsageError("There is no tree yet: run 'nox -s apply' first.")
    tree = Tree(repository)
    changed = (*repository.changed(state.base_commit, state.head), *tree.edits(), *tree.new_files())
    salt = repository.layout.salt
    listed = sorted({*changed, *read_series(repository.layout).files})
    return tuple(name for name in listed if (salt / name).is_file())


def check(repository: Repository) -> tuple[Verdict, ...]:
    """Run the linters over our files in Salt's tree."""
    layout = repository.layout
    names = files(repository)
    if not names:
        return ()
    # the linters may have an environment of their own
    python = sys.executable if find_spec("pylint") else str(layout.python)
    config = layout.root / "tests" / "upstream" / "pylintrc"
    every = all_files(repository)
    found = _without(Hooks(layout.salt).check(every), Hooks(layout.stock).check(every))
    verdicts = [Verdict("hooks", int(bool(found)), "\n".join(found)), pyupgrade(python, layout, names)]
    for linter in ("black", "isort"):
        command = [python, "-m", linter, "--quiet", "--check", "--diff", *names]
        run = subprocess.run(command, cwd=layout.salt, capture_output=True, text=True, check=False)
        verdicts.append(Verdict(linter, run.returncode, (run.stdout + run.stderr).strip()))
    # vermin is a script beside Python, and no module that can be run; it fails on syntax that Python 3.9 lacks as well,
    # and black on what no Python knows
    vermin = [str(Path(python).with_name("vermin")), *VERMIN]
    verdicts.append(_less_theirs("vermin", vermin, layout, names))
    verdicts.append(_less_theirs("bandit", [python, "-m", "bandit", *BANDIT], layout, names))
    pylint = [python, "-m", "pylint", f"--rcfile={config}", "--score=n", "--jobs=0"]
    return (*verdicts, _less_theirs("pylint", pylint, layout, names))


def pyupgrade(python: str, layout: Layout, names: tuple[str, ...]) -> Verdict:
    """Run pyupgrade on copies, as it rewrites what it finds: files that it rewrites in stock as well are not ours."""
    command = [python, "-m", "pyupgrade", *PYUPGRADE]
    names = tuple(name for name in names if FOREIGN not in name)
    rewritten = {}
    for tree in (layout.salt, layout.stock):
        with tempfile.TemporaryDirectory(dir=layout.build, prefix=".scratch.") as scratch:
            present = [name for name in names if (tree / name).is_file()]
            for name in present:
                copy = Path(scratch, name)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(tree / name, copy)
            run = subprocess.run([*command, *present], cwd=scratch, capture_output=True, text=True, check=False)
            if run.returncode not in REWRITTEN:
                return Verdict("pyupgrade", run.returncode, run.stderr)
            rewritten[tree] = {
                name for name in present if Path(scratch, name).read_bytes() != (tree / name).read_bytes()
            }
    ours = sorted(rewritten[layout.salt] - rewritten[layout.stock])
    return Verdict("pyupgrade", int(bool(ours)), "\n".join(f"{name}: pyupgrade would rewrite it" for name in ours))


def _less_theirs(linter: str, command: list[str], layout: Layout, names: tuple[str, ...]) -> Verdict:
    """Run a linter, and drop what it says of the same files of the stock tree: that is not ours to fix."""
    run = subprocess.run([*command, *names], cwd=layout.salt, capture_output=True, text=True, check=False)
    messages = _messages(run.stdout, layout.salt)
    spoken_of = {message.partition(":")[0] for message in messages}
    theirs = [name for name in names if name in spoken_of and (layout.stock / name).is_file()]
    if not run.returncode or not theirs:
        return Verdict(linter, run.returncode, (run.stdout + run.stderr).strip())
    stock = subprocess.run([*command, *theirs], cwd=layout.stock, capture_output=True, text=True, check=False)
    ours = _without(messages, _messages(stock.stdout, layout.stock))
    # pylint itself fails on some of upstream's files
    failed = "" if stock.stderr else run.stderr
    return Verdict(linter, int(bool(ours or failed)), "\n".join([*ours, failed]).strip())


def _without(messages: Iterable[str], theirs: Iterable[str]) -> list[str]:
    """Return the messages that are not among those of the stock tree as well, whatever lines they are about."""
    known = Counter(LINE.sub(":", message) for message in theirs)
    ours = []
    for message in messages:
        kind = LINE.sub(":", message)
        known[kind] -= 1
        if known[kind] < 0:
            ours.append(message)
    return ours


def _messages(output: str, tree: Path) -> list[str]:
    """Return the messages about files of a tree, without headings and sums; files are named from the tree on."""
    lines = [line.removeprefix(f"{tree}/") for line in output.splitlines() if not line.startswith("*")]
    # cut before the name of a temporary file, which differs each time; lines with ::: are sums that vermin prints
    return [line.partition(" Please open an issue")[0] for line in lines if ":::" not in line]
