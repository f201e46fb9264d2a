"""The SLS of the verdicts for a minion.

The text is put together by hand: it is the same, byte for byte, for the same verdicts, and a
thousand minions take a moment. Names and versions were checked, see
:mod:`saltext.package_states.model.names`, and are quoted; nothing else of what people wrote is there.
"""

import functools
import json
import re

from saltext.package_states.model.item import ABSENT, INSTALLED, KEPT, LATEST, PRESENT
from saltext.package_states.model.platforms import PROTECTED

# removals come first: what is installed may need their place
_ORDER = {
    wanted: number
    for number, wanted in enumerate((*ABSENT, INSTALLED, PRESENT, LATEST, KEPT))
}
LOCKS = "package_states locks"
MADE = "Made by package_states, do not edit."
NOTHING = "\n# revision: none\n"
_REVISION = re.compile(r"^# revision: (.*)$", re.MULTILINE)


def render(
    name, platform, sources, verdicts, protected=PROTECTED, scope="", trouble=None
):
    """Return the text of the SLS file of a state or minion: of the states that apply, ``sources``, and
    the verdicts that ask for anything

    :param str scope: the name of a state whose file is applied by itself, beside others
    :param dict trouble: what can't be decided, sentences by package: the state of the locks fails
        with them, and leaves these packages as they are
    """
    revisions = " ".join(
        sorted({f"{source.state}@{source.revision}" for source in sources})
    )
    head = (
        "#!yaml\n"
        f"# The package states of {name}. {MADE}\n"
        f"# platform: {platform or 'any'}\n"
        f"# revision: {revisions or 'none'}\n"
    )
    # a new list, as sorting the verdicts themselves would be slower
    blocks = sorted(
        (
            _ORDER[verdict.item.wanted],
            number,
            _block(verdict.item, verdict.source.label, scope),
        )
        for number, verdict in enumerate(verdicts)
    )
    more = sorted(set(protected) - PROTECTED)
    locks = "".join(_row(verdict.item) for verdict in verdicts)
    return "".join(
        (
            head,
            f'\n"{LOCKS}{f" of {scope}" if scope else ""}":\n  package_state.locks:\n',
            f"    - packages:\n{locks}" if locks else "    - packages: []\n",
            f"    - protected: {json.dumps(more)}\n" if more else "",
            f'    - scope: "{scope}"\n' if scope else "",
            _trouble(trouble) if trouble else "",
            *(block for _, _, block in blocks),
        )
    )


def states(text):
    """Return the names of the states that a file made here is of, a set"""
    found = _REVISION.search(text)
    words = found.group(1).split() if found else ()
    return {word.partition("@")[0] for word in words if "@" in word}


def _trouble(found):
    rows = "".join(
        f"        {json.dumps(key)}: {json.dumps(_plain(found[key]))}\n"
        for key in sorted(found)
    )
    return f"    - trouble:\n{rows}"


@functools.lru_cache(maxsize=65536)
def _row(item):
    return f"      - {json.dumps([item.key, item.wanted, item.version, item.floor])}\n"


@functools.lru_cache(maxsize=65536)
def _block(item, label, scope):
    of = f"{scope}: " if scope else ""
    lines = [
        f'\n"package_states {of}{item.key}":\n',
        f"  package_state.{item.wanted}:\n",
        f'    - name: "{item.key}"\n',
    ]
    if item.condition:
        lines.append(f'    - version: "{item.version}"\n')
    if item.floor:
        lines.append(f'    - floor: "{item.floor}"\n')
    lines.append(f"    - source: {json.dumps(_plain(label))}\n")
    return "".join(lines)


def _plain(label):
    """Return a name, which is free text, without what Jinja or a quoted string of YAML might take up"""
    return "".join(
        (
            mark
            if mark.isascii() and (mark.isalnum() or mark in " .,:;@_*()/+=<>-")
            else "_"
        )
        for mark in label
    )


# What the highstate includes: the file of the minion, if it has one. A minion's
# id may have dots, which would be slashes in the name of an SLS.
SHIPPED = """\
# The package states of a minion, see the runner package_states. Include this file.
{%- include "susemanager/packages-" ~ grains["id"] ~ ".sls" ignore missing %}
"""
