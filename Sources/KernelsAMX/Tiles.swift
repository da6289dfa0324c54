// The matrix registers of AMX: eight tiles of up to sixteen rows of 64 bytes, and the product of two of them.
//
// Clang has the instructions as macros, which Swift does not import. LLVM has them as intrinsics. Those that take an address are
// declared by LLVM's names, as prefetches are. Those that take tiles alone come from the module Builtin, which marks the numbers
// of tiles as the constants that they have to be (docs/decisions/030).
//
// Which tile is which is fixed here, because the number is a part of the instruction: 0 has sums, 4 rows of x, 6 weights.

import Builtin
import _Builtin_intrinsics.intel

@_silgen_name("llvm.x86.ldtilecfg")
private func llvmConfigure(_ shapes: UnsafeRawPointer)

@_silgen_name("llvm.x86.tileloadd64")
private func llvmLoad(_ tile: UInt8, _ rows: UnsafeRawPointer, _ stride: Int)

@_silgen_name("llvm.x86.tilestored64")
private func llvmStore(_ tile: UInt8, _ rows: UnsafeMutableRawPointer, _ stride: Int)

/// Gives this thread tiles for sixteen rows of x in blocks of `block` (16, 32 or 64) elements. `shapes` has room for 64 bytes.
@inline(__always)
func configureTiles(_ block: Int, in shapes: UnsafeMutableRawPointer) {
  _mm512_storeu_si512(shapes, _mm512_setzero_si512())
  // Palette 1: all that there is today.
  shapes.storeBytes(of: 1, as: UInt8.self)
  func shape(_ tile: Int, rows: Int, bytes: Int) {
    shapes.storeBytes(of: UInt16(truncatingIfNeeded: bytes), toByteOffset: 16 + 2 * tile, as: UInt16.self)
    shapes.storeBytes(of: UInt8(truncatingIfNeeded: rows), toByteOffset: 48 + tile, as: UInt8.self)
  }
  shape(0, rows: 16, bytes: 64)
  shape(4, rows: 16, bytes: block)
  // Four elements of each of sixteen outputs are a row.
  shape(6, rows: block / 4, bytes: 64)
  // The thread sanitizer makes calls that unwind of all calls, which LLVM does not allow for an intrinsic; there are no tiles
  // then (`TileRegisters`).
  #if !THREAD_SANITIZER
    llvmConfigure(shapes)
  #endif
}

/// Without this, every switch between threads would save eight kilobytes.
@inline(__always)
func releaseTiles() { Builtin.int_x86_tilerelease() }

/// Into `sums`, sixteen rows of sixteen: the products of sixteen rows of x, signed bytes, with a block of unsigned weights, as
/// long as the tiles were configured for.
@inline(__always)
func multiplyTiles(
  _ x: UnsafeRawPointer, _ stride: Int, _ weights: UnsafeRawPointer, _ block: Int,
  into sums: UnsafeMutableRawPointer
) {
  #if !THREAD_SANITIZER
    let (zero, four, six): (UInt8, UInt8, UInt8) = (0, 4, 6)
    Builtin.int_x86_tilezero(zero._value)
    llvmLoad(4, x, stride)
    llvmLoad(6, weights, 64)
    Builtin.int_x86_tdpbsud(zero._value, four._value, six._value)
    llvmStore(0, sums, 64)
  #endif
}
