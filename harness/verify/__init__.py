"""Verifying a finished run: a second check of all its files, without the code that made its result.

Sources of the same fact are compared with each other, and each figure is computed again in SQL: see
`harness.verify.verification`. Nothing here may import the arithmetic of `harness.results`; a unit test ensures that.
"""
