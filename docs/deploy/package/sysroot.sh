#!/bin/sh
# The C library of an older Debian for x86-64, which releases are linked with: sysroot.sh FOLDER. For Debian.
#
# A binary asks for the versions of functions that were the newest where it was linked: with those of Debian 11 it also runs
# on systems from 2020 on. Nothing is installed.
set -eu
folder=$(mkdir -p "${1:?a folder for the libraries}" && cd "$1" && pwd)
suite=${SUITE:-bullseye}
gcc=${GCC:-10}

mkdir -p "$folder/apt/state/lists/partial" "$folder/apt/cache/archives/partial" "$folder/debs"
: >"$folder/apt/status"
# The mirror that this machine uses.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ')
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [arch=amd64 signed-by=$keys check-valid-until=no] $mirror $suite main" >"$folder/apt/sources.list"
cat >"$folder/apt/apt.conf" <<X
Dir::State "$folder/apt/state"; Dir::State::status "$folder/apt/status"; Dir::Cache "$folder/apt/cache";
Dir::Etc::sourcelist "$folder/apt/sources.list"; Dir::Etc::sourceparts "-";
APT::Architecture "amd64"; APT::Architectures "amd64"; APT::Sandbox::User "root";
X
export APT_CONFIG="$folder/apt/apt.conf"
apt-get update -qq
(cd "$folder/debs" && apt-get download -qq libc6 libc6-dev libgcc-s1 "libgcc-$gcc-dev" libstdc++6 "libstdc++-$gcc-dev")

# What was there is replaced only by something whole.
new=$(mktemp -d "$folder/new.XXXXXX")
for package in "$folder"/debs/*.deb; do dpkg-deb -x "$package" "$new"; done
# Links that begin at the root would lead to this machine's own libraries.
find "$new" -type l -lname '/*' | while read -r link; do
  ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$new$(readlink "$link")")" "$link"
done
rm -rf "${folder:?}/root"
mv "$new" "$folder/root"
