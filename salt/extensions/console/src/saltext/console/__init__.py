"""
A page in the browser, which salt-api serves.

The page is static: salt-api's settings ``app`` and ``static`` name it, see :func:`settings`.
It sends all that it asks and does through salt-api, with the rights of who has signed in.
"""

import pathlib

#: The clients of salt-api that the page uses.
CLIENTS = ("runner",)


def folder():
    """
    Return the folder of the page.
    """
    return pathlib.Path(__file__).parent.resolve() / "page"


def settings():
    """
    Return what the master's configuration needs, as a dictionary.
    """
    return {
        "netapi_enable_clients": list(CLIENTS),
        "rest_cherrypy": {
            "port": 8000,
            "app": str(folder() / "index.html"),
            "static": str(folder()),
            "ssl_crt": "/etc/pki/tls/certs/localhost.crt",
            "ssl_key": "/etc/pki/tls/certs/localhost.key",
        },
    }
