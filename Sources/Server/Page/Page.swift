// GET / and /ui/*: the chat page. Its files stand in ui/; the binary holds them packed, in PageFiles.swift.
//
// A browser has to get the page before it knows a key and before a model is loaded, so `Host` asks here first.
// The files are the same for everybody and hold no secret.

import HTTP
import JSON
import Media

/// A file of the page as the binary holds it.
struct PageFile: Sendable {
  /// Below `/`: `ui/app.js`; empty for the page itself.
  let path: String
  let contentType: String
  /// A quoted tag of the content.
  let tag: String
  /// What SHA-256 of the file in `ui` begins with, and of those that are sent in it; a test compares them.
  let source: String
  /// Of the unpacked file.
  let byteCount: Int
  /// gzip, as base64.
  let packed: String
}

/// The chat page, ready to be sent.
package struct Page: Sendable {
  private struct Entry: Sendable {
    let file: PageFile
    let gzip: [UInt8]
    let plain: [UInt8]
  }

  /// Scripts, styles and data come from this server alone; what an answer of a model says can run nothing, fetch
  /// nothing and frame nothing, and no script may make nodes of text. In the page itself stand one script and one
  /// style sheet, each of which its digest names.
  static let policy = [
    "default-src 'none'", "script-src 'self' '\(PageFile.scriptDigest)'",
    "style-src '\(PageFile.styleDigest)'", "img-src 'self' data: blob:",
    "media-src 'self' data: blob:", "connect-src 'self'", "frame-src 'self'", "manifest-src 'self'",
    "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].joined(separator: "; ")

  /// The frame in which the page shows HTML and SVG of an answer: no origin, nothing fetched, nothing framed. With `scripts`
  /// those of the answer run, else the one that puts it there alone.
  static func previewPolicy(scripts: Bool) -> String {
    let allowed = scripts ? "'unsafe-inline'" : "'\(PageFile.previewDigest)'"
    return "sandbox allow-scripts; default-src 'none'; script-src \(allowed); "
      + "style-src 'unsafe-inline'; img-src data: blob:; media-src data: blob:; font-src data:; base-uri 'none'; "
      + "form-action 'none'; frame-ancestors 'self'"
  }

  private static let preview = "ui/preview.html"

  private static let security: Headers = [
    "content-security-policy": policy, "referrer-policy": "no-referrer",
    "permissions-policy": "camera=(self), microphone=(self), geolocation=()",
    "cross-origin-opener-policy": "same-origin",
  ]

  private let entries: [Entry]

  /// The page that the binary holds.
  package init() { self.init(PageFile.all) }

  /// Leaves out what cannot be unpacked; a test holds that to be nothing.
  init(_ files: [PageFile]) {
    entries = files.compactMap { file in
      guard let gzip = Base64.decode(file.packed), let plain = GzipStream(gzip)?.unpacked()
      else { return nil }
      return Entry(file: file, gzip: gzip, plain: plain)
    }
  }

  /// The unpacked bytes of every file by its path.
  var contents: [(path: String, bytes: [UInt8])] { entries.map { ($0.file.path, $0.plain) } }

  /// What Ollama says at `/`: its clients look there for a sign of life, and browsers say that they read HTML.
  private static let signOfLife = "Ollama is running"

  /// The file that a GET or HEAD is for; nil when it is for something else.
  func answer(_ request: Request) -> Response? {
    guard let entry = entry(request) else { return nil }
    if entry.file.path.isEmpty && !request.headers.hasToken("text/html", in: "accept") {
      return Response(
        headers: ["content-type": "text/plain; charset=utf-8", "vary": "accept"],
        body: .bytes(Array(Self.signOfLife.utf8)))
    }
    var headers = Self.security
    if entry.file.path == Self.preview {
      headers.set("content-security-policy", Self.previewPolicy(scripts: request.query("scripts") != nil))
      headers.set("permissions-policy", "camera=(), microphone=(), geolocation=()")
    }
    headers.add("content-type", entry.file.contentType)
    headers.add("etag", entry.file.tag)
    // Kept, and asked about each time: a new binary is a new page at once.
    headers.add("cache-control", "no-cache")
    headers.add("vary", entry.file.path.isEmpty ? "accept, accept-encoding" : "accept-encoding")
    if request.headers.hasToken(entry.file.tag, in: "if-none-match") {
      return Response(status: 304, headers: headers)
    }
    let takesGzip = request.headers.hasToken("gzip", in: "accept-encoding")
    if takesGzip { headers.add("content-encoding", "gzip") }
    return Response(headers: headers, body: .bytes(takesGzip ? entry.gzip : entry.plain))
  }

  private func entry(_ request: Request) -> Entry? {
    guard request.method == "GET" || request.method == "HEAD" else { return nil }
    let path = request.path.utf8.dropFirst()
    return entries.first { $0.file.path.utf8.elementsEqual(path) }
  }
}
