#!/bin/sh
# Makes a release from a commit: release.sh OUT [COMMIT]. `make release` calls it.
#
#   mlxserve-VERSION-TARGET.tar.gz   binary, licence, README, manual page, completions, unit
#   mlxserve_VERSION_ARCH.deb        the same for Debian, where dpkg-deb is
#   mlxserve-VERSION-TARGET.oci/     the file tree of a container image, and Containerfile
#   mlxserve-VERSION.spdx.json       what is in it
#   mlxserve.rb                      a Homebrew formula
#   SHA256SUMS
#
# The same commit and compiler give the same bytes: it builds from `git archive`, in which the commit stands in the
# sources, without paths of this machine, and every time stamp is the commit's.
#
# With ARM64=FOLDER, where `make arm64-sdk` has put an SDK, the archive and the package for arm64 are made as well. With
# SYSROOT=FOLDER, where `make release-sysroot` has put an older C library, binaries for x86-64 are linked with that.
set -eu

out=${1:?a folder for what is made}
commit=$(git rev-parse "${2:-HEAD}^{commit}")
mkdir -p "$out"
out=$(cd "$out" && pwd)
here=$(git rev-parse --show-toplevel)
swift=${SWIFT:-swift}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
git -C "$here" archive "$commit" | tar -x -C "$work"

case $(uname -s) in Linux) system=linux ;; Darwin) system=macos ;; *) echo "no release for $(uname -s)" >&2; exit 1 ;; esac
case $(uname -m) in x86_64) machine=x86_64 ;; aarch64 | arm64) machine=arm64 ;; esac
version=$(sed -n 's/.*static let text = "\(.*\)"/\1/p' "$work/Sources/Platform/System/Version.swift")

# Builds with more flags, if there are any, and says where the binary is. The digests that the compiler keeps for its next
# build are left out: they differ from folder to folder.
build() { # [FLAG...]
  set -- "$@" -c release --product mlxserve --package-path "$work" -Xswiftc -file-prefix-map -Xswiftc "$work=." \
    -Xswiftc -Xfrontend -Xswiftc -disable-incremental-llvm-codegen -debug-info-format none
  [ $system = linux ] && set -- "$@" --static-swift-stdlib -Xlinker -s -Xlinker --build-id=none
  "$swift" build "$@" >&2
  echo "$("$swift" build "$@" --show-bin-path)/mlxserve"
}

if [ -z "${BINARY:-}" ] && [ -n "${SYSROOT:-}" ] && [ $system = linux ] && [ $machine = x86_64 ]; then
  BINARY=$(build -Xswiftc -Xclang-linker -Xswiftc "--sysroot=$(cd "$SYSROOT" && pwd)/root")
fi
host=${BINARY:-$(build)} # BINARY: a build that is there already, for tests of the packaging

# Packs a folder: names in order, one time stamp, nobody's name.
pack() { # FOLDER ARCHIVE
  if tar --version 2>/dev/null | grep -q GNU; then
    tar -C "$1/.." --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar \
      -cf - "$(basename "$1")" | gzip -9n >"$2"
  else
    find "$1" -exec touch -h -t "$(date -r "$SOURCE_DATE_EPOCH" +%Y%m%d%H%M.%S)" {} +
    (cd "$1/.." && find "$(basename "$1")" | sort | tar --uid 0 --gid 0 --format=ustar -n -cf - -T -) | gzip -9n >"$2"
  fi
}

# The archive; what is written of the flags is the same for each machine.
archive() { # BINARY MACHINE
  name=mlxserve-$version-$system-$2
  folder=$work/pack/$name
  mkdir -p "$folder/completions"
  install -m 755 "$1" "$folder/mlxserve"
  install -m 644 "$work/LICENSE" "$work/README.md" "$work/docs/deploy/mlxserve.service" "$folder/"
  "$host" man --no-config >"$folder/mlxserve.1"
  "$host" completions bash --no-config >"$folder/completions/mlxserve.bash"
  "$host" completions zsh --no-config >"$folder/completions/_mlxserve"
  "$host" completions fish --no-config >"$folder/completions/mlxserve.fish"
  pack "$folder" "$out/$name.tar.gz"
}

