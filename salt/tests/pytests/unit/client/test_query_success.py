import os

import pytest

import salt.runner
from salt.utils.rows import Rows
from tests.support.mock import MagicMock, patch

ROWS = Rows({"fields": [{"name": "name"}], "data": [[[0, "web1"]]]})


@pytest.mark.parametrize(
    "found,success",
    (
        (ROWS, True),
        (Rows({"data": []}), True),
        (Rows({"fields": []}), True),
        # the shape alone says nothing
        (dict(ROWS), False),
        ({"data": {"master": {"cmd_|-a_|-b_|-run": {"result": False}}}}, False),
        ({"data": [], "outputter": "highstate"}, False),
    ),
)
def test_rows_are_no_states(master_opts, found, success):
    """
    A query's answer is no failure, whatever its rows hold; that of an orchestration is.
    """
    os.makedirs(os.path.join(master_opts["cachedir"], "proc"))
    with patch("salt.utils.event.get_event", MagicMock()), patch(
        "salt.utils.job.store_job"
    ) as stored, patch.object(
        salt.runner.RunnerClient, "functions", {"test.found": lambda: found}
    ), salt.runner.RunnerClient(
        master_opts
    ) as client:
        ret = client.cmd("test.found", [], print_event=False, full_return=True)
    assert ret["return"] == found
    assert ret["success"] is success
    assert stored.call_args[0][1]["return"]["success"] is success
