// Guesses from a sequence's own text.

import Testing

@testable import Inference

@Suite struct DrafterTests {
  @Test func `what followed the last three tokens before is guessed`() {
    var drafter = Drafter(reference: [])
    #expect(drafter.guess(after: [1, 2, 3, 4, 5, 9, 1, 2, 3], most: 15) == [4, 5, 9, 1])
    #expect(drafter.guess(after: [1, 2, 3, 4, 5, 9, 1, 2, 3, 4], most: 2) == [5, 9])
  }

  @Test func `the latest occurrence counts`() {
    var drafter = Drafter(reference: [])
    #expect(drafter.guess(after: [1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3], most: 1) == [5])
  }

  @Test func `nothing is guessed without a repetition`() {
    var drafter = Drafter(reference: [])
    #expect(drafter.guess(after: [], most: 15).isEmpty)
    #expect(drafter.guess(after: [1, 2], most: 15).isEmpty)
    #expect(drafter.guess(after: [1, 2, 3, 4, 5, 6], most: 15).isEmpty)
    #expect(drafter.guess(after: [1, 2, 3, 4, 5, 6, 1, 2, 3], most: 0).isEmpty)
  }

  @Test func `a reference is guessed from, but not beyond its end`() {
    var drafter = Drafter(reference: [7, 8, 9, 10, 11])
    #expect(drafter.guess(after: [1, 7, 8, 9], most: 15) == [10, 11])
    #expect(drafter.guess(after: [1, 7, 8, 9, 10, 11], most: 15).isEmpty)
  }

  @Test func `guesses that hold make longer guesses, failures make pauses`() {
    var drafter = Drafter(reference: Array(0..<100))
    #expect(drafter.guess(after: [1, 2, 3], most: 15).count == 4)
    drafter.learn(guessed: 4, held: 4)
    #expect(drafter.guess(after: [1, 2, 3], most: 15).count == 8)
    drafter.learn(guessed: 8, held: 0)
    #expect(drafter.guess(after: [1, 2, 3], most: 15).isEmpty)
    #expect(drafter.guess(after: [1, 2, 3], most: 15).isEmpty)
    #expect(drafter.guess(after: [1, 2, 3], most: 15).count == 2)
    drafter.learn(guessed: 2, held: 0)
    for _ in 0..<4 { #expect(drafter.guess(after: [1, 2, 3], most: 15).isEmpty) }
    #expect(drafter.guess(after: [1, 2, 3], most: 15).count == 2)
  }
}
