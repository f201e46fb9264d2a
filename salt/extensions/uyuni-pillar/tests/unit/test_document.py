"""
Tests of the files of JSON and YAML that pillars are made of
"""

import pytest
import saltext.uyuni_pillar.document as document

import salt.exceptions


def test_what_is_nested_too_deeply_is_a_bad_file(tmp_path):
    # Python 3.13 reads 5,000 levels
    levels = 100000
    path = tmp_path / "a.json"
    path.write_text('{"a":' + "[" * levels + "]" * levels + "}")
    with pytest.raises(document.BadFile):
        document.check(document.read(str(path)))


def test_a_value_that_json_lacks_is_a_wrong_argument():
    # which a runner that gets one answers without a traceback
    with pytest.raises(salt.exceptions.SaltInvocationError, match="JSON cannot hold"):
        document.check({"a": float("nan")})


def test_what_is_nested_in_a_sane_way_is_not(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a":' + "[" * 99 + "]" * 99 + "}")
    document.check(document.read(str(path)))
