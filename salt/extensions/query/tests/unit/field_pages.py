"""
The tables of fields in the documentation, made from the definitions::

    python tests/unit/field_pages.py docs
"""

import os
import sys

import saltext.query
import saltext.query.compare

import salt.utils.files


def rst(what):
    """
    Return a page about an item type.

    :param str what: one of :func:`saltext.query.item_types`
    """
    itemtype = saltext.query.item_type({}, what)
    title = f"Fields of the type {what}"
    ret = [
        f".. _query-{what}:",
        "",
        "=" * len(title),
        title,
        "=" * len(title),
        "",
        f"{itemtype.doc}.",
        "",
        ".. This page is made by tests/unit/field_pages.py.",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "",
        "   * - Name",
        "     - Title",
        "     - Kind",
        "     - What it is",
    ]
    for name in sorted(itemtype.fields, key=saltext.query.compare.text_key):
        field = itemtype.fields[name]
        other = f" (the same as ``{field.alias_of}``)" if field.alias_of else ""
        ret += [
            f"   * - ``{name}``",
            f"     - {field.title}",
            f"     - {field.kind}",
            f"     - {field.doc}{other}",
        ]
    return "\n".join(ret) + "\n"


def main(folder):
    """
    Write the pages of all item types.
    """
    for what in saltext.query.item_types({}):
        with salt.utils.files.fopen(os.path.join(folder, f"{what}.rst"), "w") as page:
            page.write(rst(what))


if __name__ == "__main__":
    main(sys.argv[1])
