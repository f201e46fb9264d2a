"""Files that are whole or not there.

The new file has a name that nobody can foresee, so that no link of another user waits for it, and
then takes the place of the old one; a link is replaced, not followed.
"""

import contextlib
import os
import tempfile

import salt.utils.atomicfile
import salt.utils.files

# no configuration has it
HERE = "\0"


@contextlib.contextmanager
def replaced(path, mode, encoding="utf-8"):
    """Yield a file for writing that takes the place of another one, on the disk, if nothing fails"""
    # apt, dpkg and dnf read no file of their folders with this ending
    number, beside = tempfile.mkstemp(
        prefix=".", suffix=".new", dir=os.path.dirname(path) or "."
    )
    try:
        with os.fdopen(number, "w", encoding=encoding) as handle:
            yield handle
            os.fchmod(handle.fileno(), mode)
            handle.flush()
            os.fsync(handle.fileno())
        salt.utils.atomicfile.atomic_rename(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def put(path, text, mode=0o644):
    """Put a text into the place of a file, in one step, in a folder that is made if there is none"""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with replaced(path, mode) as handle:
        handle.write(text)


@contextlib.contextmanager
def beside(files, folder=""):
    """Yield a folder with some files, texts by name, and links to what else another one has

    The text None is a file that is not there; :data:`HERE` in a text becomes the path of the folder.
    """
    with tempfile.TemporaryDirectory(prefix="salt-package-states-") as mine:
        # apt reads them as a user of its own
        os.chmod(mine, 0o755)
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name not in files:
                os.symlink(os.path.join(folder, name), os.path.join(mine, name))
        for name, text in files.items():
            if text is not None:
                place = os.path.join(mine, name)
                with salt.utils.files.fopen(place, "w", encoding="utf-8") as handle:
                    handle.write(text.replace(HERE, mine))
                os.chmod(place, 0o644)
        yield mine


def stamp(path):
    """Return what changes whenever a file is written, a list; None if there is none"""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [found.st_mtime_ns, found.st_size, found.st_ino]
