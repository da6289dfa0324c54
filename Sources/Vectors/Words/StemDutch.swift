// Stems of Dutch words, after Kraaij and Pohlmann.

extension StemLanguage {
  private static let vowels = Stem.Letters("aäáàâeëéèêiïíìîoöóòôuüúùûy")
  private static let vowelsWX = Stem.Letters("aäáàâeëéèêiïíìîoöóòôuüúùûywx")
  private static let aeiou = Stem.Letters("aäáàâeëéèêiïíìîoöóòôuüúùû")
  private static let aiou = Stem.Letters("aäáàâiïíìîoöóòôuüúùû")
  private static let e = Stem.Letters("eëéèê")
  private static let lengthened = Stem.Endings("a ä á à â o ö ó ò ô u ü ú ù û", "e é è ê", "eë", "ië")
  private static let step1 = Stem.Endings("s", "ies", "es", "és", "aus", "en", "nde")
  private static let step2 = Stem.Endings(
    "je", "ge", "lijke", "ische", "de", "te", "se", "re", "le", "ene", "ieve")
  private static let step3 = Stem.Endings(
    "atie", "iteit", "heid sel ster", "rder", "ing isme erij", "arij", "fie", "gie", "tst", "dst")
  private static let step4 = Stem.Endings(
    "ioneel", "atief", "baar achtig achtiger achtigst", "naar", "laar", "raar", "tant", "lijker lijkst",
    "eriger erigst erig end")
  private static let step4b = Stem.Endings("iger igst ig")
  private static let doubles = Stem.Endings(
    "bb cc dd ff gg hh jj kk ll mm pp qq rr ss tt vv ww xx zz", "nn", "v", "z")
  private static let step7 = Stem.Endings("kt ft pt")

  static func stemDutch(_ word: inout Stem) {
    measure(&word)
    var isStemmed = false
    for step in [cutFirst, cutSecond, cutThird, cutFourth] {
      word.rewind()
      if step(&word) { isStemmed = true }
    }
    for isPrefix in [true, false] where losesGe(&word, isPrefix: isPrefix) {
      measure(&word)
      isStemmed = true
      cutParticiple(&word)
    }
    if word.findAtEnd(step7) != nil {
      word.letters.removeLast()
      isStemmed = true
    }
    guard isStemmed else { return }
    switch word.findAtEnd(doubles) {
    case 0: word.letters.removeLast()
    case 1: if !word.isWhole("i") { word.letters.removeLast() }
    case 2: word.put("f")
    case 3: word.put("s")
    default: break
    }
  }

  // MARK: Regions

  /// Behind "ij" or a vowel at a place.
  private static func pastVowel(_ letters: [UInt8], _ at: Int) -> Int? {
    guard at < letters.count else { return nil }
    if letters[at...].starts(with: Stem.bytes("ij")) { return at + 2 }
    return vowels.has(letters[at]) ? at + 1 : nil
  }

  private static func measure(_ word: inout Stem) {
    let letters = word.letters
    func region(_ start: Int) -> Int? {
      var at = start
      while at < letters.count, !vowels.has(letters[at]) { at += 1 }
      let first = at
      while let next = pastVowel(letters, at) { at = next }
      return at > first && at < letters.count ? at + 1 : nil
    }
    (word.p1, word.p2) = (letters.count, letters.count)
    guard let first = region(0) else { return }
    word.p1 = first
    word.p2 = region(first) ?? letters.count
  }

  /// Whether a vowel stands before the place, or a consonant.
  private static func isVowel(_ word: Stem) -> Bool { word.isBefore(vowels) || word.follows("ij") }
  private static func isConsonant(_ word: Stem) -> Bool { !word.follows("ij") && word.isBefore(not: vowels) }
  private static func isFirstConsonant(_ word: Stem) -> Bool { word.in1 && isConsonant(word) }

  /// The last vowel becomes long, as it was in an open syllable.
  private static func lengthen(_ word: inout Stem) {
    word.rewind()
    guard word.isBefore(not: vowelsWX) else { return }
    word.at -= 1
    guard let group = word.find(lengthened) else { return }
    let isOpen = word.isBefore(not: aeiou) || word.isAtStart
    switch group {
    case 0: if isOpen { word.letters.insert(word.letters[word.at], at: word.at) }
    case 1:
      guard isOpen else { return }
      // One before the consonant, where there is one.
      let next = word.isAtStart ? 1 : 2
      if word.isBefore(aiou, next) || word.isBefore(e, next) && word.at - next == 0 { return }
      if word.isBefore(aiou, next + 1), word.isBefore(not: aeiou, next + 2) { return }
      word.letters.insert(word.letters[word.at], at: word.at)
    case 2: word.put("eëe")
    default: word.put("iee")
    }
  }

  // MARK: Endings

  /// Takes letters into what was found where a condition holds before them, and cuts or replaces both.
  private static func join(
    _ word: inout Stem, _ text: String, _ new: String = "", if isAllowed: (Stem) -> Bool = { _ in true }
  ) -> Bool {
    let at = word.at
    guard word.takes(text), isAllowed(word) else {
      word.at = at
      return false
    }
    return word.put(new)
  }

  private static func holds(_ word: Stem, before text: String, _ condition: (Stem) -> Bool) -> Bool {
    var word = word
    return word.takes(text) && condition(word)
  }

  private static func cutAndLengthen(_ word: inout Stem, if isAllowed: Bool, keeping text: String = "")
    -> Bool
  {
    guard word.put(text, if: isAllowed) else { return false }
    lengthen(&word)
    return true
  }

