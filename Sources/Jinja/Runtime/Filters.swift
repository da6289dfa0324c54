// The table of filters, and those on text and single values. `FiltersSequence.swift` has the rest.

typealias FilterFunction = MethodFunction

enum Filters {
  static let table: [String: FilterFunction] = [
    // Text
    "capitalize": text { TextOperations.capitalize($0) },
    "lower": text { $0.lowercased() },
    "upper": text { $0.uppercased() },
    // It builds its text anew: what was marked is so no more.
    "title": { (i, v, _) throws(JinjaError) in try i.string(TextOperations.titleFilter(try i.text(of: v))) },
    "trim": trim,
    "center": center,
    "indent": indent,
    "truncate": truncate,
    "wordcount": wordCount,
    "replace": replace,
    "format": { (i, v, a) throws(JinjaError) in
      let value: JinjaValue =
        a.named.isEmpty
        ? .tuple(a.positional) : .dict(JinjaDict(a.named.map { (.string($0.name), $0.value) }))
      return try i.string(try Formatting.percent(try i.text(of: v), value, i))
    },
    "escape": escape, "e": escape,
    "forceescape": { (i, v, _) throws(JinjaError) in
      try markup(i, TextOperations.escapedHTML(try i.text(of: v)))
    },
    "safe": { (i, v, _) throws(JinjaError) in try markup(i, try i.text(of: v)) },
    "string": { (i, v, _) throws(JinjaError) in
      if v.text != nil { return v }
      return .string(try i.text(of: v))
    },
    "urlencode": urlEncode,
    "tojson": toJSON,
    // Some engines have this filter, the reference has not: templates that use it as a last resort load, and
    // fail only where they reach it.
    "from_json": { (i, _, _) throws(JinjaError) in throw i.failure("No filter named 'from_json' found.") },
    // Numbers
    "abs": absolute,
    "int": toInteger,
    "float": toFloat,
    "round": round,
    // Any value
    "default": defaultValue, "d": defaultValue,
    "attr": { (i, v, a) throws(JinjaError) in
      try i.attribute(of: v, try i.string(try i.bind(a, "name")[0], "name"))
    },
    // Sequences
    "batch": batch,
    "slice": slice,
    "count": length, "length": length,
    "dictsort": dictSort,
    "first": first,
    "last": last,
    "groupby": groupBy,
    "items": items,
    "join": join,
    "list": { (i, v, _) throws(JinjaError) in
      let items = try i.iterate(v)
      try i.charge(units: items.count)
      return .list(items)
    },
    "map": map,
    "max": { (i, v, a) throws(JinjaError) in try extreme(i, v, a, isMaximum: true) },
    "min": { (i, v, a) throws(JinjaError) in try extreme(i, v, a, isMaximum: false) },
    "reject": { (i, v, a) throws(JinjaError) in try select(i, v, a, keeps: false, byAttribute: false) },
    "rejectattr": { (i, v, a) throws(JinjaError) in try select(i, v, a, keeps: false, byAttribute: true) },
    "select": { (i, v, a) throws(JinjaError) in try select(i, v, a, keeps: true, byAttribute: false) },
    "selectattr": { (i, v, a) throws(JinjaError) in try select(i, v, a, keeps: true, byAttribute: true) },
    "reverse": reverse,
    "sort": sort,
    "sum": sum,
    "unique": unique,
  ]

  // MARK: Text

  private static func text(_ body: @escaping @Sendable (String) -> String) -> FilterFunction {
    { (i, v, _) throws(JinjaError) in try i.string(body(try i.text(of: v))).marked(like: v) }
  }

  private static func markup(_ i: Interpreter, _ text: String) throws(JinjaError) -> JinjaValue {
    try i.checkLength(text.utf8.count)
    try i.charge(text: text)
    return .markup(text)
  }

  private static let trim: FilterFunction = { (i, v, a) throws(JinjaError) in
    let given = try i.bind(a, "chars")[0]
    let characters = given.map(\.isNone) ?? true ? nil : try i.string(given, "chars")
    return try i.string(TextOperations.strip(try i.text(of: v), characters)).marked(like: v)
  }

  private static let center: FilterFunction = { (i, v, a) throws(JinjaError) in
    let width = max(0, try i.integer(try i.bind(a, "width")[0], "width", default: 80))
    try i.checkLength(width)
    let text = try i.text(of: v)
    let gap = max(0, width - TextOperations.scalarCount(text))
    // Python puts the odd blank to the left when the width is odd.
    let left = gap / 2 + (gap & width & 1)
    return try i.string(
      String(repeating: " ", count: left) + text + String(repeating: " ", count: gap - left))
  }

