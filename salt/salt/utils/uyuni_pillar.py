"""
The pillar and formula files of Uyuni, and the rows of a table they belong to

.. versionadded:: 3009.0

Uyuni writes the pillars of its minions to files:

.. code-block:: text

    <static_data>/<category>.yml                         everyone
    <pillar_data>/<category>.yml                         everyone
    <pillar_data>/images/<category>.sls                  everyone
    <pillar_data>/images/org<id>/<category>.sls          an organization
    <pillar_data>/images/group<id>/<category>.sls        a group
    <pillar_data>/pillar_<minion id>.yml                 a minion
    <pillar_data>/pillar_<minion id>_<category>.yml      a minion
    <formula_data>/group_pillar/<id>_<formula>.json      a group
    <formula_data>/pillar/<minion id>_<formula>.json     a minion
    <formula_data>/group_formulas.json                   formulas by group
    <formula_data>/minion_formulas.json                  formulas by minion
    <formula_data>/formula_order.json                    all formulas in order

Both minion ids and categories may hold underscores. So a file is never taken
apart: its name is looked up among those that the known minions may have.
"""

import copy
import json
import math
import os
import re
from collections import namedtuple

import salt.exceptions
import salt.utils.files
import salt.utils.json
import salt.utils.yaml

PILLAR_DATA = "/srv/susemanager/pillar_data"
STATIC_DATA = "/usr/share/susemanager/pillar_data"
FORMULA_DATA = "/srv/susemanager/formula_data"

# What may follow the id of a minion in the name of a file
CATEGORIES = ("custom_info", "group_memberships", "virtualization")

# The category of pillar_<minion id>.yml
GENERAL = "general"

# The category of the formulas that a minion has, of its own and by its groups.
# It follows from the others, so it has no file.
FORMULAS = "formulas"
FORMULA = "formula-"
IMAGES = "images/"

LEVELS = ("everyone", "organization", "group", "minion")

# What files hold that were read once, by path
_kept = {}

# owner is None for everyone, an id, or a minion id
Row = namedtuple("Row", ("level", "owner", "category", "pillar", "path"))

# Where the files are
Folders = namedtuple("Folders", ("pillar_data", "static_data", "formula_data"))


class BadFile(salt.exceptions.SaltException):
    """
    A file cannot be what a pillar is made of
    """


def check(value, path=""):
    """
    Raise BadFile if PostgreSQL would not give ``value`` back as it is
    """
    where = f" at {path}" if path else ""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise BadFile(f"the key {key!r}{where} is not a text")
            check(key, path)
            check(item, f"{path}:{key}" if path else key)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            check(item, f"{path}:{number}" if path else str(number))
    elif isinstance(value, str):
        if "\0" in value or not _is_unicode(value):
            raise BadFile(f"the text{where} has characters that JSON cannot hold")
    elif isinstance(value, float):
        # numeric has neither, and writes a great integer without exponent
        if not math.isfinite(value) or (
            value.is_integer() and ("e" in repr(value) or repr(value) == "-0.0")
        ):
            raise BadFile(f"the number {value!r}{where} would come back as another")
    elif not isinstance(value, (bool, int, type(None))):
        raise BadFile(f"JSON has no {type(value).__name__}{where}")


def _is_unicode(value):
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def read(path):
    """
    Return what a file holds. Raises BadFile if it is no mapping.
    """
    value = _parse(path)
    if not isinstance(value, dict):
        raise BadFile(f"it holds no mapping, but {type(value).__name__}")
    return value


def read_once(path):
    """
    Return what a file holds, as it was when it was read first
    """
    if path not in _kept:
        _kept[path] = read(path)
    # it is merged into
    return copy.deepcopy(_kept[path])


def forget():
    """
    Forget the files that were read once
    """
    _kept.clear()


def _parse(path):
    try:
        with salt.utils.files.fopen(path, "r", encoding="utf-8") as handle:
            if path.endswith(".json"):
                return salt.utils.json.load(handle)
            return salt.utils.yaml.safe_load(handle)
    except OSError as err:
        raise BadFile(f"it cannot be read: {err.strerror}") from err
    except (ValueError, salt.utils.yaml.YAMLError) as err:
        # includes bytes that are no UTF-8
        raise BadFile(f"it cannot be parsed: {' '.join(str(err).split())}") from err


def read_optional(path, default):
    """
    Return what a file of JSON holds, or the default if there is no such file

    Raises BadFile if it is of another type than the default.
    """
    if not os.path.exists(path):
        return default
    value = _parse(path)
    if not isinstance(value, type(default)):
        raise BadFile(f"it holds no {type(default).__name__}")
    return value


