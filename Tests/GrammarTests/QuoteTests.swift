// Quotes: answers that stand in a text, beside a search for each of them in that text.

import JSON
import Support
import Testing
import Tokenizers

@testable import Grammar

@Suite struct QuoteTests {
  private static let poem =
    "The fox said: \"Naïve!\"\n\tÉté, été — 日本\\n 😀😀.\r\nThe fox ran 3.14 or 1,200 miles, 7. The end"

  private static func grammar(_ texts: [String], _ bounds: String = "") throws -> CompiledGrammar {
    let sources = JSONValue.array(texts.map { .string($0) }).text
    return try CompiledGrammar(schema: "{\"x-quote-of\":\(sources)\(bounds)}")
  }

  private static func json(_ text: String) -> String {
    String(decoding: JSONText.quoted(text), as: UTF8.self)
  }

  /// The slow twin: whether a text stands in another, from the border of a word to another, at any place.
  private static func stands(_ text: String, in source: String) -> Bool {
    let (wanted, all) = (Array(text.unicodeScalars), Array(source.unicodeScalars))
    func isWord(_ scalar: Unicode.Scalar) -> Bool {
      scalar.isASCII ? scalar.properties.isAlphabetic || isDigit(scalar) : 0xC0..<0x800 ~= scalar.value
    }
    func isDigit(_ scalar: Unicode.Scalar) -> Bool { "0"..."9" ~= scalar }
    func isBorder(_ place: Int) -> Bool {
      guard place > 0, place < all.count else { return true }
      if isWord(all[place - 1]), isWord(all[place]) { return false }
      for mark in [place - 1, place]
      where mark > 0 && mark + 1 < all.count && ".,".unicodeScalars.contains(all[mark]) {
        if isDigit(all[mark - 1]), isDigit(all[mark + 1]) { return false }
      }
      return true
    }
    guard !wanted.isEmpty, wanted.count <= all.count else { return false }
    return (0...all.count - wanted.count).contains { place in
      all[place..<place + wanted.count].elementsEqual(wanted) && isBorder(place)
        && isBorder(place + wanted.count)
    }
  }

  @Test func `every run of whole words can be quoted, and nothing else`() throws {
    let scalars = Array(Self.poem.unicodeScalars)
    let (plain, quoted) = (try CompiledGrammar(.quote(of: [Self.poem])), try Self.grammar([Self.poem]))
    var random = SeededGenerator(seed: 3)
    for _ in 0..<400 {
      let from = Int.random(in: 0..<scalars.count, using: &random)
      let to = Int.random(in: from + 1...min(scalars.count, from + 30), using: &random)
      var text = String(String.UnicodeScalarView(scalars[from..<to]))
      #expect(plain.allows(text) == Self.stands(text, in: Self.poem), "\(text)")
      #expect(quoted.allows(Self.json(text)) == Self.stands(text, in: Self.poem), "\(text)")
      // One character of it is another one of the poem, or left out.
      var changed = Array(text.unicodeScalars)
      let place = Int.random(in: 0..<changed.count, using: &random)
      if Bool.random(using: &random) {
        changed[place] = try #require(scalars.randomElement(using: &random))
      } else {
        changed.remove(at: place)
      }
      text = String(String.UnicodeScalarView(changed))
      let stands = Self.stands(text, in: Self.poem)
      #expect(plain.allows(text) == stands, "\(text)")
      #expect(quoted.allows(Self.json(text)) == stands, "\(text)")
    }
  }

  @Test(arguments: ["", "x", "The fo", "he fox", "fox\nThe", "ite", "ï", "nThe"])
  func `what does not stand in the text is refused`(_ text: String) throws {
    #expect(try !Self.grammar([Self.poem]).allows(Self.json(text)))
  }

