"""Sessions of Saltbed: make the tree, prove the patches, load the master.

Every session shares one environment, `build/venv`, made from `requirements.lock` on first use. Nox makes an
environment for each session by itself; ten copies of the same 170 packages would cost minutes and gigabytes. Only the
linters have a second one, `build/linters`, where the Python is not theirs.

Example: `nox -s load -- --scenario quick --tree both`, `nox -s tests`, `nox -s quick`, `nox --list`.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import nox

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

ROOT = Path(__file__).parent
BUILD = ROOT / "build"
VENV = BUILD / "venv"
PYTHON = VENV / "bin" / "python"
PYTEST = (str(PYTHON), "-m", "pytest")
LOCK = ROOT / "requirements.lock"
BASE = ROOT / "patches" / "base.txt"
EXTENSIONS = ROOT / "salt" / "extensions"
OURS = ("patches", "harness", "evil_minions", "benchmarks", "tests", "noxfile.py")
# the oldest one that works and the newest one that was run: docs/contributing.md has the table
OLDEST, NEWEST = (3, 11), (3, 13)
STOPPED_WITHIN_S = 60
# uv trusts whom the system trusts: a proxy may have a certificate of its own; older uv knows the second name
TRUST = {"UV_SYSTEM_CERTS": "true", "UV_NATIVE_TLS": "true"}
OLD_NAMES = {"index-url": "UV_INDEX_URL", "extra-index-url": "UV_EXTRA_INDEX_URL"}
AS_PIP = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "proxy": "ALL_PROXY", "cert": "SSL_CERT_FILE"}

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["tests"]


# --- the environment ---------------------------------------------------------------------------------------------


@contextmanager
def _alone() -> Iterator[None]:
    """Let one set-up work at a time: two sessions started together would write the same environment."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "setup.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def _due(python: Path, step: str, *paths: Path) -> Iterator[bool]:
    """Tell whether a step of an environment's set-up is due, and note its end: it is once for the same files."""
    stamp = python.parent.parent / f"{step}.stamp"
    digest = hashlib.sha256(f"{sys.version_info[:2]}".encode())
    for path in paths:
        digest.update(f"{path.relative_to(ROOT)} ".encode() + path.read_bytes())
    due = not (python.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest())
    yield due
    if due:
        stamp.write_text(digest.hexdigest())


def _call(*args: str, stdout: TextIO | int | None = None) -> None:
    """Run a module of ours, as `_follow` does."""
    _follow([str(PYTHON), "-m", *args], stdout)


def _follow(command: Sequence[str], stdout: TextIO | int | None = None) -> None:
    """Run one of our commands and end with its exit code, unless that is 0.

    nox folds every failure into 1, but the exit codes of our commands are part of their interface. And it kills what
    it runs half a second after Ctrl-C: a bed needs about ten seconds to stop all that it started.
    """
    process = subprocess.Popen(command, cwd=ROOT, stdout=stdout)
    patience = None
    while process.returncode is None:
        try:
            process.wait(patience)
        except KeyboardInterrupt:
            # the terminal sent it to the command as well, which says itself what it stops
            patience = STOPPED_WITHIN_S
        except subprocess.TimeoutExpired:
            process.terminate()
    if process.returncode:
        # killed by a signal: as a shell would say it
        sys.exit(process.returncode if process.returncode > 0 else 128 - process.returncode)


def _as_pip(python: Path) -> dict[str, str]:
    """Return what pip is configured with in uv's words: a mirror or a certificate may be known to pip alone."""
    command = [str(python), "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.findall(r"^(:env:)?\S*?\.(\S+?)=(.*)$", done.stdout, re.MULTILINE)
    # what the environment says counts more than files
    said = {name: value for _, name, value in sorted(found, key=lambda one: bool(one[0]))}
    # values are as Python writes them, and several indexes may stand on several lines
    known = {name: " ".join(str(ast.literal_eval(said[name])).split()) for name in AS_PIP if name in said}
    # all indexes count alike for pip as well; the hashes make that safe. Whoever gives uv its own keeps them
    wanted = {
        AS_PIP[name]: value for name, value in known.items() if value and OLD_NAMES.get(name, "") not in os.environ
    }
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **wanted}


