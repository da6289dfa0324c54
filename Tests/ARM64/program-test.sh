#!/bin/sh
# The whole program for arm64 under qemu beside this machine's binary: program-test.sh SDK_FOLDER BINARY
#
# The demo's log probabilities have the same bits from the portable kernels of both, in exact mode; from those of AVX2 and
# NEON, in both modes; and from every level of arm64.
set -eu
folder=$(cd "$1" && pwd)
binary=$2
MLXSERVE_ARCH=arm64 "${SWIFT:-swift}" build -c release --swift-sdks-path "$folder/sdks" --swift-sdk debian-arm64 \
  --static-swift-stdlib --scratch-path "$folder/build" --product mlxserve
exec python3 "$(dirname "$0")/program_test.py" "$folder/root" "$folder/build/release/mlxserve" "$binary"
