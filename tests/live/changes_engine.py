"""Run the engine `pillar_changes` without a master: options as JSON on stdin, each batch of minions as JSON on stdout.

Run by the patched environment, outside of the tests' own process.
"""

import json
import sys

import saltext.uyuni_pillar.engines.pillar_changes as engine


def tell(batch: list[str]) -> None:
    """Write a batch where the master would tell its minions."""
    print(json.dumps(batch), flush=True)


GIVEN = json.load(sys.stdin)
engine.__opts__ = GIVEN["opts"]
engine._refresh = tell
engine.RETRY = (0.2, 1)
engine.start(**GIVEN["options"])
