"""
The formulas of a minion, and what they add to its pillar

A formula is a folder with ``form.yml`` and ``metadata.yml``. What was typed into its
form is a row of the pillar table, whose category is ``formula-<name>``.
"""

import logging
import os

import saltext.uyuni_pillar.document as document
import saltext.uyuni_pillar.form
import saltext.uyuni_pillar.layout as layout

import salt.exceptions
import salt.utils.dictupdate

log = logging.getLogger(__name__)

# Where formulas are looked for, the first one that has the file counts
FOLDERS = (
    "/usr/share/salt-formulas/metadata",
    "/usr/share/susemanager/formulas/metadata",
    "/srv/formula_metadata",
)


class MissingFormula(salt.exceptions.CommandExecutionError):
    """
    A formula that a minion should have cannot be used
    """


class Formulas:
    """
    The formulas that are installed on this master

    folders
        Paths of the folders with formulas, the first one wins.

    The files are read once: a pillar has to compile all formulas of a minion anew,
    but who installs another version of a formula restarts nothing, so a file that
    has changed since is read again.
    """

    def __init__(self, folders=FOLDERS):
        self.folders = tuple(folders)
        self._read = {}

    def form(self, name):
        """
        Return the form of a formula. Raises MissingFormula.
        """
        path = self._find(name, "form.yml")
        if path is None:
            raise MissingFormula(
                f"The formula {name} has no form.yml in {', '.join(self.folders)}:"
                " install the formula, or take it off the minion and its groups."
            )
        return self._load(path)

    def is_listed(self, name):
        """
        Return whether a formula has states, so that minions list it
        """
        path = self._find(name, "metadata.yml")
        found = None if path is None else self._load(path)
        return not isinstance(found, dict) or not found.get("pillar_only", False)

    def _find(self, name, file):
        if not name or name != os.path.basename(name) or name in (".", ".."):
            raise MissingFormula(f"{name!r} is not the name of a formula.")
        for folder in self.folders:
            path = os.path.join(folder, name, file)
            if os.path.isfile(path):
                return path
        return None

    def _load(self, path):
        try:
            found = os.stat(path)
            state = (found.st_mtime_ns, found.st_size, found.st_ino)
            if self._read.get(path, (None,))[0] != state:
                self._read[path] = (state, document.read(path, {}))
        except (OSError, document.BadFile) as err:
            raise MissingFormula(f"{path} cannot be used: {err}") from err
        return self._read[path][1]


def pillar(formulas, by_group, by_minion, order, lenient=False):
    """
    Return what the formulas of a minion add to its pillar

    formulas
        A :class:`Formulas`.

    by_group, by_minion
        What was typed, by the name of the formula.

    order
        The names of all formulas in order. Empty if there is none: then those of
        groups come first.

    lenient
        Leave a formula out that cannot be used, with an error in the log, as Uyuni
        does. By default this is an error of the pillar, so that no state is applied
        with half of it.
    """
    merged, listed = {}, []
    typed = [(name, by_group[name], by_minion.get(name, {})) for name in by_group]
    typed += [(name, None, by_minion[name]) for name in by_minion]
    for name, group, minion in typed:
        # One of a group that has no states is filled in once more for the minion,
        # without the values of the group
        if group is None and name in listed:
            continue
        try:
            if formulas.is_listed(name):
                listed.append(name)
            values = (group or {}, minion)
            filled = saltext.uyuni_pillar.form.fill(formulas.form(name), *values)
        except (MissingFormula, saltext.uyuni_pillar.form.BadForm) as err:
            if not isinstance(err, MissingFormula):
                err = MissingFormula(f"The formula {name} cannot be filled in: {err}.")
            if not lenient:
                raise err from None
            log.error("%s", err)
        else:
            merged = salt.utils.dictupdate.merge(merged, filled, strategy="recurse")
    if order:
        listed = [name for name in order if name in listed]
    merged[layout.FORMULAS] = listed
    return merged
