"""What all tests share: where things are, and a Salt that stays quiet."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# a shell that starts the tests in the background lets them ignore Ctrl-C, and all that they start inherits it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
    """Begin with what takes longest, so that no worker is left alone with it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("early") is None)
