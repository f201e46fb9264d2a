"""A Debian machine of its own, on which a page of docs/ is followed as it stands: its paths, ports and users.

It is an overlay over this machine's own root in namespaces of its own, see `apt_root.py`. What the README installs is
there: the patched Salt in /opt/salt, a master, and the minions web1 and web2, whose keys are accepted. What the pages
install from Debian has to be on this machine already; PostgreSQL's cluster is as fresh as `apt-get install` makes it.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from tests.live.helpers.apt_repository import Repository
from tests.live.helpers.apt_root import ENVIRONMENT, AptRoot, skip_unless_possible
from tests.live.helpers.docs_shell import BASH, Shell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.live.helpers.apt_repository import Package

CLUSTER = ("pg_createcluster", "pg_dropcluster", "pg_lsclusters", "ip")
SYSTEMCTL = Path(__file__).with_name("docs_systemctl.sh")
PATH = f"/opt/salt/bin:{ENVIRONMENT['PATH']}"
# the second minion lives on the same machine, so it has folders of its own
MINIONS = {"web1": "/etc/salt/minion", "web2": "/srv/web2/etc/salt/minion"}
BEGIN = """set -e
version=$(pg_lsclusters -h | head -1 | cut -d' ' -f1)
[ -z "$version" ] || pg_dropcluster --stop "$version" main
pg_createcluster --start "${version:-$(ls /usr/lib/postgresql | tail -1)}" main > /dev/null
# a reader types `salt-key --accept-all`
mkdir -p /etc/salt/master.d
echo 'auto_accept: True' > /etc/salt/master.d/accept.conf
salt-minion --daemon
salt-minion --daemon --config-dir /srv/web2/etc/salt
salt-master --daemon
until [ "$(ls /etc/salt/pki/master/minions 2> /dev/null | wc -l)" = 2 ]; do sleep 0.2; done
rm /etc/salt/master.d/accept.conf
until [ "$(salt --out=json --static --timeout=3 '*' test.ping 2> /dev/null | grep -c true)" = 2 ]; do sleep 0.2; done
"""


class DocsMachine:
    """The machine; see `docs_walk.Place`."""

    def __init__(self, root: AptRoot) -> None:
        """Take its root."""
        self.root = root

    def install(self) -> Self:
        """Install the patched Salt, and start nothing."""
        self.root.run("ln", "-s", sys.prefix, "/opt/salt")
        self.root.write("/usr/local/sbin/systemctl", SYSTEMCTL.read_text(), 0o755)
        return self

    def begin(self) -> Self:
        """Bring it to where the README leaves its reader."""
        for name, path in MINIONS.items():
            folder = "" if path.startswith("/etc") else f"root_dir: {path.removesuffix('/etc/salt/minion')}\n"
            self.root.write(path, f"id: {name}\nmaster: 127.0.0.1\n{folder}")
        self.root.run("bash", "-c", BEGIN, env={"PATH": PATH})
        return self

    def shell(self) -> Shell:
        """Return a terminal of root's in the checkout."""
        made = Shell(self.root.argv(*BASH), env={**ENVIRONMENT, "PATH": PATH})
        made.type(f"cd {self.root.project}", 10)
        return made

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        self.root.write(str(self.root.project / path), text)


@contextmanager
def docs_machine(
    root: Path, factory: pytest.TempPathFactory, packages: Iterable[Package] = (), *, begun: bool = True
) -> Iterator[DocsMachine]:
    """Yield a machine whose apt offers these packages, or skip the test where none can be made.

    With `begun` false the patched Salt is there, and nothing of it is configured or runs.
    """
    skip_unless_possible()
    missing = [name for name in CLUSTER if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: on Debian, `apt-get install postgresql iproute2`, as root")
    repository = Repository(factory.mktemp("repository"))
    repository.add(packages)
    with AptRoot(root, factory.mktemp("root"), repository, own_network=True) as apt_root:
        machine = DocsMachine(apt_root).install()
        yield machine.begin() if begun else machine
