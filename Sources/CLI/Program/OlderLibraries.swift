// Two functions that Swift's runtime asks of newer libraries of Linux than the rest of the program does: as they are here, the
// binary also runs with older ones. The executable alone has them; libraries leave that to the program around them.

import Platform

#if os(Linux)
  /// In place of glibc's, whose newest version came with glibc 2.35. For Swift's `hypot` of a `Float`.
  @_cdecl("hypotf")
  func hypotenuse(_ a: Float, _ b: Float) -> Float {
    if a.isInfinite || b.isInfinite { return .infinity }
    let (a, b) = (Double(a), Double(b))
    return Float((a * a + b * b).squareRoot())
  }

  /// In place of libstdc++'s, of GCC 11: `std::__throw_bad_array_new_length()`, for a table of the runtime that outgrows
  /// memory. It must not return.
  @_cdecl("_ZSt28__throw_bad_array_new_lengthv")
  func throwBadArrayNewLength() { abort() }
#endif
