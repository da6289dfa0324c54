// What Swift programs may use: everything that is public in the product `MLXServe`, and nothing else is.

/// Why there is no model, no server or no answer.
public struct MLXServeError: Error, Sendable, CustomStringConvertible {
  /// What kind of error it is. The words of the cases are stable.
  public enum Code: String, Sendable {
    /// No such folder, or none of a model.
    case modelNotFound = "model_not_found"
    /// A model that this version cannot run.
    case modelUnsupported = "model_unsupported"
    /// Files that are cut, damaged or contradict each other.
    case modelCorrupt = "model_corrupt"
    case outOfMemory = "out_of_memory"
    case addressInUse = "address_in_use"
    case invalidArgument = "invalid_argument"
    /// Too many answers are waited for already.
    case busy
    /// Everything else: the description says what.
    case failed = "internal"
  }

  public let code: Code
  /// The option that cannot be used, where it is one.
  public let setting: String?
  /// What happened, where, and what to do.
  public let description: String

  init(_ code: Code, _ description: String, setting: String? = nil) {
    (self.code, self.setting, self.description) = (code, setting, description)
  }
}

/// How a model is loaded.
public struct ModelOptions: Sendable {
  /// The name by which requests name it; nil for the folder's.
  public var id: String?
  /// Whether the model reasons where nobody says; nil leaves it to its template.
  public var thinking: Bool?
  /// Whether the weights for images and audio are read when the first one comes.
  public var lazyEncoders: Bool
  /// Answers that are computed together.
  public var maxSequences: Int
  /// Most tokens of a conversation; nil for the model's own limit, or less if memory is short.
  public var maxContext: Int?
  /// Where `mlxserve prepare` keeps weights in the order of the kernels, `~/.cache/mlxserve/prepared` if it was not told
  /// otherwise: those of this folder, if there are any, are mapped and not copied. Nil copies.
  public var preparedFolder: String?

  public init(
    id: String? = nil, thinking: Bool? = nil, lazyEncoders: Bool = true, maxSequences: Int = 4,
    maxContext: Int? = nil, preparedFolder: String? = nil
  ) {
    (self.id, self.thinking, self.lazyEncoders) = (id, thinking, lazyEncoders)
    (self.maxSequences, self.maxContext, self.preparedFolder) = (maxSequences, maxContext, preparedFolder)
  }
}

/// Where and for whom a model is served.
public struct ServerOptions: Sendable {
  /// A numeric address, or `localhost`. One that other machines reach needs keys.
  public var host: String
  /// 0 takes a free port.
  public var port: Int
  /// The name by which requests name the model; nil for the one that it was loaded with.
  public var modelID: String?
  /// Most requests that wait; one more is told to come again. Nil for 64.
  public var queueLimit: Int?
  /// With keys, requests must send one of them.
  public var apiKeys: [String]
  /// Web pages that may use the server beside its own, as browsers write them: `https://example.org`.
  public var origins: [String]

  public init(
    host: String = "127.0.0.1", port: Int = 0, modelID: String? = nil, queueLimit: Int? = nil,
    apiKeys: [String] = [], origins: [String] = []
  ) {
    (self.host, self.port, self.modelID) = (host, port, modelID)
    (self.queueLimit, self.apiKeys, self.origins) = (queueLimit, apiKeys, origins)
  }
}

/// A model in memory. It can be used from any thread and task; it is freed by `unload`, or with the last reference.
///
/// ```swift
/// let model = try await Model.load(folder: "models/Qwen3-0.6B-4bit")
/// let chat = try model.chat(system: "Be brief.")
/// for try await piece in chat.send("Why is the sky blue?") {
///   if case .text(let text) = piece { print(text, terminator: "") }
/// }
/// ```
public final class Model: Sendable {
  let hosted: HostedModel

  /// Opens a folder with an MLX or Hugging Face model, and blocks until it is in memory.
  ///
  /// - Throws: with a code and words that say what is wrong with the folder, the machine or the options.
  public init(folder: String, options: ModelOptions = ModelOptions()) throws(MLXServeError) {
    hosted = try HostedModel(folder, options)
  }

