// The tile registers of AMX, which Linux gives to a process that asks for them.

#if os(Linux) && arch(x86_64)
  /// `syscall(2)` with two arguments: Swift does not import functions of any number, and few C libraries name this call.
  @_silgen_name("syscall")
  private func systemCall(_ number: Int, _ first: Int, _ second: Int) -> Int
#endif

/// Tiles of AMX, as far as this process has them.
package enum TileRegisters {
  /// Asks for them, for all threads of this process; true if it has them.
  ///
  /// They are eight kilobytes a thread, so that Linux keeps them from programs that do not know of them (since 5.16; a
  /// process that is not allowed the call does without).
  package static func request() -> Bool {
    #if os(Linux) && arch(x86_64) && !THREAD_SANITIZER
      // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
      systemCall(158, 0x1023, 18) == 0
    #else
      false
    #endif
  }
}
