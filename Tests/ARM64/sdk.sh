#!/bin/sh
# A Swift SDK for arm64 Linux out of Debian's packages, for the toolchain that is here: sdk.sh FOLDER. For Debian, as root.
#
# Debian's `swiftlang` carries the standard library for arm64 with its textual interfaces, from which a newer compiler makes
# its own modules. A private apt sees the packages of the other architecture: only a cross gcc and qemu are installed.
set -eu
folder=$(mkdir -p "$1" && cd "$1" && pwd)
suite=${SUITE:-sid}
swift=$(dirname "$(dirname "$(dirname "$(readlink -f "$(command -v "${SWIFT:-swift}c")")")")")
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross >/dev/null

mkdir -p "$folder/apt/state/lists/partial" "$folder/apt/cache/archives/partial" "$folder/debs" "$folder/root"
: >"$folder/apt/status"
# The mirror that this machine uses.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ')
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [arch=arm64 signed-by=$keys check-valid-until=no] $mirror $suite main" >"$folder/apt/sources.list"
cat >"$folder/apt/apt.conf" <<X
Dir::State "$folder/apt/state"; Dir::State::status "$folder/apt/status"; Dir::Cache "$folder/apt/cache";
Dir::Etc::sourcelist "$folder/apt/sources.list"; Dir::Etc::sourceparts "-";
APT::Architecture "arm64"; APT::Architectures "arm64"; APT::Sandbox::User "root";
X
export APT_CONFIG="$folder/apt/apt.conf"
apt-get update -qq
gcc=$(apt-cache depends libgcc-s1 | sed -n 's/.*gcc-\([0-9]*\)-base.*/\1/p' | head -n 1)
# The newest gcc of the suite may have no libraries yet.
apt-cache show "libstdc++-$gcc-dev" >/dev/null 2>&1 || gcc=$((gcc - 1))
(cd "$folder/debs" && apt-get download -qq swiftlang libswiftlang libc6 libc6-dev libgcc-s1 libstdc++6 \
  "libgcc-$gcc-dev" "libstdc++-$gcc-dev" linux-libc-dev)
unset APT_CONFIG
ln -sfn usr/lib "$folder/root/lib"
# Of the compiler for arm64 only libraries and headers are needed.
for package in "$folder"/debs/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x -C "$folder/root" --no-wildcards-match-slash --anchored \
    --exclude='./usr/libexec/swift/bin' --exclude='./usr/share' --exclude='./usr/libexec/swift/lib/*.so*' \
    --exclude='./usr/libexec/swift/lib/swift/host'
done

library="$folder/root/usr/libexec/swift/lib"
rm -rf "$folder/root/usr/lib/swift" "$folder/root/usr/lib/swift_static"
for kind in swift swift_static; do
  ln -sfn "../libexec/swift/lib/$kind" "$folder/root/usr/lib/$kind"
  rm -rf "$library/$kind/clang"
  ln -sfn "$swift/usr/lib/swift/clang" "$library/$kind/clang"
  # Modules of another compiler's version: those beside them as text are used instead.
  find "$library/$kind/linux" -name '*.swiftmodule' -type f -delete
done

bundle="$folder/sdks/arm64.artifactbundle"
mkdir -p "$bundle/debian"
cat >"$bundle/info.json" <<X
{"schemaVersion":"1.0","artifacts":{"debian-arm64":{"type":"swiftSDK","version":"0.0.1",
 "variants":[{"path":"debian","supportedTriples":["x86_64-unknown-linux-gnu"]}]}}}
X
cat >"$bundle/debian/swift-sdk.json" <<X
{"schemaVersion":"4.0","targetTriples":{"aarch64-unknown-linux-gnu":{"sdkRootPath":"$folder/root",
 "swiftResourcesPath":"$library/swift","swiftStaticResourcesPath":"$library/swift_static","toolsetPaths":["toolset.json"]}}}
X
echo '{"schemaVersion":"1.0","swiftCompiler":{"extraCLIOptions":["-use-ld=lld"]}}' >"$bundle/debian/toolset.json"
"${SWIFT:-swift}" sdk list --swift-sdks-path "$folder/sdks"
