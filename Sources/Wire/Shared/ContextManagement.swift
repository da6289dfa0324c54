// `context_management` of Responses and Messages: what a provider would do with a conversation that has grown long.

import JSON

/// The summaries and clearings that a request asks for. Nothing is summarised or cleared here without being asked each
/// time, so they are checked, and told as left out.
enum ContextManagement {
  /// Most of them in one request.
  private static let limit = 100

  /// Reads the field: a list of entries, or an object with them in `edits`.
  ///
  /// - Parameter isObject: whether the documents show the second form.
  /// - Returns: where each stands, and its type: `context_management[0].type=compaction`.
  static func entries(_ fields: inout Fields, isObject: Bool) throws(APIError) -> [String] {
    let name = "context_management"
    let list =
      #"{"type": "array", "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}}}"#
    _ = fields.value(
      name, isObject ? #"{"type": "object", "properties": {"edits": \#(list)}}"# : list,
      "nothing is summarised or cleared; entries are named in `x-mlxserve-ignored`",
      like: isObject ? #"{"edits":[]}"# : "[]")
    var names: [String] = []
    func add(_ entries: [JSONValue], at path: String) throws(APIError) {
      for (index, value) in entries.enumerated() {
        var entry = try Fields(value, path: "\(path)[\(index)]")
        let type = try entry.requiredString("type")
        names.append("\(entry.name(of: "type"))=\(APIError.shortened(type))")
      }
    }
    if case .object? = fields.value(name) {
      var edits = try fields.requiredFields(name)
      try add(edits.array("edits", maxCount: limit) ?? [], at: edits.name(of: "edits"))
    } else {
      try add(fields.array(name, maxCount: limit) ?? [], at: name)
    }
    return names
  }
}