# Debian, of the folder that was packed last.
package() { # BINARY ARCHITECTURE
  deb=$work/deb-$2
  mkdir -p "$deb/DEBIAN" "$deb/usr/bin" "$deb/usr/lib/systemd/system" "$deb/etc/mlxserve" "$deb/etc/default" \
    "$deb/usr/share/man/man1" "$deb/usr/share/bash-completion/completions" "$deb/usr/share/zsh/vendor-completions" \
    "$deb/usr/share/fish/vendor_completions.d" "$deb/usr/share/doc/mlxserve"
  install -m 755 "$1" "$deb/usr/bin/mlxserve"
  # Flags are in a file that upgrades leave alone; homes are out of reach, and so is their cache of models.
  sed -e '1s,.*,# The unit of the package: flags are in /etc/mlxserve/config; /etc/default/mlxserve has variables.,' \
    -e 's,^ExecStart=.*,ExecStart=/usr/bin/mlxserve serve --state-dir /var/lib/mlxserve --json-log,' \
    -e 's,^StateDirectory=.*,&\nCacheDirectory=mlxserve\nEnvironment=MLXSERVE_CACHE=/var/cache/mlxserve\nEnvironmentFile=-/etc/default/mlxserve,' \
    "$work/docs/deploy/mlxserve.service" >"$deb/usr/lib/systemd/system/mlxserve.service"
  install -m 644 "$work/docs/deploy/package/config" "$deb/etc/mlxserve/config"
  install -m 644 "$work/docs/deploy/package/default" "$deb/etc/default/mlxserve"
  gzip -9nc "$folder/mlxserve.1" >"$deb/usr/share/man/man1/mlxserve.1.gz"
  install -m 644 "$folder/completions/mlxserve.bash" "$deb/usr/share/bash-completion/completions/mlxserve"
  install -m 644 "$folder/completions/_mlxserve" "$deb/usr/share/zsh/vendor-completions/_mlxserve"
  install -m 644 "$folder/completions/mlxserve.fish" "$deb/usr/share/fish/vendor_completions.d/mlxserve.fish"
  install -m 644 "$work/LICENSE" "$deb/usr/share/doc/mlxserve/copyright"
  printf 'mlxserve (%s) unstable; urgency=medium\n\n  * Commit %s.\n\n -- mlxserve <packages@mlxserve.invalid>  %s\n' "$version" "$commit" \
    "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9nc >"$deb/usr/share/doc/mlxserve/changelog.gz"
  glibc=$(grep -ao 'GLIBC_2\.[0-9]*' "$1" | sort -t . -k 2n -u | tail -n 1)
  cat >"$deb/DEBIAN/control" <<CONTROL
Package: mlxserve
Version: $version
Architecture: $2
Maintainer: mlxserve <packages@mlxserve.invalid>
Section: net
Priority: optional
Depends: libc6 (>= ${glibc#GLIBC_}), libstdc++6
Recommends: curl, ca-certificates
Installed-Size: $(du -sk "$deb" | cut -f 1)
Description: inference server for language models, on the CPU
 Serves MLX and Hugging Face language models to clients of OpenAI's and
 Anthropic's APIs. Pulls them from the hub, with curl.
CONTROL
  printf '/etc/mlxserve/config\n/etc/default/mlxserve\n' >"$deb/DEBIAN/conffiles"
  (cd "$deb" && find usr etc -type f | sort | xargs md5sum >DEBIAN/md5sums)
  find "$deb" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zxz --build "$deb" "$out/mlxserve_${version}_$2.deb" >/dev/null
}

if [ -n "${ARM64:-}" ] && [ $machine = x86_64 ]; then
  sdk=$(cd "$ARM64" && pwd)
  export MLXSERVE_ARCH=arm64
  other=$(build --swift-sdks-path "$sdk/sdks" --swift-sdk debian-arm64 --scratch-path "$work/arm64")
  unset MLXSERVE_ARCH
  archive "$other" arm64
  ! command -v dpkg-deb >/dev/null 2>&1 || package "$other" arm64
fi
archive "$host" $machine
case $machine in x86_64) debian=amd64 ;; *) debian=arm64 ;; esac
! command -v dpkg-deb >/dev/null 2>&1 || package "$host" $debian
digest=$(sha256sum "$out/$name.tar.gz" 2>/dev/null || shasum -a 256 "$out/$name.tar.gz")
digest=${digest%% *}

# What is in it.
cat >"$out/mlxserve-$version.spdx.json" <<SPDX
{"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "$name",
 "documentNamespace": "urn:mlxserve:$version:$commit",
 "creationInfo": {"created": "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r "$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)", "creators": ["Tool: release.sh"]},
 "packages": [
  {"SPDXID": "SPDXRef-mlxserve", "name": "mlxserve", "versionInfo": "$version", "sourceInfo": "git commit $commit",
   "downloadLocation": "NOASSERTION", "licenseConcluded": "MIT", "licenseDeclared": "MIT", "copyrightText": "NOASSERTION",
   "checksums": [{"algorithm": "SHA256", "checksumValue": "$digest"}]},
  {"SPDXID": "SPDXRef-swift", "name": "Swift standard library", "downloadLocation": "NOASSERTION",
   "versionInfo": "$("$swift" --version 2>/dev/null | sed -n 's/.*Swift version \([0-9.]*\).*/\1/p' | head -n 1)",
   "licenseConcluded": "Apache-2.0 WITH Swift-exception", "licenseDeclared": "Apache-2.0 WITH Swift-exception",
   "copyrightText": "NOASSERTION"}],
 "relationships": [
  {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-mlxserve"},
  {"spdxElementId": "SPDXRef-mlxserve", "relationshipType": "STATIC_LINK", "relatedSpdxElement": "SPDXRef-swift"}]}
SPDX

# The formula: a tap fills in where the archives are.
sed -e "s/@VERSION@/$version/" -e "s/@NAME@/$name/" -e "s/@SHA256@/$digest/" "$work/docs/deploy/package/mlxserve.rb" >"$out/mlxserve.rb"

# The image: the binary, what it is linked with, an empty home, nobody's account.
if [ $system = linux ]; then
  image=$out/$name.oci
  rm -rf "$image"
  mkdir -p "$image/root/models" "$image/root/tmp" "$image/root/etc" "$image/root/home/mlxserve"
  install -m 755 "$host" "$image/root/mlxserve"
  ldd "$host" | sed -n 's/.* => \(\/[^ ]*\).*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) .*/\1/p' | while read -r library; do
    mkdir -p "$image/root$(dirname "$library")"
    cp -L "$library" "$image/root$library"
  done
  printf 'mlxserve:x:65532:65532::/home/mlxserve:/mlxserve\n' >"$image/root/etc/passwd"
  install -m 644 "$work/docs/deploy/package/Containerfile" "$image/Containerfile"
  find "$image" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
fi

(cd "$out" && { sha256sum ./*.tar.gz ./*.deb ./*.json ./*.rb 2>/dev/null || shasum -a 256 ./*.tar.gz ./*.json ./*.rb; } |
  sed 's, \./, ,' >SHA256SUMS)
cat "$out/SHA256SUMS"
