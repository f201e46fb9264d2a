"""Entry point of `python -m patches`."""

from patches import pipe
from patches.cli import main

raise SystemExit(pipe.run(main))
