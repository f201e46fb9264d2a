"""The checks of the bugs that need no scenario; each runs in the Python of the Salt that it is for."""
