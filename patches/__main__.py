"""Entry point of `python -m patches`."""

from evil_minions import pipe
from patches.cli import main

raise SystemExit(pipe.run(main))
