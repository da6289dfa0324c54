// Places for those who read files of requests, and the texts that they keep.

import OpenAI
import Platform
import Testing

@testable import Server

struct RequestFilesTests {
  @Test func `two read at a time, and who is not wanted any more waits no longer`() throws {
    let readers = FileReaders(ledger: MemoryLedger())
    try readers.enter("a") { false }
    try readers.enter("b") { false }
    #expect(throws: APIError.self) { try readers.enter("c") { true } }
    readers.leave()
    try readers.enter("c") { true }
    do throws(APIError) {
      try readers.enter("d") { true }
      Issue.record("a third one")
    } catch {
      #expect(error.status == 499 && error.code == "client_gone")
    }
  }

  @Test func `texts are kept below a bound, the last used ones, and are claimed`() {
    let ledger = MemoryLedger(limit: 40 << 20)
    let readers = FileReaders(ledger: ledger)
    func text(_ mebibytes: Int) -> [UInt8] { [UInt8](repeating: 7, count: mebibytes << 20) }
    for (key, size) in [(1, 6), (2, 6), (1, 6)] as [(UInt8, Int)] { readers.keep(text(size), of: [key]) }
    #expect(ledger.bytes(of: .media) == 12 << 20)
    #expect(readers.text(of: [1])?.count == 6 << 20 && readers.text(of: [3]) == nil)
    readers.keep(text(8), of: [3])
    #expect(readers.text(of: [2]) == nil && readers.text(of: [1]) != nil && readers.text(of: [3]) != nil)
    #expect(ledger.bytes(of: .media) == 14 << 20)
    // Too long for all of it, and no memory left.
    readers.keep(text(17), of: [4])
    #expect(ledger.reserve(25 << 20, for: .answers))
    readers.keep(text(2), of: [5])
    #expect(readers.text(of: [4]) == nil && readers.text(of: [5]) == nil)
    #expect(ledger.bytes(of: .media) == 14 << 20)
  }
}
