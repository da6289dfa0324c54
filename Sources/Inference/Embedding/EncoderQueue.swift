// Which texts the next step encodes: a pure value that tests replay without a model.
//
// Steps are formed of texts, not of requests: a request of thousands of texts shares its steps with others, one text of
// each in turn. Texts lie one after the other, so a step is full when its tokens are.

import Platform
import Synchronization

/// Texts that wait.
struct EncoderQueue {
  /// A request on its way.
  final class Work: Sendable {
    let request: EmbeddingRequest
    let mailbox: Mailbox<EmbeddingEvent>
    /// The texts to encode, by their indices, and the names under which their vectors are kept.
    let texts: [(index: Int, key: [UInt8]?)]
    /// Texts that have no result yet.
    private let missing: Atomic<Int>

    init(
      _ request: EmbeddingRequest, _ mailbox: Mailbox<EmbeddingEvent>, texts: [(index: Int, key: [UInt8]?)]
    ) {
      (self.request, self.mailbox, self.texts) = (request, mailbox, texts)
      missing = Atomic(texts.count)
    }

    /// Counts a result; true when it was the last.
    func noteResult() -> Bool { missing.subtract(1, ordering: .relaxed).newValue == 0 }
  }

  /// One text of a step.
  struct Item: Sendable {
    let work: Work
    let index: Int
    let key: [UInt8]?

    var text: EmbeddingText { work.request.texts[index] }
  }

  /// A request, and how much of it has been given out.
  private struct Entry {
    let work: Work
    var next = 0
  }

  /// In the order of their turns.
  private var lanes = [[Entry]](repeating: [], count: EmbeddingPriority.allCases.count)
  /// Steps for those who wait since the last one for the background.
  private var stepsBeforeBackground = 0
  /// Where others wait too, the background gets one step in this many.
  private static let backgroundShare = 4

  /// Requests with texts that wait.
  var count: Int { lanes.reduce(0) { $0 + $1.count } }

  mutating func add(_ work: Work) { lanes[work.request.priority.rawValue].append(Entry(work: work)) }

  /// Takes all requests out.
  mutating func removeAll() -> [Work] {
    defer { lanes = lanes.map { _ in [] } }
    return lanes.flatMap { $0.map(\.work) }
  }

  /// The texts of the next step; none when none wait.
  ///
  /// - Parameters:
  ///   - tokens: of a step for each priority. A longer text has a step of its own.
  ///   - holdsBackground: whether the background has to wait whoever else does.
  mutating func take(tokens: (EmbeddingPriority) -> Int, holdsBackground: Bool = false) -> [Item] {
    for lane in lanes.indices { lanes[lane].removeAll { $0.work.mailbox.isClosed } }
    let waiting = EmbeddingPriority.allCases.filter { priority in
      !lanes[priority.rawValue].isEmpty && !(holdsBackground && priority == .background)
    }
    guard var priority = waiting.first else { return [] }
    if waiting.count > 1 {
      stepsBeforeBackground += 1
      if stepsBeforeBackground >= Self.backgroundShare { priority = .background }
    }
    if priority == .background { stepsBeforeBackground = 0 }
    return take(from: priority.rawValue, tokens: tokens(priority))
  }

  /// One text of each request in turn.
  private mutating func take(from lane: Int, tokens: Int) -> [Item] {
    var items: [Item] = []
    var left = tokens
    while var entry = lanes[lane].first {
      let work = entry.work
      let place = work.texts[entry.next]
      let count = work.request.texts[place.index].tokens.count
      guard items.isEmpty || count <= left else { break }
      lanes[lane].removeFirst()
      items.append(Item(work: work, index: place.index, key: place.key))
      entry.next += 1
      left -= count
      if entry.next < work.texts.count { lanes[lane].append(entry) }
    }
    return items
  }
}