def _install_lock(session: nox.Session, python: Path) -> None:
    """Install every locked package, with uv where it is at hand (10 s) and else with pip (2 min)."""
    common = ["install", "--quiet", "--require-hashes", "--no-deps", "-r", str(LOCK)]
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    failed = ""
    if uv:
        command = [uv, "pip", *common, "--python", str(python)]
        # not in our folder: the overrides of pyproject.toml are for the lock, and would replace versions that it pins
        env = {**TRUST, **_as_pip(python), **os.environ}
        done = subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, check=False)
        if not done.returncode:
            return
        failed = f"uv said:\n{done.stderr.strip()}"
        session.log("uv could not install; pip does it, which takes about two minutes")
    try:
        pip = ["-m", "pip", *common, "--no-compile", "--disable-pip-version-check"]
        session.run(str(python), *pip, external=True)
    except nox.command.CommandFailed:
        if failed:
            session.log(failed)
        raise


def _check_python(session: nox.Session) -> None:
    """Refuse a Python that is too old, and tell who uses one that nobody has tried."""
    this, oldest, newest = (".".join(map(str, version)) for version in (sys.version_info[:2], OLDEST, NEWEST))
    another = f"make build/nox with one of them, for example: uv venv --clear --seed --python {newest} build/nox"
    if sys.version_info[:2] < OLDEST:
        session.error(f"Saltbed needs Python {oldest} to {newest}, and this is {this}: {another}.")
    if sys.version_info[:2] > NEWEST:
        session.warn(f"Saltbed was run on Python {oldest} to {newest}, and this is {this}; if it fails, {another}.")


def _environment(session: nox.Session) -> None:
    """Make `build/venv` from the lock unless it is there already."""
    _check_python(session)
    if not sys.platform.startswith("linux"):
        session.error("Saltbed needs Linux; run it in a Linux virtual machine or container.")
    if shutil.which("git") is None:
        session.error("git is missing; install it with: apt-get install git (or your system's equivalent).")
    with _due(PYTHON, "lock", LOCK) as due:
        if due:
            session.log("making build/venv from requirements.lock (once)")
            shutil.rmtree(VENV, ignore_errors=True)
            # virtualenv comes with nox, so no system package for ensurepip is needed
            session.run(sys.executable, "-m", "virtualenv", "--quiet", str(VENV), external=True)
            _install_lock(session, PYTHON)


def _setup(session: nox.Session, asked: Sequence[str] | None = None) -> None:
    """Make the environment and the patched tree, and install the tree editable; a second call changes nothing.

    Only `apply` itself, with what it was asked, refuses a tree with unsaved edits: whoever edits it wants to run
    tests and loads on it.
    """
    quietly = ("--quiet", "--keep-edits")
    with _alone():
        _environment(session)
        if not (ROOT / "salt" / "salt" / "version.py").exists():
            session.log("making salt/ and build/stock from Salt's source distribution and patches/ (once)")
        # what the session itself prints may be for a machine
        _call("patches", "apply", *(quietly if asked is None else asked), stdout=sys.stderr if asked is None else None)
        _install_salt(session, PYTHON)


def _install_salt(session: nox.Session, python: Path) -> None:
    """Install the patched tree, editable, and the extensions beside it, as whoever uses them does."""
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps"]
    with _due(python, "salt", LOCK, BASE) as due:
        if due:
            # compat mode: the default makes `import salt` from here find our folder salt/ as an empty namespace
            compat = ["--config-settings", "editable_mode=compat", "--editable", "salt"]
            # setuptools says at length that compat mode may go one day
            quiet = {"PYTHONWARNINGS": "ignore"}
            session.run(*install, "--no-build-isolation", *compat, env=quiet, external=True)
    with _due(python, "wheels", LOCK, *_sources()) as due:
        if due:
            # set-up goes on where only the npm registry cannot be reached
            _call("patches", "wheels", "--offline", stdout=subprocess.DEVNULL)
            wheels = sorted(map(str, (BUILD / "wheels").glob("*.whl")))
            session.run(*install, "--no-index", "--force-reinstall", *wheels, external=True)


def _sources() -> list[Path]:
    """Return what the wheels of the extensions are made of."""
    names = ("pyproject.toml", "README.md", "LICENSE", "vendor.toml")
    every = (path for end in ("py", "sql", "html", "css", "js") for path in EXTENSIONS.rglob(f"*.{end}"))
    found = [path for path in every if "tests" not in path.relative_to(EXTENSIONS).parts]
    return sorted([*found, *(path for name in names for path in EXTENSIONS.glob(f"*/{name}"))])


def _linters(session: nox.Session) -> Path:
    """Return the Python of the linters, which is the oldest one: what pylint reports depends on the interpreter.

    Elsewhere it has an environment of its own, `build/linters`.
    """
    _setup(session)
    if sys.version_info[:2] == OLDEST:
        return PYTHON
    oldest = ".".join(map(str, OLDEST))
    python = BUILD / "linters" / "bin" / "python"
    with _alone():
        with _due(python, "lock", LOCK) as due:
            if due:
                session.log(f"making build/linters: the linters run on Python {oldest} (once)")
                venv = [str(VENV / "bin" / "uv"), "venv", "--quiet", "--clear", "--seed", "--python", oldest]
                done = subprocess.run([*venv, str(BUILD / "linters")], env={**TRUST, **os.environ}, check=False)
                if done.returncode:
                    session.error(
                        f"The linters run on Python {oldest}, which uv did not find: install it, then try again."
                    )
                _install_lock(session, python)
        _install_salt(session, python)
    return python


# --- the tree and its patches ------------------------------------------------------------------------------------


@nox.session
def apply(session: nox.Session) -> None:
    """Make the patched tree in salt/ and the pristine one in build/stock."""
    _setup(session, session.posargs)


@nox.session
def save(session: nox.Session) -> None:
    """Save edits below salt/ to patches/."""
    with _alone():
        # no apply: edits that are not saved yet must stay as they are
        _environment(session)
    _call("patches", "save", *session.posargs)


# session: the command that gets what stands after `--`, and what `nox --list` says of it
COMMANDS = {
    "check": ("patches check", "Check the patch set, or what is kept for a release: nox -s check -- --base 3006.30."),
    "submit": ("patches submit", "Make branch and text of a pull request: nox -s submit -- TOPIC --number 68123."),
    "bump": ("patches bump", "Move the patches to another release of Salt: nox -s bump -- VERSION."),
    "keep": ("patches keep", "Keep topics for another release of Salt: nox -s keep -- 3006.30 load-all."),
    "export": ("patches export", "Write full patches and their series, for distributions: nox -s export -- [TOPIC]."),
    "wheels": ("patches wheels", "Build the Salt extensions into build/wheels/, the same bytes each time."),
    "report": ("harness report", "Write the report of a run again: nox -s report -- [RUN]."),
    "bench": ("benchmarks", "Run one benchmark of a feature: nox -s bench -- NAME."),
    "zoo": ("harness.zoo", "Run bugs of Salt on several releases: nox -s zoo -- 61656 --salt 3008.5,patched."),
    "results": ("benchmarks.results", "Write docs/results.md from docs/evidence: nox -s results -- --collect."),
    "campaign": ("benchmarks.campaign", "Measure all that docs/results.md shows: nox -s campaign -- --list."),
    "upstream": ("patches suite wider", "Run a wide set of Salt's own tests on the patched tree (about 5 minutes)."),
}


def _add(name: str, command: str, about: str) -> None:
    """Add a session that runs one of our commands with the session's arguments."""

    def run(session: nox.Session) -> None:
        _setup(session)
        _call(*command.split(), *session.posargs)

    run.__doc__ = about
    nox.session(name=name)(run)


