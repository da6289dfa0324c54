// What remembered answers hold of the memory that is accounted for.

import JSON
import Platform
import Testing

@testable import Pipeline

@Suite struct WrittenAnswersTests {
  private func answer(_ number: Int, tokens count: Int) throws -> WrittenAnswer {
    let json: JSONValue = [
      "start": .int(number), "before": .string(SHA256.hexadecimal(SHA256.digest([]))),
      "tokens": .array((0..<count).map { .int($0) }),
    ]
    return try #require(WrittenAnswer(json))
  }

  @Test func `their memory is claimed, and given back with them`() throws {
    let ledger = MemoryLedger(limit: 1 << 20)
    var answers: WrittenAnswers? = WrittenAnswers(ledger: ledger)
    answers?.add([try answer(0, tokens: 1_000)], tenant: 1)
    let one = ledger.snapshot().total
    #expect(one >= 4_000)
    // The same once more takes its place.
    answers?.add([try answer(0, tokens: 1_000)], tenant: 1)
    #expect(ledger.snapshot().total == one)
    answers?.add([try answer(1, tokens: 1_000)], tenant: 1)
    #expect(ledger.snapshot().total == 2 * one)
    answers = nil
    #expect(ledger.snapshot().total == 0)
  }

  @Test func `what there is no memory for is not remembered`() throws {
    let ledger = MemoryLedger(limit: 5_000)
    let answers = WrittenAnswers(ledger: ledger)
    answers.add([try answer(0, tokens: 1_000), try answer(1, tokens: 1_000)], tenant: 1)
    #expect(ledger.snapshot().total <= 5_000)
    #expect(answers.answers(in: [], tenant: 1).count == 1)
  }
}
