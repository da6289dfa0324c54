// What TEI's routes do with a model, what they tell of it in headers, and how their errors look.

import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Wire

/// What an answer took; clients of TEI read it from headers.
struct TEIWork {
  var characters: Int
  var tokens = 0
  let begin = Instant.now
  var tokenized: Instant?
  var encoded: Instant?

  private func milliseconds(_ from: Instant?, _ to: Instant?) -> String {
    guard let from, let to else { return "0" }
    return String(Int(to.seconds(since: from) * 1e3))
  }

  var headers: [(String, String)] {
    [
      ("x-compute-type", "cpu"), ("x-compute-time", milliseconds(begin, .now)),
      ("x-compute-characters", String(characters)), ("x-compute-tokens", String(tokens)),
      ("x-total-time", milliseconds(begin, .now)),
      ("x-tokenization-time", milliseconds(begin, tokenized)),
      ("x-inference-time", milliseconds(tokenized, encoded)),
    ]
  }
}

extension EmbeddingContext {
  func options(_ request: TEIOptions) throws(APIError) -> Embedder.Options {
    var options = Embedder.Options()
    options.truncation = request.truncation.map(Embedder.Truncation.init)
    options.tenant = scope.client.number
    if let name = request.promptName { options.prompt = .named(name) }
    return options
  }

  /// What the encoder makes of inputs.
  func run(
    _ inputs: [TextInput], _ options: Embedder.Options, _ output: EmbeddingText.Output,
    _ context: ConnectionContext, name: (_ index: Int) -> String = { "inputs[\($0)]" }
  ) throws(APIError) -> (values: [[Float]], work: TEIWork) {
    var work = TEIWork(characters: inputs.reduce(0) { $0 + $1.characters })
    do throws(EmbeddingError) {
      let prepared = try embedder.prepare(inputs.map(Embedder.Input.init), options, output: output)
      try check(tokens: prepared.tokenCount)
      work.tokens = prepared.tokenCount
      work.tokenized = .now
      let values = try encode(prepared, context)
      work.encoded = .now
      return (values, work)
    } catch {
      throw APIError(error, name: name)
    }
  }

  /// A classifier's logits of texts and pairs.
  func classify(
    _ request: TEIPredictRequest, _ context: ConnectionContext
  ) throws(APIError) -> ([[Float]], TEIWork) {
    var work = TEIWork(
      characters: request.inputs.reduce(0) { $0 + $1.first.count + ($1.second?.count ?? 0) })
    do throws(EmbeddingError) {
      var logits = [[Float]](repeating: [], count: request.inputs.count)
      let singles = request.inputs.indices.filter { request.inputs[$0].second == nil }
      let pairs = request.inputs.indices.filter { request.inputs[$0].second != nil }
      var options = Embedder.Options()
      options.truncation = request.options.truncation.map(Embedder.Truncation.init)
      var pairOptions = PairOptions()
      pairOptions.truncation = options.truncation
      let alone = try embedder.prepare(
        singles.map { .text(request.inputs[$0].first) }, options, output: .labels)
      let joined = try embedder.preparePairs(
        pairs.map { request.inputs[$0].first }, pairs.map { request.inputs[$0].second ?? "" }, pairOptions)
      work.tokens = alone.tokenCount + joined.tokenCount
      try check(tokens: work.tokens)
      work.tokenized = .now
      for (places, prepared) in [(singles, alone), (pairs, joined)] where !places.isEmpty {
        for (place, values) in zip(places, try encode(prepared, context)) { logits[place] = values }
      }
      work.encoded = .now
      return (logits, work)
    } catch {
      throw APIError(error) { "inputs[\(max(0, $0))]" }
    }
  }
}

extension TextInput {
  fileprivate var characters: Int {
    switch self {
    case .text(let text): text.count
    case .tokens: 0
    }
  }
}

extension APIError {
  /// The model is there, and cannot do this: TEI's word for it is a failure of the backend.
  static func unsupportedByModel(_ reason: String) -> APIError {
    APIError(
      status: 424, type: "Backend", code: "unsupported_operation", param: "model",
      message: "Unsupported by this model: \(reason).")
  }

  /// With TEI's status: what a body says wrongly is 422 there, and a failure of the model 424.
  var forTEI: APIError {
    var error = self
    guard type != "Empty" else { return error }
    if status == 400 { error.status = code == "unsupported_operation" ? 424 : 422 }
    if status == 500 { error.status = 424 }
    return error
  }
}

extension Operation {
  /// TEI has the path too, for another body.
  mutating func isTEI(too body: DescribedBody) {
    bodies.append(body)
    (error, failures) = ("ErrorOfTwoWires", Wire.teiFailures)
  }
}

extension Wire {
  /// TEI's: an error is a text and its kind.
  static let tei = Wire(
    roots: ["/embed", "/embed_all", "/embed_sparse", "/predict", "/similarity", "/decode", "/info"],
    idHeader: nil, schema: "TEIError", failures: teiFailures
  ) { error, _ in ["error": .string(error.message), "error_type": .string(kind(of: error))] }

  /// TEI's clients tell these apart: what a body says wrongly, what the model cannot do, and a queue that is full.
  static let teiFailures = ["422", "424", "429"]

  private static func kind(of error: APIError) -> String {
    switch error.status {
    case 400 where error.type == "Empty": "Empty"
    case 424, 500: "Backend"
    case 429: "Overloaded"
    case 503: "Unhealthy"
    default: "Validation"
    }
  }
}
