"""Run one check with the Salt that this Python imports, and print what it found as one line of JSON."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import warnings
from pathlib import Path

import salt


def main(path: str, folder: str) -> None:
    """Run the check in the file `path`, which may write below `folder`."""
    # what Salt prints must not end up before the answer
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    print(json.dumps({"wrong": module.check(Path(folder)), "salt": salt.__file__}), file=answer, flush=True)
    # threads that a bug left hanging must not keep the process
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
