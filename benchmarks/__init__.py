"""Benchmarks of the features: stock Salt and ours interleaved in one run, so that ratios hold on a noisy machine.

Example: `nox -s bench -- pillar` writes `build/bench/pillar.json`, and `nox -s results -- --collect` copies its
figures to docs/evidence and makes docs/results.md of all files there. How to write one, in a module of its own below
this package, say `keys.py`::

    CPU = Figure("cpu", "CPU of a list of keys, {minions} minions", "ms", aim=at_most(1.05, of="ratio"))
    LAG = Figure("lag", "event bus, p99", "ms", statistic="p99", aim=at_most(50))  # of ours alone: no stock

    def run(options: Options) -> dict[Figure, Samples]:
        task = "benchmarks.tasks.keys"  # a module with `prepare`, see `harness.saltprocess.process`
        with SaltProcess("stock", task, {}) as stock, SaltProcess("patched", task, {}) as patched:
            found = interleave({"stock": lambda turn: stock.run()[0], "ours": lambda turn: patched.run()[0]}, options)
            lags = patched.run("lags")[1]
        return {CPU: Samples(ours=found["ours"], stock=found["stock"]), LAG: Samples(lags)}

    KEYS = Benchmark("keys", "what a list of keys costs", run, (CPU, LAG), minions=1000, rounds=20, minutes=2)

Then add `keys.KEYS` to `benchmarks.registry`. `Figure`, the aims, `Benchmark`, `interleave` and `Options` are in
`benchmarks.benchmark`.

- Return raw samples, in the unit of the figure. Ratios (turn by turn), medians, spreads, verdicts and the file are
  made of them.
- Repeat with `interleave`, also where there is one contender only: it takes turns, warms up and tells the progress.
- A figure's `key` stays when its words change. `what` has at most 60 characters. The aim stands there and nowhere else.
- Raise BenchmarkError, one sentence, when what is measured is wrong: a pillar that is short, answers that differ.
- Where there is nothing to compare, return one sample or a few: a count, a peak of memory.

Nothing imports this package but its own tests. What a test needs as well lives in `harness`.
"""
