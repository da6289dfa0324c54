// The blocks of a JPEG scan: sequential ones become samples at once, progressive ones are refined scan by scan.

enum JPEGBlocks {
  /// From the order of the file to row by row.
  static let natural = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53,
    60, 61, 54,
    47, 55, 62, 63,
  ]
}

/// The header of a scan.
struct JPEGScan {
  struct Part {
    let component: Int
    let dc: HuffmanTable?
    let ac: HuffmanTable?
  }

  let parts: [Part]
  /// Coefficients of this scan, in the order of the file.
  let first, last: Int
  /// Bits that earlier scans and this one leave out.
  let high, low: Int

  func check(isProgressive: Bool) throws(MediaError) {
    var isAudio = first <= last && last <= 63 && low <= 13 && (high == 0 || high == low + 1)
    if isProgressive {
      isAudio = isAudio && (first == 0 ? last == 0 : parts.count == 1)
    } else {
      isAudio = first == 0 && last == 63 && high == 0 && low == 0
    }
    guard isAudio else { throw JPEG.damaged("a scan has values that do not exist") }
    let needsDC = first == 0 && high == 0
    for part in parts where (needsDC && part.dc == nil) || (last > 0 && part.ac == nil) {
      throw JPEG.damaged("a Huffman table is missing")
    }
  }
}

extension JPEGDecoder {
  /// Blocks that a scan walks over.
  func blockCount(of scan: JPEGScan) -> Int {
    scan.parts.reduce(0) { sum, part in
      let component = components[part.component]
      return sum
        + (scan.parts.count > 1
          ? unitColumns * unitRows * component.h * component.v
          : (component.width + 7) / 8 * ((component.height + 7) / 8))
    }
  }

  /// Walks over the blocks of a scan.
  mutating func decode(
    _ scan: JPEGScan, _ entropy: inout EntropyReader, restartInterval: Int
  ) throws(MediaError) {
    let isInterleaved = scan.parts.count > 1
    let only = components[scan.parts[0].component]
    // A component alone is walked over without the padding of units.
    let columns = isInterleaved ? unitColumns : (only.width + 7) / 8
    let rows = isInterleaved ? unitRows : (only.height + 7) / 8
    if isInterleaved {
      let blocks = scan.parts.reduce(0) { $0 + components[$1.component].h * components[$1.component].v }
      guard blocks <= 10 || isProgressive else { throw JPEG.damaged("a unit has more than 10 blocks") }
    }
    var coder = JPEGBlockCoder(scan)
    var left = restartInterval
    var restarts = 0
    for unit in 0..<columns * rows {
      if restartInterval > 0, left == 0 {
        guard entropy.restart(restarts % 8) else { throw JPEG.damaged("a restart marker is missing") }
        restarts += 1
        left = restartInterval
        coder.reset()
      }
      left -= 1
      for (place, part) in scan.parts.enumerated() {
        let (h, v) =
          isInterleaved ? (components[part.component].h, components[part.component].v) : (1, 1)
        for block in 0..<h * v {
          let column = unit % columns * h + block % h
          let row = unit / columns * v + block / h
          guard decodeBlock(part, place, row, column, &coder, &entropy) else {
            throw JPEG.damaged("a code does not exist")
          }
        }
      }
      guard !entropy.isExhausted else { throw JPEG.damaged("its image data ends early") }
    }
  }

  private mutating func decodeBlock(
    _ part: JPEGScan.Part, _ place: Int, _ row: Int, _ column: Int, _ coder: inout JPEGBlockCoder,
    _ entropy: inout EntropyReader
  ) -> Bool {
    let index = part.component
    let block = row * components[index].blockColumns + column
    if isProgressive {
      return coder.progressive(part, place, &entropy, &components[index].coefficients, at: block * 64)
    }
    guard coder.sequential(part, place, &entropy) else { return false }
    let (at, stride) = (row * 8 * components[index].stride + column * 8, components[index].stride)
    coder.transform.run(
      coder.block, from: 0, steps: components[index].steps, into: &components[index].samples, at: at,
      stride: stride)
    return true
  }
}

/// What is carried from block to block.
struct JPEGBlockCoder {
  private let scan: JPEGScan
  private var lastDC: [Int]
  /// Blocks that follow without new coefficients.
  private var emptyRun = 0
  /// One block in natural order.
  private(set) var block = [Int16](repeating: 0, count: 64)
  var transform = InverseDCT()

  init(_ scan: JPEGScan) {
    self.scan = scan
    lastDC = [Int](repeating: 0, count: scan.parts.count)
  }

