// Whether an answer is what its receipt says: the whole of it is computed again, many positions at a time, and each token
// is compared with what sampling takes there.

import Decoding
import Inference
package import JSON
package import Media
import Platform
import Tokenizers

/// What checking a receipt has found.
package struct ReceiptReport: Sendable, Equatable {
  /// The first token that the model does not take. Probabilities are of the model's own distribution, before the sampler's
  /// settings.
  package struct Difference: Sendable, Equatable {
    /// Tokens before it.
    package var index: Int
    /// Nil for the end of the answer.
    package var written, taken: Int32?
    package var writtenText, takenText: String
    package var writtenProbability, takenProbability: Double?
  }

  /// Of the answer.
  package var tokens = 0
  package var difference: Difference?
  /// Whether the digest of all probabilities is another; false where a token differs already.
  package var probabilitiesDiffer = false
  /// What the receipt says that is not so, beside the answer's tokens: "the weights' digest differs".
  package var mismatches: [String] = []

  package var isSame: Bool { difference == nil && !probabilitiesDiffer && mismatches.isEmpty }

  /// In a sentence: "all 214 tokens as said".
  package var words: String {
    var parts: [String] = []
    if let difference {
      parts.append(difference.words)
    } else {
      parts.append("all \(tokens) token\(tokens == 1 ? "" : "s") as said")
      if probabilitiesDiffer { parts.append("their probabilities differ in some bit") }
    }
    return (parts + mismatches).joined(separator: "; ")
  }

  package var json: JSONValue {
    var object = JSONObject([
      ("object", "receipt.verification"), ("is_same", .bool(isSame)), ("words", .string(words)),
      ("tokens", .int(tokens)),
    ])
    object["difference"] = difference?.json
    object["probabilities_differ"] = .bool(probabilitiesDiffer)
    object["mismatches"] = .array(mismatches.map(JSONValue.string))
    return .object(object)
  }
}

extension ReceiptReport.Difference {
  fileprivate var words: String {
    func quoted(_ text: String, _ token: Int32?) -> String { token == nil ? "the end" : "'\(text)'" }
    let texts =
      "\(quoted(writtenText, written)) was written, \(quoted(takenText, taken)) is what this model takes"
    let numbers = [writtenProbability, takenProbability].compactMap { $0 }.map(Self.fixed)
    return "differs at token \(index + 1): \(texts)"
      + (numbers.count == 2 ? " (probability \(numbers[0]) and \(numbers[1]))" : "")
  }

  /// Two significant digits.
  private static func fixed(_ probability: Double) -> String {
    var (scaled, digits) = (probability, 2)
    while scaled < 0.1, digits < 9 { (scaled, digits) = (scaled * 10, digits + 1) }
    var text = String(Int((scaled * 100).rounded()))
    while text.utf8.count < digits + 1 { text = "0" + text }
    return "\(text.prefix(text.count - digits)).\(text.suffix(digits))"
  }

  fileprivate var json: JSONValue {
    [
      "index": .int(index), "written": written.map { .int(Int($0)) } ?? nil,
      "taken": taken.map { .int(Int($0)) } ?? nil, "written_text": .string(writtenText),
      "taken_text": .string(takenText),
      "written_probability": writtenProbability.map(JSONValue.double) ?? nil,
      "taken_probability": takenProbability.map(JSONValue.double) ?? nil,
    ]
  }
}

extension LoadedModel {
  /// Computes the answer of a receipt again.
  ///
  /// - Parameters:
  ///   - media: the images and audio of its prompt, in any order (`Receipt.passage(of:for:)`).
  ///   - tenant: of whom the work is, as in `GenerationRequest`.
  ///   - isUnwanted: whether nobody waits for the result any more; asked several times a second.
  /// - Returns: nil when nobody waits any more.
  /// - Throws: `PipelineError.receipt` for one that cannot be checked, `engine` for what the engine refuses.
  package func check(
    _ receipt: Receipt, media: [MediaPassage] = [], tenant: UInt64 = 0, isUnwanted: () -> Bool = { false }
  ) throws(PipelineError) -> ReceiptReport? {
    identity.prepare()
    let (asked, stops) = try receipt.request(to: self, media: media)
    var request = asked
    request.tenant = tenant
    var run = ReceiptRun(request, endsEarly: receipt.ending == .stopText || receipt.ending == .reader)
    do throws(InferenceError) {
      guard try run.work(by: generator(), isUnwanted) else { return nil }
    } catch {
      throw .engine(error)
    }
    var report = ReceiptReport(tokens: request.expected.count, mismatches: receipt.mismatches(with: self))
    if let index = run.difference {
      report.difference = difference(run, request, at: index)
    } else {
      report.probabilitiesDiffer = run.notes.digest != receipt.members["probabilities"]?.stringValue
      if let words = receipt.problem(endingBy: run.finish, stops: stops, text: text(request.expected)) {
        report.mismatches.insert(words, at: 0)
      }
    }
    return report
  }

