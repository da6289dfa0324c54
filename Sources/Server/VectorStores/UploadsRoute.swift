// /v1/uploads: files in parts, for those that are larger than one body.

import HTTP
import JSON
import Platform
import Wire

struct UploadsRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = UploadsRoute(server: server)
    let one = "/v1/uploads/:id"
    return RouteTable(
      .openAI,
      [
        .post(
          "/v1/uploads", "createUpload", "Begins a file that comes in parts", reads: .of(UploadRequest.self),
          gives: "Upload", route.create),
        .post(
          one + "/parts", "addUploadPart", "Takes a part as multipart/form-data", gives: "UploadPart",
          route.add
        ) { $0.form = "PartForm" },
        .post(
          one + "/complete", "completeUpload", "Makes a file of the parts", reads: .of(UploadCompletion.self),
          gives: "Upload", route.complete),
        .post(one + "/cancel", "cancelUpload", "Forgets the parts", gives: "Upload", route.cancel),
      ])
  }

  private func create(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let archive = try server.archive()
    let body = try server.read(UploadRequest.self, http, context)
    try FilesRoute.check(purpose: body.purpose)
    guard body.bytes <= archive.settings.fileBytes else {
      throw .fileTooLarge(body.bytes, archive, param: "bytes")
    }
    let created = server.settings.now()
    var upload = Upload(
      id: "upload_" + server.settings.makeID(), owner: Archive.owner(context.client), created: created,
      bytes: body.bytes, name: FilesRoute.safeName(body.name), type: body.type, purpose: body.purpose)
    upload.fileExpiry = body.expirySeconds
    guard try archive.begin(upload) else {
      throw APIError(
        status: 400, code: "upload_limit_exceeded",
        message: "There are \(Archive.uploadsPerClient) uploads already: complete or cancel one first.")
    }
    return Response(json: upload.json(status: "pending", file: nil))
  }

  private func upload(_ http: Request, _ context: ConnectionContext) throws(APIError) -> (Archive, Upload) {
    let archive = try server.archive()
    let id = http.parameter("id") ?? ""
    guard let upload = archive.upload(id, owner: Archive.owner(context.client)) else {
      throw .notFound("pending upload", id)
    }
    return (archive, upload)
  }

  private func add(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let (archive, upload) = try upload(http, context)
    guard
      let part = try http.form("A part is sent as multipart/form-data with 'data'.").first(where: {
        $0.name == "data"
      })
    else { throw .missing("data") }
    let id = "part_" + server.settings.makeID()
    guard try archive.add(part: id, part.body, to: upload) else {
      throw .invalidValue(
        "data", "the parts have more than the \(upload.bytes) bytes of the upload, or are too many")
    }
    return Response(
      json: [
        "id": .string(id), "object": "upload.part", "created_at": .int(server.settings.now()),
        "upload_id": .string(upload.id),
      ])
  }

  private func complete(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let (archive, upload) = try upload(http, context)
    let body = try server.read(UploadCompletion.self, http, context)
    for (index, id) in body.parts.enumerated() where upload.parts[id] == nil {
      throw .invalidValue("part_ids[\(index)]", "the upload has no such part")
    }
    let count = body.parts.reduce(0) { $0 + (upload.parts[$1] ?? 0) }
    guard count == upload.bytes, Set(body.parts).count == body.parts.count else {
      throw .invalidValue(
        "part_ids", "the parts have \(count) bytes, and the upload promised \(upload.bytes)")
    }
    guard archive.setCompleting(upload.id, true) else { throw .notFound("pending upload", upload.id) }
    do throws(APIError) {
      let record = try file(of: upload, body, count, archive, context)
      return Response(json: upload.json(status: "completed", file: record))
    } catch {
      _ = archive.setCompleting(upload.id, false)
      throw error
    }
  }

  /// The file of an upload, in the room that was promised for it.
  private func file(
    of upload: Upload, _ body: UploadCompletion, _ count: Int, _ archive: Archive,
    _ context: ConnectionContext
  ) throws(APIError) -> FileRecord {
    try claim(count, of: context.memory)
    let content = try storing { () throws(PlatformError) in try archive.content(ofParts: body.parts) }
    if let digest = body.md5, digest.lowercased() != MD5.hexadecimal(content) {
      throw .invalidValue("md5", "it is not that of the parts in this order")
    }
    var record = FileRecord(
      id: "file-" + server.settings.makeID(), owner: upload.owner, bytes: count,
      created: server.settings.now(), name: upload.name, purpose: upload.purpose)
    record.contentType = FilesRoute.safeType(upload.type)
    record.expires = upload.fileExpiry.map { record.created + $0 }
    let promised = Holding(bytes: count, files: 1)
    try archive.add(record, content, inPlaceOf: promised)
    archive.end(upload.id, keeping: promised)
    return record
  }

  private func cancel(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let (archive, upload) = try upload(http, context)
    archive.end(upload.id)
    return Response(json: upload.json(status: "cancelled", file: nil))
  }
}

extension Upload {
  fileprivate func json(status: String, file: FileRecord?) -> JSONValue {
    [
      "id": .string(id), "object": "upload", "bytes": .int(bytes), "created_at": .int(created),
      "filename": .string(name), "purpose": .string(purpose), "status": .string(status),
      "expires_at": .int(expires), "file": file?.json ?? nil,
    ]
  }
}
