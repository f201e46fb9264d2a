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


# What files hold by their path, and the state of the file: a pillar has to compile all
# formulas of a minion anew, but who installs another version of one restarts nothing
_read = {}


def read(folders, name, file):
    """
    Return what a file of a formula holds, None if there is none. Raises MissingFormula.
    """
    if not name or name != os.path.basename(name) or name in (".", ".."):
        raise MissingFormula(f"{name!r} is not the name of a formula.")
    paths = (os.path.join(folder, name, file) for folder in folders)
    path = next(filter(os.path.isfile, paths), None)
    if path is None:
        return None
    try:
        found = os.stat(path)
        state = (found.st_mtime_ns, found.st_size, found.st_ino)
        if _read.get(path, (None,))[0] != state:
            _read[path] = (state, document.read(path, {}))
    except (OSError, document.BadFile) as err:
        raise MissingFormula(f"{path} cannot be used: {err}") from err
    return _read[path][1]


def form(folders, name):
    """
    Return the form of a formula. Raises MissingFormula.
    """
    found = read(folders, name, "form.yml")
    if found is None:
        raise MissingFormula(
            f"The formula {name} has no form.yml in {', '.join(folders)}: install the"
            " formula, or take it off the minion and its groups."
        )
    return found


def installed(folders):
    """
    Return the names of the formulas in some folders
    """
    return {
        name for folder in filter(os.path.isdir, folders) for name in os.listdir(folder)
    }


def keys(folders, name):
    """
    Return the keys that a formula fills in, none if it cannot be used
    """
    try:
        return set(form(folders, name))
    except MissingFormula:
        return set()


def pillar(folders, by_group, by_minion, order, lenient=False):
    """
    Return what the formulas of a minion add to its pillar

    by_group, by_minion
        What was typed, by the name of the formula.

    order
        The names of all formulas in order. Empty if there is none: then those of
        groups come first.

    lenient
        Leave a formula out that cannot be used, with an error in the log.
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
            # one without states is not listed
            metadata = read(folders, name, "metadata.yml") or {}
            if not metadata.get("pillar_only", False):
                listed.append(name)
            filled = saltext.uyuni_pillar.form.fill(
                form(folders, name), group or {}, minion
            )
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
