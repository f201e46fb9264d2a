"""Entry point of `python -m patches`."""

from patches.cli import main

raise SystemExit(main())
