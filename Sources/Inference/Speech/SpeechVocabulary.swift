// The special tokens of a model that hears, the languages that it knows, and what it must not write.
//
// Sources: arXiv:2212.04356 and its tokenizer; ids are looked up by content, since they differ between sizes.

package import Tokenizers

/// Made once of a tokenizer.
package struct SpeechVocabulary: Sendable {
  package let tokenizer: Tokenizer
  /// Whether a window begins with its language and its task.
  package let isMultilingual: Bool
  let end, start, previous, noSpeech, noTimestamps: Int32
  let transcribe, translate: Int32?
  /// `<|0.00|>`; those that follow are 0.02 s apart.
  let timestamps: Int32
  /// `<|30.00|>` and beyond; tokens from it on are none.
  let upperBound: Int32
  /// Codes of languages, and their tokens.
  let languages: [(code: String, token: Int32)]
  /// What is never written: marks that stand for noise, and tokens that open a window.
  let suppressed: [Int32]
  /// What a window does not begin with: a blank, or its end.
  let blank: [Int32]

  /// Whether it writes down in English what is said in another language.
  package var translates: Bool { isMultilingual && translate != nil }
  /// Codes of the languages that it hears, sorted.
  package var codes: [String] { isMultilingual ? languages.map(\.code).sorted() : ["en"] }
  /// Most tokens of a window, with what is shown of those before it.
  package let contextTokens: Int

  /// Seconds from one timestamp to the next, and frames.
  static let (timestampSeconds, timestampFrames) = (0.02, 2)
  private static let timestampCount: Int32 = 1501

  /// - Parameter size: tokens of the model.
  /// - Throws: `modelLoading` naming what the tokenizer lacks.
  package init(_ tokenizer: Tokenizer, size: Int, context: Int, isMultilingual: Bool) throws(InferenceError) {
    func find(_ names: String...) throws(InferenceError) -> Int32 {
      guard let id = names.lazy.compactMap(tokenizer.id).first, id < size else {
        throw .modelLoading(
          "tokenizer.json has no '\(names[0])': it is not the tokenizer of this speech model. "
            + "Take it from the original repository of the same size.")
      }
      return id
    }
    (self.tokenizer, contextTokens) = (tokenizer, context)
    self.isMultilingual = isMultilingual
    (end, start) = (try find("<|endoftext|>"), try find("<|startoftranscript|>"))
    (previous, noSpeech) = (try find("<|startofprev|>"), try find("<|nospeech|>", "<|nocaptions|>"))
    noTimestamps = try find("<|notimestamps|>")
    (transcribe, translate) = (tokenizer.id(of: "<|transcribe|>"), tokenizer.id(of: "<|translate|>"))
    // Some tokenizers do not list them: they follow the last that is listed.
    timestamps = tokenizer.id(of: "<|0.00|>") ?? noTimestamps + 1
    upperBound = timestamps + Self.timestampCount
    guard upperBound <= size, end < timestamps, noTimestamps < timestamps else {
      throw .modelLoading(
        "the model has \(size) tokens, and timestamps would end at \(upperBound): tokenizer.json is not this model's"
      )
    }
    languages = SpeechLanguage.all.compactMap { language in
      tokenizer.id(of: "<|\(language.code)|>").map { (language.code, $0) }
    }
    if isMultilingual, languages.isEmpty || transcribe == nil {
      throw .modelLoading(
        "tokenizer.json has no tokens of languages or tasks: it is not this speech model's")
    }
    let openings =
      [transcribe, translate, tokenizer.id(of: "<|startoflm|>")].compactMap { $0 } + [
        previous, start, noSpeech,
      ]
    suppressed = openings + Self.noise(tokenizer)
    blank = tokenizer.encode(" ", addSpecialTokens: false) + [end]
  }

  /// Marks that transcripts have for what is no speech, with a space before them and without.
  private static func noise(_ tokenizer: Tokenizer) -> Set<Int32> {
    func encode(_ text: String) -> [Int32] { tokenizer.encode(text, addSpecialTokens: false) }
    let music = ["♩", "♪", "♫", "♬", "♭", "♮", "♯"]
    let marks = [
      "\"", "#", "(", ")", "*", "+", "/", ":", ";", "<", "=", ">", "@", "[", "\\", "]", "^", "_", "`", "{",
      "|", "}", "~", "「", "」", "『", "』", "<<", ">>", "<<<", ">>>", "--", "---", "-(", "-[", "('", "(\"", "((",
      "))", "(((", ")))", "[[", "]]", "{{", "}}", "♪♪", "♪♪♪",
    ]
    // A word may hold a hyphen or an apostrophe, but does not begin with one.
    var found = Set([" -", " '"].compactMap { encode($0).first })
    for mark in marks + music {
      for tokens in [encode(mark), encode(" " + mark)] where tokens.count == 1 || music.contains(mark) {
        if let first = tokens.first { found.insert(first) }
      }
    }
    return found
  }

  func isTimestamp(_ token: Int32) -> Bool { token >= timestamps && token < upperBound }

  /// Whether it is a piece of text.
  func isText(_ token: Int32) -> Bool { token < end }

  /// Seconds from the window's beginning.
  func seconds(_ timestamp: Int32) -> Double { Double(timestamp - timestamps) * Self.timestampSeconds }

  func text(_ tokens: some Sequence<Int32>) -> String {
    tokenizer.decode(tokens.filter(isText), skipSpecialTokens: true)
  }

  /// The tokens with which a window begins.
  func opening(language: String?, translates: Bool) -> [Int32] {
    guard isMultilingual, let task = translates ? translate : transcribe else { return [start] }
    let token = languages.first { $0.code == language ?? "en" }?.token
    return [start] + (token.map { [$0] } ?? []) + [task]
  }

  /// The code of a language by code or English name, in any case; nil for one that the model does not know.
  package func language(_ name: String) -> String? {
    let name = name.lowercased()
    let code = SpeechLanguage.all.first { $0.code == name || $0.name == name }?.code
    guard isMultilingual else { return code == "en" ? code : nil }
    return languages.first { $0.code == code }?.code
  }
}

