// What one request works with: the server it came to, the model that it names, and whose request it is.

import Chat
import HTTP
import JSON
import Pipeline
import Platform
import Tokenizers
import Wire

/// Holds the model for as long as it lives: a model with work is not unloaded.
struct RequestScope: Sendable {
  let server: ServerContext
  let lease: ModelLease
  var client = ClientIdentity()
  /// What the request has claimed of the server's memory; given back with the last reference.
  var memory: MemoryLoan?
  /// Whether the work for it gives way to all other work.
  var givesWay = false
  /// The program that has sent it, as its header `User-Agent` says.
  var agent: String?

  init(server: ServerContext, lease: ModelLease) { (self.server, self.lease) = (server, lease) }

  /// What a request over a connection works with. Its line in the log names the model.
  init(server: ServerContext, lease: ModelLease, for context: ConnectionContext) {
    self.init(server: server, lease: lease)
    (client, memory, givesWay) = (context.client, context.memory, context.givesWay)
    agent = context.agent
    context.tell(LogField.model, model.id)
  }

  var model: LoadedModel { lease.model }
  var settings: ServerSettings { server.settings }
  var limits: RequestLimits {
    var limits = server.limits
    limits.showsTools = model.template?.supportsTools ?? true
    return limits
  }
  var metrics: Metrics { settings.metrics }
  /// What this client has stored.
  var records: ClientRecords { server.records(of: client, memory: memory) }
  var reasoningEvents: ReasoningEvents { settings.responsesReasoningEvents }

  /// Most tokens of an answer: what its request says, or else what the server does.
  func answerLimit(_ options: GenerationOptions) -> Int {
    options.maxTokens ?? max(settings.maxAnswer, options.minTokens)
  }

  /// What is noted for the receipts of a request's answers; nil where they have none.
  func receipt(_ options: GenerationOptions) -> ReceiptNotes? {
    let form = options.receipt ?? settings.receipts
    return form == .off ? nil : ReceiptNotes(hidesTexts: form == .digest)
  }

  /// Special tokens that say nothing to the output parser: they have no text for the client.
  var controlTokens: Set<Int32> { model.controlTokens }

  /// Bytes that a byte of text takes while its tokens are found: normalised text, borders of words, ids, and the pairs of a
  /// word. A text that is one word, such as any of Chinese, takes 47, or 36 where each byte is a word.
  private static let workPerByte = 48

  static func workForTokens(ofBytes count: Int) -> Int {
    let (bytes, overflow) = count.multipliedReportingOverflow(by: workPerByte)
    return overflow ? .max : bytes
  }

  /// Claims what it takes to find the tokens of a text, for as long as the result is held.
  ///
  /// - Throws: 503 where `--memory` does not leave it.
  func claimForTokens(ofBytes count: Int) throws(APIError) -> MemoryLoan {
    let loan = MemoryLoan(server.models.ledger, for: .answers, patience: 0.5)
    try claim(Self.workForTokens(ofBytes: count), of: loan)
    return loan
  }

  /// The same for a text that is to be answered.
  ///
  /// - Throws: 400 where it is too long whatever memory there is.
  func claimForTokens(ofPrompt text: String, param: String) throws(APIError) -> MemoryLoan {
    do {
      return try claimForTokens(ofBytes: text.utf8.count)
    } catch {
      throw telling(error, ofPrompt: text, param: param)
    }
  }

  /// What a client is told where the memory to work on its prompt is not left: where the beginning of the text alone has
  /// more tokens than the context, that it is too long, since no later try would do.
  func telling(_ error: APIError, ofPrompt text: String, param: String) -> APIError {
    let context = model.contextTokens
    guard error.code == APIError.outOfMemoryCode, text.utf8.count / Self.bytesPerToken > context,
      let loan = try? claimForTokens(ofBytes: context * Self.bytesPerToken)
    else { return error }
    let beginning = String(decoding: text.utf8.prefix(context * Self.bytesPerToken), as: UTF8.self)
    let count = withExtendedLifetime(loan) {
      model.tokenizer.encode(beginning, addSpecialTokens: false).count
    }
    // What follows may change the last ones.
    let least = count - count / 8
    return least > context
      ? .contextLengthExceeded(
        ContextOverflow(tokens: least, limit: context, isWhole: false), param: param) : error
  }

  /// More than a token of a language has on average.
  private static let bytesPerToken = 8

  /// Notices prompts that change in front of what was sent before. The log has no text of them; `/debug/prompts` does.
  func watch(_ prompt: [Int32]) {
    let noticed = metrics.prompts.note(prompt, agent: agent, key: client.number, model: model.id) {
      model.tokenizer.decode($0, skipSpecialTokens: false)
    }
    guard let noticed else { return }
    metrics.add(moving: noticed.moving)
    guard noticed.isFirst else { return }
    Log.warning(
      "prompts move",
      [
        "client": noticed.moving.client, "model": model.id, "token": "\(noticed.moving.position)",
        "prompt_tokens": "\(noticed.moving.promptTokens)", "read_again": "\(noticed.moving.repeated)",
        "advice": "'mlxserve doctor --server URL' shows the place",
      ])
  }

  /// What all objects of a new answer have in common.
  func makeHeader(idPrefix: String) -> AnswerHeader {
    AnswerHeader(
      id: idPrefix + settings.makeID(), created: settings.now(), model: model.id,
      systemFingerprint: model.systemFingerprint,
      reasoningField: settings.reasoningField)
  }
}

extension MediaResolver {
  /// The resolver of one request.
  ///
  /// - Parameters:
  ///   - attachments: parts of a multipart body by name.
  ///   - isUnwanted: whether nobody waits for the answer any more; asked many times a second.
  convenience init(
    _ scope: RequestScope, attachments: [ByteKey: [UInt8]] = [:],
    isUnwanted: @escaping () -> Bool = { false }
  ) {
    self.init(scope.server.media, model: scope.model, attachments: attachments, isUnwanted: isUnwanted)
  }
}

/// Names in the access log that others than their writer read.
enum LogField {
  static let model = "model"
  /// Why an answer that was begun was not finished.
  static let aborted = "aborted"
}
