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

  /// Those of the best instruction set of this machine.
  package static let best = table(for: CPUFeatures.best)

  /// Those of one instruction set, which the machine must have.
  package static func table(for isa: ISA) -> ScanKernels {
    switch isa {
    #if arch(x86_64)
      case .avx2, .avxvnni: ScanKernels(scan: KernelsAVX2.scanCodes)
      case .avx512: ScanKernels(scan: KernelsAVX512.scanCodes)
    #elseif arch(arm64)
      case .neon: ScanKernels(scan: KernelsNEON.scanCodes)
      case .dotprod: ScanKernels(scan: KernelsDotprod.scanCodes)
      case .i8mm: ScanKernels(scan: KernelsI8MM.scanCodes)
    #endif
    default: reference
    }
  }

  /// The scalar twin, which compilers make vector code of.
  package static let reference = ScanKernels { rows, query, out in
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
  }
}
