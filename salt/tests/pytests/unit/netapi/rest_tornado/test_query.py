import pytest

import salt.netapi.rest_tornado.saltnado as saltnado
from tests.support.mock import MagicMock, patch


@pytest.mark.parametrize("what", ("<b>x</b>", "node"))
def test_what_is_wrong_is_no_page(app_mock, what):
    """
    The message has what was sent in it, so no browser may take it for HTML.
    """
    handler = saltnado.QuerySaltAPIHandler(app_mock, MagicMock())
    handler.request_payload = {"fields": ["name"], "filter": ["<b>x</b>"]}
    with patch.object(handler, "finish") as finish, patch.object(
        handler, "set_header"
    ) as header:
        handler.disbatch_query(what, posted=True)
    assert "<b>x</b>" in finish.call_args[0][0]
    assert handler.get_status() == 400
    header.assert_any_call("Content-Type", "text/plain; charset=UTF-8")
    header.assert_any_call("X-Content-Type-Options", "nosniff")