  private func text(_ tokens: [Int32]) -> String { tokenizer.decode(tokens, skipSpecialTokens: false) }

  /// What is told of the first token that differs: how likely what was written is takes one more step.
  private func difference(
    _ run: ReceiptRun, _ request: GenerationRequest, at index: Int
  ) -> ReceiptReport.Difference {
    let written = request.expected.indices.contains(index) ? request.expected[index] : nil
    var found = ReceiptReport.Difference(
      index: index, written: written, taken: run.taken?.id, writtenText: text([written].compactMap { $0 }),
      takenText: text([run.taken?.id].compactMap { $0 }))
    found.takenProbability = run.taken.map { exp(Double($0.logprob)) }
    guard let written else { return found }
    var again = GenerationRequest(
      promptTokens: request.promptTokens + request.expected[..<index], maxTokens: 1,
      tokenLimit: request.tokenLimit, topLogprobs: request.tokenLimit)
    (again.tenant, again.media) = (request.tenant, request.media)
    var one = ReceiptRun(again, endsEarly: false)
    guard (try? one.work(by: generator(), { false })) == true else { return found }
    let likely = one.taken?.top.first { $0.id == written }
    found.writtenProbability = likely.map { exp(Double($0.logprob)) }
    return found
  }
}

/// One generation, and how far it is what was expected.
private struct ReceiptRun {
  let request: GenerationRequest
  /// Whether the answer ended where the generation would have gone on.
  let endsEarly: Bool
  private(set) var notes = ReceiptNotes(hidesTexts: false)
  /// The first token that was not expected, and its index; no token where the end was not.
  private(set) var taken: SampledToken?
  private(set) var difference: Int?
  /// Why the generation ended by itself.
  private(set) var finish: FinishReason?

  init(_ request: GenerationRequest, endsEarly: Bool) {
    (self.request, self.endsEarly) = (request, endsEarly)
  }

  /// How often somebody is asked whether the work is wanted, seconds.
  private static let poll = 0.05

  /// False when nobody waits any more.
  mutating func work(
    by service: any GenerationService, _ isUnwanted: () -> Bool
  ) throws(InferenceError) -> Bool {
    if endsEarly, request.expected.isEmpty { return true }
    let generation = try service.submit(request)
    defer { generation.cancel() }
    while true {
      switch generation.next(until: Instant.now.adding(seconds: Self.poll)) {
      case .timedOut: if isUnwanted() { return false }
      case .closed: return false
      case .element(.token(let token)):
        let index = notes.answer.count
        guard request.expected.indices.contains(index), request.expected[index] == token.id else {
          (taken, difference) = (token, index)
          return true
        }
        notes.add(token)
        if endsEarly, notes.answer.count == request.expected.count { return true }
      case .element(.finished(.cancelled, _)): return false
      case .element(.finished(let reason, _)):
        finish = reason
        if notes.answer.count < request.expected.count { difference = notes.answer.count }
        return true
      case .element(.failed(let error)): throw error
      case .element: break
      }
    }
  }
}

extension Receipt {
  var ending: Ending? { members["ended"]?.stringValue.flatMap(Ending.init) }

  /// What is wrong with the end that it tells.
  fileprivate func problem(endingBy finish: FinishReason?, stops: [String], text: String) -> String? {
    switch ending {
    case .stopToken where finish == .stop, .length where finish == .length, .reader: nil
    case .stopText where stops.contains { text.utf8.firstRange(of: $0.utf8) != nil }: nil
    default: "the answer does not end as it says"
    }
  }

  /// What it says of the model, the version and itself that is not so here.
  fileprivate func mismatches(with model: LoadedModel) -> [String] {
    let identity = model.identity
    var words = isIntact ? [] : ["its own digest differs: it was changed after it was made"]
    if isSigned == false { words.append("its signature is not that of its key") }
    let digests = model.digests
    for (name, digest) in digests where members["digests"]?[name]?.stringValue != digest {
      words.append("the digest of the \(Self.called(name)) differs")
    }
    if model.adapter == nil, let digest = members["digests"]?["adapter"]?.stringValue {
      words.append("it was computed with the adapter \(digest.prefix(12)), and this model has none")
    }
    for (name, here) in [("arithmetic", identity.arithmetic), ("cache", identity.cache)] {
      let there = members[name]?.stringValue ?? "none"
      if there != here { words.append("the \(Self.called(name)) is \(there) there and \(here) here") }
    }
    return words
  }
}
