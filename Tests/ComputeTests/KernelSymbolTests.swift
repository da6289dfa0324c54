// The instruction-set modules export no weak code: the linker would pick one copy for the whole program, and an
// older CPU would die on it.

#if os(Linux) && arch(x86_64)
  import Platform
  import Support
  import Testing

  @Suite struct KernelSymbolTests {
    @Test(arguments: ["KernelsAVX2", "KernelsAVXVNNI", "KernelsAVX512", "KernelsAMX"])
    func `an instruction-set module defines no weak function`(module: String) throws {
      var functions = 0
      for configuration in ["debug", "release"] {
        let folder = TestData.root + "/.build/\(configuration)/\(module).build"
        guard File.isDirectory(folder) else { continue }
        for name in try File.names(in: folder) where name.hasSuffix(".o") {
          let found = try functionSymbols(in: try File.read(folder + "/" + name, limit: 1 << 26))
          functions += found.count
          #expect(found.weak.isEmpty, "\(configuration) \(name): \(found.weak)")
        }
      }
      // Nothing found would mean that this test looks in the wrong place.
      try #require(functions > 5)
    }

    /// The functions an ELF64 object defines, and the names of the weak ones, as `nm` would list them under W.
    private func functionSymbols(in object: [UInt8]) throws -> (count: Int, weak: [String]) {
      func int(_ at: Int, _ size: Int) throws -> Int {
        try #require(at >= 0 && at + size <= object.count)
        return (0..<size).reduce(0) { $0 | Int(object[at + $1]) << (8 * $1) }
      }
      try #require(Array(object.prefix(5)) == [0x7F, 0x45, 0x4C, 0x46, 2])
      let (sections, size, count) = (try int(0x28, 8), try int(0x3A, 2), try int(0x3C, 2))
      var functions = 0
      var weak: [String] = []
      for index in 0..<count {
        let section = sections + index * size
        // SHT_SYMTAB, whose link is the section of its names.
        guard try int(section + 4, 4) == 2 else { continue }
        let (start, bytes) = (try int(section + 0x18, 8), try int(section + 0x20, 8))
        let names = try int(sections + int(section + 0x28, 4) * size + 0x18, 8)
        for symbol in stride(from: start, to: start + bytes, by: 24) {
          let info = try int(symbol + 4, 1)
          // STT_FUNC, defined here.
          guard info & 15 == 2, try int(symbol + 6, 2) != 0 else { continue }
          functions += 1
          guard info >> 4 == 2 else { continue }
          let name = try names + int(symbol, 4)
          weak.append(String(decoding: object[name...].prefix { $0 != 0 }, as: UTF8.self))
        }
      }
      return (functions, weak)
    }
  }
#endif
