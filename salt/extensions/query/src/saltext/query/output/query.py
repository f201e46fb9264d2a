"""
Display the answer to a query as a table
========================================

For the runner ``query``: ``salt-run query.items node name,os --out=query``. Data of any
other form is displayed by the ``nested`` outputter.

CLI Example:

.. code-block:: bash

    salt-run query.items node name,os,mtotal --out=query
"""

import sys

from saltext.query import render

import salt.output.nested
import salt.utils.color


def output(data, **kwargs):  # pylint: disable=unused-argument
    """Display the answer to a data query or a fields query."""
    if not isinstance(data, dict) or not isinstance(data.get("fields"), list):
        salt.output.nested.__opts__ = __opts__
        return salt.output.nested.output(data, **kwargs)
    if "data" not in data:
        data = render.definitions(data)
    colours = None
    if __opts__.get("color"):
        colours = salt.utils.color.get_colors(True, __opts__.get("color_theme"))
    ret = [*render.lines(data, colours=colours)]
    # a table that is not whole says so, also to whoever reads only its rows
    for note in map(render.shown, render.notes(data)):
        ret.append(f"({note})")
        if not sys.stdout.isatty():
            sys.stderr.write(f"query: {note}\n")
    return "\n".join(ret)
