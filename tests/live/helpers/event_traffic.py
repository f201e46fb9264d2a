"""Processes that fire events on a master's bus, and one that hears them: a script that runs with the Salt of a tree.

`send CONFIG SENDER COUNT PAUSE` fires numbered events of 10 B to 1 MB and tells how many failed, `hear CONFIG QUIET`
hears all until none has come for QUIET seconds, and tells what was heard of each sender, in the order that it came.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import salt.config
import salt.utils.event

if TYPE_CHECKING:
    from collections.abc import Sequence

TAG = "traffic"
# by far most events are small; of a thousand two have a megabyte
USUAL = (10, 100, 1_000, 300, 3_000)
RARE = {500: 1_000_000, 200: 100_000, 50: 20_000}
FIRST_S = 60.0


def size(number: int) -> int:
    """Return the size of the text of a sender's event."""
    return next((large for each, large in RARE.items() if number % each == each - 1), USUAL[number % len(USUAL)])


def text(sender: int, number: int) -> str:
    """Return the text of a sender's event."""
    return chr(97 + (sender + number) % 26) * size(number)


def bus(config: str, *, listen: bool) -> Any:
    """Return a connection to the bus of the master with this configuration."""
    opts = salt.config.client_config(config)
    return salt.utils.event.get_event("master", opts=opts, sock_dir=opts["sock_dir"], listen=listen)


def send(config: str, sender: int, count: int, pause: float) -> dict[str, int]:
    """Fire so many events; return how many could not be fired."""
    failed = 0
    with bus(config, listen=False) as event:
        for number in range(count):
            try:
                done = event.fire_event({"number": number, "text": text(sender, number)}, f"{TAG}/{sender}")
            except Exception:  # noqa: BLE001 - whatever it is: it was said
                done = False
            failed += not done
            time.sleep(pause)
    return {"failed": failed}


def hear(config: str, quiet: float) -> dict[str, Any]:
    """Return the numbers that were heard of each sender, and how many events were not whole."""
    heard: dict[str, list[int]] = {}
    torn = 0
    with bus(config, listen=True) as event:
        print(json.dumps("listening"), flush=True)
        wait = FIRST_S
        while (found := event.get_event(wait=wait, tag=TAG, match_type="startswith", full=True)) is not None:
            wait = quiet
            sender, data = found["tag"].rpartition("/")[2], found["data"]
            torn += data["text"] != text(int(sender), data["number"])
            heard.setdefault(sender, []).append(data["number"])
    return {"heard": heard, "torn": torn}


def main(argv: Sequence[str]) -> int:
    """Do one of the two."""
    what, config, *words = argv
    if what == "send":
        sender, count, pause = words
        print(json.dumps(send(config, int(sender), int(count), float(pause))))
    else:
        print(json.dumps(hear(config, float(words[0]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
