"""
What the tests of the job handler's parts share
"""

import os

import pytest


@pytest.fixture(autouse=True)
def umask():
    """
    Folders of modules are those that nobody else may write, whatever the system's umask is
    """
    before = os.umask(0o022)
    yield
    os.umask(before)
