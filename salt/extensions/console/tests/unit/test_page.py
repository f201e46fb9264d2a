"""
What the page's policy and configuration say.
"""

import base64
import hashlib
import pathlib
import re

from saltext.console import settings

PAGE = pathlib.Path(__file__).parents[2] / "src" / "saltext" / "console" / "page"


def test_policy_has_the_hash_of_the_map_of_modules():
    """
    The only inline script is the map of modules, and the policy names its hash.
    """
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    (inline,) = re.findall(r"<script[^>]*>([^<]+)</script>", text)
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in text


def test_settings_name_the_page():
    """
    salt-api serves the page's own folder.
    """
    served = settings()["rest_cherrypy"]
    assert served["app"] == f"{served['static']}/index.html"
