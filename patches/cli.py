"""The command line: `python -m patches COMMAND`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from patches import commands
from patches.errors import PatchesError, UnsavedEditsError
from patches.layout import TREE, Layout, locked
from patches.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patches.commands import CommandResult

    Command = Callable[[Repository, argparse.Namespace], CommandResult]
    Add = Callable[[str, str, str], argparse.ArgumentParser]

LOCKED: dict[str, Command] = {
    "apply": commands.run_apply,
    "save": commands.run_save,
    "submit": commands.run_submit,
    "export": commands.run_export,
    "bump": commands.run_bump,
    "drop": commands.run_drop,
    "keep": commands.run_keep,
    "wheels": commands.run_wheels,
}
# these leave the tree alone: they need not wait for a check that takes minutes
OWN_LOCKS = {"wheels": "wheels.lock"}
# these change nothing, and a test run may take minutes: what of theirs needs the lock takes it
UNLOCKED: dict[str, Command] = {
    "check": commands.run_check,
    "features": commands.run_features,
    "status": commands.run_status,
    "style": commands.run_style,
    "suite": commands.run_suite,
}


CODES = """\
exit codes:
  0 done   1 check or tests found something   2 wrong option or patch set   3 unsaved edits in salt/
  4 a patch or rebase conflicts   5 no source distribution   6 git or pip failed   7 the tree is in use
  141 nobody reads the output
"""


def parser() -> argparse.ArgumentParser:
    """Describe the commands and their options."""
    top = argparse.ArgumentParser(
        prog="python -m patches",
        description="Make the patched Salt tree, save edits as patches, and send them upstream.",
        epilog=f"{CODES}\nexample:\n  python -m patches apply",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shared = argparse.ArgumentParser(add_help=False)
    default = Path(__file__).resolve().parent.parent
    shared.add_argument("--root", type=Path, default=default, metavar="DIR", help="the project, or a copy of it")
    shared.add_argument("--json", action="store_true", help="print one JSON object with a 'format' version")
    names = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str, example: str) -> argparse.ArgumentParser:
        return names.add_parser(
            name,
            parents=[shared],
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=f"example:\n  python -m patches {example}\n\n{CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    _add_tree(add)
    _add_upstream(add)
    _add_checks(add)
    return top


def _add_tree(add: Add) -> None:
    """Add what works on the tree and the patches."""
    one = add("apply", "make the tree, or bring it up to date", "apply")
    choice = one.add_mutually_exclusive_group()
    choice.add_argument("--keep-edits", action="store_true", help="go on with unsaved edits, carried over if need be")
    choice.add_argument("--discard", action="store_true", help="drop unsaved edits; a copy goes to build/discarded/")

    one.add_argument("--quiet", action="store_true", help="say nothing when nothing changed")

    one = add("save", "turn edits of the tree into patches", "save --topic sql-base-json salt/pillar/postgres.py")
    choice = one.add_mutually_exclusive_group()
    choice.add_argument("--topic", metavar="NAME", help="the topic that the files belong to")
    choice.add_argument("--new", metavar="NAME", help="start a topic with the files, at the end of the series")
    one.add_argument("--message", type=Path, metavar="FILE", help="message of the new topic, with its trailers")
    choice = one.add_mutually_exclusive_group()
    choice.add_argument("--patch", action="store_true", help="ask for each hunk whether it belongs to the topic")
    choice.add_argument("--diff", type=Path, metavar="FILE", help="save only the hunks of this diff of the tree")
    one.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="only these, relative to salt/; a new file moves here",
    )

    one = add("check", "find what is wrong with the patch set", "check --tests")
    one.add_argument("--tests", action="store_true", help="also run each topic's tests: stock fails, ours passes")
    one.add_argument("--topic", action="append", default=[], metavar="NAME", help="only this topic; may be repeated")
    one.add_argument(
        "--base",
        action="append",
        default=[],
        metavar="RELEASE",
        help="try the topics on this release of Salt instead; may be repeated",
    )
    _add_table(one)

    one = add("drop", "take a topic out of the patch set, with its new files", "drop load-all")
    one.add_argument("topic", metavar="TOPIC", help="a topic of patches/series that no other one requires")

    wheels = add("wheels", "build the Salt extensions into build/wheels/", "wheels --json")
    wheels.add_argument(
        "--offline",
        action="store_true",
        help="leave out an extension whose libraries cannot be downloaded, instead of ending with an error",
    )

    add("status", "show the base, the topics and the state of the tree", "status --json")


def _add_upstream(add: Add) -> None:
    """Add the ways to upstream, to distributions and to other releases."""
    one = add("submit", "make each topic's branch, and the text of its pull request", "submit load-all --number 68123")
    one.add_argument("topics", nargs="+", metavar="TOPIC", help="topics of patches/series")
    one.add_argument(
        "--number",
        action="append",
        default=[],
        metavar="[TOPIC=]N",
        help="number of upstream's issue or pull request, which names the changelog entry; may be repeated",
    )
    one.add_argument("--clone", type=Path, metavar="DIR", help="make the branch in this clone of Salt's repository")
    one.add_argument("--onto", metavar="REF", help="commit of the clone (default: the tag of the base, like v3008.5)")
    one.add_argument("--mails", action="store_true", help="write the commits as mails for 'git am' as well")
    one.add_argument("--output", type=Path, metavar="DIR", help="folder for texts and mails (default: build/submit)")

    one = add(
        "export", "write full patches, new files included, and a series, as quilt reads them", "export sql-base-json"
    )
    one.add_argument("topics", nargs="*", metavar="TOPIC", help="topics of patches/series, with what they require")
    one.add_argument("--base", metavar="RELEASE", help="another release, for which a series is kept")
    one.add_argument("--code", action="store_true", help="no tests, docs and changelog: for an installed Salt")
    one.add_argument("--output", type=Path, metavar="DIR", help="folder for the patches (default: build/export)")

    one = add("bump", "move the patches to another release of Salt", "bump 3008.6")
    one.add_argument("version", nargs="?", metavar="VERSION", help="the release, as on the package index")
    one.add_argument("--hash", metavar="SHA256", help="hash of its source distribution (default: learnt)")
    choice = one.add_mutually_exclusive_group()
    choice.add_argument("--keep-conflict", action="store_true", help="leave a conflict in build/bump, to be resolved")
    choice.add_argument("--continue", dest="resume", action="store_true", help="go on after resolving a conflict")
    choice.add_argument("--abort", action="store_true", help="give up a bump that stopped; resolutions are kept")
    one.add_argument("--forget", action="store_true", help="with --abort: forget how conflicts were resolved")

    one = add("keep", "keep topics for another release of Salt, resolving conflicts once", "keep 3006.30 load-all")
    one.add_argument("release", nargs="?", metavar="RELEASE", help="the release, as on the package index")
    one.add_argument("topics", nargs="*", metavar="TOPIC", help="topics of patches/series, with what they require")
    choice = one.add_mutually_exclusive_group()
    choice.add_argument("--continue", dest="resume", action="store_true", help="go on after resolving a conflict")
    choice.add_argument("--abort", action="store_true", help="give up; resolutions are kept")

    one = add("features", "show which feature one gets on which release of Salt", "features --markdown")
    one.add_argument("--markdown", action="store_true", help="print a table for a page")


def _add_checks(add: Add) -> None:
    """Add what runs linters and upstream's tests."""
    one = add("style", "check what we change in Salt with Salt's own linters", "style --fix")
    one.add_argument("--fix", action="store_true", help="let black and isort rewrite the files")
    one.add_argument("--quick", action="store_true", help="no pylint for upstream's files with few lines of ours")

    one = add("suite", "run upstream's own tests", "suite salt/tests/pytests/unit/pillar/test_sql_base.py -- -x")
    one.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="touched (what our topics touch), wider (the wider set), or files and folders below salt/tests/pytests",
    )
    one.add_argument("--tree", choices=("patched", "stock"), default="patched", help="which Salt (default: patched)")
    one.add_argument("--workers", type=int, default=2, metavar="N", help="parallel workers, 0 for none (default: 2)")
    one.add_argument("--without-own", action="store_true", help="leave out the test files that our topics bring")
    one.usage = "python -m patches suite [options] {touched,wider,FILE ...} [-- OPTION_OF_PYTEST ...]"


