"""
Print the configuration of salt-api that serves the page, or the page's folder.
"""

import argparse
import sys

import yaml  # pylint: disable=3rd-party-module-not-gated
from saltext.console import folder, settings


def main():
    """
    Print what was asked for.
    """
    parser = argparse.ArgumentParser(
        prog="python -m saltext.console", description=__doc__
    )
    parser.add_argument("--folder", action="store_true", help="print only the folder")
    if parser.parse_args().folder:
        sys.stdout.write(f"{folder()}\n")
    else:
        sys.stdout.write(yaml.safe_dump(settings(), sort_keys=False))


if __name__ == "__main__":
    main()
