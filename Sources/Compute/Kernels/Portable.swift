// Kernels in Swift's SIMD types at the compiler's baseline: what runs where no instruction-set module fits.
//
// Products and sums stay separate operations: on baseline x86-64 a fused multiply-add is a libm call per lane.

enum Portable {
  typealias Lanes = SIMD8<Float>
  static let lanes = 8

  @inline(__always)
  static func load(_ base: UnsafeRawPointer, _ index: Int) -> Lanes {
    base.loadUnaligned(fromByteOffset: index * 4, as: Lanes.self)
  }

  @inline(__always)
  static func store(_ value: Lanes, _ base: UnsafeMutablePointer<Float>, _ index: Int) {
    UnsafeMutableRawPointer(base).storeBytes(of: value, toByteOffset: index * 4, as: Lanes.self)
  }

  /// The first `count` (under 8) elements, zeros after them.
  @inline(__always)
  static func loadTail(_ base: UnsafeRawPointer, _ index: Int, _ count: Int) -> Lanes {
    var value = Lanes.zero
    for lane in 0..<count {
      value[lane] = base.loadUnaligned(fromByteOffset: (index + lane) * 4, as: Float.self)
    }
    return value
  }

  /// The sum of all lanes, always in the same tree.
  @inline(__always)
  static func sum(_ v: Lanes) -> Float {
    let four = v.lowHalf + v.highHalf
    let two = four.lowHalf + four.highHalf
    return two[0] + two[1]
  }

  @inline(__always)
  static func maximum(_ a: Lanes, _ b: Lanes) -> Lanes { a.replacing(with: b, where: b .> a) }

  static func add(_ y: UnsafePointer<Float>, _ count: Int, to x: UnsafeMutablePointer<Float>) {
    var i = 0
    while i + lanes <= count {
      store(load(x, i) + load(y, i), x, i)
      i += lanes
    }
    while i < count {
      x[i] += y[i]
      i += 1
    }
  }
}
