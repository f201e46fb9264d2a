"""Verifying a finished run: a second look at everything it left, with nothing of the code that made its result.

Sources that know the same are held against each other, and each figure is worked out again in SQL: see
`harness.verify.verification`. Nothing here may import the arithmetic of `harness.results`; a unit test holds that.
"""
