#!/bin/bash
# saltext-package-states; a commit plugin of libzypp, so of zypper, YaST and PackageKit.
#
# libzypp writes frames to standard input: a line with a command, lines with headers, an
# empty line, a body, and a zero byte. It wants a frame as the answer to each.
answer() {
    printf '%s\n\n\0' "$1"
}

while IFS= read -r -d '' frame; do
    while [[ $frame == $'\n'* ]]; do frame=${frame#$'\n'}; done
    case ${frame%%$'\n'*} in
        PLUGINBEGIN | COMMITEND)
            answer ACK
            ;;
        COMMITBEGIN)
            # one that fails has an end of the plugin, but none of the commit
            began=1
            answer ACK
            ;;
        PLUGINEND)
            [[ -z ${began-} ]] || "${PKGSET_NOTIFY:-/usr/bin/pkgset-notify}" rpm >&2
            answer ACK
            ;;
        _DISCONNECT)
            answer _DISCONNECTED
            exit 0
            ;;
        *)
            answer _ENOMETHOD
            ;;
    esac
done
