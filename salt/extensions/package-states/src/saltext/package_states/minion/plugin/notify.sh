#!/bin/sh
# Part of saltext-package-states: a package manager's hook calls this when it has
# changed packages, and Salt's beacon pkgset looks at the cookie that it writes.
#
#   pkgset-notify dpkg|rpm
#
# Writes the checksum and the time of the package manager's database, into another cookie
# if it is Salt that changes packages. Never fails: the package manager has done its work.
own=${SALT_RUNNING+.own}
cache=${PKGSET_CACHE:-/var/cache/salt/minion}

newest() {
    # of several layouts of rpm's database the one in use
    ls -t "${PKGSET_ROOT:-}"/usr/lib/sysimage/rpm/rpmdb.sqlite \
        "${PKGSET_ROOT:-}"/usr/lib/sysimage/rpm/Packages.db \
        "${PKGSET_ROOT:-}"/usr/lib/sysimage/rpm/Packages \
        "${PKGSET_ROOT:-}"/var/lib/rpm/rpmdb.sqlite \
        "${PKGSET_ROOT:-}"/var/lib/rpm/Packages.db \
        "${PKGSET_ROOT:-}"/var/lib/rpm/Packages 2>/dev/null | head -n 1
}

case ${1:-} in
    dpkg)
        cookie=$cache/dpkg.cookie$own
        database=${PKGSET_ROOT:-}/var/lib/dpkg/status
        ;;
    rpm)
        cookie=$cache/rpmdb.cookie$own
        database=$(newest)
        ;;
    *)
        echo "pkgset-notify: say which database has changed, dpkg or rpm." >&2
        exit 0
        ;;
esac
if [ ! -f "$database" ]; then
    echo "pkgset-notify: there is no database of $1." >&2
    exit 0
fi
set -- "$database"
# what SQLite has not merged into its file yet
[ ! -f "$database-wal" ] || set -- "$@" "$database-wal"
sum=$(cat "$@" | sha256sum) time=$(stat -L -c %Y "$@" | sort -n | tail -n 1)
part=
# one step, so that nobody reads half a line, and by a name for which no link can wait
if ! { mkdir -p "$cache" && part=$(mktemp "$cookie.XXXXXX") && echo "${sum%% *} $time" >"$part" \
    && chmod 644 "$part" && mv -f "$part" "$cookie"; } 2>/dev/null; then
    [ -z "$part" ] || rm -f "$part" 2>/dev/null
    echo "pkgset-notify: $cookie can't be written." >&2
fi
exit 0
