"""A test bed of real Salt: master, salt-api, PostgreSQL and a simulated fleet, with load runs and their reports.

`harness.bed` starts and stops everything, `python -m harness` is the command.
"""
