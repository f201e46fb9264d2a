"""One version of Salt in a process of its own, which does tasks and tells how long each took."""
