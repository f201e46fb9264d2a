"""The bed: a real master, salt-api, PostgreSQL and simulated minions that start and stop together."""

from harness.bed.bed import Bed
from harness.bed.settings import BedSettings

__all__ = ["Bed", "BedSettings"]
