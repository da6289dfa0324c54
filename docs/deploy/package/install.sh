#!/bin/sh
# Installs mlxserve for one user, without root: install.sh [ARCHIVE or ADDRESS of a folder with releases]
#
# The archive is compared with the SHA256SUMS beside it before anything of it runs. The binary goes to PREFIX/bin, the
# manual page and completions to PREFIX/share; PREFIX is ~/.local unless it is set. `install.sh --remove` takes them away.
set -eu

prefix=${PREFIX:-$HOME/.local}
fail() { echo "install.sh: $*" >&2; exit 1; }

share="man/man1/mlxserve.1 bash-completion/completions/mlxserve zsh/site-functions/_mlxserve fish/vendor_completions.d/mlxserve.fish"
if [ "${1:-}" = --remove ]; then
  rm -f "$prefix/bin/mlxserve"
  for file in $share; do rm -f "$prefix/share/$file"; done
  echo "mlxserve is removed from $prefix; models and settings stay"
  exit 0
fi

case $(uname -s) in Linux) system=linux ;; Darwin) system=macos ;; *) fail "there is no release for $(uname -s)" ;; esac
case $(uname -m) in
  x86_64 | amd64) machine=x86_64 ;; aarch64 | arm64) machine=arm64 ;; *) fail "there is no release for $(uname -m)" ;;
esac
place=${1:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

case $place in
  https://* | http://127.0.0.1* | http://localhost*)
    command -v curl >/dev/null || fail "curl is needed to fetch a release; or download it, and name the file"
    curl -fsSL --proto '=https,http' -o "$work/SHA256SUMS" "$place/SHA256SUMS" || fail "$place has no SHA256SUMS"
    name=$(sed -n "s/.*  \(mlxserve-.*-$system-$machine\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS" | head -n 1)
    [ -n "$name" ] || fail "$place has no archive for $system on $machine"
    curl -fL --proto '=https,http' -o "$work/$name" "$place/$name" || fail "$name cannot be fetched"
    ;;
  http://*) fail "$place: fetch releases over https://" ;;
  *)
    [ -d "$place" ] && place=$(ls "$place"/mlxserve-*-$system-$machine.tar.gz 2>/dev/null | tail -n 1)
    [ -f "$place" ] || fail "name an archive, mlxserve-VERSION-$system-$machine.tar.gz, or the folder that it is in"
    name=$(basename "$place")
    sums=$(dirname "$place")/SHA256SUMS
    [ -f "$sums" ] || fail "$sums is missing: it comes with the archive, and without it nothing is installed"
    cp "$place" "$sums" "$work"
    ;;
esac

cd "$work"
grep "  $name\$" SHA256SUMS >sum || fail "SHA256SUMS does not name $name"
if command -v sha256sum >/dev/null; then sha256sum -c sum >/dev/null; else shasum -a 256 -c sum >/dev/null; fi ||
  fail "$name is damaged, or is not what was released: its SHA-256 differs"
tar -xzf "$name"
cd "${name%.tar.gz}"
./mlxserve --version >/dev/null || fail "the binary does not run on this system"

mkdir -p "$prefix/bin"
# By a new file: the old one may be running.
cp mlxserve "$prefix/bin/.mlxserve.new" && chmod 755 "$prefix/bin/.mlxserve.new"
mv -f "$prefix/bin/.mlxserve.new" "$prefix/bin/mlxserve"
set -- mlxserve.1 completions/mlxserve.bash completions/_mlxserve completions/mlxserve.fish
for file in $share; do
  mkdir -p "$(dirname "$prefix/share/$file")"
  cp "$1" "$prefix/share/$file"
  shift
done

"$prefix/bin/mlxserve" --version | head -n 1
echo "installed: $prefix/bin/mlxserve"
case ":$PATH:" in *":$prefix/bin:"*) ;; *) echo "add $prefix/bin to your PATH to call it as mlxserve" ;; esac
echo "begin with: mlxserve run qwen3:0.6b"
