"""
The command ``salt-query``, which asks the master's cache on the machine of the master.
"""

import functools
import io
import json
import os
import shlex
import shutil
import signal
import sys
import time

import saltext.query
from saltext.query import compare, render
from saltext.query.kinds import BANKS

import salt.config
import salt.defaults.exitcodes
import salt.utils.color
import salt.utils.parsers
from salt.exceptions import SaltException
from salt.utils.verify import check_user

#: The most times that a query is repeated: a day, each second.
_MAX_TIMES = 86400

#: The exit code of --exit-status if there is nothing.
EX_NOTHING = 2

_CLEAR = "\x1b[H\x1b[2J"

#: The options that are targets, as those of the command ``salt``.
_TARGETS = (
    ("-E", "--pcre", "pcre", "a regular expression"),
    ("-L", "--list", "list", "a list of ids with commas between them"),
    ("-G", "--grain", "grain", "a grain, as os:Debian"),
    ("-P", "--grain-pcre", "grain_pcre", "a grain and a regular expression"),
    ("-I", "--pillar", "pillar", "a key of the pillar, as role:web"),
    ("-N", "--nodegroup", "nodegroup", "a nodegroup of the master"),
    ("-S", "--ipcidr", "ipcidr", "a subnet or an address"),
    ("-C", "--compound", "compound", "a compound target"),
)

_SORT = "Fields to sort by, with commas; -FIELD is the other way round."
_COUNT = (
    "Show how many items have the same in these fields; sum(FIELD), min, max and avg are"
    " further columns."
)
_FORMATS = ("table", "json", "jsonl", "csv", "list")
_FORMAT = (
    "table, json, jsonl (JSON, an item on each line), csv, or list (the names with commas,"
    " for salt -L)."
)
_UNITS = "Sizes in tables: as they suit (h), in MiB (m), GiB (g) or TiB (t)."
_OFFSET = "Leave out so many before these, or all up to the item that is named."
_LIVE = "Wait for minions at most so long, 30 seconds by default."
_WATCH = "Ask again after so many seconds, until it is interrupted."