  /// The same without blocking the caller.
  public static func load(folder: String, options: ModelOptions = ModelOptions()) async throws -> Model {
    try await onThread { try Model(folder: folder, options: options) }
  }

  /// The name by which requests name it.
  public var id: String { hosted.id }

  /// Most tokens of a conversation, or of a prompt and what follows it.
  public var contextLength: Int { hosted.contextLength }

  /// Text that goes on from a prompt, without the model's chat template.
  public func generate(_ prompt: String, options: AnswerOptions = AnswerOptions()) -> Answer {
    Answer(hosted) { try $0.complete(prompt, options) }
  }

  /// A new conversation.
  ///
  /// - Throws: for a model without a chat template, and for a schema that is none.
  public func chat(system: String? = nil, options: AnswerOptions = AnswerOptions()) throws(MLXServeError)
    -> Chat
  {
    try Chat(hosted, system: system, options)
  }

  /// Vectors of texts, in their order. Each has the length 1, so that a sum of products says how alike two texts are.
  ///
  /// - Throws: for a model that generates text (`modelUnsupported`), for a text with more tokens than `contextLength`
  ///   (`invalidArgument`), and `CancellationError` when the task is cancelled.
  public func embed(_ texts: [String], as use: TextUse = .plain) async throws -> [[Float]] {
    try await onThread { [hosted] isCancelled in
      try hosted.embed(texts, as: use, isUnwanted: isCancelled)
    }
  }

  /// A folder of notes that this model searches.
  ///
  /// - Parameter index: another folder, for what is known of the notes; it is made where there is none. One program at
  ///   a time may use it.
  /// - Throws: for a model that generates text (`modelUnsupported`), and for folders that cannot be used.
  public func notes(in folder: String, index: String) throws(MLXServeError) -> Notes {
    Notes(hosted: try HostedNotes(hosted, folder: folder, index: index))
  }

  /// Computes an answer again and compares it with what its receipt says.
  ///
  /// - Parameters:
  ///   - receipt: as JSON text: a receipt, or an answer that carries one. The first is checked.
  ///   - media: the files of the images and audio clips of its prompt, of which a receipt has digests alone.
  /// - Throws: for what holds no receipt, and for one that this model cannot check (`invalidArgument`), and
  ///   `CancellationError` when the task is cancelled.
  public func check(receipt: String, media: [[UInt8]] = []) async throws -> ReceiptFinding {
    try await onThread { [hosted] isCancelled in
      try hosted.check(receipt, media, isUnwanted: isCancelled)
    }
  }

  /// Serves the model over HTTP, with all routes of `mlxserve serve`, until the server is stopped or unreferenced.
  public func serve(_ options: ServerOptions = ServerOptions()) throws(MLXServeError) -> ModelServer {
    ModelServer(hosted: try HostedServer(hosted, options))
  }

  /// Frees the memory. Answers under way end with an error; stop servers first. Blocks for two seconds at most.
  public func unload() { hosted.close() }
}

/// A model that is served over HTTP.
public final class ModelServer: Sendable {
  private let hosted: HostedServer

  init(hosted: HostedServer) { self.hosted = hosted }

  /// Where clients find it, without the `/v1` of OpenAI's: `http://127.0.0.1:58291`.
  public var baseURL: String { hosted.baseURL }

  /// Ends it: answers under way get a last word.
  public func stop() { hosted.stop() }
}

/// How an answer is made.
public struct AnswerOptions: Sendable {
  /// Most tokens, thinking included; nil for 32,768.
  public var maxTokens: Int?
  /// 0 always takes the likeliest token; nil for what the model's authors recommend.
  public var temperature: Double?
  /// The same seed gives the same answer; nil for another one each time.
  public var seed: UInt64?
  /// Texts that end an answer; they are not part of it.
  public var stops: [String]
  /// Whether the model reasons, where its template has a switch for that; nil for the model's own.
  public var thinking: Bool?
  /// JSON Schema, as text, that every answer of a conversation fits.
  public var schema: String?

