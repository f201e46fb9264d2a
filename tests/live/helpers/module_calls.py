"""Call execution modules in one process: `python module_calls.py CONFIG CALLS RESULTS`, with the calls in JSON."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
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


def unexplained(functions: Any, calls: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """Return how many right calls were compared with the interfaces, and what differs; nothing on stock Salt."""
    try:
        schema = importlib.import_module("salt.runners.interfaces").schema
        problem = importlib.import_module("tests.pytests.contract.returns").problem
    except ImportError:
        return 0, []
    count = 0
    found: list[str] = []
    schemas: dict[str, Any] = {}
    for call in calls:
        module, _, name = call["function"].partition(".")
        if not call["right"] or call["changing"]:
            continue
        schemas[module] = schemas[module] if module in schemas else schema(module)
        if name not in schemas[module] or call["function"] not in functions:
            continue
        wrong = ""
        # an error is no return
        with suppress(Exception):
            result = functions[call["function"]](*call["args"], **call["kwargs"])
            count += 1
            wrong = problem(result, schemas[module][name]["returns"])
        if wrong:
            found.append(f"{call['function']}{call['args']}: {wrong[:200]}")
    return count, found


def main() -> None:
    """Write the answers beside the place of Salt."""
    config, calls, results = sys.argv[1:]
    options = salt.config.minion_config(config)
    options["grains"] = salt.loader.grains(options)
    functions = salt.loader.minion_mods(options)
    answers = [answer(functions, call) for call in json.loads(Path(calls).read_text())]
    compared, wrong = unexplained(functions, json.loads(Path(calls).read_text()))
    found = {"salt": salt.__file__, "answers": answers, "compared": compared, "unexplained": wrong}
    Path(results).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
