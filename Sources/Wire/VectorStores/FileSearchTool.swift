// The tool `file_search` of chat and Responses: what a request says of it, and what the model is told.

package import JSON

/// Stores that an answer may search.
package struct FileSearchTool: Sendable {
  /// Ids of vector stores, with their paths in the body.
  package let stores: [(id: String, path: String)]
  package let limit: Int
  package let filter: AttributeFilter?
  package let ranking: RankingOptions
  /// As a response repeats it.
  package let echo: JSONValue

  /// The function that the model sees.
  package static let name = Tool.fileSearchName
  private static let mostStores = 8

  init(_ tool: inout Fields) throws(APIError) {
    let field = tool.name(of: "vector_store_ids")
    let ids = try tool.required("vector_store_ids")
    guard let list = ids.arrayValue else { throw .wrongType(field, expected: "an array", found: ids) }
    guard !list.isEmpty else { throw .invalidValue(field, "it is empty") }
    try APIError.check(count: list.count, atMost: Self.mostStores, field: field)
    var stores: [(id: String, path: String)] = []
    for (index, value) in list.enumerated() {
      guard let id = value.stringValue else {
        throw .wrongType("\(field)[\(index)]", expected: "a string", found: value)
      }
      stores.append((id, "\(field)[\(index)]"))
    }
    self.stores = stores
    limit = try tool.integer("max_num_results", in: 1...50) ?? 20
    if let value = tool.value("filters") {
      filter = try AttributeFilter(value, name: tool.name(of: "filters"))
    } else {
      filter = nil
    }
    ranking = try RankingOptions(tool.value("ranking_options"), name: tool.name(of: "ranking_options"))
    echo = [
      "type": "file_search", "vector_store_ids": ids, "filters": tool.value("filters") ?? nil,
      "max_num_results": .int(limit), "ranking_options": ranking.json,
    ]
  }

  /// Reads the tool, and adds what the model sees of it.
  ///
  /// - Throws: 400 for a second one.
  static func read(
    _ tool: inout Fields, into search: inout FileSearchTool?, _ selection: inout ToolSelection,
    limits: RequestLimits
  ) throws(APIError) {
    guard search == nil else { throw .invalidValue(tool.name(of: "type"), "it stands here twice") }
    search = try FileSearchTool(&tool)
    var function = try Fields(Self.function, path: tool.path)
    _ = function.value("type")
    try selection.add(Tool(&function, limits: limits))
  }

  /// The name as a choice of tools has it.
  static func choice(_ path: String) throws(APIError) -> ToolChoiceWords.Name {
    var function = try Fields(Self.function, path: path)
    return try ToolChoiceWords.Name(&function)
  }

  /// What the model is told of it.
  private static let function: JSONValue = [
    "type": "function", "name": .string(name),
    "description":
      "Searches the user's files by meaning and returns passages of them. Use it whenever the answer may be in the files.",
    "parameters": [
      "type": "object",
      "properties": [
        "queries": [
          "type": "array", "items": ["type": "string"], "minItems": 1, "maxItems": 4,
          "description": "What to search for, as questions or key words.",
        ]
      ],
      "required": ["queries"], "additionalProperties": false,
    ],
  ]
}

/// Markers `[[n]]` in what a model writes: they become citations and leave the text.
package struct CitationSplitter: Sendable {
  /// What comes out of text: more text, or the number of a passage.
  package enum Piece: Sendable, Equatable {
    case text(String)
    case citation(Int)
  }

  /// Passages that can be cited, from 1.
  private let count: Int
  private var held: [UInt8] = []
  private var isInFence = false
  /// Markers of passages that there are not: they stay text.
  package private(set) var invented = 0
  private var ticks = 0

  /// Bytes of the longest marker.
  private static let longest = 8

  package init(count: Int) { self.count = count }

  /// Text as it comes.
  package mutating func add(_ text: String) -> [Piece] {
    var pieces: [Piece] = []
    var out: [UInt8] = []
    for byte in text.utf8 {
      held.append(byte)
      while !held.isEmpty {
        switch Self.match(held) {
        case .partly where !isInFence: break
        case .marker(let number) where !isInFence && (1...max(1, count)).contains(number) && count > 0:
          if !out.isEmpty { pieces.append(.text(String(decoding: out, as: UTF8.self))) }
          out = []
          pieces.append(.citation(number))
          held = []
          ticks = 0
          continue
        default:
          if case .marker = Self.match(held), !isInFence { invented += 1 }
          let first = held.removeFirst()
          ticks = first == UInt8(ascii: "`") ? ticks + 1 : 0
          if ticks == 3 { isInFence.toggle() }
          out.append(first)
          continue
        }
        break
      }
    }
    // A character is never told in parts.
    var rest: [UInt8] = []
    while let last = out.last, last >= 0x80, !Self.isWhole(out) { rest.insert(out.removeLast(), at: 0) }
    held = rest + held
    if !out.isEmpty { pieces.append(.text(String(decoding: out, as: UTF8.self))) }
    return pieces
  }

  /// What was held back, at the end.
  package mutating func finish() -> [Piece] {
    defer { held = [] }
    return held.isEmpty ? [] : [.text(String(decoding: held, as: UTF8.self))]
  }

  private static func isWhole(_ bytes: [UInt8]) -> Bool {
    var tail = 0
    for byte in bytes.reversed() {
      if byte & 0xC0 != 0x80 { return tail == (byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : byte >= 0xC0 ? 1 : 0) }
      tail += 1
    }
    return false
  }

  private enum Match {
    case no, partly
    case marker(Int)
  }

  /// Whether bytes are a marker, or may become one.
  private static func match(_ bytes: [UInt8]) -> Match {
    guard bytes.count <= longest else { return .no }
    var number = 0
    var digits = 0
    var closing = 0
    for (index, byte) in bytes.enumerated() {
      if index < 2 {
        guard byte == UInt8(ascii: "[") else { return .no }
      } else if closing == 0, byte >= 0x30, byte <= 0x39, digits < 4 {
        number = number * 10 + Int(byte - 0x30)
        digits += 1
      } else if byte == UInt8(ascii: "]"), digits > 0, closing < 2 {
        closing += 1
      } else {
        return .no
      }
    }
    return closing == 2 ? .marker(number) : .partly
  }
}
