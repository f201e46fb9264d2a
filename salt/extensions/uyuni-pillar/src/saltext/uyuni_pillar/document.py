"""
Files of JSON and YAML whose contents PostgreSQL gives back as they are

:mod:`saltext.uyuni_pillar.layout` knows which files there are.
"""

import copy
import json
import math
import os
import tempfile

import salt.exceptions
import salt.utils.files
import salt.utils.json
import salt.utils.yaml

# How deep a pillar may be nested: each step of its way to a template is a recursion
LEVELS = 100
DEEP = f"it is nested more than {LEVELS} levels deep"

# What files hold that were read once, by path
_kept = {}


class BadFile(salt.exceptions.SaltException):
    """
    A file cannot be what a pillar is made of
    """


def check(value, path="", level=0):
    """
    Raise BadFile if PostgreSQL would not give ``value`` back as it is
    """
    if level > LEVELS:
        raise BadFile(DEEP)
    where = f" at {path}" if path else ""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise BadFile(f"the key {key!r}{where} is not a text")
            check(key, path)
            check(item, f"{path}:{key}" if path else key, level + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            check(item, f"{path}:{number}" if path else str(number), level + 1)
    elif isinstance(value, str):
        if "\0" in value or not _is_unicode(value):
            raise BadFile(f"the text{where} has characters that JSON cannot hold")
    elif isinstance(value, float):
        # numeric has neither, and writes a great integer without exponent
        if not math.isfinite(value) or (
            value.is_integer() and ("e" in repr(value) or repr(value) == "-0.0")
        ):
            raise BadFile(f"the number {value!r}{where} would come back as another")
    elif not isinstance(value, (bool, int, type(None))):
        raise BadFile(f"JSON has no {type(value).__name__}{where}")


def _is_unicode(value):
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def read(path):
    """
    Return what a file holds. Raises BadFile if it is no mapping.
    """
    value = _parse(path)
    if not isinstance(value, dict):
        raise BadFile(f"it holds no mapping, but {type(value).__name__}")
    return value


def read_once(path):
    """
    Return what a file holds, as it was when it was read first
    """
    if path not in _kept:
        _kept[path] = read(path)
    # it is merged into
    return copy.deepcopy(_kept[path])


def forget():
    """
    Forget the files that were read once
    """
    _kept.clear()


def _parse(path):
    try:
        with salt.utils.files.fopen(path, "r", encoding="utf-8") as handle:
            if path.endswith(".json"):
                return salt.utils.json.load(handle)
            return salt.utils.yaml.safe_load(handle)
    except OSError as err:
        raise BadFile(f"it cannot be read: {err.strerror}") from err
    except RecursionError as err:
        raise BadFile(DEEP) from err
    except (ValueError, salt.utils.yaml.YAMLError) as err:
        # includes bytes that are no UTF-8
        raise BadFile(f"it cannot be parsed: {' '.join(str(err).split())}") from err


def read_optional(path, default):
    """
    Return what a file of JSON holds, or the default if there is no such file

    Raises BadFile if it is of another type than the default.
    """
    if not os.path.exists(path):
        return default
    value = _parse(path)
    if not isinstance(value, type(default)):
        raise BadFile(f"it holds no {type(default).__name__}")
    return value


def files_of(folder, suffix):
    """
    Return the stems and paths of the files in a folder, sorted
    """
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    return [
        (name[: -len(suffix)], os.path.join(folder, name))
        for name in names
        if name.endswith(suffix) and os.path.isfile(os.path.join(folder, name))
    ]


def is_shared(folder):
    """
    Return whether others than the user of this process and root may change what is in a
    folder; one that is not there is made for the user alone
    """
    try:
        found = os.stat(folder)
    except OSError:
        # whoever writes there says what is wrong
        return False
    return found.st_uid not in (0, os.geteuid()) or bool(found.st_mode & 0o022)


def write(path, value):
    """
    Write a file that only its owner can read

    It replaces what has its name: neither a link there nor the name of the temporary
    file leads to another place.
    """
    folder, name = os.path.split(path)
    with salt.utils.files.set_umask(0o077):
        os.makedirs(folder, exist_ok=True)
        # the longest name of a file is that of the result, not of the temporary one
        number, beside = tempfile.mkstemp(prefix=".new", dir=folder)
        try:
            with os.fdopen(number, "w", encoding="utf-8") as handle:
                if name.endswith(".json"):
                    handle.write(json.dumps(value, indent=2, sort_keys=True))
                else:
                    salt.utils.yaml.safe_dump(
                        value, handle, default_flow_style=False, allow_unicode=True
                    )
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise
