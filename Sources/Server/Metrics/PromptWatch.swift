// Which clients change something in front of what they have sent before, so that it is read again with every request.
//
// The last prompts are kept as tokens. Where one parts from the earlier prompt that it agrees with the longest, and soon
// agrees with it again for long, something short has changed in between: a time, a number of the request, a hash.

import Platform

/// The first such place of a client and a model.
struct MovingPrompt: Sendable, Equatable {
  /// As its header `User-Agent` begins.
  let client: String
  let model: String
  /// Tokens in front that stay.
  let position: Int
  let promptTokens: Int
  /// Tokens behind that stayed the same, and were found no more.
  let repeated: Int
  /// Text before the place, what stood there before, what stands there now, and text behind it.
  let before: String
  let was: String
  let now: String
  let after: String
  /// Prompts with such a place so far.
  var count = 1
}

/// Shared by all connections.
final class PromptWatch: Sendable {
  private struct Prompt {
    let client: String
    let key: UInt64
    let model: String
    let tokens: [Int32]
  }

  private struct State {
    /// The latest last.
    var prompts: [Prompt] = []
    var found: [MovingPrompt] = []
  }

  private let state = Monitor(State())

  /// Prompts that are kept, and their tokens all together.
  private static let mostPrompts = 16
  private static let mostTokens = 1 << 18
  /// Clients that are told of.
  private static let mostFound = 32
  /// Tokens that may have changed, and that must be the same again behind them.
  private static let longestChange = 256
  private static let shortestRest = 128

  /// What was noticed so far, the first of each client and model.
  var found: [MovingPrompt] { state.withLock { $0.found } }

  /// Looks at a prompt before it is computed.
  ///
  /// - Parameters:
  ///   - agent: the header `User-Agent`.
  ///   - key: whose request it is: prompts of others are not compared.
  ///   - decode: the text of tokens.
  /// - Returns: what has moved in it, with the tokens that must be read again; and whether it is the first of its client.
  func note(
    _ tokens: [Int32], agent: String?, key: UInt64, model: String, decode: ([Int32]) -> String
  ) -> (moving: MovingPrompt, isFirst: Bool)? {
    guard tokens.count > Self.shortestRest, tokens.count <= Self.mostTokens else { return nil }
    let client = Self.name(agent)
    return state.withLock { state in
      let others = state.prompts.filter { $0.key == key && $0.model == model && $0.client == client }
      state.prompts.append(Prompt(client: client, key: key, model: model, tokens: tokens))
      while state.prompts.count > Self.mostPrompts
        || state.prompts.reduce(0, { $0 + $1.tokens.count }) > Self.mostTokens
      { state.prompts.removeFirst() }
      let shared = others.map { Self.shared($0.tokens[...], tokens[...]) }
      // Of equally good ones the latest.
      guard let (earlier, position) = zip(others, shared).max(by: { $0.1 <= $1.1 }),
        let (was, now, repeated) = Self.change(from: earlier.tokens[position...], to: tokens[position...])
      else { return nil }
      if let index = state.found.firstIndex(where: { $0.client == client && $0.model == model }) {
        state.found[index].count += 1
        return (state.found[index], false)
      }
      let behind = now.endIndex
      let moving = MovingPrompt(
        client: client, model: model, position: position, promptTokens: tokens.count, repeated: repeated,
        before: decode(Array(tokens[..<position].suffix(16))), was: decode(Array(was.prefix(64))),
        now: decode(Array(now.prefix(64))), after: decode(Array(tokens[behind...].prefix(16))))
      if state.found.count < Self.mostFound { state.found.append(moving) }
      return (moving, true)
    }
  }

  private static func name(_ agent: String?) -> String {
    let name = (agent ?? "").prefix { $0 != "/" && $0 != " " && $0 != "(" }.prefix(40)
    return name.isEmpty ? "unknown" : String(name)
  }

  private static func shared(_ a: ArraySlice<Int32>, _ b: ArraySlice<Int32>) -> Int {
    zip(a, b).prefix { $0 == $1 }.count
  }

  /// The shortest change after which both go on alike for long; nil where there is none.
  private static func change(from old: ArraySlice<Int32>, to new: ArraySlice<Int32>)
    -> (was: ArraySlice<Int32>, now: ArraySlice<Int32>, repeated: Int)?
  {
    // What goes on with the earlier prompt, as most do, has nothing to look for.
    guard min(old.count, new.count) >= shortestRest else { return nil }
    for length in 1...2 * longestChange {
      for left in max(0, length - longestChange)...min(length, longestChange) {
        let (a, b) = (old.dropFirst(left), new.dropFirst(length - left))
        guard let first = a.first, first == b.first else { continue }
        let repeated = shared(a, b)
        if repeated >= shortestRest { return (old.prefix(left), new.prefix(length - left), repeated) }
      }
    }
    return nil
  }
}
