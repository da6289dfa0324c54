// Values as text, exactly as Python writes them: `str`, `repr` and `json.dumps`.

/// Appends text up to a limit of bytes; nested shared values could otherwise grow without bound.
struct PythonText {
  private(set) var text = ""
  private let limit: Int

  /// Thrown by the writers; the interpreter adds the position.
  enum Problem: Error {
    case tooLong
    case notSerializable(String)
  }

  init(limit: Int) { self.limit = limit }

  private mutating func append(_ more: String) throws(Problem) {
    guard more.utf8.count <= limit - text.utf8.count else { throw .tooLong }
    text += more
  }

  // MARK: str and repr

  mutating func writeString(of value: JinjaValue) throws(Problem) {
    switch value {
    case .undefined: break
    case .string(let string), .markup(let string): try append(string)
    default: try writeRepresentation(of: value)
    }
  }

  mutating func writeRepresentation(of value: JinjaValue) throws(Problem) {
    switch value {
    case .undefined: try append("Undefined")
    case .none: try append("None")
    case .bool(let flag): try append(flag ? "True" : "False")
    case .int(let int): try append(String(int))
    case .bigInteger(let digits): try append(digits)
    case .double(let double): try append(PythonNumber.text(of: double))
    case .string(let string): try append(Self.quoted(string))
    case .markup(let string): try append("Markup(" + Self.quoted(string) + ")")
    case .list(let list): try writeItems(list.items, "[", "]")
    case .tuple(let list): try writeItems(list.items, "(", list.items.count == 1 ? ",)" : ")")
    case .dict(let dict):
      try append("{")
      for (at, entry) in dict.entries.enumerated() {
        if at > 0 { try append(", ") }
        try writeRepresentation(of: entry.key)
        try append(": ")
        try writeRepresentation(of: entry.value)
      }
      try append("}")
    case .view(let view):
      if view.isRange { return try append(view.name) }
      try writeItems(view.items, view.name + "([", "])")
    case .generator: try append("<generator object>")
    case .namespace: try append("<Namespace>")
    case .loop(let loop): try append("<LoopContext \(loop.index + 1)/\(loop.items.count)>")
    case .function(let function):
      if case .macro = function.body { return try append("<Macro \(Self.quoted(function.name))>") }
      try append("<function \(function.name)>")
    }
  }

  private mutating func writeItems(
    _ items: [JinjaValue], _ open: String, _ close: String
  ) throws(Problem) {
    try append(open)
    for (at, item) in items.enumerated() {
      if at > 0 { try append(", ") }
      try writeRepresentation(of: item)
    }
    try append(close)
  }

  /// A string literal: single quotes unless only single quotes occur inside.
  static func quoted(_ string: String) -> String {
    let quote: UInt8 =
      string.utf8.contains(UInt8(ascii: "'")) && !string.utf8.contains(UInt8(ascii: "\""))
      ? UInt8(ascii: "\"") : UInt8(ascii: "'")
    var out = String(Unicode.Scalar(quote))
    for scalar in string.unicodeScalars {
      switch scalar.value {
      case 0x0A: out += "\\n"
      case 0x0D: out += "\\r"
      case 0x09: out += "\\t"
      case 0x5C: out += "\\\\"
      case UInt32(quote): out += "\\" + String(scalar)
      case 0..<0x20, 0x7F..<0xA1, 0xAD: out += "\\x" + hex(scalar.value, 2)
      case 0x20..<0x7F: out.unicodeScalars.append(scalar)
      default: out += isPrintable(scalar) ? String(scalar) : longEscape(scalar.value)
      }
    }
    out.unicodeScalars.append(Unicode.Scalar(quote))
    return out
  }

  private static func longEscape(_ value: UInt32) -> String {
    value > 0xFFFF ? "\\U" + hex(value, 8) : "\\u" + hex(value, 4)
  }

