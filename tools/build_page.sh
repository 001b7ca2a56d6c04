#!/bin/bash
# The live page of traffic control: cloud/page and the libraries of its lock file, put into the package
# (cloud/vicinal_cloud/traffic/static), where it is served from. Does nothing where nothing has changed.
set -euo pipefail
cd "$(dirname "$0")/../cloud/page"

goal=../vicinal_cloud/traffic/static/index.html
fetched=node_modules/.package-lock.json

give_up() {
    echo "build_page: the page is not built: $1" >&2
    exit 1
}

newer() { # whether any of the others is newer than the first, or that is not there
    local goal=$1
    shift
    [ ! -e "$goal" ] || [ -n "$(find "$@" -newer "$goal" -print -quit)" ]
}

newer "$goal" src build.js package-lock.json || exit 0
command -v node >/dev/null || give_up "Node.js is missing. Install it (Debian, as root): apt-get install nodejs npm"
command -v npm >/dev/null || give_up "npm is missing. Install it (Debian, as root): apt-get install npm"
if newer "$fetched" package-lock.json; then
    said=$(npm ci --no-audit --no-fund 2>&1) || give_up "npm ci failed: $(tail -n 1 <<<"$said")"
    touch "$fetched"
fi
node build.js >&2
touch "$goal"
