// `%` formatting and `str.format`, the plain forms.

enum Formatting {
  /// `format % value`: `%s %r %d %i %x %f %%` with flags `-`, `0`, a width and a precision.
  static func percent(_ format: String, _ value: JinjaValue, _ i: Interpreter) throws(JinjaError) -> String {
    var arguments: [JinjaValue] = [value]
    if case .tuple(let tuple) = value { arguments = tuple.items }
    var next = arguments[...]
    var out = ""
    var rest = Array(format.unicodeScalars)[...]
    while let scalar = rest.popFirst() {
      guard scalar == "%" else {
        out.unicodeScalars.append(scalar)
        continue
      }
      var key: String?
      if rest.first == "(" {
        guard let close = rest.firstIndex(of: ")") else { throw i.failure("incomplete format key") }
        key = String(String.UnicodeScalarView(rest[(rest.startIndex + 1)..<close]))
        rest = rest[(close + 1)...]
      }
      var isLeft = false
      var isZero = false
      while let flag = rest.first, "-0 +#".unicodeScalars.contains(flag) {
        isLeft = isLeft || flag == "-"
        isZero = isZero || flag == "0"
        rest.removeFirst()
      }
      let width = try number(&rest, i) ?? 0
      var precision: Int?
      if rest.first == "." {
        rest.removeFirst()
        precision = try number(&rest, i) ?? 0
      }
      guard let kind = rest.popFirst() else { throw i.failure("incomplete format") }
      if kind == "%" {
        out += "%"
        continue
      }
      let argument: JinjaValue
      if let key {
        guard case .dict(let dict) = value, let found = dict[key] else {
          throw i.failure("format requires a mapping")
        }
        argument = found
      } else {
        guard let found = next.popFirst() else { throw i.failure("not enough arguments for format string") }
        argument = found
      }
      let field = try convert(argument, kind, precision, i)
      out += pad(field, width, isLeft: isLeft, isZero: isZero && kind != "s" && kind != "r")
      try i.checkLength(out.utf8.count)
    }
    guard next.isEmpty || mayBeLeft(value) else {
      throw i.failure("not all arguments converted during string formatting")
    }
    return out
  }

  /// Python minds arguments that no format takes, but not one that could be a mapping.
  private static func mayBeLeft(_ value: JinjaValue) -> Bool {
    switch value {
    case .list, .dict, .undefined: true
    case .view(let view): view.isRange
    default: false
    }
  }

  private static func number(_ rest: inout ArraySlice<Unicode.Scalar>, _ i: Interpreter) throws(JinjaError)
    -> Int?
  {
    var value: Int?
    while let digit = rest.first, digit.value >= 48, digit.value <= 57 {
      value = (value ?? 0) * 10 + Int(digit.value - 48)
      try i.checkLength(value ?? 0)
      rest.removeFirst()
    }
    return value
  }

  private static func convert(
    _ value: JinjaValue, _ kind: Unicode.Scalar, _ precision: Int?, _ i: Interpreter
  ) throws(JinjaError) -> String {
    switch kind {
    case "s":
      let text = try i.text(of: value)
      return precision.map { String(text.unicodeScalars.prefix($0)) } ?? text
    case "r":
      return try i.write { (writer) throws(PythonText.Problem) in try writer.writeRepresentation(of: value) }
    case "d", "i":
      guard let number = value.number, let whole = value.integer ?? Int(exactly: number.rounded(.towardZero))
      else {
        throw i.failure("%d format: a number is required, not \(value.typeName)")
      }
      return String(whole)
    case "x", "X":
      guard let whole = value.integer else {
        throw i.failure("%x format: an integer is required, not \(value.typeName)")
      }
      return String(whole, radix: 16, uppercase: kind == "X")
    case "f", "F":
      guard let number = value.number, number.isFinite else {
        throw i.failure("must be a finite number, not \(value.typeName)")
      }
      return try fixed(number, precision ?? 6, i)
    default: throw i.failure("unsupported format character '\(kind)'")
    }
  }

  /// `number` with `places` decimals.
  private static func fixed(_ number: Double, _ places: Int, _ i: Interpreter) throws(JinjaError) -> String {
    let magnitude = number.magnitude
    let whole = magnitude.rounded(.down)
    guard places <= 15, var integer = Int(exactly: whole) else {
      throw i.failure("%f supports up to 15 places of numbers within 64 bits")
    }
    // What is behind the point alone: multiplied as a whole it would lose digits.
    var fraction = Int(PythonNumber.scaled(magnitude - whole, places: places))
    if places == 0 {
      fraction = 0
      integer = Int(PythonNumber.scaled(magnitude, places: 0))
    } else if Double(fraction) == PythonNumber.power(places) {
      (fraction, integer) = (0, integer + 1)
    }
    let digits = String(fraction)
    let padded = String(repeating: "0", count: max(0, places - digits.utf8.count)) + digits
    return (number.sign == .minus ? "-" : "") + String(integer) + (places > 0 ? "." + padded : "")
  }

  private static func pad(_ field: String, _ width: Int, isLeft: Bool, isZero: Bool) -> String {
    let gap = max(0, width - TextOperations.scalarCount(field))
    if isLeft { return field + String(repeating: " ", count: gap) }
    if isZero, TextOperations.hasPrefix(field, "-") {
      return "-" + String(repeating: "0", count: gap) + TextOperations.text(field.utf8.dropFirst())
    }
    return String(repeating: isZero ? "0" : " ", count: gap) + field
  }

  /// `format.format(...)` with `{}`, `{0}` and `{name}`; format specifications are refused.
  static func format(_ format: String, _ arguments: Arguments, _ i: Interpreter) throws(JinjaError) -> String
  {
    var out = ""
    var automatic = 0
    var rest = Array(format.unicodeScalars)[...]
    while let scalar = rest.popFirst() {
      guard scalar == "{" || scalar == "}" else {
        out.unicodeScalars.append(scalar)
        continue
      }
      if rest.first == scalar {
        out.unicodeScalars.append(scalar)
        rest.removeFirst()
        continue
      }
      guard scalar == "{", let close = rest.firstIndex(of: "}") else {
        throw i.failure("single '\(scalar)' in format string")
      }
      let name = String(String.UnicodeScalarView(rest[..<close]))
      rest = rest[(close + 1)...]
      var value: JinjaValue?
      if name.utf8.isEmpty {
        value = arguments.positional.indices.contains(automatic) ? arguments.positional[automatic] : nil
        automatic += 1
      } else if let index = PythonNumber.integer(from: name) {
        value = arguments.positional.indices.contains(index) ? arguments.positional[index] : nil
      } else {
        value = arguments.named.first { TextOperations.isEqual($0.name, name) }?.value
      }
      guard let value else { throw i.failure("format() has no argument for '{\(name)}'") }
      out += try i.text(of: value)
      try i.checkLength(out.utf8.count)
    }
    return out
  }
}
