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
        . "$PROJECT/benchmarks/tasks/rpm_managers.sh"
        for number in $(seq 10 39); do make "pb-n$number" 1.0; done
        repository pb pb /srv/rpms
        zypper --non-interactive refresh
    fi
} >&2
cd "$PROJECT"
exec "$@"
