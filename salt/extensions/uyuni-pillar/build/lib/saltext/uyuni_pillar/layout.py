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
from collections import defaultdict, namedtuple

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
    defaults=[None, False],
)

# The folders of the files, with those of Uyuni
DEFAULTS = {
    "pillar_data": "/srv/susemanager/pillar_data",
    "static_data": "/usr/share/susemanager/pillar_data",
    "formula_data": "/srv/susemanager/formula_data",
}


class Source:
    """
    Reads all files for a :class:`saltext.uyuni_pillar.table.Fleet`

    After :meth:`rows` was called, ``bad`` has the reasons by path, and ``ignored`` the
    paths of files of unknown owners.
    """

    def __init__(self, folders, fleet):
        self.folders = folders
        self.fleet = fleet
        self.bad = {}
        self.ignored = []

    def rows(self):
        """
        Return the rows of all files, each once
        """
        by_group = self._assigned(
            "group_formulas.json", {str(group): group for group in self.fleet.groups}
        )
        by_minion = self._assigned(
            "minion_formulas.json", {minion: minion for minion in self.fleet.minions}
        )
        rows = {}
        for path, places in sorted(self._places(by_group, by_minion)):
            row = self._row(path, places)
            if row is not None:
                other = rows.setdefault(row[:3], row)
                if other is not row:
                    self.bad[path] = f"{other.path} is the same category"
        order = self._json("formula_order.json", [])
        if order:
            rows[(0, None, ORDER)] = Row(0, None, ORDER, {ORDER: order})
        # a formula without data is assigned all the same, and one whose data are
        # gone keeps those that it has
        for level, assigned in ((2, by_group), (3, by_minion)):
            for owner, names in assigned.items():
                for name in names:
                    row = Row(level, owner, FORMULA + name, {}, fallback=True)
                    rows.setdefault(row[:3], row)
        return list(rows.values())

    def _places(self, by_group, by_minion):
        """
        Yield the path of each file, and as level, owner and category what it may be
        """
        pillar, static, formulas = (self.folders[name] for name in DEFAULTS)
        owners = {f"org{number}": (1, number) for number in self.fleet.organizations}
        owners.update({f"group{number}": (2, number) for number in self.fleet.groups})
        own, of_minions, of_groups = (defaultdict(list) for _ in range(3))
        for minion, groups in self.fleet.minions.items():
            own[f"pillar_{minion}"].append((3, minion, GENERAL))
            for category in CATEGORIES:
                own[f"pillar_{minion}_{category}"].append((3, minion, category))
            names = {*by_minion.get(minion, ())}
            for name in names.union(*(by_group.get(group, ()) for group in groups)):
                of_minions[f"{minion}_{name}"].append((3, minion, FORMULA + name))
        for group, names in by_group.items():
            for name in names:
                of_groups[f"{group}_{name}"].append((2, group, FORMULA + name))

        for stem, path in _stems(static, "*.yml"):
            yield path, [(0, None, stem)]
        for stem, path in _stems(pillar, "*.yml"):
            yield path, own[stem] if stem.startswith("pillar_") else [(0, None, stem)]
        for stem, path in _stems(pillar, "images/*.sls"):
            yield path, [(0, None, f"images/{stem}")]
        for stem, path in _stems(pillar, "images/*/*.sls"):
            owner = owners.get(os.path.basename(os.path.dirname(path)))
            yield path, [(*owner, stem)] if owner else []
        for stem, path in _stems(formulas, "pillar/*.json"):
            yield path, of_minions[stem]
        for stem, path in _stems(formulas, "group_pillar/*.json"):
            yield path, of_groups[stem]

    def _row(self, path, places):
        """
        Return the row of a file, None if it is bad or nobody's
        """
        if not places:
            self.ignored.append(path)
            return None
        try:
            if len(places) > 1:
                names = (f"{category} of {owner}" for _, owner, category in places)
                raise BadFile(f"its name may mean {' or '.join(names)}")
            level, owner, category = places[0]
            pillar = document.read(path)
            document.check(pillar)
            is_formula = category.startswith(FORMULA)
            if level == 2 and is_formula and path.endswith(".sls"):
                raise BadFile(f"{category} is what a formula would be called")
            is_general = ORGANIZATION in pillar
            if level == 3 and not is_formula and is_general != (category == GENERAL):
                # left by a minion that is gone, and whose id ends like a category
                raise BadFile(
                    f"it {'has' if is_general else 'has no'} {ORGANIZATION}, so it is"
                    f" not {category} of {owner}: move it away"
                )
        except BadFile as err:
            self.bad[path] = str(err)
            return None
        return Row(level, owner, category, pillar, path)

    def _assigned(self, name, known):
        assigned = self._json(name, {})
        return {known[owner]: assigned[owner] for owner in assigned if owner in known}

    def _json(self, name, default):
        """
        Return what a file of names holds, or of lists of names by owner. The default if it
        is bad or not there.
        """
        path = os.path.join(self.folders["formula_data"], name)
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


def _stems(folder, pattern):
    """
    Return the names of files in a folder without what follows the dot, and their paths
    """
    paths = glob.glob(os.path.join(glob.escape(folder), pattern))
    return [(os.path.splitext(os.path.basename(path))[0], path) for path in paths]
