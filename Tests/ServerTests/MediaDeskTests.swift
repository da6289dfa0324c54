// The places where images, audio and PDF are made ready: few, and one for each input.

import Media
import Platform
import Testing
import Wire

@testable import Server

@Suite struct MediaDeskTests {
  private let ledger = MemoryLedger(limit: 1_000)
  private let desk: MediaDesk

  init() { desk = MediaDesk(ledger: ledger) }

  private func input(_ value: UInt8) -> MediaPassage {
    let pixel = PixelImage(width: 1, height: 1, pixels: [value, 0, 0])
    return MediaPassage(
      kind: .image, soft: 0, parts: [.soft(MediaInput(content: .image(pixel), tokenCount: 1))])
  }

  private func digest(_ value: UInt8) -> [UInt8] { input(value).inputs[0].digest }

  private func refusal(
    _ key: [UInt8], until deadline: Instant = .now, isUnwanted: () -> Bool = { false }
  ) -> APIError? {
    do throws(APIError) {
      _ = try desk.input(key, for: "p", until: deadline, isUnwanted: isUnwanted) { _ throws(APIError) in
        Issue.record("it was made")
        return input(0)
      }
      return nil
    } catch {
      return error
    }
  }

  @Test func `an input is made once, one that could not be made again`() throws {
    #expect(throws: APIError.invalidValue("p", "no")) {
      try desk.input([1], for: "p") { _ throws(APIError) in throw .invalidValue("p", "no") }
    }
    let first = try desk.input([1], for: "p") { _ throws(APIError) in input(1) }
    let second = try desk.input([1], for: "p") { _ throws(APIError) in input(2) }
    #expect(first.inputs[0].digest == digest(1))
    #expect(second.inputs[0].digest == digest(1))
  }

  @Test func `what two ask for at the same time is made for both`() throws {
    let count = Monitor(0)
    let found = Monitor<[[UInt8]]>([])
    for _ in 0..<2 {
      try Thread(name: "request") { [self] in
        let made = try? desk.input([7], for: "p") { _ throws(APIError) in
          let number = count.update { count in
            count += 1
            return count
          }
          // Time in which the other would come here too.
          let _: Bool? = count.wait(until: Instant.now.adding(seconds: 0.5)) { $0 > 1 ? true : nil }
          return input(UInt8(number))
        }
        found.update { $0.append(made?.inputs[0].digest ?? []) }
      }.detach()
    }
    let all: Bool? = found.wait(until: Instant.now.adding(seconds: 20)) { $0.count == 2 ? true : nil }
    #expect(all == true)
    #expect(found.withLock { $0 } == [digest(1), digest(1)])
    #expect(count.withLock { $0 } == 1)
  }

  @Test func `who finds no place is refused in the end, and who has left at once`() throws {
    _ = try desk.input([1], for: "p") { _ throws(APIError) in
      // The same input is awaited even where there is a place.
      #expect(refusal([1])?.code == "overloaded")
      return try desk.input([2], for: "p") { _ throws(APIError) in
        let error = refusal([3])
        #expect(error?.status == 503)
        #expect(error?.param == "p")
        #expect(error?.retryAfter == 5)
        #expect(
          refusal([3], until: Instant.now.adding(seconds: 60), isUnwanted: { true })
            == APIError(AnswerFailure.clientGone, param: "p"))
        return input(2)
      }
    }
    // Both places are free again.
    let third = try desk.input([3], for: "p", until: .now) { _ throws(APIError) in input(3) }
    #expect(third.inputs[0].digest == digest(3))
    // What is known needs no place.
    #expect(refusal([2]) == nil)
  }

  @Test func `what a decoder takes and what is kept is in the ledger`() throws {
    let made = try desk.input([1], for: "p") { loan throws(APIError) in
      #expect(loan.extend(by: 900))
      #expect(!loan.extend(by: 200))
      #expect(ledger.bytes(of: .media) == 900)
      return input(1)
    }
    #expect(ledger.bytes(of: .media) == made.byteCount)
    #expect(throws: APIError.invalidValue("p", "no")) {
      try desk.input([2], for: "p") { loan throws(APIError) in
        #expect(loan.extend(by: 500))
        throw .invalidValue("p", "no")
      }
    }
    #expect(ledger.bytes(of: .media) == made.byteCount)
  }

  @Test func `texts of PDFs are kept below a bound, the last used ones, where there is memory`() throws {
    let ledger = MemoryLedger(limit: 40 << 20)
    let texts = TextDesk(ledger: ledger)
    /// Whether it was read.
    func reads(_ key: UInt8, _ mebibytes: Int) throws -> Bool {
      var isRead = false
      let text = try texts.input([key], for: "p") { _ throws(APIError) in
        isRead = true
        return [UInt8](repeating: key, count: mebibytes << 20)
      }
      #expect(text.first == key && text.count == mebibytes << 20)
      return isRead
    }
    #expect(try reads(1, 6) && reads(2, 6) && !reads(1, 6))
    #expect(ledger.bytes(of: .media) == 12 << 20)
    #expect(try reads(3, 8) && !reads(1, 6) && !reads(3, 8) && reads(2, 6))
    // The first was used before the third.
    #expect(ledger.bytes(of: .media) == 14 << 20)
    #expect(try reads(4, 17) && reads(4, 17))
    #expect(ledger.reserve(25 << 20, for: .answers))
    #expect(try reads(5, 2) && reads(5, 2))
    #expect(ledger.bytes(of: .media) == 14 << 20)
  }
}
