"""Beacon to tell the master that packages were changed by someone other than Salt

A package manager's plugin, which ``salt '*' pkgset.install_plugin`` installs (dpkg, zypper, dnf),
writes a line into a cookie file when it has changed packages. If the line has changed since
the last look, this beacon fires ``salt/beacon/<minion id>/pkgset/changed``. With dpkg it looks at
the status file as well, and so sees changed holds, and works without the plugin.

What Salt's own functions (``pkg.install``, ``pkg.hold`` and so on) change is another event,
``salt/beacon/<minion id>/pkgset/own``, so that stored lists of packages follow it.

What was seen is kept in the minion's ``cachedir``, so a change made while the minion was down is
reported once when it is back. The very first look reports what was changed since the minion was
started, Salt's own changes included: a list of packages that the master has may be one of before.
"""

import logging
import os
import struct

import saltext.package_states.minion.pkgset as own_changes
import saltext.package_states.minion.replace as replace
from saltext.package_states.minion.pkgset import fcntl

import salt.utils.beacons
import salt.utils.files
import salt.utils.json

try:
    import psutil

    HAS_PSUTIL = True
except ImportError:
    HAS_PSUTIL = False

log = logging.getLogger(__name__)

__virtualname__ = "pkgset"


def __virtual__():
    if fcntl is None:
        return False, "pkgset beacon: not available on this platform"
    return __virtualname__


def _options(config):
    if isinstance(config, dict):
        return config
    return salt.utils.beacons.list_to_dict(config)


def validate(config):
    """Validate the beacon configuration"""
    parts = config if isinstance(config, list) else [config]
    if not all(isinstance(part, dict) for part in parts):
        return (
            False,
            "Configuration for pkgset beacon must be a dict or a list of dicts.",
        )
    config = _options(config)
    cookie = config.get("cookie", [])
    if not isinstance(cookie, str) and not (
        isinstance(cookie, list) and all(isinstance(path, str) for path in cookie)
    ):
        return (
            False,
            "Option cookie of pkgset beacon must be a path or a list of paths.",
        )
    if (
        not isinstance(config.get("database", ""), str)
        and config["database"] is not False
    ):
        return False, "Option database of pkgset beacon must be a path or False."
    return True, "Valid beacon configuration"


def _cookie(path):
    try:
        with salt.utils.files.fopen(path, "r") as fh_:
            return fh_.readline().strip()
    except (OSError, ValueError):
        return ""


def _locked(path):
    """Say whether a process has locked the file, without locking it"""
    try:
        with salt.utils.files.fopen(path, "rb") as fh_:
            ask = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            # where the structure is another one, an answer is an error, or "no"
            said = fcntl.fcntl(fh_, fcntl.F_GETLK, ask)
            return struct.unpack("hhqqi", said)[0] != fcntl.F_UNLCK
    except (OSError, struct.error):
        return False


def _database(path, old):
    """Return what there is to know of dpkg's status file, read only if it is another one"""
    stamp = replace.stamp(path)
    if stamp and old and old["path"] == path and old["stamp"] == stamp:
        return old
    sha, stat = own_changes.digest(path)
    if sha is None:
        return None
    return {"path": path, "digest": sha, "mtime": int(stat.st_mtime), "stamp": stamp}


def _load(place):
    """Return what was seen last, or ``None`` if there was no look yet"""
    try:
        with salt.utils.files.fopen(place, "r") as fh_:
            seen = salt.utils.json.load(fh_)
        return {
            "cookies": dict(seen["cookies"]),
            # as a beacon of before has written it
            "own": dict(seen.get("own", {})),
            "database": seen["database"],
        }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as exc:
        log.warning(
            "%s is not readable, so the pkgset beacon begins anew: %s", place, exc
        )
        return None


def _written_since_start(paths):
    """Return those of the files that were written after this minion was started"""
    if not HAS_PSUTIL:
        return []
    start = psutil.Process().create_time() * 1e9
    return [path for path in paths if (replace.stamp(path) or [0])[0] >= start]


def _changed(old, new, pairs):
    ret = []
    before, after = old["database"], new["database"]
    same = before and after and before["path"] == after["path"]
    if same and not own_changes.explained(pairs, before["digest"], after["digest"]):
        ret.append(after["path"])
    # the plugin may write its line some moments after the change was seen
    known = [f"{one['digest']} {one['mtime']}" for one in (before,) if one]
    for path, line in new["cookies"].items():
        if path in old["cookies"] and line not in [old["cookies"][path], *known]:
            ret.append(path)
    return ret


def _own(old, new):
    ret = [path for path, line in new["own"].items() if line != old["own"].get(path)]
    before, after = old["database"], new["database"]
    if before and after and before["digest"] != after["digest"]:
        ret.append(after["path"])
    return ret


def beacon(config):
    """Look whether packages were changed since the last look

    All options but the interval have defaults. The plugins write to ``/var/cache/salt/minion``,
    wherever ``cachedir`` is.

    .. code-block:: yaml

        beacons:
          pkgset:
            - interval: 5                   # seconds between two looks
            - cookie:                       # the path of a cookie file, or a list
              - /var/cache/salt/minion/rpmdb.cookie
              - /var/cache/salt/minion/dpkg.cookie
            - database: /var/lib/dpkg/status    # dpkg's status file; False for cookies only
    """
    config = _options(config)
    cookies = config.get("cookie", own_changes.COOKIES)
    if isinstance(cookies, str):
        cookies = [cookies]
    path = config.get("database", own_changes.DPKG_STATUS)

    with own_changes.own_changes(__opts__) as pairs:
        if pairs is None:
            return []
        if path:
            # a package manager at work: what is there now is not what there will be
            locks = [
                os.path.join(os.path.dirname(path), name)
                for name in ("lock-frontend", "lock")
            ]
            if any(_locked(lock) for lock in locks):
                return []
        place = os.path.join(own_changes.folder(__opts__), "seen")
        old = __context__.get(__virtualname__) or _load(place)
        new = {
            "cookies": {one: _cookie(one) for one in cookies},
            "own": {one: _cookie(f"{one}.own") for one in cookies},
            "database": _database(path, old and old["database"]) if path else None,
        }
        if old:
            for kind in ("cookies", "own"):
                for one, line in new[kind].items():
                    # a cookie that goes tells nothing, one that is the same when it is back
                    # neither
                    new[kind][one] = line or old[kind].get(one, "")
            new["database"] = new["database"] or (old["database"] if path else None)
        if new != old:
            replace.put(place, salt.utils.json.dumps(new))
        __context__[__virtualname__] = new
        own = []
        if old:
            changed, own = _changed(old, new, pairs), _own(old, new)
        else:
            changed = _written_since_start([path, *cookies] if path else cookies)
    if changed:
        return [{"tag": "changed", "files": changed}]
    return [{"tag": "own", "files": own}] if own else []
