"""Notes of a run that is under way, so that the next one knows when it was killed.

They are written before the first package is changed and go when the locks are set. Whoever finds
them tidies up what the package manager was torn out of, and then does the rest.
"""

import contextlib
import json
import os

import saltext.package_states.minion.replace as replace

import salt.utils.files

FOLDER = "/var/lib/salt"
NAME = "package_states.run.json"


def path():
    return os.path.join(FOLDER, NAME)


def begin(notes):
    write(path(), notes)


def unfinished():
    """Return the notes of a run that did not end, or None"""
    try:
        with salt.utils.files.fopen(path()) as handle:
            found = json.load(handle)
    except FileNotFoundError:
        return None
    except ValueError:
        # cut off: it began, and no more is known
        return {}
    return found if isinstance(found, dict) else {}


def end():
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path())


def write(place, data):
    """Write a JSON file that is whole or not there, also after a power cut"""
    replace.put(place, json.dumps(data, sort_keys=True, indent=1) + "\n")
