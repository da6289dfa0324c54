// Files that a message carries: text is read as content.

import JSON

/// Files within the request: text is content, anything else is refused. The server has read PDF and files that it holds.
package enum InputFile {
  private static let textEndings = [
    "txt", "md", "markdown", "json", "csv", "tsv", "xml", "yaml", "yml", "html", "log", "py", "swift", "js",
    "ts", "c", "h", "cpp", "rs", "go", "java", "sh", "toml", "ini",
  ]
  private static let textTypes = [
    "application/json", "application/xml", "application/yaml", "application/x-yaml",
  ]

  /// The text of a file, below its name; chat and Responses have the same members.
  static func text(of part: inout Fields) throws(APIError) -> String {
    for name in ["file_id", "file_url"] where part.value(name) != nil {
      throw .unsupportedParameter(
        part.name(of: name), name == "file_id" ? "no file can be named here" : "this server fetches no files")
    }
    let name = try part.string("filename")
    let path = part.name(of: "file_data")
    let data = try part.requiredString("file_data")
    let url = DataURL(data)
    if url == nil, data.utf8.starts(with: "data:".utf8) {
      throw .invalidValue(path, "it is not a base64 data URL")
    }
    let type = url?.type
    let ending = name.map {
      $0.split(separator: ".").last.map { $0.lowercased() } ?? ""
    }
    let isText =
      type.map { $0.utf8.starts(with: "text/".utf8) || textTypes.contains($0) }
      ?? textEndings.contains(ending ?? "")
    guard isText else {
      throw .unsupportedValue(
        path, "only files of text can be read, not '\(APIError.shortened(type ?? name ?? "unknown"))'")
    }
    guard let bytes = Base64.decode(url?.encoded ?? data) else {
      throw .invalidValue(path, "it is not base64")
    }
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw .invalidValue(path, "the file is not UTF-8 text")
    }
    return Self.text(text, named: name)
  }

  /// Text below the name of what holds it.
  package static func text(_ text: String, named name: String?) -> String {
    name.map { "\($0):\n\(text)\n" } ?? text
  }
}