  mutating func reset() {
    for index in lastDC.indices { lastDC[index] = 0 }
    emptyRun = 0
  }

  private mutating func nextDC(_ part: JPEGScan.Part, _ place: Int, _ entropy: inout EntropyReader) -> Int? {
    guard let table = part.dc, let size = entropy.symbol(table), size <= 15 else { return nil }
    // Sums of hostile differences may not grow without end.
    lastDC[place] = max(-1 << 20, min(1 << 20, lastDC[place] + entropy.value(size)))
    return lastDC[place]
  }

  mutating func sequential(_ part: JPEGScan.Part, _ place: Int, _ entropy: inout EntropyReader) -> Bool {
    for index in 0..<64 { block[index] = 0 }
    guard let table = part.ac, let dc = nextDC(part, place, &entropy) else { return false }
    block[0] = Int16(truncatingIfNeeded: dc)
    var index = 1
    while index < 64 {
      guard let symbol = entropy.symbol(table) else { return false }
      let (run, size) = (symbol >> 4, symbol & 15)
      if size == 0 {
        if run < 15 { break }
        index += 16
        continue
      }
      index += run
      guard index < 64 else { return false }
      block[JPEGBlocks.natural[index]] = Int16(truncatingIfNeeded: entropy.value(size))
      index += 1
    }
    return true
  }

  mutating func progressive(
    _ part: JPEGScan.Part, _ place: Int, _ entropy: inout EntropyReader, _ out: inout [Int16], at start: Int
  ) -> Bool {
    switch (scan.first, scan.high) {
    case (0, 0):
      guard let dc = nextDC(part, place, &entropy) else { return false }
      out[start] = Int16(truncatingIfNeeded: dc << scan.low)
      return true
    case (0, _):
      if entropy.bit() { out[start] |= Int16(truncatingIfNeeded: 1 << scan.low) }
      return true
    case (_, 0): return firstAC(part, &entropy, &out, start)
    default: return refineAC(part, &entropy, &out, start)
    }
  }

  private mutating func firstAC(
    _ part: JPEGScan.Part, _ entropy: inout EntropyReader, _ out: inout [Int16], _ start: Int
  ) -> Bool {
    if emptyRun > 0 {
      emptyRun -= 1
      return true
    }
    guard let table = part.ac else { return false }
    var index = scan.first
    while index <= scan.last {
      guard let symbol = entropy.symbol(table) else { return false }
      let (run, size) = (symbol >> 4, symbol & 15)
      if size == 0 {
        if run < 15 {
          emptyRun = (1 << run) - 1 + entropy.bits(run)
          return true
        }
        index += 16
        continue
      }
      index += run
      guard index <= 63 else { return false }
      out[start + JPEGBlocks.natural[index]] = Int16(truncatingIfNeeded: entropy.value(size) << scan.low)
      index += 1
    }
    return true
  }

  /// T.81 G.1.2.3: every coefficient that is not zero gets one more bit on the way.
  private mutating func refineAC(
    _ part: JPEGScan.Part, _ entropy: inout EntropyReader, _ out: inout [Int16], _ start: Int
  ) -> Bool {
    guard let table = part.ac else { return false }
    let one = Int16(truncatingIfNeeded: 1 << scan.low)
    var index = scan.first
    if emptyRun == 0 {
      while index <= scan.last {
        guard let symbol = entropy.symbol(table) else { return false }
        var run = symbol >> 4
        var value: Int16 = 0
        switch symbol & 15 {
        case 0:
          if run < 15 {
            emptyRun = (1 << run) + entropy.bits(run)
          }
        case 1: value = entropy.bit() ? one : 0 &- one
        default: return false
        }
        if emptyRun > 0 { break }
        while index <= scan.last {
          let at = start + JPEGBlocks.natural[index]
          if out[at] != 0 {
            refine(&out[at], by: one, &entropy)
          } else {
            if run == 0 {
              if value != 0 { out[at] = value }
              index += 1
              break
            }
            run -= 1
          }
          index += 1
        }
      }
    }
    guard emptyRun > 0 else { return true }
    while index <= scan.last {
      let at = start + JPEGBlocks.natural[index]
      if out[at] != 0 { refine(&out[at], by: one, &entropy) }
      index += 1
    }
    emptyRun -= 1
    return true
  }

  private func refine(_ value: inout Int16, by one: Int16, _ entropy: inout EntropyReader) {
    if entropy.bit(), value & one == 0 { value = value >= 0 ? value &+ one : value &- one }
  }
}
