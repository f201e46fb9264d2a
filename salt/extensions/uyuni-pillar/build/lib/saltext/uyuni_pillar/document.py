"""
Files of JSON and YAML whose contents PostgreSQL gives back as they are
"""

import json
import math

import salt.exceptions
import salt.utils.files
import salt.utils.json
import salt.utils.yaml


class BadFile(salt.exceptions.SaltInvocationError):
    """
    A file cannot be what a pillar is made of
    """


def check(value):
    """
    Raise BadFile if PostgreSQL would not give ``value`` back as it is
    """
    try:
        text = json.dumps(value)
        again = json.loads(
            text, parse_float=_parse_number, parse_constant=_parse_number
        )
    except (TypeError, ValueError, RecursionError) as err:
        raise BadFile(f"JSON cannot hold it: {err}") from err
    if again != value or "\\u0000" in text:
        raise BadFile(
            "JSON cannot hold it: it has a key that is no text, or a text with a zero"
            " byte"
        )


def _parse_number(text):
    # numeric has neither -0 nor infinity, and writes a great integer without exponent
    value = float(text)
    if text == "-0.0" or not math.isfinite(value) or "e" in text and value.is_integer():
        raise ValueError(f"the number {text} would come back as another")
    return value


def read(path, default=None):
    """
    Return what a file holds, the default if that is nothing. Raises BadFile if it is of
    another type than the default, which is a mapping if there is none.
    """
    try:
        with salt.utils.files.fopen(path, "r", encoding="utf-8") as handle:
            if path.endswith(".json"):
                value = salt.utils.json.load(handle)
            else:
                value = salt.utils.yaml.safe_load(handle)
    except OSError as err:
        raise BadFile(f"it cannot be read: {err.strerror}") from err
    except (ValueError, RecursionError, salt.utils.yaml.YAMLError) as err:
        # includes bytes that are no UTF-8
        raise BadFile(f"it cannot be parsed: {' '.join(str(err).split())}") from err
    if value is None:
        value = default
    kind = dict if default is None else type(default)
    if not isinstance(value, kind):
        expected = "list" if kind is list else "mapping"
        raise BadFile(f"it holds no {expected}, but {type(value).__name__}")
    return value
