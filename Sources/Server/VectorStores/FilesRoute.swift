// /v1/files: what clients send to be searched, or to be read in messages; in OpenAI's words and in Anthropic's.

import HTTP
import JSON
import Platform
import Wire

struct FilesRoute {
  let server: ServerContext

  private static let served: Set = ["assistants", "batch", "user_data", "vision"]
  private static let known = ["assistants", "batch", "evals", "fine-tune", "user_data", "vision"]

  static func table(_ server: ServerContext) -> RouteTable {
    let route = FilesRoute(server: server)
    let one = "/v1/files/:id"
    return RouteTable(
      .openAI,
      [
        .post(
          "/v1/files", "createFile", "Takes a file as multipart/form-data", gives: "AnyFile", route.create
        ) { $0.form = "FileForm" },
        .get("/v1/files", "listFiles", "The client's files", gives: "AnyFileList", route.list) {
          $0.query = ["after", "before", "order", "purpose", "page", "ids"]
        },
        .get(one, "retrieveFile", "A file", gives: "AnyFile", route.retrieve),
        .delete(
          one, "deleteFile", "Deletes a file, also from every vector store", gives: "AnyDeletedFile",
          route.delete),
        .get(one + "/content", "downloadFile", "The bytes of a file", gives: "Text", route.content) {
          ($0.contentType, $0.otherTypes) = ("application/octet-stream", ["*/*"])
        },
      ])
  }

  private func file(_ http: Request, _ context: ConnectionContext) throws(APIError) -> FileRecord {
    try server.archive().file(http.parameter("id") ?? "", context.client)
  }

  private func create(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let archive = try server.archive()
    let parts = try http.form("A file is sent as multipart/form-data with 'file' and 'purpose'.")
    func text(_ name: String) -> String? {
      parts.first { $0.name == name }.map { String(decoding: $0.body, as: UTF8.self) }
    }
    guard let file = parts.first(where: { $0.name == "file" }) else { throw .missing("file") }
    // Anthropic's API has no purposes.
    guard let purpose = text("purpose") ?? (http.isMessagesClient ? "user_data" : nil) else {
      throw .missing("purpose")
    }
    try Self.check(purpose: purpose)
    guard file.body.count <= archive.settings.fileBytes else {
      throw .fileTooLarge(file.body.count, archive, param: "file")
    }
    let created = server.settings.now()
    var record = FileRecord(
      id: "file-" + server.settings.makeID(), owner: Archive.owner(context.client), bytes: file.body.count,
      created: created, name: Self.safeName(file.filename ?? ""), purpose: purpose)
    record.contentType = Self.safeType(file.contentType)
    // Anthropic's way to say it, and OpenAI's.
    record.expires =
      if let seconds = text("expires_in_seconds") {
        created + (try Self.seconds(seconds, from: 3_600, field: "expires_in_seconds"))
      } else {
        try Self.expiry(text("expires_after[anchor]"), text("expires_after[seconds]"), created)
      }
    try archive.add(record, file.body)
    do throws(APIError) {
      try server.documents.read([record.id], by: text("read_by"), for: context.client)
    } catch {
      // What is refused leaves nothing.
      try? archive.remove(record)
      throw error
    }
    return Response(json: json(record, for: http))
  }

  /// - Throws: 400 for what is no purpose, and for those that nothing here serves.
  static func check(purpose: String) throws(APIError) {
    guard known.contains(purpose) else {
      throw .invalidValue("purpose", "expected one of \(known.map { "'\($0)'" }.joined(separator: ", "))")
    }
    guard served.contains(purpose) else {
      throw .unsupportedValue(
        "purpose", "nothing here uses files for '\(purpose)'; send 'assistants', 'batch' or 'user_data'")
    }
  }

  private static func expiry(_ anchor: String?, _ seconds: String?, _ created: Int) throws(APIError) -> Int? {
    guard anchor != nil || seconds != nil else { return nil }
    guard anchor == "created_at" else { throw .invalidValue("expires_after.anchor", "expected 'created_at'") }
    return created + (try Self.seconds(seconds ?? "", from: 60, field: "expires_after.seconds"))
  }

  private static func seconds(_ text: String, from least: Int, field: String) throws(APIError) -> Int {
    guard let seconds = Int(text), (least...FileRecord.longestLife).contains(seconds) else {
      throw .invalidValue(field, "expected an integer from \(least) to \(FileRecord.longestLife)")
    }
    return seconds
  }

