#!/usr/bin/env bash
# Installs the Debian packages of packages.txt that are missing. Does nothing, quickly, when all are there.
#   tests/setup.sh [NAME…]    names: only these instead of the whole list
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [ $# -gt 0 ]; then wanted=("$@"); else mapfile -t wanted < <(grep -v '^\s*\(#\|$\)' "$here/packages.txt"); fi

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not Debian; the tools and libraries of $here/packages.txt must be there already" >&2
  exit 0
fi
installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' | sed -n 's/ installed$//p')
missing=()
for package in "${wanted[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: missing packages, and neither root nor sudo to install them: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
