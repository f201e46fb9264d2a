"""How the Pythons of a machine are found, and what a newcomer's surroundings are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from harness.processes.deadline import Deadline, until
from tests import newcomer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def fake(version: str, *, name: str = "cpython", level: str = "final") -> str:
    """Return a script that answers as a Python of that version would."""
    numbers = version.replace(".", ", ")
    return f'#!/bin/sh\necho \'["{name}", [{numbers}, "{level}"], "\'$0\'"]\'\n'


@pytest.fixture
def python(tmp_path: Path) -> Callable[[str, str], Path]:
    """Make executable files below the test's folder."""

    def write(path: str, text: str) -> Path:
        made = tmp_path / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(text)
        made.chmod(0o755)
        return made

    return write


def test_pythons_are_found_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: Callable[[str, str], Path]
) -> None:
    """The system's come first, then pyenv's, then those on PATH; what is too old or no Python is left out."""
    monkeypatch.setattr(newcomer, "PLACES", (str(tmp_path / "usr/bin"),))
    system = python("usr/bin/python3.11", fake("3.11.2"))
    (tmp_path / "usr/bin/python3").symlink_to("python3.11")
    python("usr/bin/python3-config", fake("3.14.0"))
    python("home/.pyenv/versions/3.10.13/bin/python3.10", fake("3.10.13"))
    pyenv = python("home/.pyenv/versions/3.12.1/bin/python3.12", fake("3.12.1"))
    python("home/.pyenv/versions/3.12.1/bin/python3", fake("3.12.1"))
    python("path/python3.11", fake("3.11.2"))
    newest = python("path/python3.14", fake("3.14.0"))
    python("path/python3.15", fake("3.15.0", level="alpha"))
    python("path/python3.13", fake("3.13.0", name="pypy"))
    python("path/python3.16", "#!/bin/sh\necho 'pyenv: python3.16: command not found' >&2\nexit 127\n")
    found = newcomer.interpreters(f"{tmp_path / 'path'}:", tmp_path / "home")
    assert [(one.name, one.path) for one in found] == [("3.11.2", system), ("3.12.1", pyenv), ("3.14.0", newest)]


def test_this_python_is_found_as_it_is() -> None:
    """A virtual environment's Python stands for the one that it was made with."""
    found = newcomer.ask(Path(sys.executable))
    assert found is not None
    assert found.version == sys.version_info[:3]
    assert not found.path.is_relative_to(sys.prefix)


def test_a_login_keeps_what_a_machine_gives_to_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package index, the proxy and its certificate stay; a developer's own settings do not."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    kept = {"PIP_INDEX_URL": "a", "UV_INDEX": "b", "https_proxy": "c", "NO_PROXY": "d", "SSL_CERT_FILE": "e", "CI": "f"}
    for name, value in {**kept, "PYTHONPATH": "x", "VIRTUAL_ENV": "x", "PATH": "x", "HOME": "x", "TMPDIR": "x"}.items():
        monkeypatch.setenv(name, value)
    assert newcomer.login(Path("/h"), "/p") == {**kept, "HOME": "/h", "PATH": "/p"}


def test_the_readme_is_what_is_typed() -> None:
    """The commands that CI types stand in the README, and set nox up without the system's pip."""
    set_up, nox = newcomer.typed()
    assert set_up.startswith("python3 -m venv build/nox && ")
    assert nox == "build/nox/bin/nox"


def test_a_checkout_holds_uncommitted_edits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried is what lies in the folder: edited, new and deleted files too, but not what git ignores."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.setattr(newcomer, "ROOT", project)
    for name, text in {"kept": "1", "edited": "1", "deleted": "1", ".gitignore": "ignored\n"}.items():
        (project / name).write_text(text)
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for command in (["init", "--quiet"], ["add", "."], [*identity, "commit", "--quiet", "-m", "start"]):
        subprocess.run(["git", *command], cwd=project, check=True)
    (project / "edited").write_text("2")
    (project / "deleted").unlink()
    (project / "ignored").write_text("2")
    (project / "new").mkdir()
    (project / "new" / "file").write_text("2")
    newcomer.checkout(tmp_path / "clone")
    files = {str(path.relative_to(tmp_path / "clone")): path for path in (tmp_path / "clone").rglob("*")}
    held = {name: path.read_text() for name, path in files.items() if path.is_file() and not name.startswith(".git/")}
    assert held == {"kept": "1", "edited": "2", "new/file": "2", ".gitignore": "ignored\n"}


def test_a_command_ends_as_a_whole(tmp_path: Path) -> None:
    """After its limit a command and what it started are gone, and the exit code is that of `timeout`."""
    env = {"PATH": newcomer.ORDINARY}
    script = f"sleep 300 & echo $! > {tmp_path}/pid; wait"
    # a shell waits for what it started; its interrupt goes to all
    assert newcomer.run(["sh", "-c", script], tmp_path, env, 0.5) == 124
    pid = (tmp_path / "pid").read_text().strip()
    state = Path(f"/proc/{pid}/stat")

    def gone() -> bool:
        try:
            return state.read_text().split()[2] in {"Z", "X"}
        except (FileNotFoundError, ProcessLookupError):
            return True

    # a killed process ends when the machine gets round to it
    until(gone, Deadline(30), lambda: f"process {pid} goes on")
    assert newcomer.run(["sh", "-c", "exit 3"], tmp_path, env, 60) == 3


