// Which texts share a step: one of each request in turn, by tokens, those who wait before the background.

import Compute
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

  @Test func `a background that is held takes nothing, and those who wait do`() {
    var queue = EncoderQueue()
    queue.add(work([7, 7], .background))
    #expect(queue.take(tokens: { _ in 100 }, holdsBackground: true).isEmpty && queue.count == 1)
    queue.add(work([1]))
    #expect(queue.take(tokens: { _ in 100 }, holdsBackground: true).map(\.text.tokens.count) == [1])
    #expect(lengths(&queue, 100) == [7, 7])
  }

  @Test func `beside others the background gets no more time than they do`() throws {
    let turns = SharedCompute(try ComputeContext(threads: 1))
    turns.withTurn(isBackground: true) { _ in _ = usleep(3_000) }
    // Nobody else was at work.
    #expect(turns.allowsBackground(at: Instant.now))
    turns.withTurn { _ in }
    #expect(turns.isWanted(at: Instant.now, within: 60))
    turns.withTurn(isBackground: true) { _ in _ = usleep(3_000) }
    turns.withTurn { _ in }
    let soon = Instant.now
    #expect(!turns.allowsBackground(at: soon))
    turns.withTurn { _ in _ = usleep(20_000) }
    #expect(turns.allowsBackground(at: Instant.now))
    turns.withTurn(isBackground: true) { _ in _ = usleep(3_000) }
    // When the others have ended, what was had before counts no more.
    #expect(turns.allowsBackground(at: Instant.now.adding(seconds: 10)))
    #expect(!turns.isWanted(at: Instant.now.adding(seconds: 10), within: 1))
  }

  @Test func `what others have of the background's turn is theirs`() throws {
    let turns = SharedCompute(try ComputeContext(threads: 1))
    turns.withTurn(isBackground: true) { _ in
      #expect(!turns.isWanted(at: Instant.now, within: 60))
      turns.inPause { _ = usleep(300_000) }
      #expect(turns.isWanted(at: Instant.now, within: 60))
    }
    // The background has had next to nothing, which the others have had since.
    turns.withTurn { _ in _ = usleep(250_000) }
    #expect(turns.allowsBackground(at: Instant.now))
    turns.withTurn(isBackground: true) { _ in
      turns.inPause {}
      _ = usleep(3_000)
    }
    let soon = Instant.now
    turns.withTurn { _ in }
    #expect(!turns.allowsBackground(at: soon))
  }

  @Test func `vectors that are used stay, others go`() {
    let cache = VectorCache(bytes: 4_000)
    func key(_ number: Int) -> [UInt8] { VectorCache.key(EmbeddingText(tokens: [Int32(number)]), tenant: 0) }
    cache.keep([1, 2, 3], for: key(0))
    for number in 1..<60 {
      cache.keep([Float](repeating: 1, count: 30), for: key(number))
      #expect(cache.vector(of: key(0)) == [1, 2, 3])
    }
    #expect(cache.hits == 59)
    #expect(cache.vector(of: key(59))?.count == 30)
    #expect(cache.vector(of: key(1)) == nil && cache.hits == 60)
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
