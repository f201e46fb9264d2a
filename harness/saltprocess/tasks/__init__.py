"""What a process with a Salt can do for tests; a benchmark has tasks of its own."""
