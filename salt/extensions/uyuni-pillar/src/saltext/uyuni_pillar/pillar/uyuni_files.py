"""
Read pillars from the files that Uyuni writes

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

The formulas' own files, with the defaults of their forms, are not read.

.. code-block:: yaml

    ext_pillar:
      - uyuni_files:
          pillar_data: /srv/susemanager/pillar_data
          static_data: /usr/share/susemanager/pillar_data
          formula_data: /srv/susemanager/formula_data
          categories:
            - custom_info
            - group_memberships
            - virtualization

These are the defaults. ``categories`` are those of the files of a minion,
``pillar_<minion id>_<category>.yml``, besides ``pillar_<minion id>.yml``.

Later pillars override earlier ones, nested keys are merged: those of everyone,
of the organization (the key ``org_id`` of the minion's pillar, ``1`` without),
of the groups (its key ``group_ids``), and of the minion. Within one of these
the order is that of the categories, where ``formula-<formula>`` is that of a
formula. The key ``formulas`` lists the formulas of the minion.

The groups are in the order of their ids, or of their ``priorities`` if they
have any, as in ``priorities: {17: 5}``. Those without have 0.

With ``keep: True`` the files of everyone, organizations and groups are read
once for as long as the process lives. It is there to compare many pillars
while the files rest, see :py:func:`pillar_sql.verify
<saltext.uyuni_pillar.runners.pillar_sql.verify>`.

It is an error if a file cannot be parsed, and if a minion has the id of another one
with a category behind it, such as ``web_custom_info``. A minion without a file of its
own has no pillar.
"""

import copy
import os

import saltext.uyuni_pillar.document as document
import saltext.uyuni_pillar.layout as uyuni

import salt.exceptions
import salt.utils.dictupdate


def _checked(reader, path, *args):
    """
    Return what a reader makes of a file, with an error that tells which one
    """
    try:
        return reader(path, *args)
    except document.BadFile as err:
        raise salt.exceptions.CommandExecutionError(
            f"{os.path.basename(path)}: {err}"
        ) from err


def _read(path):
    return _checked(document.read, path)


def _read_optional(path, default):
    return _checked(document.read_optional, path, default)


def _read_shared(path, keep):
    """
    Return the pillar in a file that several minions have in common
    """
    return _checked(document.read_once if keep else document.read, path)


def _merge(*owners):
    """
    Return the pillars of owners, each given by category, as one

    One after the other, as the database does: merging is not associative.
    """
    merged = {}
    for categories in owners:
        for category in sorted(categories):
            merged = salt.utils.dictupdate.update(merged, categories[category])
    return merged


def _everyone(pillar_data, static_data, keep):
    found = {}
    for folder in (static_data, pillar_data):
        for stem, path in document.files_of(folder, ".yml"):
            if folder != pillar_data or not stem.startswith("pillar_"):
                found[stem] = _read_shared(path, keep)
    for stem, path in document.files_of(os.path.join(pillar_data, "images"), ".sls"):
        found[uyuni.IMAGES + stem] = _read_shared(path, keep)
    return found


def _images(folder, keep):
    return {
        stem: _read_shared(path, keep)
        for stem, path in document.files_of(folder, ".sls")
    }


def _formulas(folder, owner, formulas, keep=False):
    """
    Return the data of those formulas of an owner that have any
    """
    found = {}
    for formula in formulas:
        name = f"{owner}_{formula}.json"
        path = os.path.join(folder, name)
        if uyuni.is_name(name) and os.path.exists(path):
            found[uyuni.FORMULA + formula] = _read_shared(path, keep)
    return found


def _check_id(minion_id, pillar_data, categories):
    """
    Raise CommandExecutionError if the file of a minion may be one of another minion, whose
    pillar a minion would get that only has this id
    """
    for category in categories:
        other = minion_id[: -len(f"_{category}")]
        if minion_id == f"{other}_{category}" and os.path.exists(
            os.path.join(pillar_data, f"pillar_{other}.yml")
        ):
            raise salt.exceptions.CommandExecutionError(
                f"pillar_{minion_id}.yml may be {category} of {other}: give the minion"
                " another id"
            )


def ext_pillar(
    minion_id,
    pillar,
    pillar_data=uyuni.PILLAR_DATA,
    static_data=uyuni.STATIC_DATA,
    formula_data=uyuni.FORMULA_DATA,
    categories=uyuni.CATEGORIES,
    keep=False,
    priorities=None,
):  # pylint: disable=unused-argument
    """
    Return the pillar of a minion out of Uyuni's files
    """
    own = {}
    if not uyuni.is_name(minion_id):
        return own
    _check_id(minion_id, pillar_data, categories)
    path = os.path.join(pillar_data, f"pillar_{minion_id}.yml")
    if os.path.exists(path):
        own[uyuni.GENERAL] = _read(path)
    for category in categories:
        path = os.path.join(pillar_data, f"pillar_{minion_id}_{category}.yml")
        if os.path.exists(path):
            own[category] = _read(path)
    if not own:
        return {}
    facts = _merge(copy.deepcopy(own))
    places = {int(group): place for group, place in (priorities or {}).items()}
    groups = sorted(
        (int(group) for group in facts.get("group_ids") or []),
        key=lambda group: (places.get(group, 0), group),
    )

    by_group = _read_optional(os.path.join(formula_data, "group_formulas.json"), {})
    by_minion = _read_optional(os.path.join(formula_data, "minion_formulas.json"), {})
    formulas = set(by_minion.get(minion_id, ())).union(
        *(by_group.get(str(group), ()) for group in groups)
    )
    if formulas:
        order = _read_optional(os.path.join(formula_data, "formula_order.json"), [])
        own[uyuni.FORMULAS] = {"formulas": uyuni.in_order(formulas, order)}
        own.update(_formulas(os.path.join(formula_data, "pillar"), minion_id, formulas))

    images = os.path.join(pillar_data, "images")
    owners = [_everyone(pillar_data, static_data, keep)]
    folder = os.path.join(images, f"org{int(facts.get('org_id', 1))}")
    owners.append(_images(folder, keep))
    for group in groups:
        found = _images(os.path.join(images, f"group{group}"), keep)
        folder = os.path.join(formula_data, "group_pillar")
        found.update(_formulas(folder, group, by_group.get(str(group), ()), keep))
        owners.append(found)
    return _merge(*owners, own)
