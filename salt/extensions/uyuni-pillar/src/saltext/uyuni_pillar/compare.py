"""
Compile the pillars of minions from two sources, and compare them
"""

from collections.abc import Mapping

import saltext.uyuni_pillar.document as document

import salt.pillar
import salt.utils.minions


class Side:
    """
    Compiles what pillars get from one source, and from nothing else

    ext_pillar
        The source, as the option of the master.

    opts
        The options of the master.
    """

    def __init__(self, ext_pillar, opts):
        self.opts = {
            **opts,
            "ext_pillar": ext_pillar,
            "pillar_roots": {},
            "file_client": "local",
        }
        self.ext_pillar = ext_pillar
        self.compiler = None
        self.by_id = all(_needs_only_the_id(source) for source in ext_pillar)

    def missing(self):
        """
        Return the names of the ext_pillars that this Salt does not have
        """
        loaded = salt.pillar.Pillar(self.opts, {}, "", "base").ext_pillars
        names = {name for source in self.ext_pillar for name in source}
        return sorted(name for name in names if name not in loaded)

    def compile(self, minion):
        """
        Return the pillar of a minion, with its errors
        """
        if self.compiler is None or not self.by_id:
            grains = {}
            if not self.by_id:
                _, grains, _ = salt.utils.minions.get_minion_data(minion, self.opts)
            self.compiler = salt.pillar.Pillar(self.opts, grains or {}, minion, "base")
        self.compiler.minion_id = minion
        pillar, errors = self.compiler.ext_pillar({})
        return {**pillar, "_errors": errors} if errors else pillar


def _needs_only_the_id(source):
    """
    Return whether an ext_pillar asks for nothing but the id of a minion
    """
    if "uyuni_files" in source:
        return True
    queries = source.get("postgres")
    if isinstance(queries, dict):
        queries = list(queries.values())
    # a query without params has the id only, all else may need the grains
    return isinstance(queries, list) and all(
        not isinstance(query, dict) or not query.get("params") for query in queries
    )


def difference(files, database):
    """
    Return what differs in two pillars, by side, None if nothing does

    The types of keys and values differ as well: 1, 1.0 and True are equal, but
    not the same in a template. The order of keys does not count, as jsonb has
    one of its own, see :func:`reordered`.
    """
    try:
        found = _difference(files, database)
    except RecursionError:
        return {"both": [document.DEEP]}
    if found is None:
        # an error is never right
        return {"both": files["_errors"]} if "_errors" in files else None
    return {"files": found[0], "database": found[1]}


def _difference(one, other):
    """
    Return what two values have and the respective other one has not, or None
    """
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return None if _same(one, other) else (one, other)
    keys = [{(type(key), key): key for key in side} for side in (one, other)]
    lack = ({}, {})
    for typed in dict.fromkeys([*keys[0], *keys[1]]):
        name = typed[1] if isinstance(typed[1], str) else _name(typed[1])
        if typed not in keys[1]:
            lack[0][name] = one[typed[1]]
        elif typed not in keys[0]:
            lack[1][name] = other[typed[1]]
        else:
            found = _difference(one[typed[1]], other[typed[1]])
            if found is not None:
                lack[0][name], lack[1][name] = found
    return lack if any(lack) else None


def _name(key):
    """
    Return how a key that is no text is told from one that is
    """
    return f"{key!r} ({type(key).__name__})"


def _same(one, other):
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return _difference(one, other) is None
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    # -0.0 is equal to 0.0
    return type(one) is type(other) and repr(one) == repr(other)


def reordered(one, other):
    """
    Return whether two equal pillars have their keys in another order
    """
    if isinstance(one, Mapping):
        return list(one) != list(other) or any(
            reordered(one[key], other[key]) for key in one
        )
    if isinstance(one, list):
        return any(map(reordered, one, other))
    return False
