"""
The command ``salt-query``, which asks the master's cache on the machine of the master.
"""

import json
import os
import shutil
import signal
import sys

import saltext.query
import saltext.query.render

import salt.config
import salt.defaults.exitcodes
import salt.utils.color
import salt.utils.parsers
from salt.exceptions import SaltException
from salt.utils.verify import check_user


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
        "salt-query shows nodes, instances, jobs, locks or operating systems (the type"
        " is one of node, instance, job, lock and os) with the fields that are asked"
        " for. Example: salt-query node -o name,os,mtotal -F 'mtotal < 4096'"
    )
    epilog = (
        "Missing values: ?? no such field, ? no data, - not available for this item,"
        " * offline. Exit status: 0, 1 if a field does not exist, 64 if something is"
        " wrong with what is asked for."
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
        add("--list-fields", action="store_true", help="Show the fields of the type.")
        add("--separator", help="What to put between columns; sizes stay numbers.")
        add("--no-headers", action="store_true", help="Leave out the titles.")
        add(
            "--verbose",
            action="store_true",
            help="Show what is missing as (nodata), (unavail), (offline).",
        )
        add("--limit", type="int", help="Show at most so many items.")
        add("--offset", type="int", default=0, help="Leave out so many before these.")
        add("--json", action="store_true", help="Print the answer as JSON.")
        add(
            "--no-color",
            "--no-colour",
            action="store_true",
            dest="no_color",
            help="Use no colours, as in a pipe.",
        )

    def setup_config(self):
        return salt.config.client_config(self.get_config_file_path())


class SaltQuery(QueryOptionParser):
    """
    Show items.
    """

    def run(self):
        """
        Execute salt-query.
        """
        self.parse_args()
        if not self.args:
            known = saltext.query.item_types(self.config)
            self.error("say what to show: " + ", ".join(known))
        if not check_user(self.config["user"]):
            self.exit(salt.defaults.exitcodes.EX_NOPERM)
        try:
            response, unknown = self._answer()
        except SaltException as exc:
            self.exit(salt.defaults.exitcodes.EX_USAGE, f"salt-query: {exc}\n")
        try:
            self._print(response)
            sys.stdout.flush()
        except BrokenPipeError:
            # whoever reads has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if unknown:
            sys.stderr.write(
                f"salt-query: no such field: {', '.join(unknown)}; --list-fields shows"
                " those that there are\n"
            )
            self.exit(salt.defaults.exitcodes.EX_GENERIC)
        self.exit(salt.defaults.exitcodes.EX_OK)

    def _answer(self):
        """
        Return the answer and the names of fields that don't exist.
        """
        what, names = self.args[0], self.args[1:]
        if self.options.list_fields:
            found = saltext.query.fields(self.config, what, names or None)
            unknown = [one["name"] for one in found["fields"] if one["title"] is None]
            if not self.options.json:
                found = saltext.query.render.definitions(found)
            return found, unknown
        itemtype = saltext.query.item_type(self.config, what)
        asked = self.options.fields or "+"
        wanted = [name for name in asked.lstrip("+").split(",") if name]
        if asked.startswith("+"):
            wanted = [*itemtype.usual, *wanted]
        rule = self.options.filter
        if names:
            if rule is not None:
                raise saltext.query.QueryError("Give either names or a filter.")
            first = next(iter(itemtype.fields))
            rule = ["|", *[["=", first, name] for name in names]]
        found = saltext.query.items(
            self.config,
            what,
            wanted,
            rule,
            self.options.limit,
            self.options.offset,
        )
        known, unknown = saltext.query.render.known(found)
        return (found if self.options.json else known), unknown

    def _print(self, response):
        if self.options.json:
            print(json.dumps(response))
            return
        terminal = sys.stdout.isatty()
        colours = None
        if terminal and not self.options.no_color and "NO_COLOR" not in os.environ:
            colours = salt.utils.color.get_colors(True)
        for line in saltext.query.render.lines(
            response,
            separator=self.options.separator,
            headers=not self.options.no_headers,
            verbose=self.options.verbose,
            colours=colours,
            width=shutil.get_terminal_size().columns if terminal else None,
        ):
            print(line)
        if response.get("next") is not None:
            sys.stderr.write(
                f"salt-query: {response['total']} items in all; go on with"
                f" --offset {response['next']}\n"
            )


def main():
    """
    Execute salt-query, and end as a shell expects it if it is interrupted.
    """
    try:
        SaltQuery().run()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
