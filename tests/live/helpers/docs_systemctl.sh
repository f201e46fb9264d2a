#!/bin/sh
# What `systemctl` does for the reader of a page, on a machine without systemd. As there, nothing waits for a master that
# answers or for minions that are back: the pages have to say where their reader waits.
set -e
command=$1
[ "$command" != --version ] || { printf 'systemd 252 (252)\n+PAM +AUDIT\n'; exit 0; }
shift
[ "$1" != --now ] || { now=yes; shift; }

pid() { cat "/run/$1.pid" 2> /dev/null || cat "/var/run/$1.pid" 2> /dev/null || true; }

stop() {
    case $1 in
    # 2: it was stopped already
    postgresql) pg_ctlcluster "$(pg_lsclusters -h | cut -d' ' -f1)" main stop -m fast 2> /dev/null || [ $? = 2 ] ;;
    *)
        found=$(pid "$1")
        [ -n "$found" ] || return 0
        kill "$found" 2> /dev/null || return 0
        for _ in $(seq 300); do kill -0 "$found" 2> /dev/null || return 0; sleep 0.1; done
        kill -9 "$found"
        ;;
    esac
}

start() {
    case $1 in
    # 2: it runs already
    postgresql) pg_ctlcluster "$(pg_lsclusters -h | cut -d' ' -f1)" main start 2> /dev/null || [ $? = 2 ] ;;
    salt-master | salt-minion) "$1" --daemon ;;
    *) echo "Failed to start $1.service: Unit $1.service not found." >&2; return 5 ;;
    esac
}

for unit do
    unit=${unit%.service}
    case $command in
    start) start "$unit" ;;
    stop) stop "$unit" ;;
    restart) stop "$unit"; start "$unit" ;;
    enable) [ -z "$now" ] || start "$unit" ;;
    disable) [ -z "$now" ] || stop "$unit" ;;
    is-active) found=$(pid "$unit"); [ -n "$found" ] && kill -0 "$found" && echo active || { echo inactive; exit 3; } ;;
    daemon-reload) ;;
    *) echo "systemctl of the test does not know $command" >&2; exit 1 ;;
    esac
done
