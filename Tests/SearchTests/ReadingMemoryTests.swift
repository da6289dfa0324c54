// What reading, cutting and indexing a file take in memory, at the worst input of each reader: no more than is claimed. Each
// group runs in a process of its own, whose peak the system measures.

import Platform
import Support
import Testing
import Vectors

@testable import Search

#if os(Linux)
  @Suite struct ReadingMemoryTests {
    @Test func `readers of files take what they claim, at their worst input`() async {
      let child = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
        for (name, input) in WorstInput.files {
          MemoryPeak.check(name, input()) { bytes, reserve in
            let source = try? FileReader.read(bytes, name: name, reserve: reserve)
            return source?.text.count ?? 0
          }
        }
      }
      check(child)
    }

    @Test func `cutting a text takes what it claims, at its worst input`() async {
      let child = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
        for (name, input) in WorstInput.texts {
          MemoryPeak.check(name, input()) { bytes, reserve in
            let splitter = Splitter(SplitRules(tokens: 100, overlap: 50), windowTokens: 64) {
              // Marks have no tokens, as with models that take accents away.
              $0.utf8.reduce(0) { $0 + ($1 == 0xCC || $1 == 0x81 ? 0 : 1) }
            }
            var found: [TextPassage] = []
            try? splitter.forEachPassage(of: SourceText(bytes, kind: .markdown), reserve: reserve) {
              found.append($0)
            }
            return found.count
          }
        }
      }
      check(child)
    }

    @Test func `indexing takes what it claims, words that are all different too`() async {
      let child = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
        let folder = "/tmp/mlxserve-reading-memory-\(getpid())"
        for (name, input) in WorstInput.words {
          MemoryPeak.check(name, input()) { bytes, reserve in
            let index = try? VectorIndex(folder: folder, fingerprint: "fake", dimensions: 48)
            defer {
              for file in (try? SystemFiles().names(in: folder)) ?? [] { unlink(folder + "/" + file) }
              rmdir(folder)
            }
            guard let index else { return 0 }
            let indexer = DocumentIndexer(index: index, encoder: ConstantEncoder())
            _ = try? indexer.index(
              SourceText(bytes, kind: .plain), key: "k", info: [],
              rules: SplitRules(tokens: 800, overlap: 400), reserve: reserve)
            return index.view.passageCount
          }
        }
      }
      check(child)
    }

    /// Whether no line of a child says that something took too much.
    private func check(_ child: ExitTest.Result?) {
      let lines = String(decoding: child?.standardErrorContent ?? [], as: UTF8.self).split(separator: "\n")
        .filter { $0.contains(" KiB claimed, ") }
      #expect(lines.count > 2)
      #expect(lines.filter { $0.hasSuffix(": too much") } == [])
    }

    @Test func `a table of more columns than there may be is refused, whatever it would take`() {
      let wide = [UInt8](repeating: UInt8(ascii: ","), count: 4 << 20)
      for text in [wide, wide + Array("\n".utf8) + wide, Array("a,b\n1".utf8) + wide] {
        #expect(throws: SearchError.invalidFile("the table has more than 16384 columns")) {
          try FileReader.read(text, name: "x.csv")
        }
      }
    }

    @Test func `what cannot be claimed is refused, and nothing is read`() {
      let rows = Array(String(repeating: "name,value\n1,2\n", count: 1_000).utf8)
      for (name, most) in [("x.csv", 10_000), ("x.json", 10_000), ("x.html", 10_000), ("x.jsonl", 0)] {
        let text = name == "x.json" ? Array(("[" + String(repeating: "1,", count: 1_000) + "1]").utf8) : rows
        var claimed = 0
        let read = try? FileReader.read(text, name: name) { more in
          claimed += more
          return claimed <= most
        }
        #expect((read == nil) == (claimed > most), "\(name): \(claimed)")
      }
    }
  }

  /// A vector for every text, whatever it is.
  private struct ConstantEncoder: PassageEncoder {
    let dimensions = 48
    let fingerprint = "fake"
    var computation: String { fingerprint }
    let room = 200
    func tokenCount(_ text: String) -> Int { (text.utf8.count + 3) / 4 }
    func encode(_ texts: [String], as role: TextRole, isUnwanted: () -> Bool) throws(SearchError) -> [[Float]]
    {
      texts.map { _ in [Float](repeating: 0.144, count: dimensions) }
    }
  }

  private enum MemoryPeak {
    /// Tells standard error what `work` claims and takes.
    static func check(_ name: String, _ bytes: [UInt8], _ work: ([UInt8], (Int) -> Bool) -> Int) {
      Machine.returnFreedMemory()
      Machine.trimHeap()
      // The peak counts from here on.
      if let file = fopen("/proc/self/clear_refs", "w") {
        fputs("5", file)
        fclose(file)
      }
      let before = kibibytes("VmHWM:")
      var claimed = 0
      let found = work(bytes) {
        claimed += $0
        return true
      }
      let taken = kibibytes("VmHWM:") - before
      // The rest is what a process takes of itself.
      let most = claimed >> 10 + 1_024
      let words =
        "\(name): \(found) found, \(claimed >> 10) KiB claimed, \(taken) KiB taken\(taken > most ? ": too much" : "")\n"
      _ = Array(words.utf8).withUnsafeBytes { write(2, $0.baseAddress, $0.count) }
    }

    private static func kibibytes(_ name: String) -> Int {
      for line in PseudoFile.lines("/proc/self/status") where line.hasPrefix(name) {
        return line.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) } ?? 0
      }
      return 0
    }
  }

  /// The inputs at which a reader holds most for each byte.
  private enum WorstInput {
    static let bytes = 3 << 18

    private static func repeated(_ text: String, _ head: String = "", _ tail: String = "") -> [UInt8] {
      let piece = Array(text.utf8)
      var out = Array(head.utf8)
      out.reserveCapacity(bytes + piece.count + tail.utf8.count)
      while out.count < bytes { out += piece }
      return out + Array(tail.utf8)
    }

    static let files: [(name: String, input: @Sendable () -> [UInt8])] = [
      ("commas.csv", { repeated(",") }),
      ("narrow.csv", { repeated("1\n", "a\n") }),
      (
        "cells.csv",
        {
          repeated(
            String(repeating: "b,", count: 16_383) + "\n", String(repeating: "a,", count: 16_383) + "\n")
        }
      ),
      ("field.csv", { repeated("x\"\"", "a,b\n\"", "\"\n") }),
      ("header.csv", { repeated("n") }),
      ("tabs.tsv", { repeated("1\t2\n", "a\tb\n") }),
      ("arrays.json", { repeated("[],", "[", "1]") }),
      ("nested.json", { repeated("[1],", "[", "1]") }),
      ("objects.json", { repeated(#"{"":1},"#, "[", "1]") }),
      ("members.json", { repeated(#"{"a":{"a":1,"b":2}},"#, "[", "1]") }),
      ("texts.json", { repeated(#""sixteen letters.","#, "[", "1]") }),
      ("numbers.json", { repeated("1,", "[", "1]") }),
      (
        "path.json",
        {
          repeated(
            "n", "{\"",
            "\":" + String(repeating: "{\"a\":", count: 60) + "1" + String(repeating: "}", count: 61))
        }
      ),
      (
        "deep.json",
        { repeated("1,", String(repeating: "[", count: 70), "1" + String(repeating: "]", count: 70)) }
      ),
      ("lines.jsonl", { repeated("1\n") }),
      ("objects.jsonl", { repeated("{\"a\":1}\n") }),
      ("line.jsonl", { repeated(#"{"":1},"#, "[", "1]") }),
      ("headings.html", { repeated("<h6>a") }),
      ("items.html", { repeated("<li>a") }),
      ("tag.html", { repeated("a", "b<", ">c") }),
      ("tags.html", { repeated("<b><i>", "a") }),
      ("entities.html", { repeated("&or;") }),
      ("page.html", { repeated("word ") }),
      ("ends.txt", { repeated("a\r\n") }),
      ("marked.txt", { repeated("a\r\n", "\u{FEFF}") }),
      ("wide.txt", { [0xFF, 0xFE] + repeated("\u{4E00}").prefix(bytes) }),
      ("plain.md", { repeated("# a\n") }),
      ("code.swift", { repeated("}\n") }),
    ]

    static let texts: [(name: String, input: @Sendable () -> [UInt8])] = [
      ("lines", { repeated("\n", "a") }),
      ("letters", { repeated("a\n") }),
      ("sentences", { repeated("! ") }),
      ("wide sentences", { repeated("！") }),
      ("wide stops", { repeated("。") }),
      ("wide questions", { repeated("？；") }),
      ("spaces", { repeated(" ", "a") }),
      ("no spaces", { repeated("a") }),
      (
        "headings",
        {
          repeated(
            "a b\n",
            "# " + String(repeating: "e\u{301}", count: 500) + "\n## "
              + String(repeating: "e\u{301}", count: 500) + "\n")
        }
      ),
      ("items", { repeated("- a\n") }),
      ("one-letter headings", { repeated("# a\n") }),
      ("pages", { repeated("a\u{0C}") }),
    ]

    static let words: [(name: String, input: @Sendable () -> [UInt8])] = [
      ("different words", { different(26) { 0x61 + $0 } }),
      (
        "pairs of characters",
        {
          var random = SeededGenerator(seed: 7)
          var out: [UInt8] = []
          while out.count < bytes {
            out +=
              String(Character(Unicode.Scalar(UInt16.random(in: 0x4E00...0x9FFF, using: &random)) ?? "x"))
              .utf8
          }
          return out
        }
      ),
      ("parts of words", { repeated("aBcDeFgH ") }),
    ]

    /// Words of five letters, no two alike.
    private static func different(_ letters: Int, _ letter: (UInt8) -> UInt8) -> [UInt8] {
      var out: [UInt8] = []
      var number = 0
      while out.count < bytes {
        var rest = number
        for _ in 0..<5 {
          out.append(letter(UInt8(rest % letters)))
          rest /= letters
        }
        out.append(0x20)
        number += 1
      }
      return out
    }
  }
#endif
