// Prefetching cache lines before they are needed: a row of products waits for memory less than half as long.
//
// The intrinsic is a macro, which Swift does not import, and the compiler removes calls of the function that wraps
// it elsewhere; LLVM's own name is left. A prefetch of an address that is not mapped does nothing, so the end of a
// tensor needs no care.

/// `(address, 0: read, 0 ... 3: locality, 1: data)`, all but the first constant (LLVM Language Reference,
/// "llvm.prefetch").
@_silgen_name("llvm.prefetch.p0")
private func llvmPrefetch(_ address: UnsafeRawPointer, _ kind: Int32, _ locality: Int32, _ cache: Int32)

/// Brings the 64-byte line at `address` into the first-level cache.
@inline(__always)
func prefetch(_ address: UnsafeRawPointer) {
  // The thread sanitizer makes calls that unwind of all calls, which LLVM does not allow for an intrinsic.
  #if !THREAD_SANITIZER
    llvmPrefetch(address, 0, 3, 1)
  #endif
}

/// Brings the 64-byte line at `address` into the second-level cache.
@inline(__always)
func prefetchFar(_ address: UnsafeRawPointer) {
  #if !THREAD_SANITIZER
    llvmPrefetch(address, 0, 2, 1)
  #endif
}
