#!/bin/sh
# What `systemctl` does for the reader of a page, on a machine without systemd. A unit that has started answers, as with
# systemd's notify, and minions get the time to come back that a person needs to type on.
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
    salt-master)
        salt-master --daemon
        accepted=$(ls /etc/salt/pki/master/minions 2> /dev/null | wc -l)
        for _ in $(seq 60); do
            up=$(salt-run --log-level=quiet --out=json manage.up timeout=3 2> /dev/null | grep -c '"' || true)
            [ "$up" -lt "$accepted" ] || return 0
            sleep 1
        done
        echo "salt-master: only $up of $accepted minions answer" >&2
        return 1
        ;;
    salt-minion)
        salt-minion --daemon
        name=$(cat /etc/salt/minion_id 2> /dev/null || sed -n 's/^id: *//p' /etc/salt/minion)
        # its key is the reader's to accept
        [ -e "/etc/salt/pki/master/minions/$name" ] || return 0
        for _ in $(seq 60); do
            ! salt --log-level=quiet --out=json --static "$name" test.ping --timeout=3 2> /dev/null | grep -q true || return 0
            sleep 1
        done
        echo "salt-minion: the master has no answer of $name" >&2
        return 1
        ;;
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
