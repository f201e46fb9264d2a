"""
Differences that are known, with the reason why they are still there

A file lists them, one a line. What is in it does not fail the check of the tree; it
still shows in the report, and a module that has such a difference is not said to
conform. A line that no longer matches anything is itself an error, so the file can
only shrink.

.. code-block:: text

    # virtual name, module, function, code, parameter or -, and the reason
    pkg pacmanpkg upgrade changed-default refresh # Arch supports no partial upgrades

Each of the five fields may hold ``*``.

.. versionadded:: 3009.0
"""

import fnmatch
import pathlib

FIELDS = 5


class KnownError(ValueError):
    """
    A line of the file is not understood
    """


class Known:
    """
    The lines of such a file.

    lines
        An iterable of strings.

    name
        What to call the file in messages.
    """

    def __init__(self, lines=(), name="the file"):
        self._entries = []
        self._used = set()
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            fields, _, reason = line.partition("#")
            fields = fields.split()
            if len(fields) != FIELDS or not reason.strip():
                raise KnownError(
                    f"Line {number} of {name} must have {FIELDS} fields, then '#' "
                    f"and a reason: {line.strip()}"
                )
            self._entries.append((number, tuple(fields), reason.strip()))

    @classmethod
    def read(cls, path):
        """
        Read a file, or return an empty list if there is none.
        """
        path = pathlib.Path(path)
        if not path.is_file():
            return cls()
        return cls(path.read_text(encoding="utf-8").splitlines(), path.name)

    def reason(self, virtualname, module, finding):
        """
        Give the reason for a difference, ``None`` if it is not in the list.
        """
        values = (
            virtualname,
            module,
            finding.function,
            finding.code,
            finding.parameter or "-",
        )
        for number, fields, reason in self._entries:
            if all(map(fnmatch.fnmatchcase, values, fields)):
                self._used.add(number)
                return reason
        return None

    def unused(self, virtualnames):
        """
        Give the lines for these virtual names that nothing has matched.
        """
        return [
            f"{number}: {' '.join(fields)}"
            for number, fields, _ in self._entries
            if number not in self._used
            and any(fnmatch.fnmatchcase(name, fields[0]) for name in virtualnames)
        ]
