"""What is lost with a process of the bed, by the process's role."""

from __future__ import annotations

from typing import Final

LOSSES: Final = {
    "monitor": "CPU and memory are not measured from then on: start it again.",
    "fleet": "Its minions are gone with it: start it again.",
    "master": "Nothing of the bed works without it: start it again.",
    "api": "Clients of the kind `api` get no answer without it: start it again.",
    "postgres": "Minions get no pillars without it: start it again.",
}
