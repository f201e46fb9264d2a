"""Ask a database with either driver: parameters and queries as JSON on stdin, what each makes of them on stdout.

Run by the patched environment, outside of the tests' own process.
"""

import importlib
import json
import sys
from typing import Any

import salt.payload
import salt.utils.postgres
from salt.utils.postgres import driver


def made(query: str, values: Any) -> list[str]:
    """Return a value, its type, and what a minion has of it."""
    with salt.utils.postgres.get_cursor(**PARAMS) as cursor:
        cursor.execute(query, values and [tuple(one) if kind == "tuple" else one for kind, one in values])
        ((value,),) = cursor.fetchall()
    return [repr(value), repr(salt.payload.loads(salt.payload.dumps({"pillar": value})))]


GIVEN = json.load(sys.stdin)
PARAMS = salt.utils.postgres.get_params({"postgres": GIVEN["postgres"]})
FOUND: list[list[list[str]]] = []
for name in ("psycopg2", "psycopg"):
    driver.module = importlib.import_module(f"salt.utils.postgres.{name}_driver")
    salt.utils.postgres._kept.clear()
    FOUND.append([])
    for query, values in GIVEN["queries"]:
        try:
            FOUND[-1].append(made(query, values))
        except Exception as err:  # noqa: BLE001 - whatever it is, the test tells
            FOUND[-1].append([type(err).__name__, str(err)])
json.dump(FOUND, sys.stdout)