  private static let indent: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "width", "first", "blank")
    let indentation: String
    if let text = bound[0]?.text {
      indentation = text
    } else {
      let width = max(0, try i.integer(bound[0], "width", default: 4))
      try i.checkLength(width)
      indentation = String(repeating: " ", count: width)
    }
    let indentsBlank = bound[2]?.isTrue ?? false
    let lines = TextOperations.lines(try i.string(v, "value") + "\n")
    let (added, overflow) = indentation.utf8.count.multipliedReportingOverflow(by: lines.count)
    try i.checkLength(overflow ? .max : added)
    var out: [String] = []
    for (at, line) in lines.enumerated() {
      let isIndented = at == 0 ? bound[1]?.isTrue ?? false : indentsBlank || !line.utf8.isEmpty
      out.append(isIndented ? indentation + line : line)
    }
    return try i.string(out.joined(separator: "\n"))
  }

  private static let truncate: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "length", "killwords", "end", "leeway")
    let end = try bound[2].map { (value) throws(JinjaError) in try i.string(value, "end") } ?? "..."
    let endCount = TextOperations.scalarCount(end)
    let length = try i.integer(bound[0], "length", default: 255)
    let leeway = try i.integer(bound[3], "leeway", default: 5)
    guard length >= endCount else { throw i.failure("expected length >= \(endCount), got \(length)") }
    guard leeway >= 0 else { throw i.failure("expected leeway >= 0, got \(leeway)") }
    let (longest, overflow) = length.addingReportingOverflow(leeway)
    guard let text = v.text else {
      // What has a length may be short enough; only texts can be cut.
      let count = v.isUndefined ? 0 : try i.length(of: v)
      guard overflow || count <= longest else {
        throw i.failure("'\(v.typeName)' object cannot be truncated")
      }
      return v
    }
    if overflow || TextOperations.scalarCount(text) <= longest { return try i.string(text) }
    let kept = String(text.unicodeScalars.prefix(length - endCount))
    if bound[1]?.isTrue ?? false { return try i.string(kept + end) }
    let word = TextOperations.split(kept, by: " ", limit: 1, fromEnd: true)
    return try i.string((word.first ?? kept) + end)
  }

  private static let wordCount: FilterFunction = { (i, v, _) throws(JinjaError) in
    var count = 0
    var insideWord = false
    let text = try i.text(of: v)
    try i.charge(units: text.utf8.count / 4)
    for scalar in text.unicodeScalars {
      let isWord = scalar.properties.isAlphabetic || scalar.properties.numericType != nil || scalar == "_"
      if isWord, !insideWord { count += 1 }
      insideWord = isWord
    }
    return .int(count)
  }

  private static let replace: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "old", "new", "count")
    guard let old = bound[0], let new = bound[1] else { throw i.failure("replace needs two arguments") }
    let limit = bound[2].map(\.isNone) ?? true ? -1 : try i.integer(bound[2], "count", default: -1)
    let source = try i.text(of: v)
    try i.charge(text: source)
    let text = TextOperations.replace(
      source, try i.text(of: old), with: try i.text(of: new), limit: limit, maxBytes: i.limits.outputBytes)
    guard let text else { throw i.limitReached("text longer than \(i.limits.outputBytes) bytes") }
    return try i.string(text)
  }

  private static let escape: FilterFunction = { (i, v, _) throws(JinjaError) in
    if case .markup = v { return v }
    return try markup(i, TextOperations.escapedHTML(try i.text(of: v)))
  }

  /// A text, or the query that pairs make.
  private static let urlEncode: FilterFunction = { (i, v, _) throws(JinjaError) in
    guard v.text == nil, Tests.isIterable(v) else { return try i.string(quoted(try i.text(of: v))) }
    var pairs = try i.iterate(v)
    if case .dict(let dict) = v { pairs = dict.entries.map { .tuple([$0.key, $0.value]) } }
    var parts: [String] = []
    for pair in pairs {
      let sides = try i.iterate(pair)
      guard sides.count == 2 else { throw i.failure("cannot unpack \(sides.count) values into 2 variables") }
      parts.append(
        quoted(try i.text(of: sides[0]), inQuery: true) + "="
          + quoted(try i.text(of: sides[1]), inQuery: true))
      try i.charge(text: parts[parts.count - 1])
    }
    return try i.string(parts.joined(separator: "&"))
  }

  /// - Parameter inQuery: spaces are `+` there, and slashes are escaped too.
  private static func quoted(_ text: String, inQuery: Bool = false) -> String {
    var out = ""
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        out.unicodeScalars.append(Unicode.Scalar(byte))
      case UInt8(ascii: "/") where !inQuery: out += "/"
      case UInt8(ascii: " ") where inQuery: out += "+"
      default: out += "%" + PythonText.hex(UInt32(byte), 2).uppercased()
      }
    }
    return out
  }

  /// `json.dumps` as the reference calls it: no HTML escapes, non-ASCII kept.
  private static let toJSON: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "ensure_ascii", "indent", "separators", "sort_keys")
    var style = PythonText.JSONStyle()
    style.escapesNonASCII = bound[0]?.isTrue ?? false
    style.sortsKeys = bound[3]?.isTrue ?? false
    if let indent = bound[1], !indent.isNone {
      let width = indent.text == nil ? try i.integer(indent, "indent", default: 0) : 0
      try i.checkLength(max(0, width))
      style.indent = indent.text ?? String(repeating: " ", count: max(0, width))
    }
    if let separators = bound[2], !separators.isNone {
      let pair = try i.iterate(separators)
      guard pair.count == 2 else { throw i.failure("'separators' must be a pair of strings") }
      style.itemSeparator = try i.string(pair[0], "separators")
      style.keySeparator = try i.string(pair[1], "separators")
    }
    let text = try i.write { (writer) throws(PythonText.Problem) in try writer.writeJSON(of: v, style: style)
    }
    return .string(text)
  }

  // MARK: Numbers

  private static let absolute: FilterFunction = { (i, v, _) throws(JinjaError) in
    if let integer = v.integer {
      guard integer != .min else { throw i.limitReached("an integer beyond 64 bits") }
      return .int(abs(integer))
    }
    guard case .double(let double) = v else { throw i.failure("bad operand type for abs(): '\(v.typeName)'") }
    return .double(abs(double))
  }

  private static let toInteger: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "default", "base")
    let radix = try i.integer(bound[1], "base", default: 10)
    guard (2...16).contains(radix) else { throw i.failure("base must be from 2 to 16") }
    let fallback = bound[0] ?? .int(0)
    if let integer = v.integer { return .int(integer) }
    if case .undefined(let missing) = v { throw i.failure(missing.words) }
    if case .bigInteger = v { return v }
    if let text = v.text, let integer = PythonNumber.integer(from: text, radix: radix) {
      return .int(integer)
    }
    guard let double = v.number ?? v.text.flatMap(PythonNumber.double), !double.isNaN, !double.isInfinite
    else {
      return fallback
    }
    guard let integer = Int(exactly: double.rounded(.towardZero)) else {
      throw i.limitReached("an integer beyond 64 bits")
    }
    return .int(integer)
  }

  private static let toFloat: FilterFunction = { (i, v, a) throws(JinjaError) in
    if case .undefined(let missing) = v { throw i.failure(missing.words) }
    if let double = v.number ?? v.text.flatMap(PythonNumber.double) { return .double(double) }
    return try i.bind(a, "default")[0] ?? .double(0)
  }

  private static let round: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "precision", "method")
    let precision = try i.integer(bound[0], "precision", default: 0)
    let method = try bound[1].map { (value) throws(JinjaError) in try i.string(value, "method") } ?? "common"
    guard (-15...15).contains(precision) else { throw i.failure("precision must be from -15 to 15") }
    guard let number = v.number else { throw i.failure("cannot round '\(v.typeName)'") }
    if let integer = v.integer, method == "common" {
      guard let rounded = PythonNumber.round(integer, places: precision) else {
        throw i.limitReached("an integer beyond 64 bits")
      }
      return .int(rounded)
    }
    let rule: FloatingPointRoundingRule
    switch method {
    case "common": return .double(PythonNumber.round(number, places: precision))
    case "ceil": rule = .up
    case "floor": rule = .down
    default: throw i.failure("method must be common, ceil or floor")
    }
    // Python's are integers: there is no negative zero among them, and no infinity.
    let scale = PythonNumber.power(precision)
    let whole = (number * scale).rounded(rule) + 0
    guard whole.isFinite else { throw i.failure("cannot round '\(PythonNumber.text(of: number))'") }
    return .double(whole / scale)
  }

  // MARK: Any value

  private static let defaultValue: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "default_value", "boolean")
    let replaces = v.isUndefined || (bound[1]?.isTrue ?? false) && !v.isTrue
    return replaces ? bound[0] ?? .string("") : v
  }
}
