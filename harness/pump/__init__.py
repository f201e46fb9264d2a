"""Minions that have signed in and do nothing but return, as many at once as a master takes."""
