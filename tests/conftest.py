"""What all tests share: where things are, and a Salt that stays quiet."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import shuffle
from tests.exposed import Exposed
from tests.leftovers import Leftovers

# how fast examples come says something about the machine alone
settings.register_profile("saltbed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("saltbed")

ROOT = Path(__file__).parent.parent
ROOTS = "needs_root"
AS_ROOT = 'as root, nox -s live -- -m "live and needs_root"'

# a shell that starts the tests in the background lets them ignore Ctrl-C, and all that they start inherits it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer a random order."""
    shuffle.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Let every test answer for what it leaves behind, the session for secrets, and shuffle the tests if asked to."""
    config.pluginmanager.register(Leftovers())
    config.pluginmanager.register(Exposed(ROOT / "build", Path(tempfile.gettempdir())))
    shuffle.register(config)


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def stock(root: Path) -> Path:
    """Return the pristine tree; it is there whenever `nox -s apply` ran."""
    tree = root / "build" / "stock"
    assert (tree / "salt" / "version.py").exists(), "run `nox -s apply` first"
    return tree


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no worker is left alone with it at the end; leave out what needs root."""
    items.sort(key=lambda item: item.get_closest_marker("early") is None)
    if os.geteuid():
        for item in items:
            if item.get_closest_marker(ROOTS):
                item.add_marker(pytest.mark.skip(reason=f"needs root: {AS_ROOT}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell whoever is not root how many tests were left out, and how to run them."""
    skipped = terminalreporter.getreports("skipped")
    left_out = {report.nodeid for report in skipped if ROOTS in report.keywords}
    if left_out and os.geteuid():
        terminalreporter.line(f"{len(left_out)} tests were left out because they need root: {AS_ROOT}")
