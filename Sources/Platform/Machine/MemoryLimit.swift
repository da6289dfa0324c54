// How much memory this process may have: the machine's, or what its control groups and resource limits leave of it.

/// Sizes of memory: what the system allows, and how people write and read them.
package enum MemoryLimit {
  /// Bytes that the process can hold before the kernel refuses more, or ends it.
  package static var bytes: Int {
    var least = Machine.memoryBytes
    for path in controlFiles(ControlGroup.lines) {
      if let limit = PseudoFile.lines(path).first.flatMap({ Int($0) }), limit > 0 {
        least = min(least, limit)
      }
    }
    return least
  }

  /// The files that may hold a limit, those of all enclosing groups: each of them bounds its members together.
  static func controlFiles(_ groups: [String]) -> [String] {
    ControlGroup.folders(groups, controller: "memory").map { folder in
      folder.path + (folder.isSecond ? "/memory.max" : "/memory.limit_in_bytes")
    }
  }

  /// What a person writes: `6G`, `512M`, `1.5GiB`, `70%` of `whole`, or bytes. Units are powers of 1024.
  ///
  /// - Returns: nil for anything else, for less than a byte, and for more than an `Int` holds.
  package static func parse(_ text: String, of whole: Int) -> Int? {
    let bytes = Array(text.utf8)
    let digits = bytes.prefix {
      $0 == UInt8(ascii: ".") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
    }
    guard let first = digits.first, first != UInt8(ascii: "."), digits.count <= 18,
      let number = Double(String(decoding: digits, as: UTF8.self)), number > 0
    else { return nil }
    var unit = String(decoding: bytes.dropFirst(digits.count), as: UTF8.self).uppercased()
    if unit == "%" {
      return number <= 100 ? Int(exactly: (Double(whole) * number / 100).rounded(.down)) : nil
    }
    if unit.utf8.count > 1, unit.hasSuffix("IB") {
      unit.removeLast(2)
    } else if unit.hasSuffix("B") {
      unit.removeLast()
    }
    let shifts = ["": 0, "K": 10, "M": 20, "G": 30, "T": 40]
    guard let shift = shifts[unit] else { return nil }
    let scaled = (number * Double(1 << shift)).rounded(.down)
    return scaled >= 1 ? Int(exactly: scaled) : nil
  }

  /// Bytes as a person reads them, in units of 1024: `3.1 GiB`, `512 MiB`, `40 KiB`; of KiB the next larger number.
  package static func words(_ bytes: Int) -> String {
    guard bytes >= 1 << 20 else { return "\((bytes + 1023) >> 10) KiB" }
    guard bytes >= 1 << 30 else { return "\((bytes + (1 << 19)) >> 20) MiB" }
    let tenths = bytes >> 30 > 1 << 20 ? bytes >> 30 * 10 : (bytes * 10 + (1 << 29)) >> 30
    return "\(tenths / 10).\(tenths % 10) GiB"
  }
}
