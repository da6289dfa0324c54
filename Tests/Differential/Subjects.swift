// What is compared: each subject makes an answer of one case.

import Grammar
import HTTP
import JSON
import Jinja
import Platform
import Tokenizers

enum Subject: String, CaseIterable {
  case json, regex, jinja, http
  /// Corpora instead of random cases, by `Fixtures/scripts/bench/schemas.py`: verdicts, and times of masks.
  case schema, masks

  /// How many byte strings a case has at least.
  private var fieldCount: Int { self == .jinja || self == .regex ? 2 : 1 }

  func answer(_ fields: [[UInt8]]) -> [[UInt8]] {
    guard fields.count >= fieldCount else { return Self.words("error", "too few fields") }
    return switch self {
    case .json: Self.json(fields[0])
    case .regex: Patterns.answer(fields[0], Array(fields.dropFirst()))
    case .jinja: Self.jinja(fields[0], fields[1])
    case .http: Requests.answer(fields[0])
    case .schema: Patterns.answer(schema: fields[0], Array(fields.dropFirst()), timed: false)
    case .masks: Patterns.answer(schema: fields[0], Array(fields.dropFirst()), timed: true)
    }
  }

  static func words(_ texts: String...) -> [[UInt8]] { texts.map { Array($0.utf8) } }

  /// `ok` and the document written again, or `error`.
  private static func json(_ document: [UInt8]) -> [[UInt8]] {
    do throws(JSONError) {
      return words("ok") + [try JSONValue(parsing: document).bytes]
    } catch {
      return words("error", error.description)
    }
  }

  /// `ok` and the text, or what kind of error.
  private static func jinja(_ source: [UInt8], _ variables: [UInt8]) -> [[UInt8]] {
    guard case .object(let variables)? = try? JSONValue(parsing: variables) else {
      return words("error", "the variables are no object")
    }
    do throws(JinjaError) {
      let template = try JinjaTemplate(source: String(decoding: source, as: UTF8.self))
      return words("ok", try template.render(variables) { CalendarTime(secondsSince1970: 0) })
    } catch {
      let kind =
        switch error {
        case .syntax: "syntax"
        case .failed: "failed"
        case .raised: "raised"
        case .limit: "limit"
        }
      return words(kind, error.description)
    }
  }
}

// MARK: Regular expressions

enum Patterns {
  private struct Setting {
    let tokenizer: Tokenizer
    let vocabulary: GrammarVocabulary
    /// The token of each byte.
    let tokens: [Int32]
    let end: Int32
  }

  /// The demo model's tokenizer, whose file is the second argument.
  private static let setting: Setting? = {
    guard CommandLine.arguments.count > 2,
      let file = try? File.read(CommandLine.arguments[2], limit: 1 << 24),
      let tokenizer = try? Tokenizer(tokenizerJSON: file),
      let end = (0..<Int32(clamping: tokenizer.vocabularySize)).first(where: { tokenizer.isSpecial($0) })
    else { return nil }
    var tokens = [Int32](repeating: -1, count: 256)
    for id in 0..<Int32(clamping: tokenizer.vocabularySize) where !tokenizer.isSpecial(id) {
      let bytes = tokenizer.bytes(of: id)
      if bytes.count == 1 { tokens[Int(bytes[0])] = id }
    }
    return Setting(
      tokenizer: tokenizer, vocabulary: GrammarVocabulary(tokenizer: tokenizer, endTokens: [end]),
      tokens: tokens, end: end)
  }()

  /// `ok` and a `1` or `0` for each text, or `error` and why.
  static func answer(_ pattern: [UInt8], _ texts: [[UInt8]]) -> [[UInt8]] {
    guard let setting else { return Subject.words("error", "no tokenizer") }
    do throws(GrammarError) {
      let grammar = try CompiledGrammar(
        .regex(String(decoding: pattern, as: UTF8.self)), vocabulary: setting.vocabulary)
      return Subject.words(
        "ok", texts.enumerated().map { verdict(grammar, $1, setting, withMasks: $0 < 2) }.joined())
    } catch {
      return refusal(error)
    }
  }

