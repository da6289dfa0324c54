#!/bin/sh
# The kernels of arm64 against their scalar twins without arm64: an Embedded Swift object and a C program under qemu.
#
# kernel-test.sh [FOLDER]: what is built stays in FOLDER (.build/arm64-kernels). Needs qemu-aarch64-static and
# aarch64-linux-gnu-gcc (Debian: qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross), else it is skipped.
set -eu
swift=${SWIFT:-swift}
for tool in qemu-aarch64-static aarch64-linux-gnu-gcc; do
  command -v $tool >/dev/null 2>&1 || { echo "SKIPPED: there is no $tool, so the kernels of arm64 were not run."; exit 0; }
done
here=$(cd "$(dirname "$0")" && pwd)
sources=$(cd "$here/../../Sources" && pwd)
out=${1:-.build/arm64-kernels}
rm -rf "$out" && mkdir -p "$out" && cd "$out"

# Intrinsics need C headers; a C library's are enough, whatever its system.
embedded="-target aarch64-none-none-elf -enable-experimental-feature Embedded -wmo -parse-as-library -swift-version 6
  -package-name mlxserve -Xcc -I/usr/aarch64-linux-gnu/include -Xcc -ffreestanding -Xcc -fPIC -I .
  -enable-upcoming-feature InternalImportsByDefault -enable-upcoming-feature MemberImportVisibility"
# module NAME FLAGS AND FILES...
module() {
  name=$1; shift
  ${swift}c $embedded -module-name "$name" -emit-module -emit-module-path "$name.swiftmodule" -o "$name.o" -c "$@"
}
kernels() {
  module "$1" -Ounchecked -Xllvm -sil-disable-pass=function-signature-opts -Xcc "-march=$2" "$sources/$1"/*.swift
}
module KernelTypes -O "$sources"/KernelTypes/*.swift
module Platform -O "$here/Platform.swift"
kernels KernelsNEON armv8-a
kernels KernelsDotprod armv8.2-a+dotprod
kernels KernelsI8MM armv8.2-a+dotprod+i8mm
# An embedded module offers all of its bodies to others, so what calls all levels is compiled for the highest.
module Compute -O -Xcc -march=armv8.2-a+dotprod+i8mm \
  "$sources"/Compute/Kernels/*.swift "$sources/Compute/Runtime/ISA.swift" "$here/KernelCases.swift"

# The linker and the tools of the Swift toolchain: those of the system may not know these objects.
tools=$(dirname "$(readlink -f "$(command -v ${swift}c)")")
for wrong in "KernelsNEON sdot|smmla" "KernelsDotprod smmla"; do
  set -- $wrong
  if "$tools/llvm-objdump" -d --no-show-raw-insn --mattr=+dotprod,+i8mm "$1.o" | grep -qE "\b($2)\b"; then
    echo "$1 has instructions of a higher level: $2"; exit 1
  fi
done
aarch64-linux-gnu-gcc -static -O1 -fuse-ld=lld -B"$tools" "$here/main.c" ./*.o \
  "$tools/../lib/swift/embedded/aarch64-none-none-elf/libswiftUnicodeDataTables.a" -lm -o cases
for cpu in max neoverse-n1; do
  printf '%s: ' "$cpu"
  qemu-aarch64-static -cpu "$cpu" ./cases
done
