"""What a newcomer types, on the Pythons, the PATH and with the rights of other machines.

`pythons` sets up a fresh checkout with every Python that it finds, and runs the unit tests and a quick load there.
`ci` types the README's test command as an ordinary user and says how long it took, runs as root what only root may,
runs the units with the newest Python that is found, and lints.
Either way the home is empty and the environment is that of a login: a developer's own settings hide what is missing.

Only the standard library: there is no environment yet.

Examples: `nox -s pythons -- --python 3.12.1 --units-only`, `python tests/newcomer.py ci`.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
# what Debian's login gives an ordinary user, and root
ORDINARY = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
PRIVILEGED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# what a machine behind a proxy, or with a package index of its own, has in /etc or gives to everybody
KEPT = re.compile(r"CI|(PIP|UV)_\w+|(https?|no|all)_proxy|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE", re.IGNORECASE)
PLACES = ("/usr/bin", "/usr/local/bin")
# below a home: where pyenv and uv put theirs
VERSIONS = (".pyenv/versions/*/bin", ".local/share/uv/python/*/bin")
ASK = "import json, sys; print(json.dumps([sys.implementation.name, sys.version_info[:4], sys._base_executable]))"
ASK_S, STEP_S, CI_S, STOP_S = 20, 1800, 4500, 60
TAIL = 25
ROOTS_TESTS = "live and needs_root and not long"
# how long the test command takes: `ci` prints this sentence, and the README has it from there
WALL_TIME = re.compile(
    r"The test command (took \d+ minutes with Python 3\.\d+\.\d+ on \d+ cores|has not been timed yet)\."
)


@dataclass(frozen=True)
class Interpreter:
    """A Python of this machine."""

    version: tuple[int, ...]
    path: Path

    @property
    def name(self) -> str:
        """Its version as people write it."""
        return ".".join(map(str, self.version))


@dataclass(frozen=True)
class Row:
    """How one Python did; a step that was not asked for, or not come to, has a dash."""

    interpreter: Interpreter
    ended: Mapping[str, str]
    seconds: float


# --- the Pythons of a machine ------------------------------------------------------------------------------------


def interpreters(path: str, home: Path) -> list[Interpreter]:
    """Find the Pythons on a PATH, where systems put theirs, and pyenv's and uv's below a home: one of each version."""
    folders = [*map(Path, PLACES), *(folder for place in VERSIONS for folder in sorted(home.glob(place)))]
    folders += [Path(folder) for folder in path.split(os.pathsep) if folder]
    found: dict[tuple[int, ...], Interpreter] = {}
    for folder in dict.fromkeys(folders):
        # python3 comes last: it is one of the others
        for candidate in sorted(folder.glob("python3*"), reverse=True):
            if re.fullmatch(r"python3(\.\d+)?", candidate.name) and os.access(candidate, os.X_OK):
                python = ask(candidate)
                if python and python.version >= OLDEST:
                    found.setdefault(python.version, python)
    return [found[version] for version in sorted(found)]


def ask(candidate: Path) -> Interpreter | None:
    """Ask a Python what it is: None for what is no released CPython, such as a shim without a version."""
    try:
        command = [str(candidate), "-I", "-S", "-c", ASK]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ASK_S)
        name, (*version, level), base = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    released = name == "cpython" and level == "final"
    return Interpreter(tuple(version), Path(base).resolve()) if released else None


# --- a checkout and its surroundings -----------------------------------------------------------------------------


def checkout(target: Path) -> None:
    """Clone the project to a folder, with the edits that are not committed yet."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".gitconfig") as config:
        # root may clone what belongs to somebody else
        config.write("[safe]\n\tdirectory = *\n")
        config.flush()
        env = {**os.environ, "GIT_CONFIG_GLOBAL": config.name}
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(target)], env=env, check=True)
        names: set[str] = set()
        for command in (("diff", "--name-only", "-z", "HEAD"), ("ls-files", "--others", "--exclude-standard", "-z")):
            argv = ["git", "-C", str(ROOT), *command]
            names.update(
                subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\0")
            )
    for name in names - {""}:
        (target / name).unlink(missing_ok=True)
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)


def login(home: Path, path: str) -> dict[str, str]:
    """Return the environment of somebody who has just logged in."""
    return {
        **{name: value for name, value in os.environ.items() if KEPT.fullmatch(name)},
        "HOME": str(home),
        "PATH": path,
    }


