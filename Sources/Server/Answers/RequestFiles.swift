// Files that a conversation names, or holds as PDF: what they say becomes text before the wire's reader sees them.
//
// A file of this server is named by its id: `file` of chat, `input_file` of Responses, `document` of Messages. PDF is
// read wherever it stands. Images that are named come as their bytes.

import HTTP
import JSON
import Platform
import Search
import Wire

struct RequestFiles {
  private let scope: RequestScope
  /// Whether nobody waits for the answer any more; asked while another program reads.
  private let isUnwanted: () -> Bool

  init(_ scope: RequestScope, isUnwanted: @escaping () -> Bool = { false }) {
    (self.scope, self.isUnwanted) = (scope, isUnwanted)
  }

  /// A body with the texts of its files in the messages.
  func read(_ body: JSONValue) throws(APIError) -> JSONValue {
    guard var object = body.objectValue, let messages = object["messages"]?.arrayValue else { return body }
    object["messages"] = .array(try read(messages) { "messages[\($0)]" })
    return .object(object)
  }

  /// Messages or items with the texts of their files.
  ///
  /// - Parameter path: where the element of an index stands in the body.
  /// - Throws: 404 for a file that the client does not have, 400 for one that is no text and no PDF.
  func read(_ values: [JSONValue], path: (Int) -> String) throws(APIError) -> [JSONValue] {
    var read: [JSONValue] = []
    read.reserveCapacity(values.count)
    for (index, value) in values.enumerated() { read.append(try self.read(value, path(index), depth: 0)) }
    return read
  }

  /// Levels of messages, parts, and parts of results.
  private static let mostLevels = 3

  private func read(_ value: JSONValue, _ path: String, depth: Int) throws(APIError) -> JSONValue {
    guard depth < Self.mostLevels, var object = value.objectValue else { return value }
    switch object["type"] {
    case "file":
      guard let file = object["file"]?.objectValue, let text = try text(of: file, "\(path).file") else {
        break
      }
      return ["type": "text", "text": .string(text)]
    case "input_file":
      guard let text = try text(of: object, path) else { break }
      return ["type": "input_text", "text": .string(text)]
    case "input_image":
      guard let id = object["file_id"]?.stringValue else { break }
      let (type, data) = try image(id, "\(path).file_id")
      object["file_id"] = nil
      object["image_url"] = .string("data:\(type);base64,\(data)")
      return .object(object)
    case "document": return .object(try document(object, path))
    case "image":
      guard let id = Self.fileID(object["source"]) else { break }
      let (type, data) = try image(id, "\(path).source.file_id")
      object["source"] = ["type": "base64", "media_type": .string(type), "data": .string(data)]
      return .object(object)
    default: break
    }
    for name in ["content", "output"] {
      guard let parts = object[name]?.arrayValue else { continue }
      var read: [JSONValue] = []
      for (index, part) in parts.enumerated() {
        read.append(try self.read(part, "\(path).\(name)[\(index)]", depth: depth + 1))
      }
      object[name] = .array(read)
    }
    return .object(object)
  }

  /// The text of a file in the members of OpenAI's wires; nil for what their readers read.
  private func text(of file: JSONObject, _ path: String) throws(APIError) -> String? {
    if let id = file["file_id"]?.stringValue {
      let (record, bytes) = try stored(id, "\(path).file_id")
      let name = file["filename"]?.stringValue ?? record.name
      return InputFile.text(try text(bytes, "\(path).file_id"), named: name)
    }
    guard let data = file["file_data"]?.stringValue else { return nil }
    guard let text = try pdf(DataURL(data)?.encoded ?? data, "\(path).file_data") else { return nil }
    return InputFile.text(text, named: file["filename"]?.stringValue)
  }

  private static func fileID(_ source: JSONValue?) -> String? {
    source?["type"] == "file" ? source?["file_id"]?.stringValue : nil
  }

  /// A document of Messages whose source is a file or a PDF, as one of text.
  private func document(_ block: JSONObject, _ path: String) throws(APIError) -> JSONObject {
    var block = block
    let text: String
    if let id = Self.fileID(block["source"]) {
      let (record, bytes) = try stored(id, "\(path).source.file_id")
      text = try self.text(bytes, "\(path).source.file_id")
      if block["title"]?.stringValue == nil { block["title"] = .string(record.name) }
    } else {
      guard block["source"]?["type"] == "base64", let data = block["source"]?["data"]?.stringValue,
        let found = try pdf(data, "\(path).source.data")
      else { return block }
      text = found
    }
    block["source"] = ["type": "text", "media_type": "text/plain", "data": .string(text)]
    return block
  }

  // MARK: Bytes

  private func stored(_ id: String, _ field: String) throws(APIError) -> (FileRecord, [UInt8]) {
    let archive = try scope.server.archive()
    do throws(APIError) {
      let record = try archive.file(id, scope.client)
      try claim(2 * record.bytes, of: scope.memory)
      return (record, try archive.content(of: record))
    } catch {
      var error = error
      error.param = field
      throw error
    }
  }

  private func image(_ id: String, _ field: String) throws(APIError) -> (type: String, data: String) {
    let (record, bytes) = try stored(id, field)
    try claim(3 * bytes.count, of: scope.memory)
    return (record.contentType, Base64.encode(bytes))
  }

  /// The text of a PDF; nil for base64 of something else.
  private func pdf(_ encoded: String, _ field: String) throws(APIError) -> String? {
    // `%PDF-` in base64.
    guard encoded.utf8.starts(with: "JVBERi".utf8) else { return nil }
    try claim(encoded.utf8.count, of: scope.memory)
    guard let bytes = Base64.decode(encoded) else { throw .invalidValue(field, "it is not base64") }
    return try text(bytes, field)
  }

  /// PDF and text are told apart by their bytes.
  private func text(_ bytes: [UInt8], _ field: String) throws(APIError) -> String {
    let isPDF = bytes.starts(with: "%PDF-".utf8)
    let text =
      isPDF
      ? try scope.server.texts.input(SHA256.digest(bytes), for: field, isUnwanted: isUnwanted) {
        _ throws(APIError) in FileReader.numberingPages(try read(bytes, field))
      } : try read(bytes, field)
    // As a text, and once more in the message that holds it.
    try claim(2 * text.count, of: scope.memory)
    return String(decoding: text, as: UTF8.self)
  }

  private func read(_ bytes: [UInt8], _ field: String) throws(APIError) -> [UInt8] {
    do throws(SearchError) {
      return try FileReader.read(
        bytes, name: "file.txt", reserve: { scope.memory?.extend(by: $0) ?? true },
        ledger: scope.memory?.ledger, isUnwanted: isUnwanted
      ).text
    } catch {
      switch error {
      case .cancelled: throw APIError(AnswerFailure.clientGone, param: field)
      case .noMemory(let needed): throw .outOfMemory(needed: needed, limit: scope.memory?.limit ?? 0)
      case .unsupportedFile: throw .unsupportedValue(field, "\(error)")
      default: throw .invalidValue(field, "\(error)")
      }
    }
  }
}