  public init(
    maxTokens: Int? = nil, temperature: Double? = nil, seed: UInt64? = nil, stops: [String] = [],
    thinking: Bool? = nil, schema: String? = nil
  ) {
    (self.maxTokens, self.temperature, self.seed) = (maxTokens, temperature, seed)
    (self.stops, self.thinking, self.schema) = (stops, thinking, schema)
  }
}

/// A part of an answer.
public enum AnswerPiece: Sendable, Equatable {
  /// What the model thinks before it answers.
  case reasoning(String)
  case text(String)
  /// The last piece: whether the answer ended by itself, and not because no more tokens were allowed.
  case end(isComplete: Bool)
}

/// An answer as it comes. The model goes on as fast as it can; leaving the loop, or cancelling its task, ends it.
public struct Answer: AsyncSequence, Sendable {
  public typealias Element = AnswerPiece
  public typealias AsyncIterator = AsyncThrowingStream<AnswerPiece, any Error>.AsyncIterator

  let pieces: AsyncThrowingStream<AnswerPiece, any Error>

  public func makeAsyncIterator() -> AsyncIterator { pieces.makeAsyncIterator() }

  /// All of its text, without the reasoning.
  public var text: String {
    get async throws {
      var whole = ""
      for try await case .text(let text) in self { whole += text }
      return whole
    }
  }
}

/// A conversation. Messages that are sent at a time are answered one after the other.
public final class Chat: Sendable {
  private let hosted: HostedModel
  private let turns: Conversation

  init(_ hosted: HostedModel, system: String?, _ options: AnswerOptions) throws(MLXServeError) {
    self.hosted = hosted
    turns = try Conversation(hosted, system: system, options)
  }

  /// Says something, and gets the model's answer. What gets no answer stays out of the conversation.
  public func send(_ text: String) -> Answer {
    Answer(hosted) { [turns] in try turns.send(text, $0) }
  }
}

/// What computing an answer again has found.
public struct ReceiptFinding: Sendable, Equatable {
  /// Whether everything is as the receipt says: tokens, probabilities, digests of the model, its own digest.
  public let isSame: Bool
  /// Tokens of the answer, and the index of the first that the model does not take.
  public let tokens: Int, differsAt: Int?
  /// In a sentence: "all 214 tokens as said".
  public let words: String
}

/// What a text is for: some models want other words in front of questions than of what is found by them.
public enum TextUse: Sendable {
  /// What the model is used with where nothing is said.
  case plain
  case question
  case passage
}

/// A folder that is searched by meaning and by words. It can be used from any thread and task.
public final class Notes: Sendable {
  private let hosted: HostedNotes

  init(hosted: HostedNotes) { self.hosted = hosted }

  /// Reads what is new in the folder or was changed since the last time: text, Markdown, HTML, JSON, tables and source
  /// code. What was read stays known when the task is cancelled.
  @discardableResult
  public func update() async throws -> NotesUpdate {
    try await onThread { [hosted] isCancelled in try hosted.update(isUnwanted: isCancelled) }
  }

  /// The passages that answer a question, best first.
  public func search(_ question: String, limit: Int = 5) async throws -> [Note] {
    try await onThread { [hosted] isCancelled in
      try hosted.search(question, limit: limit, isUnwanted: isCancelled)
    }
  }
}

/// What an update of notes has done.
public struct NotesUpdate: Sendable {
  /// Files that were read, and files that are gone.
  public let read, removed: Int
  /// Files that are not searched, and why.
  public let skipped: [(path: String, reason: String)]
}

/// A passage that answers a question.
public struct Note: Sendable {
  /// Of its file, below the folder.
  public let path: String
  public let text: String
  /// The sentence that is nearest to the question, where there is one.
  public let sentence: String?
  /// 0 to 1; it orders passages and is no probability.
  public let score: Double
  /// Why it was found, in words.
  public let why: String
}