  /// `ok`, nanoseconds of compiling, and a `1` or `0` for each text; or `error` and why. Timed, the texts are taken
  /// token by token, and the nanoseconds of each mask on the way follow.
  static func answer(schema: [UInt8], _ texts: [[UInt8]], timed: Bool) -> [[UInt8]] {
    guard let setting else { return Subject.words("error", "no tokenizer") }
    let start = processorTime
    guard let schema = try? JSONValue(parsing: schema) else { return Subject.words("error", "no JSON") }
    do throws(GrammarError) {
      let grammar = try CompiledGrammar(.schema(schema), vocabulary: setting.vocabulary)
      let compiled = nanoseconds(since: start)
      guard timed else {
        let verdicts = texts.map { text in
          walk(grammar, text.map { setting.tokens[Int($0)] }, setting, byMask: false) ? "1" : "0"
        }
        return Subject.words("ok", compiled, verdicts.joined())
      }
      var masks: [String] = []
      let verdicts = texts.map { timedWalk(grammar, $0, setting, &masks) ? "1" : "0" }
      return Subject.words("ok", compiled, verdicts.joined(), masks.joined(separator: " "))
    } catch {
      return refusal(error)
    }
  }

  private static func timedWalk(
    _ grammar: CompiledGrammar, _ text: [UInt8], _ setting: Setting, _ masks: inout [String]
  ) -> Bool {
    var matcher = GrammarMatcher(grammar)
    let text = String(decoding: text, as: UTF8.self)
    for token in setting.tokenizer.encode(text, addSpecialTokens: false) + [setting.end] {
      let start = processorTime
      let mask = matcher.allowed(remaining: 1 << 20)
      masks.append(nanoseconds(since: start))
      guard mask.contains(token), matcher.accept(token) else { return false }
    }
    return true
  }

  /// Of this thread, nanoseconds: what other programs do meanwhile does not count.
  private static var processorTime: Int {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return time.tv_sec * 1_000_000_000 + time.tv_nsec
  }

  private static func nanoseconds(since start: Int) -> String { "\(processorTime - start)" }

  private static func refusal(_ error: GrammarError) -> [[UInt8]] {
    let kind =
      switch error {
      case .unsupported: "unsupported"
      case .malformed: "malformed"
      case .unwanted: "unwanted"
      case .unsatisfiable: "unsatisfiable"
      case .tooLarge: "too large"
      }
    return Subject.words("error", kind, error.description)
  }

  /// The text byte by byte, as the tokenizer cuts it, and by the masks, which take long: `x` when they disagree.
  private static func verdict(
    _ grammar: CompiledGrammar, _ text: [UInt8], _ setting: Setting, withMasks: Bool
  ) -> String {
    let ids = setting.tokenizer.encode(String(decoding: text, as: UTF8.self), addSpecialTokens: false)
    let bytes = text.map { setting.tokens[Int($0)] }
    var found = [walk(grammar, bytes, setting, byMask: false)]
    // The tokenizer composes accents, which makes another text of some.
    if ids.flatMap({ setting.tokenizer.bytes(of: $0) }) == text {
      found.append(walk(grammar, ids, setting, byMask: false))
      if withMasks { found.append(walk(grammar, ids, setting, byMask: true)) }
    }
    return found.allSatisfy { $0 == found[0] } ? found[0] ? "1" : "0" : "x"
  }

  private static func walk(
    _ grammar: CompiledGrammar, _ tokens: [Int32], _ setting: Setting, byMask: Bool
  ) -> Bool {
    var matcher = GrammarMatcher(grammar)
    for token in tokens + [setting.end] {
      if byMask, !matcher.allowed(remaining: 1 << 20).contains(token) { return false }
      guard matcher.accept(token) else { return false }
    }
    return true
  }
}

// MARK: HTTP

enum Requests {
  /// For each complete request `request`, method, path, query with its `?`, minor version, the number of header fields,
  /// their names and values, the body; then `partial`, `end` or `error` with status and words.
  static func answer(_ bytes: [UInt8]) -> [[UInt8]] {
    var parser = RequestParser()
    var found: [[UInt8]] = []
    var head: [[UInt8]] = []
    parser.feed(bytes)
    do throws(HTTPError) {
      while true {
        switch try parser.next() {
        case .head(let request, _):
          head = Subject.words(
            "request", request.method, request.path, request.target.query.map { "?" + $0 } ?? "",
            "\(request.minorVersion)", "\(request.headers.fields.count)")
          for field in request.headers.fields { head += [Array(field.name.utf8), field.value] }
        case .body(let body): found += head + [body]
        case .needMore: return found + Subject.words(parser.isInsideRequest ? "partial" : "end")
        }
      }
    } catch {
      return found + Subject.words("error", "\(error.status)", error.description)
    }
  }
}
