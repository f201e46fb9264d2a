import pytest

import salt.package_states.item as items
import salt.package_states.resolver as resolver


@pytest.fixture
def source():
    """
    Return what makes a source out of a state's name, level, priority and rows
    """

    def make(state, level, *rows, priority=0, target="t"):
        entries = items.ordered(items.make(*row) for row in rows)
        return resolver.Source(state, 1, level, target, priority, entries)

    return make
