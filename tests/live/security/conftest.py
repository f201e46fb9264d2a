"""Salt is imported once, for all tests of this folder."""

from __future__ import annotations

import sys
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ImportWarning)
    import salt.crypt  # noqa: F401 - it is its import that counts

# Salt 3008.5 puts an import hook of the old kind (without find_spec) in front, which breaks pytest's own imports
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "NaclImporter"]
