import sys
import types

import pytest

import salt.netapi.rest_cherrypy.app as app
from tests.support.mock import MagicMock, patch


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
    )
    package = types.SimpleNamespace(QueryError=QueryError, http=http)
    modules = {
        "saltext": types.SimpleNamespace(query=package),
        "saltext.query": package,
        "saltext.query.http": http,
    }
    with patch.dict(sys.modules, modules), patch.object(
        app.LowDataAdapter, "exec_lowstate", lambda self, token: iter(["answer"])
    ):
        yield http


def test_posted(cherrypy, extension):
    cherrypy.request.lowstate = [{"fields": ["name"]}]
    assert app.Query().POST("node") == {"return": ["answer"]}
    extension.posted.assert_called_once_with(
        {"id": "master"}, "node", [{"fields": ["name"]}]
    )
    assert cherrypy.request.lowstate == [{"fun": "query.items"}]


def test_given(cherrypy, extension):
    assert app.Jobs().GET("1", query="id,fun", limit="5") == {"return": ["answer"]}
    extension.given.assert_called_once_with(
        {"id": "master"}, "job", "1", "id,fun", {"limit": "5"}
    )


@pytest.mark.parametrize("given", ({"limit": "5"}, {"query": "id", "order": "id"}))
def test_other_parameters(cherrypy, extension, given):
    with pytest.raises(HTTPError) as exc:
        app.Minions().GET(**given)
    assert exc.value.status == 404


def test_what_is_wrong(cherrypy, extension):
    extension.posted.side_effect = QueryError("Ask for one of node, job.")
    with pytest.raises(HTTPError, match="Ask for one of") as exc:
        app.Query().POST("nodes")
    assert exc.value.status == 400


def test_without_the_extension(cherrypy):
    with patch.dict(sys.modules, {"saltext.query": None, "saltext.query.http": None}):
        with pytest.raises(HTTPError, match="saltext-query") as exc:
            app.Query().POST("node")
    assert exc.value.status == 501
