"""How nox runs our commands and installs: exit codes are passed on, Ctrl-C leaves time, a fall-back is quiet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import nox
import pytest

import noxfile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# what a session does with a command, here one of the test's own; the folder of the test is on the command's path
SESSION = """
import sys
from pathlib import Path
import noxfile
noxfile.PYTHON = Path(sys.executable)
noxfile._call("command")
print("went on")
"""
# stops in more than the half second that nox itself would wait
STOPS = """
import signal, sys, threading
stopped = threading.Event()
signal.signal(signal.SIGINT, lambda number, frame: stopped.set())
print("started", flush=True)
stopped.wait(60)
threading.Event().wait(1.5)
print("stopped", flush=True)
sys.exit(130)
"""


@pytest.fixture
def session(root: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a session's call of `command.py` of the test's folder, in a process group as a terminal does."""
    env = {**os.environ, "PYTHONPATH": f"{root}:{tmp_path}"}
    command = [sys.executable, "-c", "import sys; exec(sys.stdin.read())"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, process_group=0
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def begin(process: subprocess.Popen[str]) -> None:
    """Let the session begin."""
    assert process.stdin is not None
    process.stdin.write(SESSION)
    process.stdin.close()
    process.stdin = None


@pytest.mark.parametrize(("text", "code"), [("raise SystemExit(5)", 5), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_exit_code_is_passed_on(session: subprocess.Popen[str], tmp_path: Path, text: str, code: int) -> None:
    """A command's exit code is the session's, and a signal's is as a shell would say it."""
    (tmp_path / "command.py").write_text(text)
    begin(session)
    out, _ = session.communicate(timeout=60)
    assert (session.returncode, out) == (code, "")


def test_session_goes_on_after_success(session: subprocess.Popen[str], tmp_path: Path) -> None:
    """A command that ends well does not end the session."""
    (tmp_path / "command.py").write_text("")
    begin(session)
    out, _ = session.communicate(timeout=60)
    assert (session.returncode, out) == (0, "went on\n")


@pytest.mark.slow
def test_ctrl_c_waits_for_the_command(session: subprocess.Popen[str], tmp_path: Path) -> None:
    """SIGINT to the group: the command stops by itself, and its exit code is the session's."""
    (tmp_path / "command.py").write_text(STOPS)
    begin(session)
    assert session.stdout is not None
    assert session.stdout.readline() == "started\n"
    os.killpg(session.pid, signal.SIGINT)
    out, _ = session.communicate(timeout=60)
    assert (session.returncode, out) == (130, "stopped\n")


RED = "error: Failed to fetch\\n  cause: client error\\n  cause: invalid peer certificate: UnknownIssuer\\n\\nhint: ..."


@dataclass
class FakeSession:
    """What the set-up needs of a session."""

    said: list[str] = field(default_factory=list)

    def run(self, *command: str, **_options: object) -> None:
        """Run a command."""
        if subprocess.run(command, check=False).returncode:
            raise nox.command.CommandFailed

    def log(self, text: str) -> None:
        """Note what is said."""
        self.said.append(text)

    warn = log

    def error(self, text: str) -> None:
        """End with an error."""
        raise SystemExit(text)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], FakeSession]:
    """Give a function that installs with a uv and a pip that are shell scripts, and returns what the session said.

    What pip is configured with is in the file `config`.
    """
    (tmp_path / "config").touch()

    def run(uv: str, pip: str) -> FakeSession:
        asked = f'[ "$3" = config ] && exec cat {tmp_path}/config'
        for name, script in (("uv", uv), ("python", f"{asked}\n{pip}")):
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
        session = FakeSession()
        try:
            noxfile._install_lock(cast("nox.Session", session), tmp_path / "python")
        except nox.command.CommandFailed:
            session.said.append("failed")
        return session

    return run


def test_a_uv_that_fails_is_one_quiet_line(
    install: Callable[[str, str], FakeSession], capfd: pytest.CaptureFixture[str]
) -> None:
    """Behind a proxy that uv does not get through, pip takes over, and nothing red is seen."""
    session = install(f"printf '{RED}' >&2; exit 2", "exit 0")
    assert session.said == ["uv could not install; pip does it, which takes about two minutes"]
    assert capfd.readouterr() == ("", "")


def test_what_uv_said_is_told_when_pip_fails_too(install: Callable[[str, str], FakeSession]) -> None:
    """When nothing can install, both reasons are there."""
    session = install(f"printf '{RED}' >&2; exit 2", "exit 1")
    assert "UnknownIssuer" in session.said[1]
    assert session.said[2:] == ["failed"]


@pytest.mark.parametrize(("own", "expected"), [(None, "true true"), ("false", "false true")])
def test_uv_trusts_whom_the_system_trusts(
    install: Callable[[str, str], FakeSession],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: str | None,
    expected: str,
) -> None:
    """Both names of the setting are given, for older and newer uv, unless the user has set it; pip is not called."""
    for name in noxfile.TRUST:
        monkeypatch.delenv(name, raising=False)
    if own:
        monkeypatch.setenv("UV_SYSTEM_CERTS", own)
    session = install(f'echo "$UV_SYSTEM_CERTS $UV_NATIVE_TLS" > {tmp_path}/told', f"touch {tmp_path}/pip; exit 1")
    assert (tmp_path / "told").read_text() == f"{expected}\n"
    assert not session.said
    assert not (tmp_path / "pip").exists()


def test_uv_has_what_pip_is_configured_with(
    install: Callable[[str, str], FakeSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mirror and a certificate that only pip is told of are uv's too; pip's environment wins, and uv's own most."""
    for name in noxfile.AS_PIP.values():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_INDEX", "https://own")
    lines = (":env:.index-url='https://mirror'", "global.index-url='https://a'", "global.extra-index-url='https://b'")
    (tmp_path / "config").write_text("\n".join((*lines, "global.cert='/etc/ca.pem'")))
    install(f'echo "$UV_DEFAULT_INDEX $UV_INDEX $SSL_CERT_FILE" > {tmp_path}/told', "exit 1")
    assert (tmp_path / "told").read_text() == "https://mirror https://own /etc/ca.pem\n"
    # several indexes stand on lines of their own; the older names of uv's own settings count too
    several = r"global.extra-index-url='\nhttps://b\nhttps://c'"
    (tmp_path / "config").write_text(
        f"{several}\nglobal.index-url='https://a'\nglobal.cert=\"/it's/ca.pem\"\n:env:.proxy=''"
    )
    monkeypatch.delenv("UV_INDEX")
    monkeypatch.setenv("UV_INDEX_URL", "https://own")
    install(f'echo "$UV_DEFAULT_INDEX/$UV_INDEX/$SSL_CERT_FILE/$ALL_PROXY" > {tmp_path}/told', "exit 1")
    assert (tmp_path / "told").read_text() == "/https://b https://c//it's/ca.pem/\n"


def test_uv_installs_what_the_lock_pins(install: Callable[[str, str], FakeSession], tmp_path: Path) -> None:
    """Uv reads no pyproject.toml of ours: its overrides loosen versions, and a newer one has no hash in the lock."""
    install(f"pwd > {tmp_path}/folder", "exit 1")
    folder = Path((tmp_path / "folder").read_text().strip())
    assert not any((one / "pyproject.toml").exists() for one in (folder, *folder.parents))


def test_an_older_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which were run and gives the command that makes the environment with one of them."""
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    with pytest.raises(SystemExit, match=r"3\.11 to 3\.13, and this is 3\.10: .*uv venv .*--python 3\.13 build/nox\.$"):
        noxfile._check_python(cast("nox.Session", FakeSession()))


def test_a_newer_python_is_taken_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has run it; it may work."""
    session = FakeSession()
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    noxfile._check_python(cast("nox.Session", session))
    (warning,) = session.said
    assert "this is 3.14; if it fails, make build/nox" in warning
    session = FakeSession()
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    noxfile._check_python(cast("nox.Session", session))
    assert not session.said


def test_a_test_file_of_one_extension() -> None:
    """A file is run with the configuration of the extension that it belongs to, and no other extension is."""
    every = sorted(path.parent for path in noxfile.EXTENSIONS.glob("*/pyproject.toml"))
    assert [command[command.index("--rootdir") + 1] for command in noxfile._extensions(["-x"])] == [*map(str, every)]
    file = f"{every[-1]}/tests/unit/test_one.py::test_it"
    (command,) = noxfile._extensions(["-x", file])
    assert command[command.index("--rootdir") + 1 :] == [str(every[-1]), file]
    assert "-x" in command


@pytest.mark.parametrize(
    ("changed", "packages"),
    [
        ({"README.md"}, set()),
        ({"patches/save.py"}, {"patches"}),
        ({"tests/unit/patches/test_save.py"}, {"patches"}),
        ({"benchmarks/benchmark.py"}, {"benchmarks"}),
        ({"evil_minions/minion/job.py", "tests/live/bed/test_start.py"}, {"evil_minions", "harness", "benchmarks"}),
        ({"harness/bed/master.py", "patches/series"}, {"harness", "benchmarks", "patches"}),
    ],
)
def test_quick_runs_what_changed_and_what_imports_it(changed: set[str], packages: set[str]) -> None:
    """The tests of a package run when it, its tests, or a package that it imports changed; those of the tree always."""
    (command,) = noxfile._quick(changed)
    folders = {word.removeprefix("tests/unit/") for word in command if word.startswith("tests/unit/")}
    assert {name for name in folders if "." not in name} == {*packages, "docs"}
    assert {"test_structure.py", "test_noxfile.py"} < folders
    assert "not live and not slow" in command


def test_quick_runs_the_tests_of_an_extension_that_changed() -> None:
    """A change of one extension runs its tests with its own configuration."""
    _, command = noxfile._quick({"salt/extensions/query/src/saltext/query/render.py", "salt/salt/master.py"})
    query = noxfile.EXTENSIONS / "query"
    assert command[command.index("--rootdir") + 1] == str(query)


def test_quick_compares_with_the_branch_that_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of this branch, edits and new files count; commits that only the other branch has do not."""
    monkeypatch.setattr(noxfile, "ROOT", tmp_path)

    def git(*words: str) -> None:
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True)

    def commit(name: str) -> None:
        (tmp_path / name).write_text("1")
        git("add", ".")
        git("commit", "--quiet", "-m", name)

    git("init", "--quiet", "--initial-branch=main")
    commit("old")
    git("switch", "--quiet", "-c", "mine")
    commit("committed")
    git("switch", "--quiet", "main")
    commit("theirs")
    git("switch", "--quiet", "mine")
    (tmp_path / "old").write_text("2")
    (tmp_path / "new").write_text("1")
    session = cast("nox.Session", FakeSession())
    assert noxfile._changed(session, "main") == {"committed", "old", "new"}
    with pytest.raises(SystemExit, match=r"^git knows no branch origin/HEAD; name one .*nox -s quick -- BRANCH\.$"):
        noxfile._changed(session, "origin/HEAD")


@pytest.fixture
def linters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[int, int, int], str], Path]:
    """Give a function that asks for the Python of the linters, on a Python and with a uv that is a shell script."""
    for name, folder in (("BUILD", tmp_path), ("VENV", tmp_path / "venv"), ("PYTHON", tmp_path / "venv/bin/python")):
        monkeypatch.setattr(noxfile, name, folder)
    monkeypatch.setattr(noxfile, "_setup", lambda _session: None)
    for name in ("_install_lock", "_install_salt"):
        monkeypatch.setattr(
            noxfile, name, lambda _session, python, name=name: (tmp_path / name).write_text(str(python))
        )

    def run(version: tuple[int, int, int], uv: str) -> Path:
        (tmp_path / "venv" / "bin").mkdir(parents=True)
        (tmp_path / "venv" / "bin" / "uv").write_text(f"#!/bin/sh\n{uv}\n")
        (tmp_path / "venv" / "bin" / "uv").chmod(0o755)
        monkeypatch.setattr(sys, "version_info", version)
        return noxfile._linters(cast("nox.Session", FakeSession()))

    return run


def test_linters_run_on_the_oldest_python(linters: Callable[[tuple[int, int, int], str], Path], tmp_path: Path) -> None:
    """On a newer Python they have an environment of their own, with all that the other one has."""
    python = linters((3, 13, 5), f'mkdir -p {tmp_path}/linters; echo "$@" > {tmp_path}/asked')
    assert python == tmp_path / "linters" / "bin" / "python"
    assert (tmp_path / "asked").read_text() == f"venv --quiet --clear --seed --python 3.11 {tmp_path}/linters\n"
    assert {(tmp_path / name).read_text() for name in ("_install_lock", "_install_salt")} == {str(python)}


def test_linters_share_the_environment_of_the_oldest_python(
    linters: Callable[[tuple[int, int, int], str], Path], tmp_path: Path
) -> None:
    """No second environment is made where the first one has that Python."""
    assert linters((3, 11, 2), "exit 1") == tmp_path / "venv" / "bin" / "python"
    assert not (tmp_path / "linters").exists()


def test_linters_need_the_oldest_python(linters: Callable[[tuple[int, int, int], str], Path]) -> None:
    """Where it is missing and cannot be fetched, the message says so."""
    with pytest.raises(SystemExit, match=r"^The linters run on Python 3\.11, which uv did not find: install it"):
        linters((3, 13, 5), "exit 2")


def test_the_test_command_runs_no_linter() -> None:
    """A newcomer waits for tests; style and types have sessions of their own, which CI runs as well."""
    text = Path(noxfile.__file__).read_text(encoding="utf-8")
    tests = text[text.index("def tests(") : text.index("# --- maintenance")]
    assert [word for word in ("ruff", "mypy", "_types", "style", "pylint") if word in tests] == []
