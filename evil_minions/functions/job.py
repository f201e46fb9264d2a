"""One job on one minion: from the publication to the load of its return.

What is returned has the keys and types of a real minion's return, error texts included.
Source: Minion._thread_return, _thread_multi_return and _prepare_return_pub in salt/minion.py of Salt 3008.5.
"""

from __future__ import annotations

import inspect
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from salt.exceptions import CommandExecutionError, SaltInvocationError

from evil_minions.functions import CURRENT, MISSING_SECONDS, START_SECONDS, Call, bind
from evil_minions.functions.modules import FUNCTIONS

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from evil_minions.functions import Function, Host, Recorded
    from evil_minions.protocol.envelope import Load

_SPREAD: Final = 0.3
_GENERIC_ERROR: Final = 1


class Result(NamedTuple):
    """What a function left: its value and exit code, and for a failure the outputter it asks for and the exception."""

    value: Any
    retcode: int = 0
    out: str | None = None
    error: Exception | None = None


def is_multiple(load: Load) -> bool:
    """Return whether a publication holds a list of functions."""
    return not isinstance(load["fun"], str)


def find(answers: Recorded | None, name: str, args: Sequence[Any]) -> Function | None:
    """Return the function that answers on a minion: what was recorded for these arguments, else the simulated one."""
    if answers is not None:
        recorded = answers.find(name, args)
        if recorded is not None:
            return recorded
    return FUNCTIONS.get(name)


def start_delay(load: Load, rng: random.Random, answers: Recorded | None = None) -> float:
    """Return the seconds from a publication to its function's first instruction, as a real minion takes them."""
    if is_multiple(load):
        return START_SECONDS * rng.lognormvariate(0.0, _SPREAD)
    function = find(answers, load["fun"], load["arg"])
    seconds = START_SECONDS + (function.seconds if function else MISSING_SECONDS)
    return seconds * rng.lognormvariate(0.0, _SPREAD)


def begin(host: Host, load: Load, pid: int, name: str, args: Sequence[Any]) -> Any:
    """Call one function; return a Result, or a coroutine that returns one."""
    function = find(host.replay, name, args)
    if function is None:
        return _missing(name)
    call = Call(host, load, pid, table=FUNCTIONS)
    token = CURRENT.set(call)
    try:
        positional, keywords = bind(function.call, args, load)
        value = function.call(*positional, **keywords)
        if inspect.iscoroutine(value):
            return _awaited(value, call, name)
        return _succeeded(value, call)
    except Exception as error:  # noqa: BLE001 - every failure of a function is a result
        return _failed(error, name)
    finally:
        CURRENT.reset(token)


def _missing(name: str) -> Result:
    text = f"'{name}' is not available."
    function: Any = name
    try:
        # in a job of several functions Salt calls the function's name, a string, and reports the TypeError
        function()
    except TypeError as error:
        return Result(text, _GENERIC_ERROR, "nested", error)
    return Result(text, _GENERIC_ERROR, "nested")


async def _awaited(coroutine: Any, call: Call, name: str) -> Result:
    CURRENT.set(call)
    try:
        return _succeeded(await coroutine, call)
    except Exception as error:  # noqa: BLE001 - every failure of a function is a result
        return _failed(error, name)


def _succeeded(value: Any, call: Call) -> Result:
    """Return the outcome of a function that returned; a dictionary may say itself that it failed."""
    retcode = call.retcode
    if not retcode and isinstance(value, dict) and not all(value.get(name, True) for name in ("result", "success")):
        retcode = _GENERIC_ERROR
    return Result(value, retcode, call.out)


def _failed(error: Exception, name: str) -> Result:
    if isinstance(error, CommandExecutionError):
        text = f"ERROR: {error}"
    elif isinstance(error, SaltInvocationError):
        text = f"ERROR executing '{name}': {error}"
    elif isinstance(error, TypeError):
        text = f"Passed invalid arguments to {name}: {error}\n{FUNCTIONS[name].documentation()}"
    else:
        text = f"The minion function caused an exception: {''.join(traceback.format_exception(error))}"
    return Result(text, _GENERIC_ERROR, "nested", error)


def single_return(load: Load, minion_id: str, outcome: Result) -> Load:
    """Return the load of a job with one function."""
    result: Load = {
        "cmd": "_return",
        "id": minion_id,
        "success": outcome.retcode == 0,
        "return": outcome.value,
        "retcode": outcome.retcode,
        "jid": load["jid"],
        "fun": load["fun"],
        "fun_args": load["arg"],
    }
    for name in ("user", "master_id"):
        if name in load:
            result[name] = load[name]
    if isinstance(load.get("metadata"), dict):
        result["metadata"] = load["metadata"]
    function = FUNCTIONS.get(load["fun"])
    out = outcome.out or (function.outputter if function else None)
    if out:
        result["out"] = out
    result["_stamp"] = stamp()
    return result


def literal_return(load: Load, minion_id: str, outcome: Result) -> Load:
    """Return the load of a job whose functions all have the same outcome, without being run."""
    if not is_multiple(load):
        return single_return(load, minion_id, outcome)
    same = single_return({**load, "fun": load["fun"][0]}, minion_id, outcome)
    return {
        **same,
        "fun": load["fun"],
        "return": dict.fromkeys(load["fun"], outcome.value),
        "retcode": dict.fromkeys(load["fun"], outcome.retcode),
        "success": dict.fromkeys(load["fun"], outcome.retcode == 0),
    }


async def multiple_return(host: Host, load: Load, pid: int) -> Load:
    """Run the functions of a job one after the other, and return its load."""
    values: dict[str, Any] = {}
    retcodes: dict[str, int] = {}
    successes: dict[str, bool] = {}
    for name, args in zip(load["fun"], load["arg"], strict=False):
        outcome = begin(host, load, pid, name, args)
        if inspect.iscoroutine(outcome):
            outcome = await outcome
        successes[name] = outcome.retcode == 0
        if outcome.error is None:
            values[name] = outcome.value
            retcodes[name] = outcome.retcode
        else:
            values[name] = "".join(traceback.format_exception(outcome.error))
    result: Load = {
        "cmd": "_return",
        "id": host.id,
        "return": values,
        "retcode": retcodes,
        "success": successes,
        "jid": load["jid"],
        "fun": load["fun"],
        "fun_args": load["arg"],
    }
    for name in ("user", "metadata"):
        if name in load:
            result[name] = load[name]
    result["_stamp"] = stamp()
    return result


def stamp() -> str:
    """Return the time as the minion's event bus writes it into a load."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
