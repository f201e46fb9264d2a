"""The patch set: upstream's Salt, our changes to it, and the way back upstream.

Upstream's files are never committed here. What is committed are ``patches/*.patch`` (changes to files that upstream
has) and new files at their place below ``salt/``; this package makes the tree from them and turns edits back into them.
"""
