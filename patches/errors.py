"""The errors of this package.

Each carries its exit code, so that scripts can tell them apart::

    PatchesError                1   (also: `check` found something)
    ├── UsageError              2   an option or a file of the patch set is wrong
    ├── UnsavedEditsError       3   edits in salt/ would be lost
    ├── ConflictError           4   a patch does not apply, or a rebase stops
    ├── FetchError              5   the source distribution cannot be had, or is not the pinned one
    ├── ToolError               6   git or pip is missing, too old, or failed
    └── BusyError               7   another command of this package holds the lock
"""

from __future__ import annotations


class PatchesError(Exception):
    """Something that the user can act on; its text is one sentence that says how."""

    exit_code = 1


class UsageError(PatchesError):
    """An option, a topic's name or a file of the patch set is wrong."""

    exit_code = 2


class UnsavedEditsError(PatchesError):
    """Edits to upstream's files are in the tree but not in ``patches/``."""

    exit_code = 3

    def __init__(self, message: str, files: tuple[str, ...]) -> None:
        """Keep the files beside the message, for machine-readable output."""
        super().__init__(message)
        self.files = files


class ConflictError(PatchesError):
    """A patch does not apply, or its rebase stops at a conflict."""

    exit_code = 4


class FetchError(PatchesError):
    """The source distribution cannot be downloaded, or is not the pinned one."""

    exit_code = 5


class ToolError(PatchesError):
    """A program that this package needs is missing, too old, or failed."""

    exit_code = 6


class BusyError(PatchesError):
    """Another command of this package is at work on the same tree."""

    exit_code = 7
