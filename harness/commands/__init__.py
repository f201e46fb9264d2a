"""The command line: what `python -m harness` reads, does and prints."""
