"""Benchmarks of the features: stock Salt and ours interleaved in one run, so that ratios hold on a noisy machine.

Example: `nox -s bench -- pillar` writes `build/bench/pillar.json`.
"""
