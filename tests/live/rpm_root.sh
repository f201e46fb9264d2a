#!/bin/bash
# Run in namespaces of its own: an overlay of this machine below $1, with real rpm, dnf and zypper and a repository of
# small packages, in which the script $2 runs. Nothing of it stays.
set -e
if [ -n "$1" ]; then
    top=$1
    mount -t tmpfs -o size=2g tmpfs "$top"
    mkdir "$top/upper" "$top/work" "$top/root"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root"
    cp "$0" "$top/root/tmp/rpm_root.sh"
    cp "$2" "$top/root/tmp/script.sh"
    cd "$top/root"
    mount -t proc proc proc
    mount --rbind /sys sys
    mount --rbind /dev dev
    printf '#!/bin/sh\nexit 101\n' > usr/sbin/policy-rc.d
    chmod 755 usr/sbin/policy-rc.d
    exec chroot . bash /tmp/rpm_root.sh
fi

export DEBIAN_FRONTEND=noninteractive
{
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends rpm dnf zypper createrepo-c
    mkdir -p /etc/dnf/vars /etc/rpm /etc/yum.repos.d /etc/zypp/repos.d /usr/lib/python3/dist-packages/dnf-plugins
    echo 9 > /etc/dnf/vars/releasever
    # Debian's own is in the home folder
    echo '%_dbpath /var/lib/rpm' > /etc/rpm/macros.dbpath
    rpm --initdb
    for name in sb-one sb-two sb-three; do
        printf '%s\n' "Name: $name" 'Version: 1.0' 'Release: 1' 'Summary: t' 'License: MIT' 'BuildArch: noarch' \
            '%description' 't' '%files' > "/tmp/$name.spec"
        rpmbuild -bb --quiet --define '_rpmdir /srv/rpms' --define '_topdir /tmp/rpmbuild' "/tmp/$name.spec"
    done
    createrepo_c -q /srv/rpms
    printf '[sb]\nname=sb\nbaseurl=file:///srv/rpms\ngpgcheck=0\nenabled=1\n' |
        tee /etc/yum.repos.d/sb.repo > /etc/zypp/repos.d/sb.repo
} >&2
rm -rf /var/cache/salt
. /tmp/script.sh
