#!/bin/bash
# What the Makefile needs of the machine: Python 3.11 or later with venv, Java 17 or later for the Spark tests, Maven for
# those of Kafka, mkfs.xfs for the power-cut test, gpsd for the tests of location, dbus-daemon and python3-dbusmock for those of
# Bluetooth, mosquitto and nats-server for `make bench` to measure the broker beside, mosquitto, its clients, ActiveMQ
# and libcoap's client for the tests of the gateway's adapters, PostgreSQL for those of traffic control, Node.js with npm
# to build its page and Chromium for the test of it.
# As root on Debian what is missing is installed; else it is named with the command that installs it. The last line
# on stdout, and the only one, is the Python to use; everything said to people goes to stderr.
set -euo pipefail

say() { printf 'setup: %s\n' "$*" >&2; }

good_python() { # ensurepip is what Debian cuts out of Python; without it a venv has no pip
    command -v "$1" >/dev/null && "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11; do
        if good_python "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

java_major() { # 17 of: openjdk version "17.0.15" 2025-04-15; 0 without Java
    local java=${JAVA_HOME:+$JAVA_HOME/bin/}java version
    version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1) || true
    echo "${version:-0}"
}

can_install() { [ "$(id -u)" = 0 ] && [ -e /etc/debian_version ] && command -v apt-get >/dev/null; }

install() {
    say "installing $*"
    # Without lists, or with lists that name packages long replaced, the first attempt fails: then they are fetched.
    export DEBIAN_FRONTEND=noninteractive
    local apt=(apt-get -o DPkg::Lock::Timeout=300)
    local command=("${apt[@]}" install -y --no-install-recommends "$@")
    if ! "${command[@]}" >/dev/null 2>&1; then
        "${apt[@]}" update >&2 || true
        "${command[@]}" >&2
    fi
}

debian_packages=(python3 python3-venv)
if ! python=$(find_python); then
    if can_install; then
        install "${debian_packages[@]}" || true
    fi
    if ! python=$(find_python); then
        say "Python 3.11 or later with venv is missing. Install it (Debian, as root):"
        say "    apt-get install -y --no-install-recommends ${debian_packages[*]}"
        say "or name another: make PYTHON=/path/to/python3 ..."
        exit 1
    fi
fi

if [ "$(java_major)" -lt 17 ]; then
    if can_install; then
        install default-jre-headless || true
    fi
    if [ "$(java_major)" -lt 17 ]; then
        say "************************************************************************************************"
        say "Java 17 or later is missing: the tests that need Spark will be skipped. Install it (Debian, as root):"
        say "    apt-get install -y --no-install-recommends default-jre-headless"
        say "************************************************************************************************"
    fi
fi

# The tests of Kafka get Kafka itself, and Spark's connector to it, from Maven Central; without its client they are skipped
# and say so.
if ! command -v mvn >/dev/null && can_install; then
    install maven || true
fi

# The power-cut test of the event log snapshots an XFS; elsewhere it is skipped and says so.
if ! command -v mkfs.xfs >/dev/null && can_install; then
    install xfsprogs || true
fi

# The tests of the Pi's Bluetooth run against a private D-Bus with a mock of bluetoothd, which runs in Debian's own Python
# as its libraries are there; elsewhere they are skipped and say so.
if { ! command -v dbus-daemon || ! /usr/bin/python3 -c 'import dbusmock, gi'; } >/dev/null 2>&1 && can_install; then
    install dbus python3-dbusmock python3-gi || true
fi

# Without them `make bench` leaves out what it measures beside them, and says so. It starts its own: as services of this
# machine, which Debian makes of them, nobody has asked for them.
peers=()
for peer in mosquitto nats-server; do
    [ -n "$(PATH=$PATH:/usr/sbin command -v "$peer")" ] || peers+=("$peer")
done
if [ ${#peers[@]} -gt 0 ] && can_install && install "${peers[@]}" && command -v systemctl >/dev/null; then
    systemctl disable --now "${peers[@]}" >/dev/null 2>&1 || true
fi

# The adapters to MQTT and JMS are tested against the real servers, and mosquitto's own clients; elsewhere they are
# skipped and say so. ActiveMQ comes with a service that nobody has asked for.
if ! command -v mosquitto_pub >/dev/null && can_install; then
    install mosquitto-clients || true
fi
if [ ! -e /usr/share/activemq/bin/activemq.jar ] && can_install; then
    if install activemq && command -v systemctl >/dev/null; then
        systemctl disable --now activemq >/dev/null 2>&1 || true
    fi
fi

# The tests of the gateway give it a clock that jumps; without libfaketime they are skipped and say so.
if ! ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 && can_install; then
    install libfaketime || true
fi

# The tests of location feed a real gpsd with gpsfake (of gpsd-clients); without them they are skipped and say so. This
# service, too, nobody has asked for.
if { [ -z "$(PATH=$PATH:/usr/sbin command -v gpsd)" ] || ! command -v gpsfake >/dev/null; } && can_install; then
    if install gpsd gpsd-tools gpsd-clients && command -v systemctl >/dev/null; then
        systemctl disable --now gpsd.socket gpsd.service >/dev/null 2>&1 || true
    fi
fi

# Traffic control is tested on a real PostgreSQL too; without it those tests are skipped and say so. Debian's own cluster
# and its service nobody has asked for.
if ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && can_install; then
    if install postgresql-common; then
        sed -i 's/^#* *create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf || true
        install postgresql || true
    fi
fi

# The tests of CoAP talk to libcoap's client; without it they are skipped and say so.
if ! command -v coap-client-notls >/dev/null && can_install; then
    install libcoap3-bin || true
fi

# The page of traffic control is built from npm's packages, and tested in a real browser; without them it says how to
# build it, and the test is skipped and says so.
if { ! command -v node || ! command -v npm; } >/dev/null 2>&1 && can_install; then
    install nodejs npm || true
fi
if ! command -v chromium >/dev/null && can_install; then
    install chromium || true
fi

echo "$python"
