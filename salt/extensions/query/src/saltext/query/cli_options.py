"""
The options of the command ``salt-query``.
"""

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
        " that are asked for. Example: salt-query node -o name,os,mtotal -F 'mtotal < 4G'"
    )
    epilog = (
        "Missing values: ?? no such field, ? no data, - not available for this item,"
        " * offline. Exit status: 0, 1 if a field or a named item does not exist, 64 if"
        " something is wrong with what is asked for, 69 if the cache, the job store or"
        " the master fails, 77 if it is not run as the master's user."
    )

    _config_filename_ = "master"
    _default_logging_level_ = salt.config.DEFAULT_MASTER_OPTS["log_level"]
    _default_logging_logfile_ = salt.config.DEFAULT_MASTER_OPTS["log_file"]
    _setup_mp_logging_listener_ = False

    def _mixin_setup(self):
        add = self.add_option
        add(
            "-o",
            "--output-fields",
            dest="fields",
            metavar="FIELDS",
            help="Fields to show, with commas; +FIELDS shows them after the usual ones.",
        )
        add("-F", "--filter", help="Which items to show, as text or as a list.")
        for short, long_, type_, what in _TARGETS:
            add(
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
        add("--list-fields", action="store_true", help="Show the fields of the type.")
        add(
            "--sort",
            metavar="FIELDS",
            help="Fields to sort by, with commas; -FIELD is the other way round.",
        )
        add(
            "--count",
            metavar="FIELDS",
            help="Show how many items have the same in these fields.",
        )
        add(
            "--format",
            default="table",
            type="choice",
            choices=("table", "json", "jsonl", "csv"),
            help="table, json, jsonl (JSON, an item on each line) or csv.",
        )
        add(
            "--json",
            action="store_const",
            const="json",
            dest="format",
            help="The same as --format=json.",
        )
        add("--separator", help="What to put between columns; sizes stay numbers.")
        add("--no-headers", action="store_true", help="Leave out the titles.")
        add(
            "--units",
            default="h",
            type="choice",
            choices=("h", "m", "g", "t"),
            help="Sizes as they suit (h), in MiB (m), GiB (g) or TiB (t).",
        )
        add(
            "--verbose",
            action="store_true",
            help="Show what is missing as (nodata), (unavail), (offline).",
        )
        add("--limit", type="int", help="Show at most so many items.")
        add("--offset", type="int", default=0, help="Leave out so many before these.")
        add("--all", action="store_true", help="Show all jobs, not the newest 50.")
        add(
            "--live-timeout",
            type="float",
            metavar="SECONDS",
            help="Wait for minions at most so long, 30 seconds by default.",
        )
        add(
            "--watch",
            type="float",
            metavar="SECONDS",
            help="Ask again after so many seconds, until it is interrupted.",
        )
        add("--times", type="int", help="With --watch: ask so many times.")
        add(
            "--no-color",
            "--no-colour",
            action="store_true",
            dest="no_color",
            help="Use no colours, as in a pipe.",
        )


def _take_target(option, _text, value, parser, type_):
    if parser.values.target is not None:
        parser.error("give one target; -C combines several")
    setattr(parser.values, option.dest, (type_, value))
