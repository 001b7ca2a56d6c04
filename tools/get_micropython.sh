#!/bin/bash
# The real MicroPython, 32-bit as on an ESP32, with a hard heap limit: the i386 package of Debian 13, unpacked into
# .tools/micropython and run through its own loader. Nothing is installed, and no root is needed. The packages come
# from where this machine's own Debian packages come from, through apt, which checks their signatures.
#
#     tools/get_micropython.sh            then: .tools/micropython/micropython -X heapsize=96k main.py
#
# DEBIAN_URI names another source than apt's own (on a system that is not Debian: an archive or mirror of Debian).
set -euo pipefail
cd "$(dirname "$0")/.."

goal=.tools/micropython
suite=trixie
arch=i386
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
packages=(micropython libc6 libffi8 libmbedcrypto16 libmbedtls21 libmbedx509-7 libatomic1)

give_up() {
    echo "get_micropython: no MicroPython: $1" >&2
    exit 1
}

# One line of output proves the loader, the libraries and the kernel's 32-bit side at once.
works() {
    local said
    said=$("$1/micropython" -c 'import sys; print(sys.implementation.name, sys.maxsize)' 2>/dev/null) || true
    [ "$said" = "micropython 2147483647" ]
}

debian_uri() {
    if [ -n "${DEBIAN_URI:-}" ]; then
        echo "$DEBIAN_URI"
        return
    fi
    local uri
    # shellcheck disable=SC2016  # apt's own placeholders
    uri=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 2>/dev/null |
        awk '$1 == "Debian" && $2 == "Debian" { print $3; exit }') || true
    if [ -z "$uri" ]; then # apt has no lists yet: read what it would read, skipping security and other vendors
        uri=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
            sed -n -e 's/^deb \(\[[^]]*\] *\)\{0,1\}\([^ ]*\).*/\2/p' -e 's/^URIs: *\([^ ]*\).*/\1/p' |
            grep -E '/debian/?$' | head -n 1) || true
    fi
    echo "$uri"
}

if works "$goal"; then
    exit 0
fi
for tool in apt-get dpkg-deb; do
    command -v "$tool" >/dev/null || give_up "$tool is not there; put a 32-bit interpreter at $goal/micropython yourself"
done
[ -e "$keyring" ] || give_up "$keyring is not there (as root: apt-get install debian-archive-keyring)"
uri=$(debian_uri)
[ -n "$uri" ] || give_up "apt has no Debian source; name one: DEBIAN_URI=<mirror of Debian> tools/get_micropython.sh"

# Beside the goal, so that the last step is one rename and an interrupted run leaves nothing half done.
mkdir -p .tools
work=$(mktemp -d "$PWD/.tools/micropython.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/apt/{lists,cache}/partial "$work/root"
: >"$work/apt/status"
echo "deb [arch=$arch signed-by=$keyring] $uri $suite main" >"$work/apt/sources.list"

apt() {
    local options=(
        Dir::Etc::sourcelist="$work/apt/sources.list"
        Dir::Etc::sourceparts=/dev/null
        Dir::Etc::preferences=/dev/null
        Dir::Etc::preferencesparts=/dev/null
        Dir::State="$work/apt"
        Dir::State::lists="$work/apt/lists"
        Dir::State::status="$work/apt/status"
        Dir::Cache="$work/apt/cache"
        APT::Architecture="$arch"
        APT::Architectures="$arch"
        APT::Sandbox::User=
        APT::Update::Error-Mode=any
        Acquire::Languages=none
        Acquire::Retries=3
        Debug::NoLocking=1
    )
    (cd "$work/root" && apt-get -qq "${options[@]/#/-o}" "$@" >"$work/apt/log" 2>&1)
}

for step in update "download ${packages[*]}"; do
    # shellcheck disable=SC2086  # the packages are words
    apt $step || {
        why=$(grep -m 1 '^[EW]:' "$work/apt/log" || tail -n 1 "$work/apt/log")
        give_up "apt-get ${step%% *} failed ($why); with a network, run tools/get_micropython.sh again"
    }
done
for package in "$work"/root/*.deb; do
    dpkg-deb -x "$package" "$work/root"
    rm "$package"
done

cat >"$work/root/micropython" <<'END'
#!/bin/sh
# Written by tools/get_micropython.sh. The package's own loader, because this system may have no 32-bit one.
here=$(dirname "$(readlink -f "$0")")
libraries=$here/usr/lib/i386-linux-gnu
exec "$libraries/ld-linux.so.2" --library-path "$libraries" "$here/usr/bin/micropython" "$@"
END
chmod +x "$work/root/micropython"
works "$work/root" || give_up "$arch programs do not run on this $(uname -m) kernel; run the tests on an x86 machine"

rm -rf "$goal"
mv -T "$work/root" "$goal" 2>/dev/null || works "$goal" || give_up "cannot write $goal"
echo "get_micropython: $("$goal/micropython" -c 'import sys; print("MicroPython", sys.version)') in $goal" >&2
