"""Call execution modules in one process: `python module_calls.py CONFIG CALLS RESULTS`, with the calls in JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import salt.config
import salt.loader

ADDRESS = re.compile(r"0x[0-9a-f]+")
#: These change by themselves
MOMENTARY = {"atime", "st_atime", "pid"}


def plain(value: object) -> Any:
    """Return a result with its types, in JSON."""
    if isinstance(value, Mapping):
        return {repr(name): "" if name in MOMENTARY else plain(child) for name, child in value.items()}
    if isinstance(value, (list, tuple, Iterator)):
        return [type(value).__name__, *(plain(child) for child in value)]
    if isinstance(value, (set, frozenset)):
        return [type(value).__name__, *sorted(repr(child) for child in value)]
    return ADDRESS.sub("0x", f"{type(value).__name__} {value!r}")


def kind(value: object) -> Any:
    """Return the type of a result that is never the same, and of a dictionary's values those that are not numbered."""
    if isinstance(value, Mapping):
        return {str(name): type(child).__name__ for name, child in value.items() if not str(name).isdigit()}
    return type(value).__name__


def answer(functions: Any, call: Mapping[str, Any]) -> Any:
    """Return what a call or a look-up returns or raises."""
    name = call["function"]
    try:
        if call["look_up"]:
            found = [name in functions, functions.get(name) is None, functions.missing_fun_string(name)]
            return [*found, repr(functions[name])]
        result = functions[name](*call["args"], **call["kwargs"])
    except (Exception, SystemExit) as error:  # noqa: BLE001 - what it raises is compared
        text = ADDRESS.sub("0x", str(error))
        classes = [one.__name__ for one in type(error).__mro__]
        return {"raises": classes, "text": None if call["changing"] else text}
    return kind(result) if call["changing"] else plain(result)


def main() -> None:
    """Write the answers beside the place of Salt."""
    config, calls, results = sys.argv[1:]
    options = salt.config.minion_config(config)
    options["grains"] = salt.loader.grains(options)
    functions = salt.loader.minion_mods(options)
    answers = [answer(functions, call) for call in json.loads(Path(calls).read_text())]
    Path(results).write_text(json.dumps({"salt": salt.__file__, "answers": answers}))


if __name__ == "__main__":
    main()
