"""The images of a run: an environment on the user's base, which is kept, and the code of the run on it, which is not.

The base needs Python and nothing of ours. Wheels are downloaded on this machine and installed without a network, so
that a base without certificates, behind a proxy or on an engine without a way out works as well.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

from harness.containers import engine
from harness.errors import DockerError, SettingsError
from harness.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from docker import DockerClient

BASE_VARIABLE = "HARNESS_DOCKER_BASE"
BASE = os.environ.get(BASE_VARIABLE) or "python:3.12-slim-bookworm"
KEPT = "saltbed-environment"
LOCK = ROOT / "requirements.lock"
WHEELS = ROOT / "build" / "docker"
HOME = "/opt/saltbed"
PYTHON = f"{HOME}/venv/bin/python"
TREE = f"{HOME}/tree"
VERSION = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
ENVIRONMENT = f"""\
FROM {{base}}
COPY wheels {HOME}/wheels
COPY requirements.lock {HOME}/requirements.lock
RUN python3 -m venv {HOME}/venv && {PYTHON} -m pip install --quiet --no-index --find-links {HOME}/wheels \
--require-hashes --no-deps --no-compile -r {HOME}/requirements.lock
RUN PYTHONPYCACHEPREFIX={HOME}/build/pycache {PYTHON} -m compileall -q -j 0 {HOME}/venv/lib || true
RUN {PYTHON} -c "import zmq, psycopg2, locust"
"""
CODE = f"""\
FROM {{base}}
COPY opt {HOME}
RUN PYTHONPYCACHEPREFIX={HOME}/build/pycache {PYTHON} -m compileall -q -j 0 {TREE}/salt {HOME}/harness \
{HOME}/evil_minions || true
WORKDIR {HOME}
CMD ["{PYTHON}", "-m", "harness.containers.inside"]
"""


def environment(client: DockerClient, base: str, say: Callable[[str], None]) -> str:
    """Return the name of the image with our requirements on `base`, made unless the engine has it.

    Raises:
        SettingsError: for a base that is not there or has no Python.
        DockerError: if it can't be made.
    """
    identity = _base(client, base, say)
    digest = hashlib.sha256(f"{identity}{ENVIRONMENT}".encode() + LOCK.read_bytes()).hexdigest()[:16]
    name = f"{KEPT}:{digest}"
    if not _there(client, name):
        version = _python(client, base)
        say(f"making the image {name} on {base}, once")
        wheels = _wheels(version)
        entries: dict[str, Path | bytes] = {
            "Dockerfile": ENVIRONMENT.format(base=base).encode(),
            "wheels": wheels,
            LOCK.name: LOCK,
        }
        build(client, entries, name, {})
    return name


def code(client: DockerClient, base: str, tree: Path, run: str) -> str:
    """Return the name of the image with this project's code and `tree` on `base`; it goes with the run."""
    name = f"saltbed-run:{run}"
    entries: dict[str, Path | bytes] = {"Dockerfile": CODE.format(base=base).encode()}
    for folder in ("harness", "evil_minions", "sql"):
        entries[f"opt/{folder}"] = ROOT / folder
    for folder in ("salt", "scripts"):
        entries[f"opt/tree/{folder}"] = tree / folder
    build(client, entries, name, engine.labels(run))
    return name


def build(client: DockerClient, entries: dict[str, Path | bytes], name: str, labels: dict[str, str]) -> None:
    """Build the image `name` from a Dockerfile and the files that it copies; raise DockerError if that fails."""
    from docker.errors import APIError, BuildError  # noqa: PLC0415 - slow to import, and most beds need none

    with engine.pack(entries) as context:
        try:
            client.images.build(
                fileobj=context,
                custom_context=True,
                tag=name,
                labels=labels,
                rm=True,
                forcerm=True,
                network_mode="none",
            )
        except BuildError as error:
            last = [line["stream"].strip() for line in error.build_log if line.get("stream", "").strip()][-3:]
            raise DockerError(f"The image {name} can't be built: {error.msg} After: {' / '.join(last)}") from error
        except APIError as error:
            raise DockerError(f"The image {name} can't be built: {error.explanation}") from error


def _there(client: DockerClient, name: str) -> bool:
    from docker.errors import ImageNotFound  # noqa: PLC0415 - slow to import, and most beds need none

    try:
        client.images.get(name)
    except ImageNotFound:
        return False
    return True


def _base(client: DockerClient, base: str, say: Callable[[str], None]) -> str:
    """Return the identity of the base, pulled if the engine lacks it."""
    from docker.errors import APIError  # noqa: PLC0415 - slow to import, and most beds need none

    if not _there(client, base):
        say(f"pulling {base}")
        try:
            client.images.pull(base)
        except APIError as error:
            raise SettingsError(
                f"The engine has no image {base} and can't pull it: name another with --base; docs/docker.md says how "
                "to make one without a registry."
            ) from error
    return str(client.images.get(base).id)


def _python(client: DockerClient, base: str) -> str:
    """Return the version of the base's Python, such as 3.11; raise SettingsError if it has none of use."""
    from docker.errors import APIError, ContainerError  # noqa: PLC0415 - slow to import, and most beds need none

    try:
        output: Any = client.containers.run(
            base, ["python3", "-c", VERSION], remove=True, network_mode="none", entrypoint=""
        )
    except (APIError, ContainerError) as error:
        raise SettingsError(
            f"The image {base} has no Python with venv: make one with the packages python3 and python3-venv."
        ) from error
    return str(output.decode().strip())


def locked(text: str, version: str) -> str:
    """Return the requirements of a lock for Python `version` on Linux, with their hashes and without markers.

    pip takes the wheels of another version when it is told so, and evaluates markers for the Python that it runs on.
    """
    target = {"python_version": version, "python_full_version": f"{version}.0", "sys_platform": "linux"}
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words, *hashes = line.partition("#")[0].split("--hash=")
        if words.strip():
            requirement = Requirement(words)
            if requirement.marker is None or requirement.marker.evaluate(target):
                pinned = [f"{requirement.name}{requirement.specifier}", *(f"--hash={one.strip()}" for one in hashes)]
                found.append(" ".join(pinned) + "\n")
    return "".join(found)


def _wheels(version: str) -> Path:
    """Return the folder with a wheel of every requirement for Python `version`, downloaded unless they are there."""
    wanted = locked(LOCK.read_text(encoding="utf-8"), version)
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:12]
    folder = WHEELS / f"wheels-{version}-{digest}"
    if not (folder / ".complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        requirements = folder / LOCK.name
        requirements.write_text(wanted, encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--require-hashes", "--only-binary=:all:", "--python-version", version]
        command += ["--requirement", str(requirements), "--dest", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:]
            raise DockerError(f"The wheels for Python {version} can't be downloaded: {' '.join(last)}")
        (folder / ".complete").touch()
    return folder
