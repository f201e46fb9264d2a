"""Verifying a finished run: sources of the same fact are compared with each other, see `harness.verify.verification`.

Only `verification` uses the arithmetic of `harness.results`, to compare the result with its samples.
"""
