"""The order of tests, shuffled: what fails in one order and not in another depends on a test before it."""

from __future__ import annotations

import random
from itertools import groupby
from typing import Any

import pytest

ANY = "any"
WORKER = "shuffle"


class Shuffle:
    """The plugin: files in a random order, and the tests of each file in one."""

    def __init__(self, seed: int) -> None:
        """Take what decides the order."""
        self._seed = seed

    def pytest_report_header(self) -> str:
        """Tell how to have the same order again."""
        return f"order: --shuffle={self._seed}"

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker."""
        node.workerinput[WORKER] = self._seed

    # pytest itself brings the tests of one parameter of a module's fixture together again
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Shuffle the tests; those of a file stay together, for they share what the file has set up."""
        chance = random.Random(self._seed)  # noqa: S311 - no secret
        files = [list(tests) for _, tests in groupby(items, lambda item: item.path)]
        chance.shuffle(files)
        for tests in files:
            chance.shuffle(tests)
        items[:] = [test for tests in files for test in tests]


def add_option(parser: pytest.Parser) -> None:
    """Describe the option."""
    text = "run the files, and the tests of each, in the random order that this number decides, or in any"
    parser.addoption("--shuffle", metavar=f"SEED|{ANY}", help=text)


def register(config: pytest.Config) -> None:
    """Shuffle the tests if that is asked for; a worker gets the seed of its controller."""
    asked = getattr(config, "workerinput", {}).get(WORKER, config.option.shuffle)
    if asked is None:
        return
    try:
        seed = random.randrange(1_000_000) if asked == ANY else int(asked)  # noqa: S311 - no secret
    except ValueError:
        raise pytest.UsageError(f"--shuffle takes a number or '{ANY}', not '{asked}'.") from None
    config.pluginmanager.register(Shuffle(seed))