def files_of(folder, suffix):
    """
    Return the stems and paths of the files in a folder, sorted
    """
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    return [
        (name[: -len(suffix)], os.path.join(folder, name))
        for name in names
        if name.endswith(suffix) and os.path.isfile(os.path.join(folder, name))
    ]


def in_order(formulas, order):
    """
    Return formulas in Uyuni's order. Those that it does not have come last, by
    name, as a formula that is assigned must not be lost.
    """
    places = {name: place for place, name in reversed(list(enumerate(order)))}
    return sorted(set(formulas), key=lambda name: (places.get(name, len(order)), name))


class Names:
    """
    Which minion and category the name of a file belongs to
    """

    def __init__(self):
        self.names = {}

    def add(self, name, owner, category):
        """
        Add a name that an owner may have
        """
        self.names.setdefault(name, []).append((owner, category))

    def find(self, name, nobody):
        """
        Return the owner and category of a file, or None and a reason

        Raises BadFile if there is more than one.
        """
        found = self.names.get(name, ())
        if len(found) > 1:
            raise BadFile(
                "its name may mean "
                + " or ".join(f"{category} of {owner}" for owner, category in found)
            )
        return found[0] if found else (None, nobody)


class Source:
    """
    Reads all files for the minions, groups and organizations of a database

    minions
        The ids of the groups that each minion is in, by minion id.

    groups, organizations
        Their ids.

    After :meth:`rows` was called, ``bad`` and ``ignored`` have the reasons by
    path, and ``order`` the order of the formulas, None without a file.
    """

    def __init__(self, folders, minions, groups, organizations, categories=()):
        self.folders = folders
        self.minions = minions
        self.groups = set(groups)
        self.organizations = set(organizations)
        self.categories = sorted({*CATEGORIES, *categories})
        self.bad = {}
        self.ignored = {}
        self.order = None

    def rows(self):
        """
        Return the rows of all files, each once
        """
        rows = [*self._shared(), *self._minions(), *self._formulas()]
        found = {}
        for row in rows:
            other = found.setdefault((row.level, row.owner, row.category), row)
            if other is not row:
                self.bad[row.path] = f"{other.path} is the same category"
        return list(found.values())

    def _row(self, level, owner, category, path):
        """
        Return the rows of one file: one, or none if it is bad
        """
        try:
            pillar = read(path)
            check(pillar)
        except BadFile as err:
            self.bad[path] = str(err)
            return []
        return [Row(level, owner, category, pillar, path)]

    def _shared(self):
        rows = []
        data = self.folders.pillar_data
        for folder in (self.folders.static_data, data):
            for stem, path in files_of(folder, ".yml"):
                if folder != data or not stem.startswith("pillar_"):
                    rows += self._row(0, None, stem, path)
        images = os.path.join(data, "images")
        for stem, path in files_of(images, ".sls"):
            rows += self._row(0, None, IMAGES + stem, path)
        for name in sorted(os.listdir(images)) if os.path.isdir(images) else ():
            match = re.fullmatch(r"(org|group)([1-9][0-9]*)", name)
            if not match:
                continue
            level = 1 if match[1] == "org" else 2
            owner = int(match[2])
            known = self.organizations if level == 1 else self.groups
            for stem, path in files_of(os.path.join(images, name), ".sls"):
                if owner not in known:
                    self.ignored[path] = f"there is no {LEVELS[level]} {owner}"
                elif level == 2 and stem.startswith(FORMULA):
                    self.bad[path] = f"{stem} is what a formula would be called"
                else:
                    rows += self._row(level, owner, stem, path)
        return rows

    def _minions(self):
        names = Names()
        for minion in self.minions:
            names.add(f"pillar_{minion}", minion, GENERAL)
            for category in self.categories:
                names.add(f"pillar_{minion}_{category}", minion, category)
        listed = files_of(self.folders.pillar_data, ".yml")
        return self._named(
            [item for item in listed if item[0].startswith("pillar_")],
            names,
            "it belongs to no known minion and category",
        )

    def _named(self, listed, names, nobody, level=3):
        """
        Return the rows of files that have their owner in their names
        """
        rows = []
        for stem, path in listed:
            try:
                owner, category = names.find(stem, nobody)
            except BadFile as err:
                self.bad[path] = str(err)
                continue
            if owner is None:
                self.ignored[path] = category
            else:
                rows += self._row(level, owner, category, path)
        return rows

    def _assigned(self, name, known):
        """
        Return the formulas by owner that a file assigns
        """
        path = os.path.join(self.folders.formula_data, name)
        try:
            assigned = read_optional(path, {})
            for owner, formulas in assigned.items():
                if not isinstance(formulas, list) or not all(
                    isinstance(formula, str) for formula in formulas
                ):
                    raise BadFile(f"the formulas of {owner} are no list of names")
        except BadFile as err:
            self.bad[path] = str(err)
            return {}
        found = {known[owner]: assigned[owner] for owner in assigned if owner in known}
        strangers = sorted(set(assigned) - set(known))
        if strangers:
            self.ignored[path] = f"these are not known: {', '.join(strangers)}"
        return found

    def _formulas(self):
        data = self.folders.formula_data
        path = os.path.join(data, "formula_order.json")
        order = []
        try:
            if os.path.exists(path):
                order = read_optional(path, [])
                if not all(isinstance(name, str) for name in order):
                    raise BadFile("it is no list of names")
                self.order = list(dict.fromkeys(order))
        except BadFile as err:
            self.bad[path] = str(err)
            order = []
        by_group = self._assigned(
            "group_formulas.json", {str(group): group for group in self.groups}
        )
        by_minion = self._assigned(
            "minion_formulas.json", {minion: minion for minion in self.minions}
        )
        rows = []
        names = Names()
        for group, formulas in by_group.items():
            for formula in sorted(set(formulas)):
                names.add(f"{group}_{formula}", group, FORMULA + formula)
        folder = os.path.join(data, "group_pillar")
        listed = files_of(folder, ".json")
        rows += self._named(listed, names, "it is of no assigned formula", level=2)
        own = Names()
        for minion, groups in self.minions.items():
            formulas = set(by_minion.get(minion, ())).union(
                *(by_group.get(group, ()) for group in groups)
            )
            for formula in sorted(formulas):
                own.add(f"{minion}_{formula}", minion, FORMULA + formula)
            if formulas:
                pillar = {"formulas": in_order(formulas, order)}
                rows.append(Row(3, minion, FORMULAS, pillar, None))
        listed = files_of(os.path.join(data, "pillar"), ".json")
        rows += self._named(listed, own, "it is of no assigned formula")
        # a formula without data is assigned all the same
        present = {(row.level, row.owner, row.category) for row in rows}
        for level, assigned in ((2, by_group), (3, by_minion)):
            for owner, formulas in assigned.items():
                for formula in sorted(set(formulas)):
                    if (level, owner, FORMULA + formula) not in present:
                        rows.append(Row(level, owner, FORMULA + formula, {}, None))
        return rows


