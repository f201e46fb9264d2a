#!/bin/bash
# Run in a root of its own: real rpm, dnf and zypper, with a repository of small packages in /srv/rpms, and one of low
# priority in /srv/low that is not enabled.
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends rpm dnf zypper createrepo-c
mkdir -p /etc/dnf/vars /etc/dnf/plugins /etc/rpm /etc/yum.repos.d /etc/zypp/repos.d /srv/rpms /srv/low
# dnf-plugins-core "Breaks" zypper in Debian: only versionlock is taken out of it
cd /tmp
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

# name, version, epoch, requires, where
make() {
    {
        printf '%s\n' "Name: $1" "Version: $2" 'Release: 1' 'Summary: t' 'License: MIT' 'BuildArch: noarch'
        [ -z "$3" ] || echo "Epoch: $3"
        [ -z "$4" ] || echo "Requires: $4"
        [ -z "$6" ] || printf '%s\n' '%pre' "$6"
        printf '%s\n' '%description' t '%files'
    } > "/tmp/$1.spec"
    rpmbuild -bb --quiet --define "_rpmdir ${5:-/srv/rpms}" --define '_topdir /tmp/rpmbuild' "/tmp/$1.spec" 2> /dev/null
}
for version in 1.0 1.2 1.10 2.0~rc1 2.0; do make sb-tool $version; done
make sb-epoch 0.9
make sb-epoch 0.5 1
make sb-caret 1.0
make sb-caret '1.0^git1'
for version in 1.0 2.0; do
    make sb-lib $version
    make sb-app $version '' "sb-lib = $version"
    make sb-unwanted $version
    make sb-core $version
    # each needs the next one in its own version
    for number in $(seq 10 38); do make sb-c$number $version '' "sb-c$((number + 1)) = $version"; done
    make sb-c39 $version
done
make sb-puller 1.0 '' sb-unwanted
make sb-bad 1.0 '' '' '' 'exit 1'
make sb-lost 1.0 '' sb-nowhere
make sb-a-package-with-a-name-that-is-too-long-for-a-column-of-the-table 1.0 '' 'sb-lib = 1.0'
for number in $(seq 10 39); do make sb-n$number 1.0; done
make sb-tool 3.0 '' '' /srv/low
createrepo_c -q /srv/rpms
createrepo_c -q /srv/low
printf '[sb]\nname=The packages\nbaseurl=file:///srv/rpms\ngpgcheck=0\nenabled=1\nmetadata_expire=1\n' |
    tee /etc/yum.repos.d/sb.repo > /etc/zypp/repos.d/sb.repo
printf '[low]\nname=Low priority\nbaseurl=file:///srv/low\ngpgcheck=0\nenabled=0\npriority=150\n' |
    tee /etc/yum.repos.d/low.repo > /etc/zypp/repos.d/low.repo
zypper --non-interactive refresh
