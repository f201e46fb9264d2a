"""State files for tests: a highstate of 24 states with 40 files, of every kind that Salt's states fetch."""

from __future__ import annotations

import hashlib
import io
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PAGES = 26
STATES = 24

_TOP = """\
base:
  '*':
    - common
    - web
  'G@no:such':
    - match: compound
    - absent
"""
_MAP = "{% set app = {'port': 80, 'name': grains['os']} %}\n"
_MACROS = "{% macro line(x) %}line {{ x }}{% endmacro %}\n"
_COMMON = """\
{{% from "map.jinja" import app with context %}}
include:
  - common.users
{out}/etc:
  file.directory:
    - makedirs: True
motd:
  file.managed:
    - name: {out}/etc/motd
    - source: salt://common/files/motd
    - template: jinja
    - require:
      - file: {out}/etc
conf:
  file.managed:
    - name: {out}/etc/app.conf
    - source: salt://common/files/app.conf
    - template: jinja
    - context: {{port: {{{{ app.port }}}}}}
large:
  file.managed:
    - name: {out}/etc/large
    - source: salt://common/files/large
missing:
  file.managed:
    - name: {out}/etc/missing
    - source: salt://common/files/missing
needs:
  test.nop:
    - require:
      - file: missing
two:
  file.managed:
    - name: {out}/etc/two
    - source:
      - salt://common/files/no-such
      - salt://common/files/two
hashed:
  file.managed:
    - name: {out}/etc/hashed
    - source: salt://common/files/two
    - source_hash: salt://common/files/two.sha256
contents:
  file.managed:
    - name: {out}/etc/contents
    - contents: abc
"""
_USERS = (
    "fine:\n  test.succeed_without_changes: []\nnothing:\n  test.nop: []\nfailing:\n  test.fail_without_changes: []\n"
)
_WEB = """\
site:
  file.recurse:
    - name: {out}/site
    - source: salt://web/tree
site-again:
  file.recurse:
    - name: {out}/site-again
    - source: salt://web/tree
    - include_empty: True
script:
  cmd.script:
    - source: salt://web/script.sh
script-by-name:
  cmd.script:
    - name: salt://web/script.sh
command:
  cmd.run:
    - name: echo hi
append:
  file.append:
    - name: {out}/etc/appended
    - sources:
      - salt://web/append
archive:
  archive.extracted:
    - name: {out}/archive
    - source: salt://web/a.tar
    - enforce_toplevel: False
block:
  file.blockreplace:
    - name: {out}/etc/appended
    - marker_start: '# start'
    - marker_end: '# end'
    - source: salt://web/append
    - append_if_not_found: True
patch:
  file.patch:
    - name: {out}/etc/contents
    - source: salt://web/contents.patch
cached:
  file.cached:
    - name: salt://web/script.sh
data:
  file.serialize:
    - name: {out}/etc/data.json
    - serializer: json
    - dataset: {{a: 1}}
fetched:
  module.run:
    - cp.get_file:
      - path: salt://web/script.sh
      - dest: {out}/etc/script.sh
"""


def make(folder: Path, out: Path) -> None:
    """Write the files to `folder`; the states manage files below `out`."""
    texts = {
        "top.sls": _TOP,
        "map.jinja": _MAP,
        "macros.jinja": _MACROS,
        "common/init.sls": _COMMON.format(out=out),
        "common/users.sls": _USERS,
        "common/files/motd": "{{ grains['id'] }}\n",
        "common/files/app.conf": (
            "{% from 'macros.jinja' import line %}\nport {{ port }}\n{{ line(3) }}\n{% include 'common/files/part' %}\n"
        ),
        "common/files/part": "a part\n",
        # more than the file server sends at once
        "common/files/large": "0123456789abcde\n" * 90_000,
        "common/files/two": "2\n",
        "common/files/two.sha256": hashlib.sha256(b"2\n").hexdigest() + "  two\n",
        "web/init.sls": _WEB.format(out=out),
        "web/script.sh": "#!/bin/sh\necho hi\n",
        "web/append": "appended\n",
        "web/contents.patch": "--- contents\n+++ contents\n@@ -1 +1 @@\n-abc\n+def\n",
        # one of them is empty
        **{f"web/tree/d{number % 4}/page{number}": f"page {number}\n" * (number * 40) for number in range(PAGES)},
        # fetched before a highstate
        "_modules/own.py": "def there():\n    return True\n",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with tarfile.open(folder / "web" / "a.tar", "w") as archive:
        entry = tarfile.TarInfo("x")
        entry.size = 3
        archive.addfile(entry, io.BytesIO(b"abc"))
