// The discrete Fourier transform of sixteen frames of real samples at once, of any length with small prime factors.
//
// Source: Stockham's self-sorting form of Cooley and Tukey. Two real frames are one complex one: the even part of the
// result is the first's and the odd part the second's; eight such pairs are the lanes of a vector.

import Platform

struct FrameTransform: Sendable {
  typealias Lanes = SIMD8<Float>

  let size: Int
  /// Their product is `size`.
  private let factors: [Int]
  /// e^(-2πi k / size) for k below size.
  private let cosines: [Float]
  private let sines: [Float]

  /// - Precondition: `size` has no other prime factors than 2, 3 and 5.
  init(size: Int) {
    self.size = size
    var (factors, rest) = ([Int](), size)
    for factor in [5, 4, 3, 2] {
      while rest % factor == 0, rest > 1 {
        factors.append(factor)
        rest /= factor
      }
    }
    precondition(rest == 1, "a transform of \(size) samples")
    self.factors = factors
    let angles = (0..<size).map { -2 * Double.pi * Double($0) / Double(size) }
    (cosines, sines) = (angles.map { Float(cos($0)) }, angles.map { Float(sin($0)) })
  }

  /// The power `|X|²` of eight frames in the real parts and of eight others in the imaginary parts.
  ///
  /// - Precondition: all have `size` elements.
  /// - Returns: `size / 2 + 1` bins of the first eight, and of the others; the parts are used up.
  func power(_ real: inout [Lanes], _ imaginary: inout [Lanes]) -> (first: [Lanes], second: [Lanes]) {
    transform(&real, &imaginary)
    var (first, second) = ([Lanes](), [Lanes]())
    for bin in 0...size / 2 {
      let mirrored = (size - bin) % size
      let (a, b) = (real[bin], imaginary[bin])
      let (c, d) = (real[mirrored], imaginary[mirrored])
      first.append(0.25 * ((a + c) * (a + c) + (b - d) * (b - d)))
      second.append(0.25 * ((b + d) * (b + d) + (c - a) * (c - a)))
    }
    return (first, second)
  }

  private func transform(_ real: inout [Lanes], _ imaginary: inout [Lanes]) {
    var otherReal = real
    var otherImaginary = imaginary
    var (length, stride) = (size, 1)
    for factor in factors {
      pass(
        factor, length: length, stride: stride, (real, imaginary), into: &otherReal, &otherImaginary)
      swap(&real, &otherReal)
      swap(&imaginary, &otherImaginary)
      (length, stride) = (length / factor, stride * factor)
    }
  }

  /// `length · stride` elements: `stride` transforms of `length` become `stride · factor` of `length / factor`.
  private func pass(
    _ factor: Int, length: Int, stride: Int, _ source: (real: [Lanes], imaginary: [Lanes]),
    into real: inout [Lanes], _ imaginary: inout [Lanes]
  ) {
    let (part, step) = (length / factor, size / length)
    for p in 0..<part {
      for k in 0..<factor {
        for q in 0..<stride {
          var (re, im) = (source.real[q + stride * p], source.imaginary[q + stride * p])
          for j in 1..<factor {
            let at = q + stride * (p + j * part)
            let turn = j * k % factor * (size / factor)
            let (c, s) = (cosines[turn], sines[turn])
            re += source.real[at] * c - source.imaginary[at] * s
            im += source.real[at] * s + source.imaginary[at] * c
          }
          let turn = p * k * step
          let (c, s) = (cosines[turn], sines[turn])
          real[q + stride * (factor * p + k)] = re * c - im * s
          imaginary[q + stride * (factor * p + k)] = re * s + im * c
        }
      }
    }
  }
}
