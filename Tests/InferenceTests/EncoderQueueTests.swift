// Which texts share a step: one of each request in turn, by tokens, those who wait before the background.

import Platform
import Testing

@testable import Inference

@Suite struct EncoderQueueTests {
  private func work(_ lengths: [Int], _ priority: EmbeddingPriority = .interactive) -> EncoderQueue.Work {
    let texts = lengths.map { EmbeddingText(tokens: [Int32](repeating: 1, count: $0)) }
    return EncoderQueue.Work(
      EmbeddingRequest(texts, priority: priority), Mailbox(capacity: lengths.count + 1),
      texts: lengths.indices.map { ($0, nil) })
  }

  private func lengths(_ queue: inout EncoderQueue, _ tokens: Int) -> [Int] {
    queue.take { _ in tokens }.map(\.text.tokens.count)
  }

  @Test func `requests take turns, text by text`() {
    var queue = EncoderQueue()
    queue.add(work([1, 2, 3, 4]))
    queue.add(work([10, 20]))
    #expect(lengths(&queue, 14) == [1, 10, 2])
    #expect(lengths(&queue, 100) == [20, 3, 4])
    #expect(lengths(&queue, 100) == [] && queue.count == 0)
  }

  @Test func `a text that is longer than a step has one of its own`() {
    var queue = EncoderQueue()
    queue.add(work([500, 1]))
    #expect(lengths(&queue, 100) == [500])
    #expect(lengths(&queue, 100) == [1])
  }

  @Test func `the background waits, but not for ever`() {
    var queue = EncoderQueue()
    queue.add(work([Int](repeating: 7, count: 9), .background))
    queue.add(work([Int](repeating: 1, count: 9)))
    let steps = (0..<9).map { _ in lengths(&queue, 1) }
    #expect(steps == [[1], [1], [1], [7], [1], [1], [1], [7], [1]])
  }

  @Test func `requests that nobody reads are forgotten`() {
    var queue = EncoderQueue()
    let gone = work([1, 1])
    queue.add(gone)
    queue.add(work([2]))
    gone.mailbox.close()
    #expect(lengths(&queue, 100) == [2] && queue.count == 0)
  }
}
