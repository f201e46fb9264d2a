"""Every default, once: those of a real minion's configuration that the master notices, and those of a fleet.

Source of the former: DEFAULT_MINION_OPTS in salt/config/__init__.py of Salt 3008.5, except where noted.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

ACCEPTANCE_WAIT_TIME: Final = 10.0
AUTH_TIMEOUT: Final = 5.0
AUTH_TRIES: Final = 7
REQUEST_CHANNEL_TIMEOUT: Final = 60.0
REQUEST_CHANNEL_TRIES: Final = 3
RETURN_RETRY_TIMER: Final = (5, 10)
RETURN_RETRY_TRIES: Final = 3

# of the transports zeromq and tcp; aiohttp, which ws uses, sets none
TCP_KEEPALIVE_IDLE: Final = 300

# salt.crypt.AsyncAuth: the pause before each attempt, and how long a rejected minion waits before it ends
SIGN_IN_PAUSE: Final = 0.1
REJECTED_WAIT: Final = (10.0, 20.0)

# salt.transport: the names that Salt's option `transport` has, the default one first
Transport = Literal["zeromq", "tcp", "ws"]
TRANSPORTS: Final = get_args(Transport)
# of a master: ret_port
REQUEST_PORT: Final = 4506

# of a fleet
ID_FORMAT: Final = "minion-{:05d}"
PER_PROCESS: Final = 2500
SEED: Final = 1
AUTH_RATE: Final = 300.0
WINDOW: Final = 48
SLOWDOWN: Final = 1.0
JITTER: Final = 0.1