def run(
    command: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    limit: float,
    *,
    output: TextIO | None = None,
    user: pwd.struct_passwd | None = None,
) -> int:
    """Run a command in a session of its own, which ends as a whole; return its exit code, 124 after the limit (s)."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        user=user.pw_uid if user else None,
        group=user.pw_gid if user else None,
        extra_groups=[] if user else None,
    )
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return 124
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            # what ignores an interrupt, as a shell's background jobs do
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def typed() -> tuple[str, str]:
    """Return what sets nox up, and nox, as they stand in the README's two commands."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (.*) && (\S*nox) -s (\w+)", text, re.MULTILINE)[:2]
    if [task for _, _, task in commands] != ["load", "tests"] or len({(first, nox) for first, nox, _ in commands}) != 1:
        raise SystemExit("README.md: the first two commands should set nox up, and end with `-s load` and `-s tests`.")
    set_up, nox, _ = commands[1]
    return set_up, nox


# --- every Python ------------------------------------------------------------------------------------------------


def try_python(interpreter: Interpreter, *, units_only: bool) -> Row:
    """Set up a fresh checkout with a Python, as the README says, and run the unit tests and a quick load there."""
    place = ROOT / "build" / "pythons" / interpreter.name
    shutil.rmtree(place, ignore_errors=True)
    project, home, bin_folder = place / "saltbed", place / "home", place / "bin"
    for folder in (home, bin_folder):
        folder.mkdir(parents=True)
    checkout(project)
    # the same source distribution again need not be downloaded
    if (ROOT / "build" / "sdists").is_dir():
        shutil.copytree(ROOT / "build" / "sdists", project / "build" / "sdists")
    (bin_folder / "python3").symlink_to(interpreter.path)
    env = login(home, f"{bin_folder}:{ORDINARY}")
    set_up, nox = typed()
    steps = {"set-up": f"{set_up} && {nox} -s apply", "units": f"{nox} -s units"}
    if not units_only:
        steps["quick load"] = f"{nox} -s load -- --scenario quick"
    ended = dict.fromkeys(("set-up", "units", "quick load"), "–")  # noqa: RUF001 - a dash
    began = time.monotonic()
    for name, command in steps.items():
        log = place / f"{name.replace(' ', '-')}.log"
        print(f"Python {interpreter.name}: {name}", file=sys.stderr, flush=True)
        with log.open("w") as output:
            code = run(["sh", "-c", command], project, env, STEP_S, output=output)
        ended[name] = "passed" if code == 0 else f"exit code {code}"
        if code:
            lines = log.read_text(errors="replace").splitlines()
            print(*lines[-TAIL:], f"The whole of it: {log}", sep="\n", file=sys.stderr, flush=True)
            if name == "set-up":
                break
    if all(ended[name] == "passed" for name in steps):
        shutil.rmtree(project)
    return Row(interpreter, ended, time.monotonic() - began)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table for docs/contributing.md."""
    lines = ["| Python | interpreter | set-up | units | quick load | seconds |", "|---|---|---|---|---|---|"]
    for row in rows:
        path = str(row.interpreter.path).replace(str(Path.home()), "~")
        cells = (row.interpreter.name, f"`{path}`", *row.ended.values(), f"{row.seconds:.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def pythons(options: argparse.Namespace) -> int:
    """Try every Python that was found, or those that were asked for."""
    found = interpreters(os.environ.get("PATH", ORDINARY), Path.home())
    wanted = [one for one in found if not options.python or one.name in options.python]
    missing = set(options.python) - {one.name for one in wanted}
    if missing or not wanted:
        names = ", ".join(one.name for one in found) or "none"
        print(
            f"There is no Python {', '.join(sorted(missing)) or 'from 3.11 on'} here; found: {names}.", file=sys.stderr
        )
        return 2
    if options.list:
        print("\n".join(f"{one.name} {one.path}" for one in wanted))
        return 0
    rows = [try_python(one, units_only=options.units_only) for one in wanted]
    print(table(rows))
    return int(any(map(failed, rows)))


def failed(row: Row) -> bool:
    """Say whether a step of a Python failed."""
    return any(value.startswith("exit") for value in row.ended.values())


# --- CI ----------------------------------------------------------------------------------------------------------


@contextmanager
def ordinary_user() -> Iterator[pwd.struct_passwd]:
    """Make a user with an empty home, gone afterwards with all that runs as it."""
    name = f"newcomer-{os.getpid()}"
    env = {**os.environ, "PATH": PRIVILEGED}
    subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", name], env=env, check=True)
    try:
        yield pwd.getpwnam(name)
    finally:
        uid = pwd.getpwnam(name).pw_uid
        for pid in processes_of(uid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        subprocess.run(["userdel", "--remove", name], env=env, check=True, capture_output=True)


def processes_of(uid: int) -> dict[int, str]:
    """Return the processes of a user: ids and command lines."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if folder.stat().st_uid == uid:
                found[int(folder.name)] = (folder / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
    return found


def as_ordinary_user(command: str) -> bool:
    """Type a command as a user that root makes for it; say whether all went well."""
    with ordinary_user() as user:
        home = Path(user.pw_dir)
        project = home / "saltbed"
        checkout(project)
        subprocess.run(["chown", "-R", f"{user.pw_uid}:{user.pw_gid}", str(project)], check=True)
        env = login(home, with_python(ORDINARY, user))
        say(f"as the ordinary user {user.pw_name}, PATH={env['PATH']}: {command}")
        code = run(["sh", "-c", command], project, env, CI_S, user=user)
        # what was told to end may take a moment
        end = time.monotonic() + STOP_S
        while (left := processes_of(user.pw_uid)) and time.monotonic() < end:
            time.sleep(0.5)
    if left:
        say(f"the tests left processes behind: {', '.join(left.values())}")
    return code == 0 and not left


def with_python(path: str, user: pwd.struct_passwd | None = None) -> str:
    """Return a PATH whose python3 is new enough: as it is if the system's is, else with this Python's folder first."""
    system = shutil.which("python3", path=path)
    python = ask(Path(system)) if system else None
    if python and python.version >= OLDEST:
        return path
    mine = Path(sys.executable).parent
    if user and run(["test", "-x", str(mine / "python3")], Path("/"), {"PATH": path}, ASK_S, user=user):
        raise SystemExit(f"The system's python3 is too old, and {user.pw_name} can't run {mine}/python3: install 3.11.")
    return f"{mine}:{path}"


def say(text: str) -> None:
    """Print a heading."""
    print(f"\n=== {text}\n", flush=True)


def wall_time(seconds: float, version: str) -> str:
    """Return the sentence of the README about the time that the test command takes."""
    return f"The test command took {seconds / 60:.0f} minutes with Python {version} on {os.cpu_count()} cores."


def ci(options: argparse.Namespace) -> int:
    """Run the test command as an ordinary user, root's tests if this is root, units of another Python, and the linters.

    A part that fails does not keep the others from running, except that nothing follows a test command that failed.
    """
    set_up, nox = typed()
    root = os.geteuid() == 0
    tests = f"{set_up} && {nox} -s tests"
    with tempfile.TemporaryDirectory(prefix="home-") as home:
        path = with_python(PRIVILEGED if root else ORDINARY)
        env = login(Path(home), path)

        def part(title: str, command: str) -> bool:
            say(f"{title}: {command}")
            return run(["sh", "-c", command], ROOT, env, CI_S) == 0

        this = ask(Path(shutil.which("python3", path=path) or sys.executable))
        began = time.monotonic()
        passed = as_ordinary_user(tests) if root else part("without what needs root", tests)
        if not passed or this is None:
            return 1
        sentence = wall_time(time.monotonic() - began, this.name)
        say(sentence)
        if options.write:
            readme = ROOT / "README.md"
            readme.write_text(WALL_TIME.sub(sentence, readme.read_text(encoding="utf-8")), encoding="utf-8")
        if root:
            passed = part("as root, what only root may", f'{set_up} && {nox} -s live -- -m "{ROOTS_TESTS}" tests')
        newest = interpreters(os.environ.get("PATH", ORDINARY), Path.home())[-1:]
        if newest and newest[0].version[:2] > this.version[:2]:
            say(f"set-up and units with Python {newest[0].name}")
            row = try_python(newest[0], units_only=True)
            print(table([row]))
            passed = passed and not failed(row)
        passed = part("the linters", f"{set_up} && {nox} -s lint types") and passed
    return int(not passed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the two; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    one = commands.add_parser("pythons", help="set-up, units and a quick load with every Python that is found")
    one.add_argument("--python", action="append", default=[], metavar="VERSION", help="only this one; may be repeated")
    one.add_argument("--units-only", action="store_true", help="no load: a third of the time")
    one.add_argument("--list", action="store_true", help="only say which Pythons are found")
    one.set_defaults(run=pythons)
    two = commands.add_parser("ci", help="what CI runs")
    two.add_argument("--write", action="store_true", help="write the time of the test command to the README")
    two.set_defaults(run=ci)
    options = parser.parse_args(arguments)
    # what was started, and the user that was made, go when this is stopped
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    sys.exit(main())
