import json
import sys
import types

import pytest

import salt.netapi.rest_tornado.saltnado as saltnado
from salt.exceptions import AuthorizationError, TokenAuthenticationError
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
    ret.content_type, ret.dumper = "application/json", json.dumps
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
    found = json.loads(handler.finish.call_args[0][0])
    assert "<b>x</b>" in found["return"]
    assert handler.get_status() == found["status"] == 400
    handler.set_header.assert_any_call("Content-Type", "application/json")
    handler.set_header.assert_any_call("X-Content-Type-Options", "nosniff")
    handler.disbatch.assert_not_called()


def test_a_misspelt_parameter_is_refused(handler, extension):
    handler.request.query_arguments = {"query": [b"name"], "fliter": [b"x"]}
    handler.disbatch_query("node")
    assert handler.get_status() == 404
    assert "fliter" in handler.finish.call_args[0][0]
    extension.given.assert_not_called()
    handler.disbatch.assert_not_called()


def test_a_parameter_without_a_query_is_refused(handler, extension):
    handler.request.query_arguments = {"fliter": [b"x"]}
    handler.disbatch_query("node")
    assert handler.get_status() == 404
    handler.disbatch.assert_not_called()


def test_without_the_extension(handler):
    with patch.dict(sys.modules, {"saltext.query": None, "saltext.query.http": None}):
        handler.disbatch_query("node", posted=True)
    assert handler.get_status() == 501
    assert "saltext-query" in handler.finish.call_args[0][0]
    handler.disbatch.assert_not_called()


@pytest.mark.parametrize(
    "found,status",
    (
        ("The regular expression takes too long.", 400),
        (AuthorizationError(), 401),
        (TokenAuthenticationError("no rights"), 401),
        ({"fields": [], "data": []}, 200),
    ),
)
async def test_what_the_runner_refuses(handler, extension, found, status):
    """
    An answer is no sentence: this is what was wrong.
    """
    low = {"client": "runner", "fun": "query.items", "token": "x"}
    extension.posted.return_value = low
    handler.disbatch_query("node", posted=True)

    async def run(_low):
        if isinstance(found, Exception):
            raise found
        return found

    with patch.object(handler, "_verify_client", return_value=True), patch.object(
        handler, "_disbatch_runner", run, create=True
    ), patch.object(saltnado.QuerySaltAPIHandler, "token", "x"), patch.object(
        handler, "write"
    ) as write:
        await type(handler).disbatch(handler)
    assert handler.get_status() == status
    if status == 200:
        assert json.loads(write.call_args[0][0]) == {"return": [found]}
    else:
        answer = json.loads(handler.finish.call_args[0][0])
        assert answer["status"] == status and isinstance(answer["return"], str)
