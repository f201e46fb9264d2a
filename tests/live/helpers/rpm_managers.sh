# To be read by a shell in a root of its own: real rpm, dnf and zypper with one database and the same repositories, and what
# makes packages for them.
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends rpm dnf zypper createrepo-c
mkdir -p /etc/dnf/vars /etc/dnf/plugins /etc/rpm /etc/yum.repos.d /etc/zypp/repos.d /srv/rpms
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

# name, version, epoch, requires, where, script before
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

# id, name, folder, and further lines of its configuration
repository() {
    createrepo_c -q "$3"
    printf '[%s]\nname=%s\nbaseurl=file://%s\ngpgcheck=0\n%b\n' "$1" "$2" "$3" "${4:-enabled=1}" |
        tee "/etc/yum.repos.d/$1.repo" > "/etc/zypp/repos.d/$1.repo"
}