  private static func cutFirst(_ word: inout Stem) -> Bool {
    switch word.find(step1) {
    case 0: return word.cut(if: isFirstConsonant(word) && !holds(word, before: "t", \.in1))
    case 1: return word.put("ie", if: word.in1)
    case 2:
      if holds(word, before: "ar", isFirstConsonant) { return cutAndLengthen(&word, if: true) }
      return word.cut(if: holds(word, before: "er", isFirstConsonant))
        || word.put("e", if: isFirstConsonant(word))
    case 3: return word.put("é", if: word.in1)
    case 4: return word.put("au", if: word.in1 && isVowel(word))
    case 5:
      return join(&word, "hed", "heid", if: \.in1) || word.cut(if: word.follows("nd"))
        || join(&word, "d", if: isFirstConsonant)
        || word.cut(if: holds(word, before: "i", isVowel) || holds(word, before: "j", isVowel))
        || cutAndLengthen(&word, if: isFirstConsonant(word))
    case 6: return word.put("nd")
    default: return false
    }
  }

  private static func cutSecond(_ word: inout Stem) -> Bool {
    switch word.find(step2) {
    case 0:
      return join(&word, "et", if: isFirstConsonant) || join(&word, "rnt", "rn")
        || join(&word, "t") { $0.in1 && ($0.isBefore(vowels, 2) || $0.isLongBefore) }
        || join(&word, "ink", "ing") || join(&word, "mp", "m") || word.cut(if: isFirstConsonant(word))
    case 1: return word.put("g", if: word.in1)
    case 2: return word.put("lijk", if: word.in1)
    case 3: return word.put("isch", if: word.in1)
    case 4: return word.cut(if: isFirstConsonant(word))
    case 5: return word.put("t", if: word.in1)
    case 6: return word.put("s", if: word.in1)
    case 7: return word.put("r", if: word.in1)
    case 8: return cutAndLengthen(&word, if: word.in1, keeping: "l")
    case 9: return cutAndLengthen(&word, if: isFirstConsonant(word), keeping: "en")
    case 10: return word.put("ief", if: isFirstConsonant(word))
    default: return false
    }
  }

  private static func cutThird(_ word: inout Stem) -> Bool {
    switch word.find(step3) {
    case 0: return word.put("eer", if: word.in1)
    case 1: return cutAndLengthen(&word, if: word.in1)
    case 2: return word.cut(if: word.in1)
    case 3: return word.put("r")
    case 4:
      // "Schilderij", a painting, is no "schild".
      return word.put("er", if: word.follows("ild")) || cutAndLengthen(&word, if: word.in1)
    case 5: return word.put("aar", if: isFirstConsonant(word))
    case 6: return cutAndLengthen(&word, if: word.in2, keeping: "f")
    case 7: return cutAndLengthen(&word, if: word.in2, keeping: "g")
    case 8: return word.put("t", if: isFirstConsonant(word))
    case 9: return word.put("d", if: isFirstConsonant(word))
    default: return false
    }
  }

  private static func cutFourth(_ word: inout Stem) -> Bool {
    var isDone = false
    switch word.find(step4) {
    case 0: isDone = word.put("ie", if: word.in1)
    case 1: isDone = word.put("eer", if: word.in1)
    case 2: isDone = word.cut(if: word.in1)
    case 3: isDone = word.put("n", if: word.in1 && isVowel(word))
    case 4: isDone = word.put("l", if: word.in1 && isVowel(word))
    case 5: isDone = word.put("r", if: word.in1 && isVowel(word))
    case 6: isDone = word.put("teer", if: word.in1)
    case 7: isDone = word.put("lijk", if: word.in1)
    case 8: isDone = cutAndLengthen(&word, if: isFirstConsonant(word))
    default: break
    }
    guard !isDone, word.findAtEnd(step4b) != nil, !word.isWhole("inn") else { return isDone }
    return cutAndLengthen(&word, if: isFirstConsonant(word))
  }

  private static func cutParticiple(_ word: inout Stem) {
    word.rewind()
    let isD = word.follows("d")
    guard isD || word.follows("t") else { return }
    word.at -= 1
    guard isFirstConsonant(word), !holds(word, before: isD ? "n" : "h", \.in1) else { return }
    if isD {
      word.put(word.isWhole("in") ? "n" : "")
    } else {
      word.cut(if: !word.isWhole("en"))
    }
  }

  /// Takes "ge" away, from the beginning or the first one inside.
  private static func losesGe(_ word: inout Stem, isPrefix: Bool) -> Bool {
    let letters = word.letters
    let ge = Stem.bytes("ge")
    let first = isPrefix ? 0 : letters.indices.dropFirst().first { letters[$0...].starts(with: ge) }
    guard let first, letters[first...].starts(with: ge), letters.count - first - 2 >= 3 else { return false }
    var at = first + 2
    while at < letters.count, pastVowel(letters, at) == nil { at += 1 }
    guard at < letters.count else { return false }
    while let next = pastVowel(letters, at) { at = next }
    guard at < letters.count else { return false }
    let rest = letters[(first + 2)...]
    func begins(_ text: String) -> Bool { rest.starts(with: Stem.bytes(text)) }
    if isPrefix, begins("eft") || begins("val") && !begins("vali") || begins("vaa") || begins("vare") {
      return false
    }
    word.letters.removeSubrange(first..<first + 2)
    if word.letters[first] == 0xEB { word.letters[first] = UInt8(ascii: "e") }
    if word.letters[first] == 0xEF { word.letters[first] = UInt8(ascii: "i") }
    return true
  }
}

extension Stem {
  /// Whether "ij" stands before the letter before the place.
  fileprivate var isLongBefore: Bool { before(3) == UInt8(ascii: "i") && before(2) == UInt8(ascii: "j") }
}