def _add_table(command: argparse.ArgumentParser) -> None:
    """Add the options for trying topics on other releases."""
    command.add_argument("--output", type=Path, metavar="DIR", help="folder for what applies (default: build/fits)")
    command.add_argument("--markdown", action="store_true", help="print a table for a page")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; give the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # what follows "--" is for the program that we start: argparse would mix it up with our own options
    cut = given.index("--") if "--" in given else len(given)
    options = parser().parse_args(given[:cut], argparse.Namespace(extra=given[cut + 1 :]))
    if options.extra and options.command != "suite":
        parser().error("only suite hands on options after '--'")
    layout = Layout(options.root.resolve())
    repository = Repository(layout)
    try:
        if options.command in UNLOCKED:
            result = UNLOCKED[options.command](repository, options)
        else:
            with locked(layout, OWN_LOCKS.get(options.command, TREE)):
                result = LOCKED[options.command](repository, options)
    except PatchesError as error:
        return _fail(error, as_json=options.json)
    for text in result.warnings:
        print(f"patches: warning: {text}", file=sys.stderr)
    if options.json:
        print(json.dumps({"format": 1, "command": options.command, **result.data}, indent=1))
    elif result.lines:
        print("\n".join(result.lines))
    return result.code


def _fail(error: PatchesError, *, as_json: bool) -> int:
    """Tell an error in one line, or as JSON."""
    if as_json:
        files = list(error.files) if isinstance(error, UnsavedEditsError) else []
        print(json.dumps({"format": 1, "error": str(error), "code": error.exit_code, "files": files}, indent=1))
    else:
        print(f"patches: {error}", file=sys.stderr)
    return error.exit_code
