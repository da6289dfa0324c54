// The beginning of the next turn's prompt, computed while nobody waits.
//
// Many templates leave out the reasoning of earlier answers, or write these otherwise once the user has spoken again. Then
// what was computed with an answer, and with the calls before it, is not what the next prompt begins with. That beginning
// can be known as soon as the answer has ended.

import Chat
import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Wire

struct NextTurn: Sendable {
  private let scope: RequestScope
  private let request: ChatRequest
  private let template: ChatTemplate
  private let prompt: [Int32]

  /// Fewer tokens are soon computed with the next prompt.
  private static let leastGain = 64
  /// Prompts that are computed ahead at a time; answers beyond it go without.
  private static let most = 2
  /// How long one may wait for requests that do not give way, seconds.
  private static let patience = 120.0
  private static let stackBytes = 1 << 20

  /// - Returns: nil where the next prompt begins with this one and its answer, or cannot be known.
  init?(_ scope: RequestScope, _ request: ChatRequest, _ template: ChatTemplate, _ prompt: ModelPrompt) {
    guard template.format.supportsReasoning, !scope.givesWay, prompt.media.isEmpty,
      request.options.choices == 1, request.options.promptTruncation == nil, request.addsGenerationPrompt
    else { return nil }
    var scope = scope
    // The body is no more needed.
    scope.memory = nil
    (self.scope, self.request, self.template) = (scope, request, template)
    self.prompt = prompt.tokens
  }

  /// Computes it on a thread of its own, once the answer has ended.
  ///
  /// - Parameter tokens: of the answer, as they were computed behind the prompt.
  func read(after answer: String, tokens: [Int32]) {
    let readers = scope.server.readersAhead
    guard
      readers.withLock({ count in
        guard count < Self.most else { return false }
        count += 1
        return true
      })
    else { return }
    let thread = try? Thread(name: "next turn", stackBytes: Self.stackBytes) {
      if let beginning = beginning(after: answer, tokens: tokens) { compute(beginning) }
      readers.withLock { $0 -= 1 }
    }
    guard let thread else { return readers.withLock { $0 -= 1 } }
    thread.detach()
  }

  /// The tokens up to what the user says next; nil where they are computed but for a few.
  private func beginning(after answer: String, tokens: [Int32]) -> [Int32]? {
    func next(_ text: String) -> [Int32]? {
      var request = request
      request.messages += [
        ["role": "assistant", "content": .string(answer)], ["role": "user", "content": .string(text)],
      ]
      return try? ChatPlan(scope).render(request, template).tokens
    }
    guard let one = next("a"), let other = next("1") else { return nil }
    let count = zip(one, other).prefix { $0 == $1 }.count
    let known = zip(one, prompt + tokens).prefix { $0 == $1 }.count
    guard count - known >= Self.leastGain, count < scope.model.contextTokens else { return nil }
    return Array(one[..<count])
  }

  private func compute(_ beginning: [Int32]) {
    var request = GenerationRequest(promptTokens: beginning, maxTokens: 1)
    request.tenant = scope.client.number
    request.givesWay = true
    guard let work = try? scope.model.generator().submit(request) else { return }
    defer { work.cancel() }
    let deadline = Instant.now.adding(seconds: Self.patience)
    while true {
      switch work.next(until: deadline) {
      case .element(.started), .element(.progress), .element(.promptLogprobs): continue
      case .element(.token), .element(.finished), .element(.failed), .closed, .timedOut: return
      }
    }
  }
}
