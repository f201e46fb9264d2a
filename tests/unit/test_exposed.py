"""A session that leaves a secret where every user may read it fails, and no other does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import exposed

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

CONFTEST = """
from pathlib import Path
from exposed import Exposed

def pytest_configure(config):
    config.pluginmanager.register(Exposed(Path({folder!r}) / "build", Path({folder!r}) / "tmp"))
"""
TEST = """
import os, secrets
from pathlib import Path

FOLDER = Path({folder!r})

def test_it():
    os.umask(0o022)
    {text}
"""
KEY = f"-----BEGIN RSA PRIVATE KEY-----\\n{'A' * 64}\\n"


@pytest.fixture
def shared() -> Iterator[Path]:
    """Yield a folder that everybody may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="exposed-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def run(folder: Path, root: Path, text: str, *options: str) -> tuple[int, str]:
    """Run a test; return the exit code, and what was said."""
    for place in ("build", "tmp", "tests"):
        (folder / place).mkdir(exist_ok=True)
    (folder / "tests" / "conftest.py").write_text(CONFTEST.format(folder=str(folder)))
    (folder / "tests" / "test_made_up.py").write_text(TEST.format(folder=str(folder), text=text))
    (folder / "tests" / "pytest.ini").write_text("[pytest]\n")
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist"]
    argv += [*options, "-c", str(folder / "tests" / "pytest.ini"), str(folder / "tests")]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTHONPATH": str(root / "tests")}
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("(FOLDER / 'tmp' / 'left').write_text('password: ' + secrets.token_hex(16))", "tmp/left"),
        ("(FOLDER / 'build' / 'left').write_text('password: ' + secrets.token_hex(16))", "build/left"),
        (f"(FOLDER / 'build' / 'left').write_text('{KEY}')", "build/left"),
        ("(FOLDER / 'build' / 'master').write_text('sharedsecret: ' + 'ab' * 16)", "build/master"),
        (f"(FOLDER / 'tmp' / 'left').write_text('{KEY}')", ""),
        (f"(FOLDER / 'build' / 'site-packages').mkdir(); (FOLDER / 'build/site-packages/key').write_text('{KEY}')", ""),
        ("secrets.token_hex(16); (FOLDER / 'tmp' / 'left').write_text('nothing')", ""),
        ("os.umask(0o077); (FOLDER / 'tmp' / 'left').write_text(secrets.token_hex(16))", ""),
        ("(FOLDER / 'tmp' / 'a').mkdir(0o700); (FOLDER / 'tmp' / 'a' / 'left').write_text(secrets.token_hex(16))", ""),
    ],
)
@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "worker"])
def test_what_others_may_read(root: Path, text: str, left: str, options: tuple[str, ...], shared: Path) -> None:
    """A secret that was drawn is found by its value, others in what is made by their form."""
    code, said = run(shared, root, text, *options)
    assert code == (1 if left else 0), said
    assert (f"Every user of this machine may read {shared}/{left}," in said) == bool(left), said


def test_who_may_enter(shared: Path) -> None:
    """A file is as closed as the folders above it, and a folder without listing does not hide a name."""
    inner = shared / "inner"
    inner.mkdir(mode=0o711)
    (inner / "file").touch(mode=0o644)
    (inner / "closed").touch(mode=0o640)
    assert list(exposed.readable(shared)) == [inner / "file"]
    shared.chmod(0o700)
    assert list(exposed.readable(inner)) == []
