"""
YAML that comes from outside
"""

import subprocess
import sys
import types

import pytest

import salt.netapi.rest_cherrypy.app as app
import salt.netapi.rest_tornado.saltnado as saltnado
import salt.utils.args
import salt.utils.yaml
import salt.utils.yamlloader
from tests.support.mock import MagicMock, patch


def _bomb(levels, width=10, leaf="x"):
    """
    Return a document that has width ** levels leaves with its aliases written out
    """
    lines = [f"a0: &a0 [{','.join([leaf] * width)}]"]
    for level in range(1, levels):
        aliases = ",".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} [{aliases}]")
    return "\n".join(lines)


REFUSED = {
    "levels": "[" * 200 + "]" * 200,
    "mappings": "{a: " * 200 + "}" * 200,
    "blocks": "- " * 200 + "x",
    "keys": "? " * 200,
    "not closed": "[" * 100000,
    "aliases": _bomb(9),
    "long scalar": f"a: &a {'x' * 1000}\nb: [{','.join(['*a'] * 1000)}]",
    "merges": "a: &a {k: v}\nb: &b\n" + "  <<: *a\n" * 3000,
    "itself": "&a [*a]",
    "itself as a value": "&a {b: *a}",
    "nothing": "[*a]",
    "no YAML": "[}",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(text):
    with pytest.raises(salt.utils.yaml.YAMLError):
        salt.utils.yamlloader.safe_load_bounded(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "{a: [1, 2], b: {c: d}}",
        "a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}",
        "[" * 99 + "]" * 99,
        _bomb(3),
        "- &a x\n" + "- *a\n" * 1000,
        "--- a\n",
        "a: 0o17\nb: 2001-01-01\nc: !!binary aGk=\n",
    ],
)
def test_what_is_loaded_as_before(text):
    loaded = salt.utils.yamlloader.safe_load_bounded(text)
    assert loaded == salt.utils.yaml.safe_load(text)


def test_the_process_goes_on():
    """
    In a process of its own, as the loader would end it
    """
    code = (
        "import salt.utils.args as a; text = '[' * 60000 + ']' * 60000;"
        "assert a.parse_input([text, 'x=' + text]) == [text, {'x': text, '__kwarg__': True}]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_argument_is_text_then():
    text = _bomb(9).replace("\n", ", ")
    assert salt.utils.args.yamlify_arg(f"{{{text}}}") == f"{{{text}}}"
    assert salt.utils.args.yamlify_arg("[1, {a: b}]") == [1, {"a": "b"}]


@pytest.mark.parametrize("text", [REFUSED["levels"], REFUSED["aliases"], "[}"])
def test_bodies_of_requests(text):
    class HTTPError(Exception):
        pass

    entity = types.SimpleNamespace(
        fp=types.SimpleNamespace(read=lambda fp_out: fp_out.write(text.encode())),
        headers={},
    )
    cherrypy = MagicMock(HTTPError=HTTPError)
    cherrypy.serving.request.headers = {}
    cherrypy.config = {"saltopts": {}, "apiopts": {}}
    with patch.object(app, "cherrypy", cherrypy), pytest.raises(HTTPError) as error:
        app.yaml_processor(entity)
    assert error.value.args[0] == 400

    handler = MagicMock()
    handler.request.headers = {"Content-Type": "application/x-yaml"}
    saltnado.BaseSaltAPIHandler.deserialize(handler, text.encode())
    handler.send_error.assert_called_once_with(400)
