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

# The key of a global pillar that has all formulas in their order. It is not part of
# the pillar of a minion.
ORDER = "formula_order"


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
        return path is None or not self._load(path).get("pillar_only", False)

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
                self._read[path] = (state, document.read(path))
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
    for name, group, minion in _assigned(formulas, by_group, by_minion, listed):
        try:
            filled = saltext.uyuni_pillar.form.fill(formulas.form(name), group, minion)
        except saltext.uyuni_pillar.form.BadForm as err:
            err = MissingFormula(f"The formula {name} cannot be filled in: {err}.")
            if not lenient:
                raise err from None
            log.error("%s", err)
        except MissingFormula as err:
            if not lenient:
                raise
            log.error("%s", err)
        else:
            merged = salt.utils.dictupdate.merge(merged, filled, strategy="recurse")
    if order:
        listed = [name for name in order if name in listed]
    merged[layout.FORMULAS] = listed
    return merged


def _assigned(formulas, by_group, by_minion, listed):
    """
    Yield each formula with the values for its form, and note which are listed
    """
    for name, typed in by_group.items():
        if formulas.is_listed(name):
            listed.append(name)
        yield name, typed, by_minion.get(name, {})
    for name, typed in by_minion.items():
        # one without states is filled in once more, without the group's values
        if name in listed:
            continue
        if formulas.is_listed(name):
            listed.append(name)
        yield name, {}, typed