def path_of(folders, level, owner, category):
    """
    Return where the pillar of a row belongs, or None if it follows from others

    Raises BadFile if no file can have this name.
    """
    pillar, static, formulas = folders
    formula = category[len(FORMULA) :] if category.startswith(FORMULA) else None
    if level == 0:
        if category.startswith(IMAGES):
            folder = os.path.join(pillar, "images")
            return _join(folder, f"{category[len(IMAGES):]}.sls")
        if category.startswith("pillar_"):
            raise BadFile("this category is that of a minion's file")
        return _join(static if category == "gpgkeys" else pillar, f"{category}.yml")
    if formula is not None and level > 1:
        folder = "group_pillar" if level == 2 else "pillar"
        return _join(os.path.join(formulas, folder), f"{owner}_{formula}.json")
    if level < 3:
        folder = f"{'org' if level == 1 else 'group'}{owner}"
        return _join(os.path.join(pillar, "images", folder), f"{category}.sls")
    if category == FORMULAS:
        return None
    suffix = "" if category == GENERAL else f"_{category}"
    return _join(pillar, f"pillar_{owner}{suffix}.yml")


def _join(folder, name):
    if os.path.basename(name) != name or "\0" in name or name.startswith("."):
        raise BadFile("this category cannot be part of the name of a file")
    return os.path.join(folder, name)


def write(path, value):
    """
    Write a file that only its owner can read
    """
    with salt.utils.files.set_umask(0o077):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with salt.utils.files.fopen(path, "w", encoding="utf-8") as handle:
            if path.endswith(".json"):
                handle.write(json.dumps(value, indent=2, sort_keys=True))
            else:
                salt.utils.yaml.safe_dump(
                    value, handle, default_flow_style=False, allow_unicode=True
                )
