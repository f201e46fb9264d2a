#!/usr/bin/python3
"""
Tell Salt that dnf has changed the set of packages outside the control of Salt.

A plugin of dnf 4, and a command for the plugin "actions" of dnf 5.
"""

import hashlib
import os
import sys

try:
    from dnf import Plugin
except ImportError:
    Plugin = object

CK_PATH = "/var/cache/salt/minion/rpmdb.cookie"
# the three layouts of rpm's database, where they were and where they are now
RPM_PATHS = [
    os.path.join(folder, name)
    for folder in ("/usr/lib/sysimage/rpm", "/var/lib/rpm")
    for name in ("rpmdb.sqlite", "Packages.db", "Packages")
]


def _get_files():
    """
    Get the files of the RPM Database: of several layouts the one in use, with
    what SQLite has not merged into it yet.
    """
    found = [path for path in RPM_PATHS if os.path.isfile(path)]
    if not found:
        return []
    path = max(found, key=os.path.getmtime)
    return [one for one in (path, path + "-wal") if os.path.isfile(one)]


def _get_line():
    """
    Get the checksum and the modified time of the RPM Database.
    """
    digest = hashlib.sha256()
    files = _get_files()
    for path in files:
        # pylint: disable-next=resource-leakage
        with open(path, "rb") as rpm_db_fh:
            while True:
                buff = rpm_db_fh.read(0x40000)
                if not buff:
                    break
                digest.update(buff)
    mtime = max([int(os.path.getmtime(path)) for path in files] or [0])
    return f"{digest.hexdigest()} {mtime}\n"


def notify():
    """
    Write the cookie, unless it is Salt that is running. Never fails: dnf has done
    its work.
    """
    if "SALT_RUNNING" in os.environ:
        return
    part = f"{CK_PATH}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(CK_PATH), exist_ok=True)
        # pylint: disable-next=resource-leakage
        with open(part, "w", encoding="utf-8") as ck_fh:
            ck_fh.write(_get_line())
        os.rename(part, CK_PATH)
    except OSError as exc:
        print(f"Unable to save the cookie file: {exc}", file=sys.stderr)


class DnfNotify(Plugin):
    """
    dnf 4 calls ``transaction`` when a transaction has succeeded.
    """

    name = "dnfnotify"

    def transaction(self):
        """
        Hook after the package installation transaction.
        """
        notify()


if __name__ == "__main__":
    notify()