class SaltQuery(
    salt.utils.parsers.OptionParser,
    salt.utils.parsers.ConfigDirMixIn,
    salt.utils.parsers.MergeConfigMixIn,
    salt.utils.parsers.LogLevelMixIn,
    metaclass=salt.utils.parsers.OptionParserMeta,
):
    """Show items."""

    usage = "%prog [options] <type> [names]"
    description = (
        "salt-query shows what the master knows of items of one type, with the fields"
        " that are asked for. Example: salt-query node -o name,os,mtotal -F 'mtotal < 4G'."
        " Types: instance, job, lock, node, os, package, and those that the site adds."
    )
    epilog = (
        'Filters: FIELD == VALUE, != < <= > >=, =* "web*" (pattern), =~ m/re/i (regular'
        " expression), FIELD in (A, B), VALUE in FIELD (lists), FIELD is missing, FIELD alone"
        ' (true), and, or, not, parentheses. Values: 4G, 7d, 2026-11-21, "text". Missing'
        " values: ? no data, - not available for this item, * offline. Exit status: 0; 1 if a"
        " field or a named item does not exist; 2 with --exit-status if nothing is found; 64 if"
        " something is wrong with what is asked for; 69 if the cache, the job store or the"
        " master fails; 77 if neither root nor the master's user runs it."
    )

    _config_filename_ = "master"
    _default_logging_level_ = salt.config.DEFAULT_MASTER_OPTS["log_level"]
    _default_logging_logfile_ = salt.config.DEFAULT_MASTER_OPTS["log_file"]
    _setup_mp_logging_listener_ = False

    def _mixin_setup(self):
        text = self.add_option
        flag = functools.partial(self.add_option, action="store_true")
        choice = functools.partial(self.add_option, type="choice")
        text(
            "-o",
            "--output-fields",
            dest="fields",
            metavar="FIELDS",
            help="Fields to show, with commas; +FIELDS shows them after the usual ones.",
        )
        text("-F", "--filter", help="Which items to show, as text or as a list.")
        for short, long_, type_, what in _TARGETS:
            text(
                short,
                long_,
                dest=type_,
                metavar="TARGET",
                help=f"Which nodes to show, as Salt chooses minions: {what}.",
            )
        flag("--list-fields", help="Show the fields of the type.")
        text("--sort", metavar="FIELDS", help=_SORT)
        text("--count", metavar="FIELDS", help=_COUNT)
        choice("--format", default="table", choices=_FORMATS, help=_FORMAT)
        json_ = functools.partial(flag, action="store_const", const="json")
        json_("--json", dest="format", help="The same as --format=json.")
        text("--separator", help="What to put between columns; sizes stay numbers.")
        flag("--no-headers", help="Leave out the titles.")
        choice("--units", default="h", choices=("h", "m", "g", "t"), help=_UNITS)
        flag(
            "--verbose", help="Show what is missing as (nodata), (unavail), (offline)."
        )
        text("--limit", type="int", help="Show at most so many items.")
        text("--offset", default="0", help=_OFFSET)
        flag("--all", help="Show all jobs, also internal ones, not the newest 50.")
        flag("--exit-status", help="End with 2 if nothing is found.")
        text("--live-timeout", type="float", metavar="SECONDS", help=_LIVE)
        text("--watch", type="float", metavar="SECONDS", help=_WATCH)
        text("--times", type="int", help="With --watch: ask so many times.")
        flag("--no-color", "--no-colour", dest="no_color", help="Use no colours.")

    def setup_config(self):
        """Return the master's options, which only its user may read."""
        path = self.get_config_file_path()
        if os.path.exists(path) and not os.access(path, os.R_OK):
            self.exit(
                salt.defaults.exitcodes.EX_NOPERM,
                f"salt-query: run this as the master's user, who may read {path}\n",
            )
        opts = salt.config.client_config(path)
        if not check_user(opts["user"]):
            self.exit(salt.defaults.exitcodes.EX_NOPERM)
        return opts

    def run(self):
        """Execute salt-query."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # a terminal of ASCII shows what it can
                stream.reconfigure(errors="backslashreplace")
        self.parse_args()
        if not self.args:
            known = saltext.query.item_types(self.config)
            self.error("say what to show: " + ", ".join(known))
        code = salt.defaults.exitcodes.EX_OK
        for number in range(self._times()):
            if number:
                time.sleep(self.options.watch)
                if not sys.stdout.isatty():
                    self.options.no_headers = True
            code, goes_on = self._once()
            if not goes_on:
                break
        self.exit(code)

    def _times(self):
        seconds, times = self.options.watch, self.options.times
        if seconds is None:
            return 1
        times = _MAX_TIMES if times is None else times
        if not 0.1 <= seconds <= _MAX_TIMES or not 1 <= times <= _MAX_TIMES:
            self.error("give --watch 0.1 seconds or more, and --times from 1 on")
        return times

    def _once(self):
        """Ask and print, and return the exit code, and whether somebody still reads."""
        try:
            response, told = self._answer()
        except saltext.query.QueryStoreError as exc:
            self._tell(exc)
            return salt.defaults.exitcodes.EX_UNAVAILABLE, True
        except SaltException as exc:
            self._tell(exc)
            return salt.defaults.exitcodes.EX_USAGE, True
        goes_on = True
        try:
            self._print(response)
            sys.stdout.flush()
        except BrokenPipeError:
            # whoever reads has enough
            goes_on = False
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        for sentence in [*told, *render.notes(response)]:
            self._tell(sentence)
        code = salt.defaults.exitcodes.EX_OK
        if told:
            code = salt.defaults.exitcodes.EX_GENERIC
        elif self.options.exit_status and not response["data"]:
            code = EX_NOTHING
        return code, goes_on

    @staticmethod
    def _tell(sentence):
        sentence = render.shown(str(sentence))
        sys.stderr.write(f"salt-query: {sentence}\n")

    def _answer(self):
        """Return the answer, and sentences about what is not there."""
        what, names = self.args[0], self.args[1:]
        is_json = self.options.format == "json"
        if self.options.list_fields:
            found = self._fields(what, names)
            unknown = [one["name"] for one in found["fields"] if one["title"] is None]
            known = render.definitions(found)
        else:
            found = self._ask(what, names)
            known, unknown = render.known(found)
        told = self._missing(unknown, found.get("absent", ()), what)
        return (found if is_json else known), told

    def _fields(self, what, names):
        """Return the answer to a fields query, in which ``grain`` stands for all grains."""
        itemtype = saltext.query.item_type(self.config, what)
        known = names or sorted(itemtype.fields, key=compare.text_key)
        starts = set(names).intersection(BANKS if itemtype.dynamic else ())
        found = saltext.query.fields(self.config, what, None if starts else known)
        fields = found["fields"]
        if starts:
            fields = [one for one in fields if one["name"].partition(".")[0] in names]
        for start in BANKS if itemtype.dynamic and not names else ():
            doc = f"Any key of it; 'salt-query {what} {start} --list-fields' lists them"
            name = f"{start}.KEY"
            fields.append({"name": name, "kind": "other", "title": name, "doc": doc})
        return {**found, "fields": fields}

    def _ask(self, what, names):
        options = self.options
        itemtype = saltext.query.item_type(self.config, what)
        rule = options.filter
        first = next(iter(itemtype.fields))
        if names:
            if rule is not None:
                raise saltext.query.QueryError("Give either names or a filter.")
            rule = ["|", *[["=", first, name] for name in names]]
        if options.all and rule is None:
            rule = ["&"]
        given = [(one[2], getattr(options, one[2])) for one in _TARGETS]
        given = [(tgt_type, tgt) for tgt_type, tgt in given if tgt is not None]
        if len(given) > 1:
            self.error("give one target; -C combines several")
        tgt_type, tgt = given[0] if given else ("glob", None)
        offset = options.offset
        offset = int(offset) if offset.lstrip("-").isdecimal() else offset
        more = {"tgt": tgt, "tgt_type": tgt_type, "offset": offset, "live": {}}
        if options.live_timeout is not None:
            more["live"]["live_timeout"] = options.live_timeout
        if options.count is not None:
            if options.fields is not None:
                raise saltext.query.QueryError(
                    "Leave out -o: --count shows the fields that it counts."
                )
            more.update(limit=options.limit, sort=options.sort)
            wanted = compare.names(options.count)
            return saltext.query.count(self.config, what, wanted, rule, **more)
        asked = options.fields or "+"
        wanted = compare.names(asked.removeprefix("+"))
        if options.format == "list":
            wanted = wanted if options.fields else [first]
        elif asked.startswith("+"):
            wanted = [*itemtype.usual, *wanted]
        limit = options.limit
        if limit is None and not names and not options.all:
            limit = itemtype.usual_limit
        sort = options.sort
        if sort is None and not names:
            sort = itemtype.usual_sort
        return saltext.query.items(
            self.config, what, wanted, rule, limit=limit, sort=sort, **more
        )

    def _missing(self, unknown, absent, what):
        known = saltext.query.prepare(self.config, what, []).known
        ret = [f"no such field: {one}; {known.suggestion(one)}" for one in unknown]
        if absent:
            hint = ""
            patterns = [name for name in absent if set(name) & set("*?[")]
            if patterns:
                rule = shlex.quote(f'{known.first} =* "{patterns[0]}"')
                hint = f"; a pattern is a filter: -F {rule}"
            ret.append(f"no such {what}: {', '.join(absent)}{hint}")
        return ret

    def _print(self, response):
        options = self.options
        terminal = sys.stdout.isatty()
        if options.watch is not None and terminal:
            sys.stdout.write(_CLEAR)
        shown = render.shown if terminal else str
        headers = not options.no_headers
        colours = None
        if terminal and not options.no_color and "NO_COLOR" not in os.environ:
            colours = salt.utils.color.get_colors(True)
        if options.format == "json":
            lines = [json.dumps(response)]
        elif options.format == "jsonl":
            lines = render.json_lines(response)
        elif options.format == "csv":
            lines = render.csv(response, shown, headers=headers)
        elif options.format == "list":
            lines = render.names(response, shown)
        else:
            lines = render.lines(
                response,
                separator=options.separator,
                headers=headers,
                verbose=options.verbose,
                colours=colours,
                width=shutil.get_terminal_size().columns if terminal else None,
                units=options.units,
            )
        for line in lines:
            sys.stdout.write(line + "\n")


def main():
    """Execute salt-query, and end as a shell expects it if it is interrupted."""
    try:
        SaltQuery().run()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
