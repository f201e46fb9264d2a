"""
The options of the command ``salt-query``.
"""

import functools

import salt.config
import salt.utils.parsers

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
_UNITS = "Sizes as they suit (h), in MiB (m), GiB (g) or TiB (t)."
_OFFSET = "Leave out so many before these, or all up to the item that is named."
_LIVE = "Wait for minions at most so long, 30 seconds by default."
_WATCH = "Ask again after so many seconds, until it is interrupted."


class QueryOptionParser(
    salt.utils.parsers.OptionParser,
    salt.utils.parsers.ConfigDirMixIn,
    salt.utils.parsers.MergeConfigMixIn,
    salt.utils.parsers.LogLevelMixIn,
    metaclass=salt.utils.parsers.OptionParserMeta,
):
    """
    The options of ``salt-query``.
    """

    usage = "%prog [options] <type> [names]"
    description = (
        "salt-query shows what the master knows of items of one type, with the fields"
        " that are asked for: instance, job, lock, node, os, package, or one of the site."
        " Example: salt-query node -o name,os,mtotal -F 'mtotal < 4G'"
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
                action="callback",
                callback=_take_target,
                callback_args=(type_,),
                type="string",
                dest="target",
                metavar="TARGET",
                help=f"Which nodes to show, as Salt chooses minions: {what}.",
            )
        flag("--list-fields", help="Show the fields of the type.")
        text("--sort", metavar="FIELDS", help=_SORT)
        text("--count", metavar="FIELDS", help=_COUNT)
        choice("--format", default="table", choices=_FORMATS, help=_FORMAT)
        flag(
            "--json",
            action="store_const",
            const="json",
            dest="format",
            help="The same as --format=json.",
        )
        text("--separator", help="What to put between columns; sizes stay numbers.")
        flag("--no-headers", help="Leave out the titles.")
        choice("--units", default="h", choices=("h", "m", "g", "t"), help=_UNITS)
        flag(
            "--verbose", help="Show what is missing as (nodata), (unavail), (offline)."
        )
        text("--limit", type="int", help="Show at most so many items.")
        text("--offset", default="0", help=_OFFSET)
        flag("--all", help="Show all jobs, also those of runners, not the newest 50.")
        flag("--exit-status", help="End with 2 if nothing is found.")
        text("--live-timeout", type="float", metavar="SECONDS", help=_LIVE)
        text("--watch", type="float", metavar="SECONDS", help=_WATCH)
        text("--times", type="int", help="With --watch: ask so many times.")
        flag("--no-color", "--no-colour", dest="no_color", help="Use no colours.")


def _take_target(option, _text, value, parser, type_):
    if parser.values.target is not None:
        parser.error("give one target; -C combines several")
    setattr(parser.values, option.dest, (type_, value))
