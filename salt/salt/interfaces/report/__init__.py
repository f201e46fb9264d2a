"""
Interfaces and the whole source tree: what provides them, and how well

Nothing here is needed to run Salt. It reads source files as syntax trees, never
imports them, and so it sees the modules of every platform on any platform.

.. code-block:: bash

    python -m salt.interfaces.report --help

.. versionadded:: 3009.0
"""
