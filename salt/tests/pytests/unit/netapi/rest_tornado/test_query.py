import sys
import types

import pytest

import salt.netapi.rest_tornado.saltnado as saltnado
from tests.support.mock import MagicMock, patch


class QueryError(Exception):
    pass


@pytest.fixture
def extension():
    """
    What salt-api needs of saltext-query
    """

    def refuse(opts, *args):
        raise QueryError(f"Ask for something else than {args}.")

    http = types.SimpleNamespace(
        posted=MagicMock(return_value={"fun": "query.items"}),
        given=MagicMock(side_effect=refuse),
    )
    package = types.SimpleNamespace(QueryError=QueryError, http=http)
    modules = {
        "saltext": types.SimpleNamespace(query=package),
        "saltext.query": package,
        "saltext.query.http": http,
    }
    with patch.dict(sys.modules, modules):
        yield http


@pytest.fixture
def handler(app_mock):
    ret = saltnado.QuerySaltAPIHandler(app_mock, MagicMock())
    ret.request_payload = {"fields": ["<b>x</b>"]}
    with patch.object(ret, "finish"), patch.object(ret, "set_header"), patch.object(
        ret, "disbatch"
    ):
        yield ret


def test_posted(handler, extension, app_mock):
    handler.disbatch_query("node", posted=True)
    extension.posted.assert_called_once_with(
        app_mock.opts, "node", {"fields": ["<b>x</b>"]}
    )
    assert handler.lowstate == [{"fun": "query.items"}]
    handler.disbatch.assert_called_once_with()


@pytest.mark.parametrize("what", ("<b>x</b>", "node"))
def test_what_is_wrong_is_no_page(handler, extension, what):
    """
    The message has what was sent in it, so no browser may take it for HTML.
    """
    extension.posted.side_effect = extension.given.side_effect
    handler.disbatch_query(what, posted=True)
    assert "<b>x</b>" in handler.finish.call_args[0][0]
    assert handler.get_status() == 400
    handler.set_header.assert_any_call("Content-Type", "text/plain; charset=UTF-8")
    handler.set_header.assert_any_call("X-Content-Type-Options", "nosniff")
    handler.disbatch.assert_not_called()


def test_without_the_extension(handler):
    with patch.dict(sys.modules, {"saltext.query": None, "saltext.query.http": None}):
        handler.disbatch_query("node", posted=True)
    assert handler.get_status() == 501
    assert "saltext-query" in handler.finish.call_args[0][0]
    handler.disbatch.assert_not_called()
