// Stems of English and German words.

extension StemLanguage {
  private static let vowels = Stem.Letters("aeiouy")
  private static let vowelsWXY = Stem.Letters("aeiouywxY")
  private static let beforeLi = Stem.Letters("cdeghkmnrt")
  private static let wholeWords: [String: String] = [
    "skis": "ski", "skies": "sky", "idly": "idl", "gently": "gentl", "ugly": "ugli", "early": "earli",
    "only": "onli", "singly": "singl", "sky": "sky", "news": "news", "howe": "howe", "atlas": "atlas",
    "cosmos": "cosmos", "bias": "bias", "andes": "andes",
  ]
  private static let exceptions = [[UInt8]: [UInt8]](
    uniqueKeysWithValues: wholeWords.map { (Stem.bytes($0), Stem.bytes($1)) })
  /// What would else be cut too early.
  private static let beginnings = [
    "gener", "commun", "arsen", "past", "univers", "later", "emerg", "organ", "inter",
  ].map { Stem.bytes($0) }
  private static let step1a = Stem.Endings("sses", "ied ies", "s", "us ss")
  private static let step1b = Stem.Endings("eed eedly", "ed edly ingly", "ing")
  private static let afterPast = Stem.Endings("at bl iz", "bb dd ff gg mm nn pp rr tt")
  private static let step2 = Stem.Endings(
    "tional", "enci", "anci", "abli", "entli", "izer ization", "ational ation ator", "alism aliti alli",
    "fulness", "ousli ousness", "iveness iviti", "biliti bli", "ogist", "fulli", "lessli", "ogi", "li")
  private static let become2 = [
    "tion", "ence", "ance", "able", "ent", "ize", "ate", "al", "ful", "ous", "ive", "ble", "og", "ful",
    "less",
  ]
  private static let step3 = Stem.Endings(
    "tional", "ational", "alize", "icate iciti ical", "ful ness", "ative")
  private static let become3 = ["tion", "ate", "al", "ic", ""]
  private static let step4 = Stem.Endings(
    "al ance ence er ic able ible ant ement ment ent ism ate iti ous ive ize", "ion")

  static func stemEnglish(_ word: inout Stem) {
    if let known = exceptions[word.letters] {
      word.letters = known
      return
    }
    guard word.letters.count > 2 else { return }
    for index in word.letters.indices where word.letters[index] == UInt8(ascii: "y") {
      if index == 0 || vowels.has(word.letters[index - 1]) { word.letters[index] = UInt8(ascii: "Y") }
    }
    let beginning = beginnings.first { word.letters.starts(with: $0) }?.count
    if let first = beginning ?? word.region(from: 0, vowels) {
      word.p1 = first
      word.p2 = word.region(from: first, vowels) ?? word.p2
    }
    cutPlural(&word)
    cutPast(&word)
    word.rewind()
    if let last = word.letters.last, last == UInt8(ascii: "y") || last == UInt8(ascii: "Y"),
      word.letters.count > 2
    {
      word.at -= 1
      word.put("i", if: word.isBefore(not: vowels))
    }
    if let group = word.findAtEnd(step2), word.in1 {
      switch group {
      case 0..<15: word.put(become2[group])
      case 15: word.put("og", if: word.follows("l"))
      default: word.cut(if: word.isBefore(beforeLi))
      }
    }
    if let group = word.findAtEnd(step3), word.in1 {
      if group < 5 { word.put(become3[group]) } else { word.cut(if: word.in2) }
    }
    if let group = word.findAtEnd(step4), word.in2 {
      word.cut(if: group == 0 || word.follows("s") || word.follows("t"))
    }
    word.rewind()
    if word.takes("e") {
      word.cut(if: word.in2 || word.in1 && !isShort(word))
    } else if word.takes("l") {
      word.cut(if: word.in2 && word.follows("l"))
    }
    word.replaceAll([UInt8(ascii: "Y"): UInt8(ascii: "y")])
  }

  private static func cutPlural(_ word: inout Stem) {
    switch word.findAtEnd(step1a) {
    case 0: word.put("ss")
    case 1: word.put(word.at >= 2 ? "i" : "ie")
    case 2: word.cut(if: word.letters[..<max(0, word.at - 1)].contains(where: vowels.has))
    default: break
    }
  }

  private static func cutPast(_ word: inout Stem) {
    guard let group = word.findAtEnd(step1b) else { return }
    if group == 0 {
      guard word.in1, !["proc", "exc", "succ"].contains(where: word.isWhole) else { return }
      word.put("ee")
      return
    }
    if group == 2 {
      if word.follows("y"), word.at == 2, word.isBefore(not: vowels, 2) {
        word.at -= 1
        word.put("ie")
        return
      }
      if ["inn", "out", "cann", "herr", "earr", "even"].contains(where: word.isWhole) { return }
    }
    guard word.letters[..<word.at].contains(where: vowels.has) else { return }
    word.cut()
    word.rewind()
    let isAtFirst = word.at == word.p1
    let isShort = isShort(word)
    switch word.find(afterPast) {
    case 0: word.letters.append(UInt8(ascii: "e"))
    case 1:
      let isWhole = word.at == 1 && Stem.Letters("aeo").has(word.letters[0])
      if !isWhole { word.letters.removeLast() }
    default: if isAtFirst, isShort { word.letters.append(UInt8(ascii: "e")) }
    }
  }

