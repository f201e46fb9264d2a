"""A fleet as processes: settings, supervisor and workers, the start of their minions, and control while they run."""
