"""
Source files are read once for all tests
"""

import pytest


@pytest.fixture(scope="session")
def every():
    """
    All execution modules of this tree, by virtual names.
    """
    # tests of the interfaces alone do without the report
    from salt.interfaces.report import providers

    return providers.providers(providers.root_of_salt())
