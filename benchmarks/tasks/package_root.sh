#!/bin/sh
# Run in mount and process namespaces of its own: an overlay of this machine below $1 in which the package manager $2
# has a repository of small packages; then the command that follows runs there. Nothing of it stays. FOLDERS has those of
# other file systems that it needs.
set -e
if [ "$1" != / ]; then
    top=$1
    mount -t tmpfs -o size=2g tmpfs "$top"
    mkdir "$top/upper" "$top/work" "$top/root"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root"
    cp "$0" "$top/root/usr/local/sbin/package-root"
    cd "$top/root"
    mount -t proc proc proc
    mount --rbind /sys sys
    mount --rbind /dev dev
    for folder in $FOLDERS; do
        mkdir -p ".$folder"
        mount --bind "$folder" ".$folder"
    done
    printf '#!/bin/sh\nexit 101\n' > usr/sbin/policy-rc.d
    chmod 755 usr/sbin/policy-rc.d
    rm -rf etc/salt var/cache/salt
    shift
    exec chroot . sh /usr/local/sbin/package-root / "$@"
fi
shift
manager=$1
shift
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
{
    if [ "$manager" = apt ]; then
        mkdir -p /srv/debs
        for number in $(seq 10 39); do
            mkdir -p "/tmp/pb-n$number/DEBIAN"
            printf '%s\n' "Package: pb-n$number" 'Version: 1.0' 'Architecture: all' 'Maintainer: Saltbed <x@saltbed.example>' \
                'Description: a package of the benchmarks' > "/tmp/pb-n$number/DEBIAN/control"
            dpkg-deb --root-owner-group -Znone --build "/tmp/pb-n$number" /srv/debs
        done
        (cd /srv/debs && dpkg-scanpackages . > Packages)
        rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/preferences.d/* /var/lib/apt/lists/*
        echo 'deb [trusted=yes] file:/srv/debs ./' > /etc/apt/sources.list
        echo 'APT::Sandbox::User "root";' > /etc/apt/apt.conf.d/benchmark
        apt-get -qq update
    else
        apt-get -qq update
        apt-get -qq install -y --no-install-recommends rpm dnf zypper createrepo-c
        mkdir -p /etc/dnf/vars /etc/dnf/plugins /etc/rpm /etc/yum.repos.d /etc/zypp/repos.d /srv/rpms
        cd /tmp
        # it "Breaks" zypper in Debian: only versionlock is taken out of it
        apt-get -qq download dnf-plugins-core
        dpkg -x dnf-plugins-core_*.deb dpc
        place=/usr/lib/python3/dist-packages
        mkdir -p $place/dnf-plugins
        cp dpc$place/dnf-plugins/versionlock.py $place/dnf-plugins/
        cp -r dpc$place/dnfpluginscore $place/
        cp dpc/etc/dnf/plugins/versionlock.* /etc/dnf/plugins/
        echo 9 > /etc/dnf/vars/releasever
        # Debian's own is in the home folder
        echo '%_dbpath /var/lib/rpm' > /etc/rpm/macros.dbpath
        rpm --initdb
        for number in $(seq 10 39); do
            printf '%s\n' "Name: pb-n$number" 'Version: 1.0' 'Release: 1' 'Summary: t' 'License: MIT' 'BuildArch: noarch' \
                '%description' t '%files' > "/tmp/pb-n$number.spec"
            rpmbuild -bb --quiet --define '_rpmdir /srv/rpms' --define '_topdir /tmp/rpmbuild' "/tmp/pb-n$number.spec"
        done
        createrepo_c -q /srv/rpms
        printf '[pb]\nname=pb\nbaseurl=file:///srv/rpms\ngpgcheck=0\nenabled=1\n' |
            tee /etc/yum.repos.d/pb.repo > /etc/zypp/repos.d/pb.repo
        zypper --non-interactive refresh
    fi
} >&2
cd "$PROJECT"
exec "$@"