  /// What of a client's name can be shown: the last component, without control characters, of at most 255 bytes.
  static func safeName(_ name: String) -> String {
    let last = name.split(omittingEmptySubsequences: true) { $0 == "/" || $0 == "\\" }.last ?? ""
    var safe = ""
    for character in last {
      guard !character.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) else {
        continue
      }
      guard safe.utf8.count + character.utf8.count <= 255 else { break }
      safe.append(character)
    }
    return safe.isEmpty || safe == "." || safe == ".." ? "upload" : safe
  }

  /// A content type that a header can carry.
  static func safeType(_ type: String?) -> String {
    guard let type, type.utf8.count <= 100, type.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F || $0 == 0x20 })
    else {
      return "application/octet-stream"
    }
    return type
  }

  private func list(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let purpose = http.query("purpose")
    let files = try server.archive().files(of: context.client).filter {
      purpose == nil || $0.purpose == purpose
    }
    try claim(files.count * FileRecord.jsonByteCount, of: context.memory)
    if http.isMessagesClient { return Response(json: try messagesPage(http, files.reversed())) }
    return Response(
      json: try http.listPage(files.map(\.id), limits: 1...10_000, usual: 10_000) { files[$0].json })
  }

  private static let pagePrefix = "page_"

  /// A page with the cursor that Anthropic's clients follow, and what those of its beta look for.
  private func messagesPage(_ http: Request, _ newestFirst: [FileRecord]) throws(APIError) -> JSONValue {
    let wanted = Set(http.listQuery("ids"))
    let files = wanted.isEmpty ? newestFirst : newestFirst.filter { wanted.contains($0.id) }
    let limit = try http.integerQuery("limit", in: 1...1_000) ?? (wanted.isEmpty ? 20 : 1_000)
    let ids = files.map(\.id)
    let cursor = http.query("page").map { $0.hasPrefix(Self.pagePrefix) ? String($0.dropFirst(5)) : $0 }
    let (places, hasMore) = try http.page(
      of: ids, limit: limit, after: "after_id", before: "before_id", cursor: cursor)
    let page = files[places]
    return [
      "data": .array(page.map(\.messagesJSON)), "has_more": .bool(hasMore),
      "first_id": page.first.map { .string($0.id) } ?? nil,
      "last_id": page.last.map { .string($0.id) } ?? nil,
      "next_page": hasMore ? page.last.map { .string(Self.pagePrefix + $0.id) } ?? nil : nil,
    ]
  }

  /// In the words of the client that asks, with what became of its wish to have the file read.
  private func json(_ file: FileRecord, for http: Request) -> JSONValue {
    let own = http.isMessagesClient ? file.messagesJSON : file.json
    guard let told = server.documents.told(of: file.id), var object = own.objectValue else { return own }
    object["read"] = told
    return .object(object)
  }

  private func retrieve(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    Response(json: json(try file(http, context), for: http))
  }

  private func content(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let file = try file(http, context)
    let content = try server.archive().mappedContent(of: file)
    var response = Response(contentType: file.contentType, files: [content].compactMap(\.self))
    // Nothing of a client's runs on the server's origin.
    response.headers.add("content-disposition", "attachment")
    return response
  }

  private func delete(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let file = try file(http, context)
    try server.archive().remove(file)
    return Response(
      json: http.isMessagesClient
        ? ["id": .string(file.id), "type": "file_deleted"]
        : ["id": .string(file.id), "object": "file", "deleted": true])
  }
}

extension Request {
  /// The parts of a form.
  ///
  /// - Parameter words: what is to be sent, for the error.
  func form(_ words: String, limit: Int = 8) throws(APIError) -> [FormPart] {
    guard let type = headers["content-type"], Multipart.isForm(type) else {
      throw APIError(status: 400, code: "invalid_multipart", message: words)
    }
    do throws(MultipartError) {
      return try Multipart.parse(body, contentType: type, limit: limit)
    } catch {
      throw APIError(status: 400, code: "invalid_multipart", message: "Invalid body: \(error).")
    }
  }
}

extension APIError {
  static func fileTooLarge(_ bytes: Int, _ archive: Archive, param: String) -> APIError {
    APIError(
      status: 413, code: "file_too_large", param: param,
      message:
        "The file has \(bytes) bytes; at most \(archive.settings.fileBytes) are taken (--max-file-bytes).")
  }
}

extension ServerContext {
  /// What clients search in.
  ///
  /// - Throws: 503 where its folder could not be used.
  func archive() throws(APIError) -> Archive {
    guard let archive = settings.archive else {
      throw APIError(
        status: 503, type: "server_error", code: "storage_failed",
        message: "The server has no place for files; see its log.")
    }
    return archive
  }
}

extension Response {
  private static let partBytes = 64 << 10

  /// Mapped files, one after another: what is more than a piece is sent in pieces, so that no memory holds it whole.
  init(contentType: String, files: [SharedBytes]) {
    let count = files.reduce(0) { $0 + $1.count }
    guard count > Self.partBytes else {
      self.init(contentType: contentType, bytes: files.flatMap { $0.copy(0..<$0.count) })
      return
    }
    self.init(
      headers: ["content-type": contentType],
      body: .stream { writer in
        for content in files {
          for start in stride(from: 0, to: content.count, by: Self.partBytes) {
            try writer.write(content.copy(start..<start + Self.partBytes))
          }
        }
        writer.finish()
      })
    length = count
  }
}