  private static func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator,
      .spaceSeparator:
      false
    default: true
    }
  }

  static func hex(_ value: UInt32, _ digits: Int) -> String {
    let text = String(value, radix: 16)
    return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
  }

  // MARK: json.dumps

  struct JSONStyle {
    var escapesNonASCII = false
    var sortsKeys = false
    /// What one level of nesting adds to a line; nil for everything in one line.
    var indent: String?
    var itemSeparator: String?
    var keySeparator: String?
  }

  mutating func writeJSON(of value: JinjaValue, style: JSONStyle, level: Int = 0) throws(Problem) {
    switch value {
    case .none: try append("null")
    case .bool(let flag): try append(flag ? "true" : "false")
    case .int(let int): try append(String(int))
    case .bigInteger(let digits): try append(digits)
    case .double(let double): try append(PythonNumber.jsonText(of: double))
    case .string(let string), .markup(let string): try append(Self.jsonString(string, style))
    case .list(let list), .tuple(let list):
      if list.items.isEmpty { return try append("[]") }
      try append("[")
      for (at, item) in list.items.enumerated() {
        try writeSeparator(at, style, level + 1)
        try writeJSON(of: item, style: style, level: level + 1)
      }
      try writeLineBreak(style, level)
      try append("]")
    case .dict(let dict): try writeJSON(of: dict, style, level)
    default: throw .notSerializable(value.typeName)
    }
  }

  private mutating func writeJSON(
    of dict: JinjaDict, _ style: JSONStyle, _ level: Int
  ) throws(Problem) {
    if dict.entries.isEmpty { return try append("{}") }
    var members: [(key: String, value: JinjaValue)] = []
    for entry in dict.entries { members.append((try Self.jsonKey(entry.key), entry.value)) }
    if style.sortsKeys { members.sort { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) } }
    try append("{")
    for (at, member) in members.enumerated() {
      try writeSeparator(at, style, level + 1)
      try append(Self.jsonString(member.key, style))
      try append(style.keySeparator ?? ": ")
      try writeJSON(of: member.value, style: style, level: level + 1)
    }
    try writeLineBreak(style, level)
    try append("}")
  }

  private mutating func writeSeparator(_ at: Int, _ style: JSONStyle, _ level: Int) throws(Problem) {
    if at > 0 { try append(style.itemSeparator ?? (style.indent == nil ? ", " : ",")) }
    try writeLineBreak(style, level)
  }

  private mutating func writeLineBreak(_ style: JSONStyle, _ level: Int) throws(Problem) {
    guard let indent = style.indent else { return }
    guard indent.utf8.count.multipliedReportingOverflow(by: level).partialValue <= limit else {
      throw .tooLong
    }
    try append("\n" + String(repeating: indent, count: level))
  }

  private static func jsonKey(_ key: JinjaValue) throws(Problem) -> String {
    switch key {
    case .string(let text), .markup(let text): return text
    case .none: return "null"
    case .bool(let flag): return flag ? "true" : "false"
    case .int(let int): return String(int)
    case .bigInteger(let digits): return digits
    case .double(let double): return PythonNumber.jsonText(of: double)
    default: throw .notSerializable(key.typeName)
    }
  }

  private static func jsonString(_ string: String, _ style: JSONStyle) -> String {
    var out = "\""
    out.reserveCapacity(string.utf8.count + 2)
    for scalar in string.unicodeScalars {
      switch scalar.value {
      case 0x22: out += "\\\""
      case 0x5C: out += "\\\\"
      case 0x0A: out += "\\n"
      case 0x0D: out += "\\r"
      case 0x09: out += "\\t"
      case 0x08: out += "\\b"
      case 0x0C: out += "\\f"
      case 0..<0x20: out += "\\u" + hex(scalar.value, 4)
      case 0x7F... where style.escapesNonASCII && scalar.value > 0x7F:
        for unit in String(scalar).utf16 { out += "\\u" + hex(UInt32(unit), 4) }
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out + "\""
  }
}
