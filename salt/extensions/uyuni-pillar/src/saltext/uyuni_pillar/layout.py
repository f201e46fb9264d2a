"""
The pillar and formula files of Uyuni, and the rows of a table they belong to

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

import glob
import os
from collections import namedtuple

import saltext.uyuni_pillar.document as document
from saltext.uyuni_pillar.document import BadFile

# What may follow the id of a minion in the name of a file
CATEGORIES = ("custom_info", "group_memberships", "virtualization")

# The category of pillar_<minion id>.yml, and the key that it has and no other one
GENERAL = "general"
ORGANIZATION = "org_id"

# The key of the list of a minion's formulas
FORMULAS = "formulas"
FORMULA = "formula-"

# The key of a row of everyone that has all formulas in their order
ORDER = "formula_order"

# The level is 0 for everyone, 1 for an organization, 2 for a group, 3 for a minion; the
# owner None, a number, or a minion id. A row that is only a fallback never takes the
# place of one that is there.
Row = namedtuple(
    "Row",
    ("level", "owner", "category", "pillar", "path", "fallback"),
    defaults=[False],
)

# Where the files are
Folders = namedtuple("Folders", ("pillar_data", "static_data", "formula_data"))


class Source:
    """
    Reads all files for the minions, groups and organizations of a database

    minions
        The ids of the groups that each minion is in, by minion id.

    groups, organizations
        Their ids.

    After :meth:`rows` was called, ``bad`` has the reasons by path, and ``ignored`` the
    paths of files of unknown owners.
    """

    def __init__(self, folders, minions, groups, organizations):
        self.folders = folders
        self.minions = minions
        self.groups = groups
        self.organizations = organizations
        self.bad = {}
        self.ignored = []

    def rows(self):
        """
        Return the rows of all files, each once
        """
        formulas = self.folders.formula_data
        owners = {str(group): group for group in self.groups}
        by_group = self._assigned("group_formulas.json", owners)
        by_minion = self._assigned(
            "minion_formulas.json", {name: name for name in self.minions}
        )
        places = {}
        for path, *place in [*self._pillars(), *self._forms(by_group, by_minion)]:
            places.setdefault(path, []).append(place)
        rows = {}
        for path in sorted({*self._files(), *filter(os.path.isfile, places)}):
            for row in self._row(path, places.get(path, [])):
                other = rows.setdefault(row[:3], row)
                if other is not row:
                    self.bad[path] = f"{other.path} is the same category"
        order = self._json("formula_order.json", [])
        if order:
            path = os.path.join(formulas, "formula_order.json")
            rows[(0, None, ORDER)] = Row(0, None, ORDER, {ORDER: order}, path)
        # a formula without data is assigned all the same, and one whose data are
        # gone keeps those that it has
        for level, assigned in ((2, by_group), (3, by_minion)):
            for owner, names in assigned.items():
                for name in names:
                    row = Row(level, owner, FORMULA + name, {}, None, True)
                    rows.setdefault(row[:3], row)
        return list(rows.values())

    def _files(self):
        """
        Return the paths of the files that are there
        """
        pillar, _, formulas = map(glob.escape, self.folders)
        return [
            *glob.glob(os.path.join(pillar, "pillar_*.yml")),
            *glob.glob(os.path.join(pillar, "images", "*", "*.sls")),
            *glob.glob(os.path.join(formulas, "*pillar", "*.json")),
        ]

    def _pillars(self):
        """
        Yield path, level, owner and category of the pillars that may be there
        """
        pillar, static, _ = self.folders
        for folder in (static, pillar):
            for stem, path in _stems(folder, ".yml"):
                if folder == static or not stem.startswith("pillar_"):
                    yield path, 0, None, stem
        images = os.path.join(pillar, "images")
        for stem, path in _stems(images, ".sls"):
            yield path, 0, None, f"images/{stem}"
        owners = [(1, number, f"org{number}") for number in self.organizations]
        owners += [(2, number, f"group{number}") for number in self.groups]
        for level, owner, folder in owners:
            for stem, path in _stems(os.path.join(images, folder), ".sls"):
                yield path, level, owner, stem
        for minion in self.minions:
            yield os.path.join(pillar, f"pillar_{minion}.yml"), 3, minion, GENERAL
            for category in CATEGORIES:
                path = os.path.join(pillar, f"pillar_{minion}_{category}.yml")
                yield path, 3, minion, category

    def _forms(self, by_group, by_minion):
        """
        Yield the same of the data of assigned formulas
        """
        formulas = self.folders.formula_data
        for group, names in by_group.items():
            for name in names:
                path = os.path.join(formulas, "group_pillar", f"{group}_{name}.json")
                yield path, 2, group, FORMULA + name
        for minion, groups in self.minions.items():
            own = by_minion.get(minion, ())
            for name in {*own}.union(*(by_group.get(group, ()) for group in groups)):
                path = os.path.join(formulas, "pillar", f"{minion}_{name}.json")
                yield path, 3, minion, FORMULA + name

    def _row(self, path, places):
        """
        Return the rows of one file: one, or none if it is bad or nobody's
        """
        if not places:
            self.ignored.append(path)
            return []
        try:
            if len(places) > 1:
                names = (f"{category} of {owner}" for _, owner, category in places)
                raise BadFile(f"its name may mean {' or '.join(names)}")
            level, owner, category = places[0]
            pillar = document.read(path)
            document.check(pillar)
            if level == 3 and not category.startswith(FORMULA):
                _check_owner(owner, category, pillar)
            if level == 2 and category.startswith(FORMULA) and path.endswith(".sls"):
                raise BadFile(f"{category} is what a formula would be called")
        except BadFile as err:
            self.bad[path] = str(err)
            return []
        return [Row(level, owner, category, pillar, path)]

    def _assigned(self, name, known):
        """
        Return the formulas by owner that a file assigns
        """
        assigned = self._json(name, {})
        return {known[owner]: assigned[owner] for owner in assigned if owner in known}

    def _json(self, name, default):
        """
        Return what a file of names holds, or of lists of names by owner. The default if it
        is bad or not there.
        """
        path = os.path.join(self.folders.formula_data, name)
        if not os.path.exists(path):
            return default
        try:
            value = document.read(path, default)
            for names in value.values() if isinstance(value, dict) else [value]:
                if not isinstance(names, list) or not all(
                    isinstance(name, str) for name in names
                ):
                    raise BadFile(f"{names} is no list of names")
        except BadFile as err:
            self.bad[path] = str(err)
            return default
        return value


def _stems(folder, suffix):
    """
    Return the names of the files in a folder without their suffix, and their paths
    """
    paths = glob.glob(os.path.join(glob.escape(folder), f"*{suffix}"))
    return [(os.path.basename(path)[: -len(suffix)], path) for path in paths]


def _check_owner(minion, category, pillar):
    """
    Raise BadFile if a file was left by a minion that is gone, and whose id ends like a
    category
    """
    is_general = ORGANIZATION in pillar
    if is_general != (category == GENERAL):
        raise BadFile(
            f"it {'has' if is_general else 'has no'} {ORGANIZATION}, so it is not"
            f" {category} of {minion}: move it away"
        )
