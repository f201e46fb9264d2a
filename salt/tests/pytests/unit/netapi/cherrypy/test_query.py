import sys
import types

import pytest

import salt.netapi.rest_cherrypy.app as app
from tests.support.mock import MagicMock, patch

ANSWER = {"fields": [], "data": []}


class QueryError(Exception):
    pass


class HTTPError(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


@pytest.fixture
def cherrypy():
    ret = MagicMock()
    ret.HTTPError = HTTPError
    ret.config = {"saltopts": {"id": "master"}, "apiopts": {}}
    with patch.object(app, "cherrypy", ret):
        yield ret


@pytest.fixture
def extension():
    """
    What salt-api needs of saltext-query
    """
    http = types.SimpleNamespace(
        posted=MagicMock(return_value={"fun": "query.items"}),
        given=MagicMock(return_value={"fun": "query.items", "what": "job"}),
        refusal=lambda found: found if isinstance(found, str) else None,
    )
    package = types.SimpleNamespace(QueryError=QueryError, http=http)
    modules = {
        "saltext": types.SimpleNamespace(query=package),
        "saltext.query": package,
        "saltext.query.http": http,
    }
    with patch.dict(sys.modules, modules), patch.object(
        app.LowDataAdapter, "exec_lowstate", lambda self, token: iter([ANSWER])
    ):
        yield http


def test_posted(cherrypy, extension):
    cherrypy.request.lowstate = [{"fields": ["name"]}]
    assert app.Query().POST("node") == {"return": [ANSWER]}
    extension.posted.assert_called_once_with(
        {"id": "master"}, "node", [{"fields": ["name"]}]
    )
    assert cherrypy.request.lowstate == [{"fun": "query.items"}]


def test_given(cherrypy, extension):
    assert app.Jobs().GET("1", query="id,fun", limit="5") == {"return": [ANSWER]}
    extension.given.assert_called_once_with(
        {"id": "master"}, "job", "1", "id,fun", {"limit": "5"}
    )


@pytest.mark.parametrize("given", ({"limit": "5"}, {"query": "id", "order": "id"}))
def test_other_parameters(cherrypy, extension, given):
    with pytest.raises(HTTPError) as exc:
        app.Minions().GET(**given)
    assert exc.value.status == 404


def test_what_is_wrong(cherrypy, extension):
    """
    The status says so, and the sentence comes in the form that was asked for.
    """
    sentence = "Ask for one of node, job."
    extension.posted.side_effect = QueryError(sentence)
    assert app.Query().POST("nodes") == {"status": 400, "return": sentence}
    assert cherrypy.response.status == 400


@pytest.mark.parametrize("given", (True, False))
def test_what_the_runner_refuses(cherrypy, extension, given):
    """
    An answer is no sentence: this is what was wrong.
    """
    sentence = "The regular expression takes too long."
    with patch.object(
        app.LowDataAdapter, "exec_lowstate", lambda self, token: iter([sentence])
    ):
        if given:
            ret = app.Minions().GET(query="name", filter="name =~ m/(a+)+$/")
        else:
            ret = app.Query().POST("node")
    assert ret == {"status": 400, "return": sentence}
    assert cherrypy.response.status == 400


def test_without_the_extension(cherrypy):
    with patch.dict(sys.modules, {"saltext.query": None, "saltext.query.http": None}):
        with pytest.raises(HTTPError, match="saltext-query") as exc:
            app.Query().POST("node")
    assert exc.value.status == 501