@pytest.mark.parametrize("text", ["$ nox -s load\n$ nox -s tests\n", "$ a && nox -s load\n$ b && nox -s tests\n", ""])
def test_other_commands_in_the_readme_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A README whose commands changed is one sentence, rather than a run of something else."""
    monkeypatch.setattr(newcomer, "ROOT", tmp_path)
    (tmp_path / "README.md").write_text(text)
    with pytest.raises(SystemExit, match=r"^README\.md: the first two commands should set nox up"):
        newcomer.typed()


def test_the_table_names_what_failed() -> None:
    """A row for each Python, and an exit code where one failed."""
    rows = [
        newcomer.Row(newcomer.Interpreter((3, 11, 2), Path("/usr/bin/python3.11")), {"set-up": "passed"}, 61.4),
        newcomer.Row(newcomer.Interpreter((3, 12, 1), Path.home() / "p"), {"set-up": "exit code 1"}, 9),
    ]
    assert newcomer.table(rows).splitlines()[2:] == [
        "| 3.11.2 | `/usr/bin/python3.11` | passed | 61 |",
        "| 3.12.1 | `~/p` | exit code 1 | 9 |",
    ]


def test_only_what_was_run_is_named(root: Path) -> None:
    """The versions that set-up takes without a warning are those in the table of what was run."""
    import noxfile  # noqa: PLC0415 - not a package

    text = (root / "docs" / "contributing.md").read_text()
    ran = {tuple(map(int, row)) for row in re.findall(r"^\| (\d+)\.(\d+)\.\d+ \| `", text, re.MULTILINE)}
    assert ran == {(3, minor) for minor in range(noxfile.OLDEST[1], noxfile.NEWEST[1] + 1)}
    readme = re.findall(r"Python ([^`]*?), and a connection", (root / "README.md").read_text())[0]
    assert set(re.findall(r"3\.\d+", readme)) == {f"3.{minor}" for _, minor in ran}


def test_a_wrong_version_is_one_sentence(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that is not there names those that are."""
    monkeypatch.setattr(newcomer, "interpreters", lambda *_: [newcomer.Interpreter((3, 12, 1), Path("/p"))])
    assert newcomer.pythons(SimpleNamespace(python=["3.9.1"], list=False, units_only=True)) == 2  # type: ignore[arg-type]  # each has the field's type
    assert capsys.readouterr().err == "There is no Python 3.9.1 here; found: 3.12.1.\n"


def test_the_readme_says_how_long_the_test_command_takes(root: Path) -> None:
    """The README has the sentence that `ci` prints and, with --write, puts there."""
    assert newcomer.WALL_TIME.fullmatch(newcomer.wall_time(2470, "3.11.2"))
    assert len([*newcomer.WALL_TIME.finditer((root / "README.md").read_text())]) == 1


@dataclass
class Machine:
    """Parts that CI ran, and those that fail."""

    ran: list[str]
    failing: str = ""

    def part(self, name: str) -> int:
        """Return the exit code of a part."""
        self.ran.append(name)
        return int(name == self.failing)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Replace what `ci` starts, on a machine of root's with Python 3.11 and 3.13."""
    machine = Machine([])
    (tmp_path / "README.md").write_text("The test command has not been timed yet. More.\n")
    old, new = (newcomer.Interpreter((3, minor, 2), tmp_path) for minor in (11, 13))

    def run(command: Sequence[str], *_arguments: object) -> int:
        return machine.part(" ".join(command).rpartition("nox -s ")[2].split(" -- ")[0])

    def as_ordinary_user(command: str) -> bool:
        return not machine.part(f"ordinary {command.rpartition('-s ')[2]}")

    def try_python(python: newcomer.Interpreter, **_options: bool) -> newcomer.Row:
        code = machine.part(f"units {python.name}")
        return newcomer.Row(python, {"units": f"exit code {code}" if code else "passed"}, 1)

    monkeypatch.setattr(newcomer, "typed", lambda: ("set-up", "nox"))
    monkeypatch.setattr(newcomer, "ROOT", tmp_path)
    monkeypatch.setattr(newcomer, "ask", lambda _path: old)
    monkeypatch.setattr(newcomer, "interpreters", lambda *_: [old, new])
    for function in (run, as_ordinary_user, try_python):
        monkeypatch.setattr(newcomer, function.__name__, function)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return machine


CI = ["ordinary tests", "live", "units 3.13.2", "lint types"]


def test_ci_lints_after_the_tests(machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The test command comes first and its time is printed; linters come last, and the README stays as it is."""
    before = (tmp_path / "README.md").read_text()
    assert newcomer.main(["ci"]) == 0
    assert machine.ran == CI
    assert newcomer.WALL_TIME.search(capsys.readouterr().out)
    assert (tmp_path / "README.md").read_text() == before


@pytest.mark.parametrize("failing", CI)
def test_ci_fails_with_any_part(machine: Machine, failing: str) -> None:
    """Each part counts; after a test command that failed nothing else is run."""
    machine.failing = failing
    assert newcomer.main(["ci"]) == 1
    assert machine.ran == (CI[:1] if failing == CI[0] else CI)


def test_ci_writes_the_time_to_the_readme(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --write the measured sentence takes the place of the old one."""
    sentence = "The test command took 41 minutes with Python 3.11.2 on 2 cores."
    monkeypatch.setattr(newcomer, "wall_time", lambda *_: sentence)
    assert newcomer.main(["ci", "--write"]) == 0
    assert machine.ran == CI
    text = (tmp_path / "README.md").read_text()
    assert text == f"{sentence} More.\n"
