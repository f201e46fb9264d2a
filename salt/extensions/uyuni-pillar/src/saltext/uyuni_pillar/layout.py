"""
The pillar and formula files of Uyuni, and the rows of a table they belong to

They are listed in :mod:`saltext.uyuni_pillar.pillar.uyuni_files`.

Both minion ids and categories may hold underscores. So a file is never taken
apart: its name is looked up among those that the known minions may have.
"""

import os
import re
from collections import namedtuple

import saltext.uyuni_pillar.document as document
from saltext.uyuni_pillar.document import BadFile

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

# The bytes that the name of a file may have
LONGEST = 255

LEVELS = ("everyone", "organization", "group", "minion")

# The key of a minion's general pillar that every one has
ORGANIZATION = "org_id"

# The assignments of formulas
BY_GROUP = "group_formulas.json"
BY_MINION = "minion_formulas.json"

# owner is None for everyone, an id, or a minion id. A row that is only a
# fallback never takes the place of one that is there.
Row = namedtuple(
    "Row",
    ("level", "owner", "category", "pillar", "path", "fallback"),
    defaults=[False],
)

# Where the files are
Folders = namedtuple("Folders", ("pillar_data", "static_data", "formula_data"))


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

    categories
        Those of the files of a minion, besides :data:`CATEGORIES`. Raises
        ValueError if one is not possible.

    After :meth:`rows` was called, ``bad`` and ``ignored`` have the reasons by
    path, and ``order`` the order of the formulas, None without a file.
    """

    def __init__(self, folders, minions, groups, organizations, categories=()):
        for category in categories:
            if category in (GENERAL, FORMULAS) or category.startswith(FORMULA):
                raise ValueError(f"{category} is the name of another kind of file")
            if not is_name(category):
                raise ValueError(f"{category!r} is no part of the name of a file")
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
            pillar = document.read(path)
            document.check(pillar)
            if level == 3 and not category.startswith(FORMULA):
                self._check_owner(owner, category, pillar)
        except BadFile as err:
            self.bad[path] = str(err)
            return []
        return [Row(level, owner, category, pillar, path)]

    def _check_owner(self, minion, category, pillar):
        """
        Raise BadFile if a file may be left from a minion that is not known any
        more, and whose id makes its name that of a file of another minion
        """
        general = ORGANIZATION in pillar
        if category != GENERAL and general:
            raise BadFile(
                f"it has {ORGANIZATION}, as the file of a minion {minion}_{category}"
                " would: move it away if there is no such minion"
            )
        for other in self.categories:
            name = minion[: -len(other) - 1]
            if category == GENERAL and minion == f"{name}_{other}" and not general:
                raise BadFile(
                    f"it has no {ORGANIZATION}, as the {other} of a minion {name} would:"
                    " move it away if there is no such minion"
                )

    def _shared(self):
        rows = []
        data = self.folders.pillar_data
        for folder in (self.folders.static_data, data):
            for stem, path in document.files_of(folder, ".yml"):
                if folder != data or not stem.startswith("pillar_"):
                    rows += self._row(0, None, stem, path)
        images = os.path.join(data, "images")
        for stem, path in document.files_of(images, ".sls"):
            rows += self._row(0, None, IMAGES + stem, path)
        for name in sorted(os.listdir(images)) if os.path.isdir(images) else ():
            match = re.fullmatch(r"(org|group)([1-9][0-9]*)", name)
            if not match:
                continue
            level = 1 if match[1] == "org" else 2
            owner = int(match[2])
            known = self.organizations if level == 1 else self.groups
            for stem, path in document.files_of(os.path.join(images, name), ".sls"):
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
        listed = []
        for stem, path in document.files_of(self.folders.pillar_data, ".yml"):
            if not stem.startswith("pillar_"):
                continue
            listed.append((stem, path))
            if stem not in names.names:
                self._check_category(stem[len("pillar_") :], path)
        return self._named(
            [item for item in listed if item[1] not in self.bad],
            names,
            "it belongs to no known minion and category",
        )

    def _check_category(self, name, path):
        """
        Tell a file as bad that may be of a known minion
        """
        parts = name.split("_")
        for count in range(1, len(parts)):
            minion, category = "_".join(parts[:count]), "_".join(parts[count:])
            if minion in self.minions:
                self.bad[path] = (
                    f"it may be {category} of {minion}: name it with"
                    f" categories={category}, or move it away"
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
        Return the formulas by owner that a file assigns, None if it is bad
        """
        path = os.path.join(self.folders.formula_data, name)
        try:
            assigned = document.read_optional(path, {})
            for owner, formulas in assigned.items():
                if not isinstance(formulas, list) or not all(
                    isinstance(formula, str) for formula in formulas
                ):
                    raise BadFile(f"the formulas of {owner} are no list of names")
        except BadFile as err:
            self.bad[path] = str(err)
            return None
        found = {known[owner]: assigned[owner] for owner in assigned if owner in known}
        strangers = sorted(set(assigned) - set(known))
        if strangers:
            self.ignored[path] = f"these are not known: {', '.join(strangers)}"
        return found

    def _read_order(self):
        """
        Read the order of the formulas, and return whether it is known
        """
        path = os.path.join(self.folders.formula_data, "formula_order.json")
        try:
            if os.path.exists(path):
                order = document.read_optional(path, [])
                if not all(isinstance(name, str) for name in order):
                    raise BadFile("it is no list of names")
                self.order = list(dict.fromkeys(order))
        except BadFile as err:
            self.bad[path] = str(err)
            return False
        return True

    def _formulas(self):
        in_place = self._read_order()
        by_group = self._assigned(
            BY_GROUP, {str(group): group for group in self.groups}
        )
        by_minion = self._assigned(BY_MINION, {name: name for name in self.minions})
        groups, minions = by_group or {}, by_minion or {}
        complete = by_group is not None and by_minion is not None
        rows = self._data(2, groups, by_group is not None)
        every = {
            minion: set(minions.get(minion, ())).union(
                *(groups.get(group, ()) for group in member_of)
            )
            for minion, member_of in self.minions.items()
        }
        rows += self._data(3, every, complete)
        if complete:
            # a list that lacks something, or its order, must not replace one
            rows += [
                Row(
                    3,
                    minion,
                    FORMULAS,
                    {"formulas": in_order(formulas, self.order or [])},
                    None,
                    not in_place,
                )
                for minion, formulas in every.items()
                if formulas
            ]
        # a formula without data is assigned all the same, and one whose data
        # cannot be read, or are gone, keeps those that it has
        present = {(row.level, row.owner, row.category) for row in rows}
        for level, assigned in ((2, groups), (3, minions)):
            for owner, formulas in assigned.items():
                for formula in sorted(set(formulas)):
                    if (level, owner, FORMULA + formula) not in present:
                        rows.append(
                            Row(level, owner, FORMULA + formula, {}, None, True)
                        )
        return rows

    def _data(self, level, assigned, complete):
        """
        Return the rows of the data of assigned formulas
        """
        names = Names()
        for owner, formulas in assigned.items():
            for formula in sorted(set(formulas)):
                names.add(f"{owner}_{formula}", owner, FORMULA + formula)
        folder = os.path.join(
            self.folders.formula_data, "group_pillar" if level == 2 else "pillar"
        )
        nobody = "it is of no assigned formula"
        if not complete:
            nobody += ", as far as it can be known with bad assignments"
        return self._named(document.files_of(folder, ".json"), names, nobody, level)


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


def is_name(name):
    """
    Return whether a file can have this name, or part of it
    """
    return (
        os.path.basename(name) == name
        and "\0" not in name
        and len(name.encode(errors="replace")) <= LONGEST
    )


def _join(folder, name):
    if not is_name(name) or name.startswith("."):
        raise BadFile("this category cannot be part of the name of a file")
    return os.path.join(folder, name)
