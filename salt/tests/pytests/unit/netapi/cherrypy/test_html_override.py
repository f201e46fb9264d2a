"""
Which requests get the page of an app
"""

import pytest

import salt.netapi.rest_cherrypy.app as app
from tests.support.mock import MagicMock, patch


class InternalRedirect(Exception):
    pass


def _is_page(path, accept="text/html"):
    cherrypy = MagicMock(InternalRedirect=InternalRedirect, HTTPError=KeyError)
    cherrypy.config = {"apiopts": {"app": "/srv/page/index.html"}}
    cherrypy.request.path_info = path
    cherrypy.request.headers = {"Accept": accept}
    cherrypy.lib.cptools.accept.return_value = accept
    with patch.object(app, "cherrypy", cherrypy):
        try:
            app.html_override_tool()
        except InternalRedirect:
            return True
    return False


@pytest.mark.parametrize("path", ["/", "/login", "/minions"])
def test_a_browser_gets_the_page(path):
    assert _is_page(path)
    assert not _is_page(path, "application/json")


@pytest.mark.parametrize("path", ["/events", "/events/", "/ws/0a", "/static/x"])
def test_what_is_streamed_is_no_page(path):
    """
    CherryPy answered with a traceback, also before anybody had signed in
    """
    assert not _is_page(path)