for _name, _entry in COMMANDS.items():
    _add(_name, *_entry)


# --- the bed -----------------------------------------------------------------------------------------------------


@nox.session
def load(session: nox.Session) -> None:
    """Load a real master with simulated minions, ending in a report: nox -s load -- --help.

    `--watch` opens the console's page on the running bed, see docs/load-testing.md.
    """
    _setup(session)
    arguments = list(session.posargs)
    if "--watch" in arguments:
        place = arguments.index("--watch") + 1
        if not arguments[place:] or arguments[place].startswith("-"):
            asked = [str(PYTHON), "-m", "saltext.console", "--folder"]
            done = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=BUILD)
            if done.returncode:
                session.error(
                    "The console is not installed: its libraries come from the npm registry, see docs/console.md."
                )
            arguments.insert(place, done.stdout.strip())
    _call("harness", "load", *arguments)


@nox.session
def architecture(session: nox.Session) -> None:
    """Draw docs/architecture.svg from the imports."""
    _follow([sys.executable, "tests/architecture.py", *session.posargs])


# --- tests -------------------------------------------------------------------------------------------------------


def _ruff() -> list[list[str]]:
    """Return the commands of ruff."""
    ruff = [str(PYTHON), "-m", "ruff"]
    return [[*ruff, "check", *OURS], [*ruff, "format", "--check", *OURS]]


def _types(python: Path) -> list[str]:
    """Return the command that checks types."""
    return [str(python), "-m", "mypy", "--cache-dir", str(BUILD / "mypy"), *OURS]


@nox.session
def lint(session: nox.Session) -> None:
    """Lint our code with ruff, what we add to Salt with Salt's own linters, and the subjects of commits."""
    python = _linters(session)
    # what the oldest Python lacks: newer minor releases' names are vermin's, those of 3.11.3 and later are ours to know
    target = f"--target={'.'.join(map(str, OLDEST))}-"
    vermin = [str(python.with_name("vermin")), target, "--violations", "--quiet", "--format", "parsable"]
    ours = [[*vermin, *OURS], [str(python), "tests/backports.py", *OURS], [str(python), "tests/subjects.py"]]
    style = [str(python), "-m", "patches", "style", *session.posargs]
    for command in [*_ruff(), *ours, style]:
        session.run(*command, external=True)


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy, strictly."""
    session.run(*_types(_linters(session)), external=True)


@nox.session
def units(session: nox.Session) -> None:
    """Run the unit tests: no master, no database."""
    _setup(session)
    session.run(*PYTEST, "-n", "2", "-m", "not live", *(session.posargs or ["tests"]), external=True)


def _extensions(posargs: Sequence[str]) -> list[list[str]]:
    """Return the commands that run the extensions' own tests, each with its own configuration."""
    folders = sorted(path.parent for path in EXTENSIONS.glob("*/pyproject.toml"))
    # a test file belongs to one extension
    named = {
        one: [word for word in posargs if one in Path(word.partition("::")[0]).absolute().parents] for one in folders
    }
    paths = {word for words in named.values() for word in words}
    common = [*PYTEST, "-n", "2", *(word for word in posargs if word not in paths)]
    return [
        [*common, "-c", str(one / "pyproject.toml"), "--rootdir", str(one), *(named[one] or [str(one / "tests")])]
        for one in folders
        if named[one] or not paths
    ]


def _changed(session: nox.Session, branch: str) -> set[str]:
    """Return the names of the files that changed since this branch left another one, new files included."""
    changed: set[str] = set()
    for words in (["diff", "--name-only", "--merge-base", branch], ["ls-files", "--others", "--exclude-standard"]):
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
        if done.returncode:
            session.error(
                f"git knows no branch {branch}; name one that your changes start from: nox -s quick -- BRANCH."
            )
        changed.update(done.stdout.splitlines())
    return changed


