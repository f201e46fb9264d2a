"""
The matrix as one page of HTML that needs no server and no other file

.. versionadded:: 3009.0
"""

import html

SIGNS = {
    "conforms": "✓",
    "tolerated": "~",
    "deprecated": "†",
    "differs": "≠",
    "known": "≈",
    "missing": "✗",
    "absent": "·",
    "not supported": "–",
    "not applicable": "n/a",
    "alien": "?",
}
MEANINGS = {
    "conforms": "as promised",
    "tolerated": "fine for callers that pass parameters by name",
    "deprecated": "works, and is on its way out",
    "differs": "some calls fail or do something else",
    "known": "differs or is missing, for a known reason",
    "missing": "must be there and is not",
    "absent": "optional, not there",
    "not supported": "not for this platform",
    "not applicable": "makes no sense on this platform",
    "alien": "not in the interface",
}

STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5rem; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 1.8rem 0 .2rem; }
p { margin: .2rem 0 .6rem; max-width: 75ch; }
form { position: sticky; top: 0; background: Canvas; padding: .6rem 0; z-index: 3;
  border-bottom: 1px solid var(--line); display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; }
.legend label { white-space: nowrap; margin-right: .8rem; cursor: pointer; }
.sign { display: inline-block; min-width: 1.6em; text-align: center; border-radius: 3px; color: #111; }
table { border-collapse: collapse; margin-top: .3rem; }
th, td { border: 1px solid var(--line); padding: 0; }
td { width: 2.1em; min-width: 2.1em; text-align: center; color: #111; cursor: default; }
thead th { height: 9.5em; vertical-align: bottom; font-weight: normal; width: 2.1em; }
thead th span { writing-mode: vertical-rl; transform: rotate(180deg); padding: .3em .1em; white-space: nowrap; }
tbody th { text-align: left; font-weight: normal; padding: .1em .6em; white-space: nowrap; }
tbody th code { font-size: 13px; } tbody th small { opacity: .65; margin-left: .5em; }
tr.tier th { background: #8882; font-weight: 600; padding: .2em .6em; }
tbody tr:hover th, tbody tr:hover td { outline: 1px solid #8888; }
.conforms { background: #8fd19e; } .tolerated { background: #cfe8b4; } .deprecated { background: #e3c9f0; }
.differs { background: #f4a261; } .known { background: #fbe3a6; } .missing { background: #ef7d7d; }
.absent { background: #f1f1f1; color: #777; } .not-supported { background: #dcdcdc; color: #555; }
.not-applicable { background: #cfd8e6; font-size: 11px; } .alien { background: #b9d7f5; }
[hidden] { display: none !important; }
"""

SCRIPT = """
const form = document.querySelector("form"), count = document.querySelector("output");
function filter() {
  const name = form.interface.value, text = form.text.value.trim().toLowerCase();
  const wanted = [...form.querySelectorAll(".legend input:checked")].map(box => box.value);
  let shown = 0;
  for (const section of document.querySelectorAll("section")) {
    let own = 0, group = null, inGroup = 0;
    for (const row of section.querySelectorAll("tbody tr")) {
      if (row.classList.contains("tier")) {
        if (group) group.hidden = !inGroup;
        group = row; inGroup = 0; continue;
      }
      const words = row.dataset.is.split("|");
      row.hidden = !row.dataset.name.includes(text) || (wanted.length > 0 && !wanted.some(one => words.includes(one)));
      if (!row.hidden) { own++; inGroup++; }
    }
    if (group) group.hidden = !inGroup;
    section.hidden = !own || (name && section.id !== "interface-" + name);
    if (!section.hidden) shown += own;
  }
  count.textContent = shown + " functions";
}
// page.html#pkg shows pkg only
if (location.hash) form.interface.value = decodeURIComponent(location.hash.slice(1));
form.addEventListener("input", filter);
form.addEventListener("submit", event => event.preventDefault());
filter();
"""


def page(data):
    """
    Write the page

    :param dict data: What :func:`salt.interfaces.report.matrix.matrix` returned
    :rtype: str
    """
    interfaces = data["interfaces"]
    summary = data["summary"]
    options = "".join(f"<option>{html.escape(name)}</option>" for name in interfaces)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        "<title>Interfaces of Salt's virtual modules</title>",
        f"<style>{STYLE}</style></head><body>",
        "<h1>Interfaces of Salt's virtual modules</h1>",
        f"<p>{summary['interfaces']} interfaces, {summary['functions']} functions, "
        f"{sum(summary['modules'].values())} modules. Read from source files, not from "
        "running minions; point at a cell for what it says.</p>",
        f'<form><label>Interface <select name="interface"><option value="">all</option>{options}</select></label>',
        '<label>Function <input name="text" type="search" placeholder="install"></label>'
        "<output></output>",
        f'<span class="legend">{_legend()}</span></form>',
    ]
    parts += [_section(name, one) for name, one in interfaces.items()]
    parts += [f"<script>{SCRIPT}</script>", "</body></html>", ""]
    return "\n".join(parts)


def _legend():
    """
    Write the legend, whose boxes choose rows.
    """
    return "".join(
        f'<label title="{MEANINGS[word]}"><input type="checkbox" value="{word}"> '
        f'<span class="sign {_class(word)}">{sign}</span> {word}</label>'
        for word, sign in SIGNS.items()
    )


def _section(name, interface):
    """
    Write the table of one interface.
    """
    modules = interface["modules"]
    heads = "".join(
        f'<th title="{html.escape(_about(module))}"><span>{html.escape(one)}</span></th>'
        for one, module in modules.items()
    )
    functions = dict(interface["functions"])
    for module in modules.values():
        for function in module["functions"]:
            functions.setdefault(function, {"tier": "alien", "feature": None})
    groups = {}
    for function, described in functions.items():
        group = described["feature"] or described["tier"]
        title = f"feature: {group}" if described["feature"] else group
        groups.setdefault((_rank(described["tier"]), title), []).append(function)
    rows = []
    for (_, title), members in sorted(groups.items()):
        rows.append(
            f'<tr class="tier"><th colspan="{len(modules) + 1}">{html.escape(title)}</th></tr>'
        )
        for function in members:
            rows.append(_row(function, functions[function], modules))
    return (
        f'<section id="interface-{html.escape(name)}"><h2>{html.escape(name)}</h2>'
        f"<p>{html.escape(interface['doc'])}</p>"
        f"<table><thead><tr><th></th>{heads}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></section>"
    )


def _rank(tier):
    """
    Place the tiers in their order.
    """
    order = ("core", "feature", "optional", "deprecated", "alien")
    return order.index(tier)


def _about(module):
    """
    Say what is known of a module.
    """
    text = f"{', '.join(module['files'])}: {module['verdict']}"
    if module["profile"]:
        text += f", profile {module['profile']}"
    return text


def _row(name, described, modules):
    """
    Write the row of one function.
    """
    words = []
    cells = []
    for module in modules.values():
        cell = module["functions"].get(name, {"is": "absent", "findings": []})
        word = shown(cell)
        words.append(word)
        cells.append(
            f'<td class="{_class(word)}" title="{html.escape(_tip(name, cell))}">'
            f"{SIGNS[word]}</td>"
        )
    about = f"{described.get('signature', '')}\n{described.get('doc', '')}".strip()
    return (
        f'<tr data-name="{html.escape(name.lower())}" data-is="{"|".join(sorted(set(words)))}">'
        f'<th title="{html.escape(about)}"><code>{html.escape(name)}</code></th>'
        f"{''.join(cells)}</tr>"
    )


def shown(cell):
    """
    Give the word that a cell shows: ``known`` if all that is wrong is known.
    """
    errors = [one for one in cell["findings"] if one["level"] == "error"]
    if errors and all(one["known"] is not None for one in errors):
        return "known"
    return cell["is"]


def _tip(name, cell):
    """
    Write what a cell says when it is pointed at.
    """
    lines = [cell["is"]]
    if cell.get("signature"):
        lines.append(f"{name}{cell['signature']}")
    for finding in cell["findings"]:
        parameter = f"{finding['parameter']} " if finding["parameter"] else ""
        lines.append(f"{finding['code']}: {parameter}{finding['message']}")
        if finding["known"]:
            lines.append(f"  known: {finding['known']}")
    return "\n".join(lines)


def _class(word):
    """
    The class of CSS for a word.
    """
    return word.replace(" ", "-")
