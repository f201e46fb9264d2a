#!/bin/bash
# Run in namespaces of its own: an overlay of this machine below $1, with real rpm, dnf and zypper and a repository of
# small packages, in which the script $2 runs; $3 is `rpm_managers.sh`. Nothing of it stays.
set -e
if [ -n "$1" ]; then
    top=$1
    mount -t tmpfs -o size=2g tmpfs "$top"
    mkdir "$top/upper" "$top/work" "$top/root"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root"
    cp "$0" "$top/root/tmp/rpm_root.sh"
    cp "$2" "$top/root/tmp/script.sh"
    cp "$3" "$top/root/tmp/rpm_managers.sh"
    cd "$top/root"
    mount -t proc proc proc
    mount --rbind /sys sys
    mount --rbind /dev dev
    printf '#!/bin/sh\nexit 101\n' > usr/sbin/policy-rc.d
    chmod 755 usr/sbin/policy-rc.d
    exec chroot . bash /tmp/rpm_root.sh
fi

{
    . /tmp/rpm_managers.sh
    for name in sb-one sb-two sb-three; do make $name 1.0; done
    repository sb sb /srv/rpms
} >&2
rm -rf /var/cache/salt
. /tmp/script.sh
