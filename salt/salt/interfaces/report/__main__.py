"""
The command ``python -m salt.interfaces.report``

.. versionadded:: 3009.0
"""

import argparse
import json
import pathlib
import sys

import salt.interfaces.report.calls
import salt.interfaces.report.generate
import salt.interfaces.report.matrix
import salt.interfaces.report.page
import salt.interfaces.report.providers
from salt.interfaces.errors import InterfaceError
from salt.interfaces.report.known import Known, KnownError

DONE, DIFFERENCES, WRONG = 0, 1, 2
KNOWN_FILE = pathlib.Path("tests", "known_interface_differences.txt")

EPILOG = """
examples:
  python -m salt.interfaces.report check
  python -m salt.interfaces.report page --output interfaces.html
  python -m salt.interfaces.report json pkg service
  python -m salt.interfaces.report generate pkg > pkg_module.py

exit codes: 0 done; 1 check found a difference that is not known; 2 wrong input
"""


def parser():
    """
    Make the parser of the command line.
    """
    made = argparse.ArgumentParser(
        prog="python -m salt.interfaces.report",
        description="Compare the execution modules of a source tree with their interfaces.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "command",
        choices=("check", "json", "page", "generate"),
        help="check: list differences; json and page: write the matrix; generate: "
        "write the first version of an interface from all modules that provide it",
    )
    made.add_argument("names", nargs="*", help="virtual names; all by default")
    made.add_argument(
        "--root",
        type=pathlib.Path,
        default=salt.interfaces.report.providers.root_of_salt(),
        help="the folder that holds the package salt (%(default)s)",
    )
    made.add_argument(
        "--known",
        type=pathlib.Path,
        help=f"the file of known differences (ROOT/{KNOWN_FILE})",
    )
    made.add_argument(
        "--output", type=pathlib.Path, help="write to this file instead of stdout"
    )
    return made


def main(arguments=None):
    """
    Run the command, and give its exit code.
    """
    given = parser().parse_args(arguments)
    try:
        if given.command == "generate":
            text = _generate(given)
            code = DONE
        else:
            known = Known.read(given.known or given.root / KNOWN_FILE)
            data = salt.interfaces.report.matrix.matrix(given.root, given.names, known)
            text, code = _show(given.command, data)
    except (InterfaceError, KnownError) as error:
        print(error, file=sys.stderr)
        return WRONG
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return code


def _show(command, data):
    """
    Write a matrix as a command wants it; give the text and the exit code.
    """
    if command == "json":
        return json.dumps(data, indent=1) + "\n", DONE
    if command == "page":
        return salt.interfaces.report.page.page(data), DONE
    lines = salt.interfaces.report.matrix.unknown(data)
    lines += [f"known difference is gone, line {line}" for line in data["unused"]]
    code = DIFFERENCES if lines else DONE
    summary = data["summary"]
    lines.append(
        f"{summary['interfaces']} interfaces, {summary['functions']} functions, "
        f"{sum(summary['modules'].values())} modules: "
        f"{sum(summary['errors'].values())} differences, {summary['known']} of them known"
    )
    return "\n".join(lines) + "\n", code


def _generate(given):
    """
    Write interfaces.
    """
    if not given.names:
        raise InterfaceError("Name the virtual modules, for example: generate pkg")
    calls = salt.interfaces.report.calls.calls(given.root)
    providers = salt.interfaces.report.providers.providers(given.root, given.names)
    texts = []
    for name in given.names:
        if name not in providers:
            raise InterfaceError(f"No module of {given.root} provides '{name}'.")
        text, _ = salt.interfaces.report.generate.write(name, providers[name], calls)
        texts.append(text)
    return "\n".join(texts)


if __name__ == "__main__":
    sys.exit(main())
