// Norm, rotation, activation and the exponential against the scalar reference.

import Support
import Testing

@testable import Compute

@Suite struct RowKernelTests {
  @Test func `the exponential is within 3e-7 of the true one and exact at its ends`() {
    var worst = 0.0
    for step in 0...40_000 {
      let x = Float(-87 + Double(step) * (175.0 / 40_000))
      let found = Double(exponential(SIMD8<Float>(repeating: x))[5])
      worst = max(worst, abs(found / exponential(Double(x)) - 1))
    }
    #expect(worst < 3e-7)
    let ends = exponential(SIMD8<Float>(-.infinity, -1000, -88, 0, 1000, .infinity, .nan, -0.0))
    #expect(ends[0] == 0 && ends[1] == 0 && ends[2] == 0 && ends[3] == 1 && ends[7] == 1)
    #expect(ends[4].isFinite && ends[4] > 3e38 && ends[5] == ends[4])
    #expect(ends[6].isNaN)
  }

  @Test func `norm, rotation, activation and sum agree with the reference for all sizes`() {
    var random = SeededGenerator(seed: 6)
    for (name, kernels) in tables {
      for count in 1...35 {
        let x = Bytes.floats(2 * count, using: &random)
        let y = Bytes.floats(2 * count, using: &random)
        for (what, tolerance) in [
          ("norm", Float(4e-6)), ("rotate", 4e-7), ("silu", 1e-6), ("gelu", 1e-6), ("scale", 0),
          ("softcap", 1e-6), ("add", 0),
        ] {
          var results: [[Float]] = []
          for table in [kernels, .reference] {
            let out = Bytes.room(2 * count)
            for i in 0..<2 * count { out.floats[i] = x.floats[i] }
            switch what {
            case "norm": table.rmsNorm(out.floats, y.floats, 1e-5, count, out.floats)
            case "rotate": table.rotate(out.floats, y.floats, y.floats + count, count)
            case "silu": table.gatedSilu(out.floats, y.floats, count, out.floats)
            case "gelu": table.gatedGELU(out.floats, y.floats, count, out.floats)
            case "scale": table.scale(-1.7, count, out.floats)
            case "softcap": table.softcap(0.5, count, out.floats)
            default: table.add(y.floats, count, out.floats)
            }
            #expect(out.isIntact)
            results.append(out.values(2 * count))
          }
          let error = worst(results[0], results[1]) { _ in max(tolerance, .leastNormalMagnitude) }
          #expect(error <= 1, "\(name) \(what) of \(count)")
        }
      }
    }
  }

  @Test func `softmax, silu and gelu have the bits of the portable forms, extremes included`() {
    var random = SeededGenerator(seed: 16)
    let extremes: [Float] = [-.infinity, -1000, -87.4, -87.2, -1e-30, 0, 1e-30, 88, 88.8, 1000]
    for (name, kernels) in tables {
      for count in 1...35 {
        let gate = Bytes.floats(count, using: &random)
        let up = Bytes.floats(count, using: &random)
        if count > extremes.count { for (i, x) in extremes.enumerated() { gate.floats[i] = x } }
        for (what, activation) in [("silu", \KernelTable.gatedSilu), ("gelu", \.gatedGELU)] {
          let results = [kernels, .portable].map { table in
            let out = Bytes.room(count)
            table[keyPath: activation](gate.floats, up.floats, count, out.floats)
            return out.values(count).map(\.bitPattern)
          }
          #expect(results[0] == results[1], "\(name) \(what) of \(count)")
        }
      }
      for (from, to) in [(0, 32), (0, 1), (5, 31), (31, 32)] {
        for before in [-Float.infinity, -3, 50] {
          let scores = Bytes.floats(32, using: &random)
          for j in 0..<32 { scores.floats[j] *= 20 }
          let results = [kernels, .portable].map { table in
            let row = Bytes.room(34)
            for j in 0..<32 { row.floats[j] = scores.floats[j] }
            (row.floats[32], row.floats[33]) = (before, 2)
            let factor = table.softmaxBlock(row.floats, from..<to, row.floats + 32)
            return (row.values(34) + [factor]).map(\.bitPattern)
          }
          #expect(results[0] == results[1], "\(name) softmax of \(from)..<\(to) after \(before)")
        }
      }
    }
  }

  @Test func `silu of extreme values is zero or the value itself`() {
    for (name, kernels) in tables + [("reference", .reference)] {
      let gate = Bytes(12)
      let up = Bytes(12)
      for (i, value) in [Float(-200), 0, 200].enumerated() {
        gate.floats[i] = value
        up.floats[i] = 1
      }
      let out = Bytes.room(3)
      kernels.gatedSilu(gate.floats, up.floats, 3, out.floats)
      #expect(abs(out.floats[0]) < 1e-30 && out.floats[1] == 0 && out.floats[2] == 200, "\(name)")
    }
  }

  @Test func `gelu has its known values, and extreme ones are zero or the value itself`() {
    let known: [(Float, Float)] = [
      (-1e30, 0), (-200, 0), (-1, -0.158_808), (0, 0), (0.5, 0.345_714), (1, 0.841_192), (200, 200),
      (1e30, 1e30),
    ]
    for (name, kernels) in tables + [("reference", .reference)] {
      let (gate, up, out) = (Bytes(4 * known.count), Bytes(4 * known.count), Bytes.room(known.count))
      for (i, pair) in known.enumerated() {
        gate.floats[i] = pair.0
        up.floats[i] = 1
      }
      kernels.gatedGELU(gate.floats, up.floats, known.count, out.floats)
      for (i, pair) in known.enumerated() {
        #expect(abs(out.floats[i] - pair.1) <= max(1, abs(pair.1)) * 2e-6, "\(name): gelu(\(pair.0))")
      }
    }
  }

  @Test func `a soft cap keeps small values, their signs and order, and bounds large ones`() {
    let values: [Float] = [-.infinity, -1e9, -40, -30, -1e-3, 0, 1e-3, 30, 40, 1e9, .infinity]
    for (name, kernels) in tables + [("reference", .reference)] {
      let x = Bytes(4 * values.count)
      for (i, value) in values.enumerated() { x.floats[i] = value }
      kernels.softcap(30, values.count, x.floats)
      let found = x.values(values.count)
      #expect(found == found.sorted(), "\(name)")
      #expect(found.first == -30 && found.last == 30 && found[5] == 0, "\(name)")
      #expect(abs(found[6] - 1e-3) < 4e-6 && found[4] == -found[6], "\(name)")
      #expect(abs(found[7] - 22.847_825) < 1e-4, "\(name)")  // 30 · tanh(1)
    }
  }

  @Test func `rows of zeros normalise to zeros`() {
    for (name, kernels) in tables + [("reference", .reference)] {
      let x = Bytes(16)
      for i in 0..<4 { x.floats[i] = 0 }
      let out = Bytes.room(4)
      kernels.rmsNorm(x.floats, x.floats, 1e-6, 4, out.floats)
      #expect(out.values(4) == [0, 0, 0, 0], "\(name)")
    }
  }
}
