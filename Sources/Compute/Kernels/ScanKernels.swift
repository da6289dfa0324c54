// The kernel of an index's scan, picked once: all of them give the same bits.

package import KernelTypes

#if arch(x86_64)
  import KernelsAVX2
  import KernelsAVX512
#elseif arch(arm64)
  import KernelsDotprod
  import KernelsI8MM
  import KernelsNEON
#endif

/// What a search reads all rows with.
package struct ScanKernels: Sendable {
  /// `out[r] = scales[r] · query.scale · Σ (code - 128) · (128 · high + low)` for every row.
  package var scan:
    @Sendable (_ rows: CodeRows, _ query: QueryPlanes, _ out: UnsafeMutablePointer<Float>) -> Void

  /// As `scan` for two queries, to the bit; nil where they gain nothing by each other.
  package var scanTwice:
    (
      @Sendable (
        _ rows: CodeRows, _ first: QueryPlanes, _ second: QueryPlanes, _ out: UnsafeMutablePointer<Float>,
        _ other: UnsafeMutablePointer<Float>
      ) -> Void
    )?

  /// `out[r] = Σ tables[p][0][low half of byte p] + tables[p][1][high half]` for every row of whole blocks.
  ///
  /// `tables` is `[rowBytes][2][16]`, numbers of at most 127.
  package var signs:
    @Sendable (_ rows: SignRows, _ tables: UnsafePointer<UInt8>, _ out: UnsafeMutablePointer<Int32>) -> Void

  /// Those of the best instruction set of this machine.
  package static let best = table(for: CPUFeatures.best)

  /// Those of one instruction set, which the machine must have.
  package static func table(for isa: ISA) -> ScanKernels {
    switch isa {
    #if arch(x86_64)
      case .avx2, .avxvnni: ScanKernels(scan: KernelsAVX2.scanCodes, signs: KernelsAVX2.scanSigns)
      case .avx512, .amx:
        ScanKernels(
          scan: KernelsAVX512.scanCodes, scanTwice: KernelsAVX512.scanCodesTwice,
          signs: KernelsAVX512.scanSigns)
    #elseif arch(arm64)
      case .neon: ScanKernels(scan: KernelsNEON.scanCodes, signs: reference.signs)
      case .dotprod: ScanKernels(scan: KernelsDotprod.scanCodes, signs: reference.signs)
      case .i8mm: ScanKernels(scan: KernelsI8MM.scanCodes, signs: reference.signs)
    #endif
    default: reference
    }
  }

  /// The scalar twins, which compilers make vector code of.
  package static let reference = ScanKernels(
    scan: { rows, query, out in
      for row in 0..<rows.count {
        let codes = (rows.base + row * rows.rowBytes).assumingMemoryBound(to: UInt8.self)
        var (high, low): (Int32, Int32) = (0, 0)
        for column in 0..<rows.rowBytes {
          let code = Int32(codes[column]) &- 128
          high &+= code &* Int32(query.high[column])
          low &+= code &* Int32(query.low[column])
        }
        // 128 · high is exact, so rounding once or twice is the same.
        out[row] = (Float(high) * 128 + Float(low)) * (rows.scales[row] * query.scale)
      }
    },
    signs: { rows, tables, out in
      for block in 0..<rows.blocks {
        let sums = out + 32 * block
        for row in 0..<32 { sums[row] = 0 }
        for at in 0..<rows.rowBytes {
          let bytes = (rows.base + 32 * (block * rows.rowBytes + at)).assumingMemoryBound(to: UInt8.self)
          for row in 0..<32 {
            let byte = Int(bytes[row])
            sums[row] &+= Int32(tables[32 * at + (byte & 15)]) &+ Int32(tables[32 * at + 16 + (byte >> 4)])
          }
        }
      }
    })
}
