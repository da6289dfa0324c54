// What stands in for functions of newer libraries gives what those give.

import Testing

@testable import CLI

#if os(Linux)
  @Suite struct OlderLibrariesTests {
    @Test func `a hypotenuse is that of the two sides, also where their squares are beyond a Float`() {
      #expect(hypotenuse(3, -4) == 5)
      #expect(hypotenuse(3e38, 0) == 3e38)
      let tiny = Float(bitPattern: 71_362)
      #expect(hypotenuse(tiny, 0) == tiny)
      #expect(hypotenuse(1e30, 1e30) == Float(2.0.squareRoot() * Double(Float(1e30))))
      #expect(hypotenuse(3e38, 3e38) == .infinity)
      #expect(hypotenuse(-.infinity, .nan) == .infinity)
      #expect(hypotenuse(.nan, 1).isNaN)
    }
  }
#endif