/// A language of Whisper's, by its code and its English name.
package struct SpeechLanguage: Sendable {
  package let code, name: String

  /// The name of a code; the code itself where it is not known.
  package static func name(of code: String) -> String { all.first { $0.code == code }?.name ?? code }

  static let all: [SpeechLanguage] = names.split(separator: ",").map { entry in
    let parts = entry.split(separator: ":")
    return SpeechLanguage(code: String(parts[0]), name: String(parts[1]))
  }

  private static let names =
    "en:english,zh:chinese,de:german,es:spanish,ru:russian,ko:korean,fr:french,ja:japanese,pt:portuguese,"
    + "tr:turkish,pl:polish,ca:catalan,nl:dutch,ar:arabic,sv:swedish,it:italian,id:indonesian,hi:hindi,"
    + "fi:finnish,vi:vietnamese,he:hebrew,uk:ukrainian,el:greek,ms:malay,cs:czech,ro:romanian,da:danish,"
    + "hu:hungarian,ta:tamil,no:norwegian,th:thai,ur:urdu,hr:croatian,bg:bulgarian,lt:lithuanian,la:latin,"
    + "mi:maori,ml:malayalam,cy:welsh,sk:slovak,te:telugu,fa:persian,lv:latvian,bn:bengali,sr:serbian,"
    + "az:azerbaijani,sl:slovenian,kn:kannada,et:estonian,mk:macedonian,br:breton,eu:basque,is:icelandic,"
    + "hy:armenian,ne:nepali,mn:mongolian,bs:bosnian,kk:kazakh,sq:albanian,sw:swahili,gl:galician,mr:marathi,"
    + "pa:punjabi,si:sinhala,km:khmer,sn:shona,yo:yoruba,so:somali,af:afrikaans,oc:occitan,ka:georgian,"
    + "be:belarusian,tg:tajik,sd:sindhi,gu:gujarati,am:amharic,yi:yiddish,lo:lao,uz:uzbek,fo:faroese,"
    + "ht:haitian creole,ps:pashto,tk:turkmen,nn:nynorsk,mt:maltese,sa:sanskrit,lb:luxembourgish,my:myanmar,"
    + "bo:tibetan,tl:tagalog,mg:malagasy,as:assamese,tt:tatar,haw:hawaiian,ln:lingala,ha:hausa,ba:bashkir,"
    + "jw:javanese,su:sundanese,yue:cantonese"
}
