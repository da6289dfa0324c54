// The formats of JSON Schema as regular expressions.

import Synchronization
import Tokenizers

/// Formats that are not here are annotations, as the standard has it.
enum Formats {
  private static let made = Mutex<[String: ByteDFA]>([:])

  /// The strings of a format in canonical spelling with quotes; nil for a format that nobody knows.
  static func automaton(_ name: String) throws(GrammarError) -> ByteDFA? {
    guard let expression = expression(name) else { return nil }
    if let known = made.withLock({ $0[name] }) { return known }
    var dfa = try ByteNFA.automaton(RegexParser.parse(expression), spelling: .json, anywhere: false)
      .wrapped([0x22], [0x22])
    let limit: Int? = name.hasSuffix("hostname") ? 253 : nil
    if let limit { dfa = try StringLanguage.bounded(dfa, min: 1, max: limit) }
    made.withLock { $0[name] = dfa }
    return dfa
  }

  /// Makes those that schemas have most, so that no answer waits for them: together they take as long as a large schema.
  static func prepare() {
    for name in ["date-time", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "uuid"] {
      // One that cannot be made says so where it is asked for.
      _ = try? automaton(name)
    }
  }

  // As strict readers have it, such as Python's, Go's and JavaScript's: years from 1 on, capital letters, and fractions up
  // to nanoseconds. RFC 3339 allows the year 0, small letters and any fraction.
  private static let date =
    #"(?!0000)(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"#
    + #"|(?:(?:\d{2}(?:0[48]|[2468][048]|[13579][26]))|(?:(?:[02468][048]|[13579][26])00))-02-29)"#
  /// Seconds below 60: whether a leap second is allowed depends on the offset.
  private static let time =
    #"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"#
  private static let label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
  /// Two hyphens at the third place are for encoded names, which are not checked here.
  private static let hostLabel =
    "(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]{0,2}[A-Za-z0-9]"
    + "|[A-Za-z0-9][A-Za-z0-9-](?:[A-Za-z0-9][A-Za-z0-9-]|-[A-Za-z0-9])[A-Za-z0-9-]{0,58}[A-Za-z0-9])"
  private static let byte = #"(?:25[0-5]|2[0-4]\d|1\d{2}|[1-9]?\d)"#
  private static let ipv4 = #"\#(byte)(?:\.\#(byte)){3}"#
  private static let group = "[0-9A-Fa-f]{1,4}"
  private static let ipv6: String = {
    let last = "(?:\(group):\(group)|\(ipv4))"
    var branches = ["(?:\(group):){6}\(last)", "::(?:\(group):){5}\(last)"]
    for count in 1...5 {
      branches.append("(?:(?:\(group):){0,\(count - 1)}\(group))?::(?:\(group):){\(5 - count)}\(last)")
    }
    branches.append("(?:(?:\(group):){0,5}\(group))?::\(group)")
    branches.append("(?:(?:\(group):){0,6}\(group))?::")
    return "(?:" + branches.joined(separator: "|") + ")"
  }()
  private static let escaped = "%[0-9A-Fa-f]{2}"
  private static func path(_ extra: String) -> String {
    "(?:[A-Za-z0-9._~!$&'()*+,;=:@\(extra)-]|\(escaped))"
  }
  private static func authority(_ extra: String) -> String {
    #"(?:(?:[A-Za-z0-9._~!$&'()*+,;=:\#(extra)-]|\#(escaped))*@)?(?:\[\#(ipv6)\]|(?:[A-Za-z0-9._~!$&'()*+,;=\#(extra)-]|\#(escaped))*)(?::\d*)?"#
  }
  private static func tail(_ extra: String) -> String {
    #"(?:\?(?:\#(path(extra))|[/?])*)?(?:#(?:\#(path(extra))|[/?])*)?"#
  }
  private static let scheme = "[A-Za-z][A-Za-z0-9+.-]*:"
  /// What follows a scheme, or stands without one: an authority and a path, a path from the root, or nothing.
  private static func rooted(_ extra: String) -> String {
    let p = path(extra)
    return #"(?://\#(authority(extra))(?:/\#(p)*)*|/(?:\#(p)+(?:/\#(p)*)*)?|)"#
  }
  private static func uri(_ extra: String) -> String {
    let p = path(extra)
    return #"\#(scheme)(?:\#(rooted(extra))|\#(p)+(?:/\#(p)*)*)\#(tail(extra))"#
  }
  /// With a scheme or relative. An authority is many states: it stands here once.
  private static func reference(_ extra: String) -> String {
    let p = path(extra)
    let first = "(?:[A-Za-z0-9._~!$&'()*+,;=@\(extra)-]|\(escaped))"
    return
      #"(?:(?:\#(scheme))?\#(rooted(extra))|(?:\#(scheme)\#(p)+|\#(first)+)(?:/\#(p)*)*)\#(tail(extra))"#
  }
  private static let beyond = #"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"#
  private static let atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
  private static let pointer = "(?:/(?:[^/~]|~[01])*)*"

  private static func expression(_ name: String) -> String? {
    switch name {
    case "date": date
    case "time": time
    case "date-time": "\(date)T\(time)"
    case "duration":
      #"P(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?"#
        + #"|T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))"#
    case "email", "idn-email": #"\#(atom)(?:\.\#(atom))*@\#(label)(?:\.\#(label))*"#
    case "hostname", "idn-hostname": #"\#(hostLabel)(?:\.\#(hostLabel))*"#
    case "ipv4": ipv4
    case "ipv6": ipv6
    case "uuid": "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
    case "uri": uri("")
    case "uri-reference": reference("")
    case "iri": uri(beyond)
    case "iri-reference": reference(beyond)
    case "uri-template":
      #"(?:[A-Za-z0-9._~:/?#\[\]@!$&()*+,;=-]|\#(escaped)|\{[+#./;?&]?[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*(?::[1-9]\d{0,3}|\*)?(?:,[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*(?::[1-9]\d{0,3}|\*)?)*\})*"#
    case "json-pointer": pointer
    case "relative-json-pointer": "(?:0|[1-9][0-9]*)(?:#|\(pointer))"
    // Any expression of these few forms is one.
    case "regex": #"\^?(?:[A-Za-z0-9 _:,;=@#%&~-]|\\[dwsDWS.])*\$?"#
    default: nil
    }
  }
}
