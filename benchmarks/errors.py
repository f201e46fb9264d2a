"""The errors of the benchmarks.

BenchmarkError          exit 3: the benchmark could not be run to its end
├── DamagedFile         exit 3: a file of figures is broken or of another format
├── UnknownBenchmark    exit 2: no benchmark has that name
└── UnknownFigure       exit 3: a page names a figure that is none
"""

from __future__ import annotations


class BenchmarkError(Exception):
    """A benchmark could not be run to its end; the message is one sentence that says what to do next."""

    exit_code = 3


class DamagedFile(BenchmarkError):  # noqa: N818 - it names what is wrong
    """A file of figures is broken, of another format, or of nothing that is known."""


class UnknownBenchmark(BenchmarkError):  # noqa: N818 - it names what is wrong
    """No benchmark has the name that was asked for."""

    exit_code = 2


class UnknownFigure(BenchmarkError):  # noqa: N818 - it names what is wrong
    """A page names a figure that no benchmark and no scenario has."""
