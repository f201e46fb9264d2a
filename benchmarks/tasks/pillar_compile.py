"""One compile of a pillar as the master's workers do it, without a master: top file, three SLS and an ext_pillar."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import salt.config
import salt.pillar

if TYPE_CHECKING:
    from collections.abc import Callable

# stands for the answer of a database
EXT_PILLAR = """import json


def ext_pillar(minion_id, pillar, path):
    with open(path) as stream:
        return json.load(stream)
"""


def prepare(settings: dict[str, Any]) -> Callable[[str], Callable[[], dict[str, Any]]]:
    """Return the compile; `settings` has `folder` (written to), `ext_bytes` (0 for no ext_pillar) and `grains`."""
    folder = Path(settings["folder"])
    _files(folder, settings["ext_bytes"])
    opts = salt.config.master_config(str(folder / "master"))
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    logging.getLogger().setLevel(logging.WARNING)

    def compile_one(minion_id: str) -> Callable[[], dict[str, Any]]:
        """Compile, and return what gives the CPU seconds and the digest of the pillar in canonical JSON."""
        grains = {**settings["grains"], "id": minion_id}
        start = time.process_time()
        pillar = loop.run_until_complete(salt.pillar.get_async_pillar(opts, grains, minion_id).compile_pillar())
        seconds = time.process_time() - start
        text = json.dumps(pillar, sort_keys=True)
        return lambda: {"cpu": seconds, "digest": hashlib.sha256(text.encode()).hexdigest()}

    return compile_one


def _files(folder: Path, ext_bytes: int) -> None:
    """Write the master's file, the pillar tree, and what the ext_pillar gives."""
    roots, modules = folder / "pillar", folder / "extmods" / "pillar"
    roots.mkdir(parents=True, exist_ok=True)
    modules.mkdir(parents=True, exist_ok=True)
    (roots / "top.sls").write_text("base:\n  '*':\n    - one\n    - two\n    - three\n")
    for name in ("one", "two", "three"):
        (roots / f"{name}.sls").write_text(f"{name}:\n  id: {{{{ grains['id'] }}}}\n  packages: [a, b, c]\n")
    (modules / "bench.py").write_text(EXT_PILLAR)
    value = {f"key-{number:04d}": "x" * 100 for number in range(ext_bytes // 114)}
    (folder / "ext.json").write_text(json.dumps({"ext": value}))
    own = {name: str(folder / name) for name in ("cachedir", "pki_dir", "sock_dir")}
    options: dict[str, Any] = {
        **own,
        "extension_modules": str(folder / "extmods"),
        "pillar_roots": {"base": [str(roots)]},
        "log_file": str(folder / "log"),
    }
    if ext_bytes:
        options["ext_pillar"] = [{"bench": str(folder / "ext.json")}]
    # JSON is YAML
    (folder / "master").write_text(json.dumps(options))
