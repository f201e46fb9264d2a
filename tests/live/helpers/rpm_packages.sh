#!/bin/bash
# Run in a root of its own: real rpm, dnf and zypper, with a repository of small packages in /srv/rpms, and one of low
# priority in /srv/low that is not enabled.
set -e
. /tmp/rpm_managers.sh
mkdir /srv/low
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
    make sb-kernel $version
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
# of which several versions may be there, as of a kernel
test -s /etc/dnf/dnf.conf || { mkdir -p /etc/dnf; echo '[main]' > /etc/dnf/dnf.conf; }
echo installonlypkgs=sb-kernel >> /etc/dnf/dnf.conf
test -e /etc/zypp/zypp.conf || echo '[main]' > /etc/zypp/zypp.conf
echo 'multiversion = sb-kernel' >> /etc/zypp/zypp.conf
repository sb 'The packages' /srv/rpms 'enabled=1\nmetadata_expire=1'
repository low 'Low priority' /srv/low 'enabled=0\npriority=150'
zypper --non-interactive refresh