  /// Whether a short syllable stands before the place.
  private static func isShort(_ word: Stem) -> Bool {
    word.isBefore(not: vowelsWXY) && word.isBefore(vowels, 2) && word.isBefore(not: vowels, 3)
      || word.isBefore(not: vowels) && word.isBefore(vowels, 2) && word.at == 2 || word.follows("past")
  }

  // MARK: German

  private static let germanVowels = Stem.Letters("aeiouyäöü")
  private static let beforeET = Stem.Letters("dfgklmnrstUzä")
  private static let beforeS = Stem.Letters("bdfghklmnrt")
  private static let beforeST = Stem.Letters("bdfghklmnt")
  private static let german1 = Stem.Endings("em", "ern er erin erinnen", "e en es", "s", "ln lns")
  private static let german2 = Stem.Endings("en er est", "st", "et")
  private static let german3 = Stem.Endings("end ung", "ig ik isch", "lich heit", "keit")
  private static let germanLast = Stem.Endings("lich ig")

  static func stemGerman(_ word: inout Stem) {
    word.markBetweenVowels(
      germanVowels, [UInt8(ascii: "u"): UInt8(ascii: "U"), UInt8(ascii: "y"): UInt8(ascii: "Y")])
    word.letters = spelledGerman(word.letters)
    (word.p1, word.p2) = (word.letters.count, word.letters.count)
    if word.letters.count >= 3, let first = word.region(from: 0, germanVowels) {
      word.p1 = max(3, first)
      word.p2 = word.region(from: first, germanVowels) ?? word.p2
    }
    if let group = word.findAtEnd(german1), word.in1 {
      switch group {
      case 0: word.cut(if: !word.follows("syst"))
      case 1: word.cut()
      case 2:
        word.cut()
        if word.follows("niss") {
          word.at -= 1
          word.cut()
        }
      case 3: word.cut(if: word.isBefore(beforeS))
      default: word.put("l")
      }
    }
    if let group = word.findAtEnd(german2), word.in1 {
      switch group {
      case 0: word.cut()
      case 1: word.cut(if: word.isBefore(beforeST) && word.at >= 4)
      default:
        let isNoun = ["geordn", "intern", "plan", "tick", "tr"].contains(where: word.follows)
        word.cut(if: word.isBefore(beforeET) && !isNoun)
      }
    }
    if let group = word.findAtEnd(german3), word.in2 {
      switch group {
      case 0:
        word.cut()
        word.cut("ig") { !$0.follows("e") && $0.in2 }
      case 1: word.cut(if: !word.follows("e"))
      case 2:
        word.cut()
        if !word.cut("er", if: \.in1) { word.cut("en", if: \.in1) }
      default:
        word.cut()
        if word.find(germanLast) != nil { word.cut(if: word.in2) }
      }
    }
    let plain: [(Character, Character)] = [("Y", "y"), ("U", "u"), ("ä", "a"), ("ö", "o"), ("ü", "u")]
    word.replaceAll(
      .init(uniqueKeysWithValues: plain.map { (Stem.bytes(String($0))[0], Stem.bytes(String($1))[0]) }))
  }

  /// ß and vowels with an e behind them as they are spelled elsewhere.
  private static func spelledGerman(_ letters: [UInt8]) -> [UInt8] {
    var spelled: [UInt8] = []
    var at = 0
    while at < letters.count {
      let next = at + 1 < letters.count ? letters[at + 1] : 0
      switch (letters[at], next) {
      case (0xDF, _): spelled += Stem.bytes("ss")
      case (UInt8(ascii: "a"), UInt8(ascii: "e")):
        spelled.append(0xE4)
        at += 1
      case (UInt8(ascii: "o"), UInt8(ascii: "e")):
        spelled.append(0xF6)
        at += 1
      case (UInt8(ascii: "u"), UInt8(ascii: "e")):
        spelled.append(0xFC)
        at += 1
      case (UInt8(ascii: "q"), UInt8(ascii: "u")):
        spelled += Stem.bytes("qu")
        at += 1
      default: spelled.append(letters[at])
      }
      at += 1
    }
    return spelled
  }
}

extension Stem {
  /// Letters between two vowels become the consonants that they are there.
  mutating func markBetweenVowels(_ vowels: Letters, _ marks: [UInt8: UInt8]) {
    for at in letters.indices.dropLast(2) where vowels.has(letters[at]) && vowels.has(letters[at + 2]) {
      letters[at + 1] = marks[letters[at + 1]] ?? letters[at + 1]
    }
  }
}
