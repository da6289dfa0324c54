// Kernels of encoders of audio against their scalar twins, and convolutions against sums written out.

import KernelTypes
import Support
import Testing

@testable import Compute

@Suite struct ConvolutionTests {
  @Test
  func `layer norm, sigmoid gate, convolution and local attention agree with the reference for all sizes`() {
    var random = SeededGenerator(seed: 61)
    for (name, kernels) in tables {
      for count in 1...35 {
        let stride = count + 3
        let x = Bytes.floats(40 * stride, using: &random)
        let y = Bytes.floats(40 * stride, using: &random)
        let z = Bytes.floats(40 * stride, using: &random)
        for what in ["layer norm", "sigmoid", "silu", "convolve", "attend"] {
          var results: [[Float]] = []
          for table in [kernels, .reference] {
            let out = Bytes.room(count)
            let last = 31 * stride
            switch what {
            case "layer norm": table.layerNorm(x.floats, y.floats, 1e-6, count, out.floats)
            case "sigmoid": table.gatedSigmoid(x.floats, y.floats, count, out.floats)
            case "silu": table.gatedSigmoid(x.floats, x.floats, count, out.floats)
            case "convolve":
              table.convolve(x.activations(1 + count % 5, stride), y.floats, count, out.floats)
            default:
              let relative = Activations(base: x.floats + stride, stride: stride, count: 1 + count % 32)
              let head = LocalHead(
                query: x.floats, keys: y.floats + last, values: z.floats + last, stride: stride,
                relative: relative, size: count, cap: 2)
              table.attendLocally(head, out.floats)
            }
            #expect(out.isIntact)
            results.append(out.values(count))
          }
          // A single element has no variance: its norm is zero, or the rounding of zero.
          let error = worst(results[0], results[1]) { 4e-6 * max(1, abs(results[1][$0])) }
          #expect(error <= 1 || what == "layer norm" && count < 3, "\(name) \(what) of \(count)")
        }
      }
    }
  }

  @Test func `a convolution of stride 2 sees its neighbours, and zeros outside the plane`() throws {
    let compute = try ComputeContext(threads: 1)
    // A plane of 3 · 4 pixels with two channels, their values 10 · line + column and the negative of it.
    let (first, second) = (ScratchBuffer(), ScratchBuffer())
    let asLines = first.rows(3, 8)
    let asPixels = second.rows(12, 2)
    for line in 0..<3 {
      for column in 0..<4 {
        let value = Float(10 * line + column + 1)
        for (channel, v) in [value, -value].enumerated() {
          asLines.row(line)[2 * column + channel] = v
          asPixels.row(4 * line + column)[channel] = v
        }
      }
    }
    let buffer = ScratchBuffer()
    for plane in [
      Plane(lines: asLines, channels: 2), Plane(pixels: asPixels, width: 4, first: 0, height: 3),
    ] {
      let out = buffer.rows(4, 18)
      compute.unfold(plane, outputs: 0..<2, into: out)
      let values = (0..<4).map { row in out.values(ofRow: row) }
      func evens(_ row: Int) -> [Float] { stride(from: 0, to: 18, by: 2).map { values[row][$0] } }
      #expect(evens(0) == [0, 0, 0, 0, 1, 2, 0, 11, 12])
      #expect(evens(1) == [0, 0, 0, 2, 3, 4, 12, 13, 14])
      #expect(evens(2) == [0, 11, 12, 0, 21, 22, 0, 0, 0])
      #expect(evens(3) == [12, 13, 14, 22, 23, 24, 0, 0, 0])
      for row in 0..<4 { for i in 0..<9 { #expect(values[row][2 * i + 1] == -values[row][2 * i]) } }
    }
    // The last output line needs lines 1 and 2 only.
    let part = Plane(pixels: asPixels.rows(from: 4, count: 8), width: 4, first: 1, height: 3)
    let out = buffer.rows(2, 18)
    compute.unfold(part, outputs: 1..<2, into: out)
    #expect(out.values(ofRow: 0).prefix(6) == [0, 0, 11, -11, 12, -12])

    let joined = first.rows(2, 12)
    compute.join(asPixels.rows(from: 0, count: 12), into: joined)
    #expect(joined.values(ofRow: 1).prefix(4) == [13, -13, 14, -14])
  }

  @Test func `a convolution over time has zeros before the first row`() throws {
    let compute = try ComputeContext(threads: 2)
    let (input, output) = (ScratchBuffer(), ScratchBuffer())
    let x = input.rows(4, 2)
    for r in 0..<4 {
      x.row(r)[0] = Float(r + 1)
      x.row(r)[1] = 1
    }
    let out = output.rows(4, 2)
    compute.convolve(x, taps: 3, weights: [100, 1, 10, 2, 1, 4], into: out)
    #expect((0..<4).map { out.values(ofRow: $0) } == [[1, 4], [12, 6], [123, 7], [234, 7]])
  }

  @Test func `local attention is the same on any number of threads and blind to rows out of reach`() throws {
    var random = SeededGenerator(seed: 62)
    let values = (0..<3).map { _ in (0..<200 * 64).map { _ in Float.random(in: -2...2, using: &random) } }
    func attend(threads: Int, changed: Int?) throws -> [[Float]] {
      let compute = try ComputeContext(threads: threads)
      let buffers = (0..<5).map { _ in ScratchBuffer() }
      let rows = (0..<3).map { buffers[$0].rows(200, 64) }
      for r in 0..<200 {
        for c in 0..<64 {
          for i in 0..<3 { rows[i].row(r)[c] = values[i][r * 64 + c] + (changed == r && i > 0 ? 1 : 0) }
        }
      }
      let relative = buffers[3].rows(12, 64)
      for d in 0..<12 { for c in 0..<64 { relative.row(d)[c] = values[0][d * 7 + c] } }
      let out = buffers[4].rows(200, 64)
      return withExtendedLifetime(buffers) {
        compute.attendLocally(rows[0], rows[1], rows[2], relative: relative, heads: 4, cap: 50, into: out)
        return (0..<200).map { out.values(ofRow: $0) }
      }
    }
    let one = try attend(threads: 1, changed: nil)
    #expect(try attend(threads: 2, changed: nil) == one)
    let other = try attend(threads: 1, changed: 100)
    for r in 0..<200 { #expect((one[r] == other[r]) == !(100...111).contains(r), "\(r)") }
  }
}
