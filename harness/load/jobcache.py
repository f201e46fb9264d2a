"""Reads which returns a master really kept: a program for the Python of a Salt tree.

`python -m harness.load.jobcache CONFIG_FOLDER JIDS KEPT` reads job ids from the file JIDS, a line each, and writes
`kept.csv`. It asks the master's own returner, whichever the tree and its options have (the local job cache unless
told otherwise), because what a client sees later with `jobs.lookup_jid` is what counts, not a file's presence. It
runs as a process of its own: Salt is imported from the tree under test, never into the harness.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.samples import KeptReturn, SampleFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def kept(config_folder: Path, jids: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (job id, minion id) of every return of `jids` that the job cache of the master in `config_folder` holds."""
    import salt.config  # noqa: PLC0415  # only this program's process may load Salt
    import salt.minion  # noqa: PLC0415  # likewise

    options = salt.config.master_config(str(config_folder / "master"))
    # the copy that this program works with: nothing to serve, nothing to log beside the master's own file
    options["log_file"] = "/dev/null"
    returners = salt.minion.MasterMinion(options, states=False, rend=False).returners
    get_jid = returners[f"{options.get('ext_job_cache') or options['master_job_cache']}.get_jid"]
    for jid in jids:
        for minion, data in get_jid(jid).items():
            if "return" in data:
                yield jid, minion


def main(argv: Sequence[str]) -> int:
    """Write the returns kept of the job ids in a file."""
    config_folder, jids, output = map(Path, argv)
    rows = SampleFile(output, KeptReturn)
    for jid, minion in kept(config_folder, jids.read_text(encoding="ascii").split()):
        rows.write(KeptReturn(jid, minion))
    rows.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