  @Test func `a character has one spelling, and its escape is one`() throws {
    let grammar = try Self.grammar(["a\nb/\"é"])
    for right in [#""a\nb/\"é""#, #""\n""#, #""\"""#] { #expect(grammar.allows(right), "\(right)") }
    for wrong in ["\"a\nb\"", #""a\u000ab""#, #""nb""#, #""b\/""#, #""\u00e9""#, #""\""#, #""\\""#] {
      #expect(!grammar.allows(wrong), "\(wrong)")
    }
  }

  @Test func `no quote has parts of two texts, or a character that JSON has no short escape for`() throws {
    let grammar = try Self.grammar(["one two", "two three", "a\u{1}b"])
    for right in ["one two", "two three", "two", "a", "b"] { #expect(grammar.allows(Self.json(right))) }
    for wrong in ["one two three", "twotwo", "a\u{1}b", "\u{1}", "ab"] {
      #expect(!grammar.allows(Self.json(wrong)), "\(wrong)")
    }
    #expect(try CompiledGrammar(.quote(of: ["a\u{1}b"])).allows("a\u{1}b"))
  }

  @Test func `bounds count characters, and what is too short for them is no beginning`() throws {
    let grammar = try Self.grammar(["été à la mer", "no"], #","minLength":4,"maxLength":6"#)
    for right in ["été ", "été à", "été à ", " mer"] { #expect(grammar.allows(Self.json(right)), "\(right)") }
    for wrong in ["été", "été à l", "mer", "no"] { #expect(!grammar.allows(Self.json(wrong)), "\(wrong)") }
    var matcher = GrammarMatcher(grammar)
    for byte in "\"".utf8 { verify(matcher.accept(Int32(byte))) }
    // Nothing of four characters begins with these.
    for letter in "mn" { #expect(!matcher.allowed(remaining: 100).contains(Int32(letter.asciiValue ?? 0))) }
  }

  @Test func `a number is quoted whole, a long word at any place behind its fortieth byte`() throws {
    for wrong in ["3", "1", "4", "3.1"] {
      #expect(try !Self.grammar(["It costs 3.14."]).allows(Self.json(wrong)))
    }
    let key = String(repeating: "0123456789abcdef", count: 4)
    let grammar = try Self.grammar(["costs 3.14, or 1,200. The key is \(key)!"])
    for right in ["3.14", "1,200", "1,200.", "costs 3.14,", String(key.prefix(41)), key] {
      #expect(grammar.allows(Self.json(right)), "\(right)")
    }
    for wrong in ["3.", "14", ".14", "1,", "200", String(key.prefix(39)), String(key.dropFirst(3))] {
      #expect(!grammar.allows(Self.json(wrong)), "\(wrong)")
    }
  }

  @Test func `a quote stands in an object, a list, or beside another value`() throws {
    let grammar = try CompiledGrammar(
      schema:
        #"{"type":"object","properties":{"quotes":{"type":"array","items":{"type":"string","x-quote-of":"to be or not to be"}},"why":{"anyOf":[{"x-quote-of":["a","b"]},{"type":"null"}]}},"required":["quotes","why"],"additionalProperties":false}"#
    )
    #expect(grammar.allows(#"{"quotes":["to be","or not"],"why":null}"#))
    #expect(grammar.allows(#"{"quotes":[],"why":"b"}"#))
    #expect(!grammar.allows(#"{"quotes":["to or"],"why":null}"#))
    #expect(!grammar.allows(#"{"quotes":[],"why":"ab"}"#))
    #expect(!grammar.allows(#"{"quotes":[1],"why":null}"#))
  }

  @Test func `what a quote cannot be joined with is refused by name`() throws {
    for (schema, words) in [
      (#"{"x-quote-of":"abc","pattern":"^a"}"#, "minLength and maxLength"),
      (#"{"x-quote-of":"abc","enum":["a"]}"#, "minLength and maxLength"),
      (#"{"x-quote-of":3}"#, "neither a text nor a list of texts"),
      (#"{"x-quote-of":[null]}"#, "neither a text nor a list of texts"),
      (#"{"type":"object","propertyNames":{"x-quote-of":"abc"},"minProperties":1}"#, "told apart"),
      (#"{"x-quote-of":""}"#, "no text satisfies it"), (#"{"x-quote-of":[]}"#, "no text satisfies it"),
      (#"{"x-quote-of":"abc","minLength":4}"#, "no text satisfies it"),
    ] {
      let error = #expect(throws: GrammarError.self, "\(schema)") { try CompiledGrammar(schema: schema) }
      #expect(error?.description.contains(words) == true, "\(schema): \(error?.description ?? "")")
    }
    let large = String(repeating: "a", count: QuoteLeaf.largestSource)
    #expect(throws: GrammarError.tooLarge(reason: "the sources of a quote have more than 4 MiB")) {
      try CompiledGrammar(.quote(of: [large]))
    }
  }

  @Test func `excluded texts are not quoted`() throws {
    let grammar = try CompiledGrammar(.without(["</call>"], .schema(["x-quote-of": "one </call> two"])))
    #expect(grammar.allows("\"one </call\""))
    #expect(grammar.allows("\" two\""))
    #expect(!grammar.allows("\"one </call>\""))
    #expect(!grammar.allows("\"</call> two\""))
  }

  @Test func `what the model cannot write is not quoted`() throws {
    let words: [[UInt8]] = "abc\"\\n".utf8.map { [$0] } + [[]]
    let vocabulary = GrammarVocabulary(count: words.count, endTokens: [6]) { words[Int($0)] }
    let grammar = try CompiledGrammar(.quote(of: ["abécb"]), vocabulary: vocabulary)
    var matcher = GrammarMatcher(grammar)
    verify(matcher.accept(0) && matcher.accept(1))
    verify(matcher.mustEnd)
  }

  /// Every mask of random quotes is what each token alone is accepted as, also near the end of what may be written.
  @Test(arguments: 0..<6) func `masks of quotes have the tokens that are accepted`(_ number: Int) throws {
    let texts = [
      "abcabcabc abXYZ ab ab 12 ABC. 0123456789 é日😀a é日 abc\"x\n\tx\na\\n\"aa",
      String(repeating: "ab", count: 60),
      "hgfedcba,ab .-_ abcdefgh",
    ]
    let bounds = ["", #","minLength":3"#, #","maxLength":5"#, #","minLength":2,"maxLength":40"#]
    let source = JSONValue.array(Array(texts[0...number % 3]).map { .string($0) }).text
    let schema =
      number == 5
      ? #"{"type":"array","items":{"anyOf":[{"x-quote-of":\#(source)},{"type":"integer"},{"const":"abc"}]}}"#
      : "{\"x-quote-of\":\(source)\(bounds[number % 4])}"
    let pattern: Pattern = number == 4 ? .quote(of: texts) : .schema(try JSONValue(parsing: schema))
    let grammar = try CompiledGrammar(pattern, vocabulary: LeafMaskTests.vocabulary)
    try LeafMaskTests.compare(grammar, schema, answers: 4, steps: 14, seed: UInt64(number))
  }

  @Test(.enabled(if: TestData.isMeasuring && SpeedTests.folder != nil, "only when asked"))
  func `what quotes cost`() throws {
    let (tokenizer, vocabulary) = try SpeedTests.vocabulary("qwen3", end: "<|im_end|>")
    let text = String(
      decoding: try TestData.bytes((TestData.shared ?? "") + "/text/wikitext2-test.raw.txt"), as: UTF8.self)
    var source = String(text.prefix(480_000))
    while tokenizer.encode(source, addSpecialTokens: false).count > 100_000 { source.removeLast(5000) }
    let began = ContinuousClock.now
    let grammar = try CompiledGrammar(.schema(["x-quote-of": .string(source)]), vocabulary: vocabulary)
    print("compiling \(source.utf8.count) bytes: \(SpeedTests.milliseconds(since: began)) ms")
    var (first, others) = ([Double](), [Double]())
    for start in [1000, 200_000, 300_000] {
      var matcher = GrammarMatcher(grammar)
      let quote = String(source.dropFirst(start).prefix(400))
      for token in tokenizer.encode(
        String(decoding: JSONText.quoted(quote), as: UTF8.self), addSpecialTokens: false)
      {
        let asked = ContinuousClock.now
        let mask = matcher.allowed(remaining: 100_000)
        let took = SpeedTests.milliseconds(since: asked)
        if first.count < 2 { first.append(took) } else { others.append(took) }
        guard mask.contains(token), matcher.accept(token) else { break }
      }
    }
    others.sort()
    print(
      "first masks \(first) ms; \(others.count) others: median \(others[others.count / 2]), largest \(others.last ?? 0)"
    )
  }
}