def _quick(changed: set[str]) -> list[list[str]]:
    """Return the commands that run the fast units of what changed, and of the packages that import it."""
    paths = [Path(name) for name in changed]
    tops = {path.parts[2] if path.parts[:2] == ("tests", "unit") else path.parts[0] for path in paths}
    # benchmarks import harness, and harness imports evil_minions
    chain = ["evil_minions", "harness", "benchmarks"]
    first = min((chain.index(top) for top in tops if top in chain), default=len(chain))
    packages = [*chain[first:], *(["patches"] if "patches" in tops else [])]
    folders = [f"tests/unit/{name}" for name in [*packages, "docs"]]
    # the tests beside the packages' folders: structure, sessions, commands
    beside = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "unit").glob("test_*.py"))
    command = [*PYTEST, "-q", "-n", "2", "-m", "not live and not slow", *folders, *beside]
    extensions = {"/".join(path.parts[:3]) for path in paths if path.parts[:2] == ("salt", "extensions")}
    return [command, *(_extensions([f"{one}/tests" for one in sorted(extensions)]) if extensions else [])]


@nox.session
def quick(session: nox.Session) -> None:
    """Tell red or green in two minutes: ruff, mypy, and the fast units of what changed since: nox -s quick -- [BRANCH].

    The branch is origin/HEAD unless another one is named. Left out are pylint, the patch check, the live tests, Salt's
    own tests, tests marked `slow`, and the tests of packages that neither changed nor import one that did.
    """
    _setup(session)
    units = _quick(_changed(session, *(session.posargs or ["origin/HEAD"])))
    for command in [*_ruff(), _types(PYTHON), *units]:
        session.run(*command, external=True)


@nox.session
def extensions(session: nox.Session) -> None:
    """Run the extensions' own tests against the patched tree."""
    _setup(session)
    for command in _extensions(session.posargs):
        session.run(*command, external=True)


@nox.session
def live(session: nox.Session) -> None:
    """Run the live tests: a real master, a real PostgreSQL, simulated and real minions."""
    _setup(session)
    session.run(*PYTEST, "-m", "live", *(session.posargs or ["tests"]), external=True)


@nox.session
def pythons(session: nox.Session) -> None:
    """Set up, run the units and a quick load with every Python that is found: nox -s pythons -- --help."""
    _follow([sys.executable, "tests/newcomer.py", "pythons", *session.posargs])


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests: units, extensions, live, Salt's own tests for what we touch, and the patch check.

    What stands after `--` goes to pytest for the units and the live tests: `nox -s tests -- --shuffle=any`.
    """
    _setup(session)
    python = [str(PYTHON), "-m"]
    tests = [*python, "pytest", "-n", "2", *session.posargs, "tests"]
    # most of the live tests' time is waiting for processes, which leaves room for what computes; what needs the lock
    # of the patch tool stands in one lane
    lanes = [
        [
            ("units", [[*tests, "--durations=5", "-m", "not live"]]),
            ("extensions", _extensions(session.posargs)),
            ("Salt's own tests", [[*python, "patches", "suite", "--without-own", "touched"]]),
            ("patches", [[*python, "patches", "check", "--tests"]]),
        ],
        # two beds at once; a bed belongs to the tests of one file
        [("live", [[*tests, "--dist", "loadfile", "--durations=12", "-m", "live and not long"]])],
    ]
    _follow([str(PYTHON), "tests/steps.py", json.dumps(lanes)])


# --- maintenance -------------------------------------------------------------------------------------------------


@nox.session
def lock(session: nox.Session) -> None:
    """Resolve every package again and write requirements.lock (hashes, no addresses)."""
    _setup(session)
    groups = [word for name in ("build", "dev", "upstream", "session") for word in ("--group", name)]
    wanted = ["pyproject.toml", *(f"build/stock/requirements/{name}.txt" for name in ("base", "zeromq"))]
    options = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--no-annotate"]
    named = ["--custom-compile-command", "nox -s lock", "--output-file", str(LOCK)]
    command = [str(VENV / "bin" / "uv"), "pip", "compile", "--quiet", *options, *named, *groups, *wanted]
    session.run(*command, *session.posargs, env=TRUST, external=True)
