// Stems of French, Spanish, Italian and Portuguese words.

extension Stem {
  /// Where the region of verbs' endings begins in Spanish, Italian and Portuguese.
  mutating func markRegions(_ vowels: Letters) {
    func isVowel(_ index: Int) -> Bool { index < letters.count && vowels.has(letters[index]) }
    var first: Int?
    if letters.count > 1 {
      switch (isVowel(0), isVowel(1)) {
      case (true, false): first = past(2, vowels, isIn: true)
      case (true, true): first = past(2, vowels, isIn: false)
      case (false, false): first = past(2, vowels, isIn: true)
      case (false, true): first = letters.count > 2 ? 3 : nil
      }
    }
    // The second way, where a word that begins with a vowel has no other.
    pV = first ?? letters.count
    markFirstRegions(vowels)
  }

  mutating func markFirstRegions(_ vowels: Letters) {
    (p1, p2) = (letters.count, letters.count)
    guard let first = region(from: 0, vowels) else { return }
    p1 = first
    p2 = region(from: first, vowels) ?? letters.count
  }

  /// Finds an ending in the region of verbs' endings.
  mutating func findVerb(_ endings: Endings) -> Int? {
    rewind()
    let old = low
    defer { low = old }
    guard at >= pV else { return nil }
    low = pV
    return find(endings)
  }
}

extension StemLanguage {
  // MARK: French

  private static let frenchVowels = Stem.Letters("aeiouyâàëéêèïîôûù")
  private static let frenchSuffixes = Stem.Endings(
    "ance iqUe isme able iste eux ances iqUes ismes ables istes", "atrice ateur ation atrices ateurs ations",
    "logie logies", "usion ution usions utions", "ence ences", "ement ements", "ité ités", "if ive ifs ives",
    "eaux", "aux", "oux", "euse euses", "issement issements", "amment", "emment", "ment ments")
  private static let frenchBeforeMent = Stem.Endings("iv", "eus", "abl iqU", "ièr Ièr")
  private static let frenchBeforeIte = Stem.Endings("abil", "ic", "iv")
  private static let frenchBeforeOux = Stem.Letters("bhjlnp")
  private static let frenchI = Stem.Endings(
    """
    îmes ît îtes i ie ies ir ira irai iraIent irais irait iras irent irez iriez irions irons iront is issaIent issais \
    issait issant issante issantes issants isse issent isses issez issiez issions issons it
    """)
  private static let frenchVerbs = Stem.Endings(
    "ions",
    "é ée ées és èrent er era erai eraIent erais erait eras erez eriez erions erons eront ez iez",
    "âmes ât âtes a ai aIent ait ant ante antes ants as asse assent asses assiez assions", "ais aise aises",
    "eais")
  private static let frenchLast = Stem.Endings("ion", "ier ière Ier Ière", "e")
  private static let frenchKeepsS = Stem.Letters("aiouès")
  private static let frenchDoubles = Stem.Endings("enn onn ett ell eill")

  static func stemFrench(_ word: inout Stem) {
    markFrench(&word)
    markFrenchRegions(&word)
    let isCut = cutFrench(&word) || cutFrenchI(&word) || cutFrenchVerb(&word)
    word.rewind()
    if isCut {
      if word.takes("Y") { word.put("i") } else if word.takes("ç") { word.put("c") }
    } else {
      cutFrenchRest(&word)
    }
    word.rewind()
    if frenchDoubles.find(word.letters, before: word.at, low: 0) != nil { word.letters.removeLast() }
    unaccentFrench(&word)
    var plain: [UInt8] = []
    for (index, letter) in word.letters.enumerated() {
      switch letter {
      case UInt8(ascii: "I"), UInt8(ascii: "U"), UInt8(ascii: "Y"): plain.append(letter | 0x20)
      case UInt8(ascii: "H"): break
      case UInt8(ascii: "e"), UInt8(ascii: "i"):
        let isMarked = index > 0 && word.letters[index - 1] == UInt8(ascii: "H")
        plain.append(isMarked ? (letter == UInt8(ascii: "e") ? 0xEB : 0xEF) : letter)
      default: plain.append(letter)
      }
    }
    word.letters = plain
  }

  /// u, i and y that are consonants become capitals; ë and ï become He and Hi.
  private static func markFrench(_ word: inout Stem) {
    let (i, u, y, q) = (UInt8(ascii: "i"), UInt8(ascii: "u"), UInt8(ascii: "y"), UInt8(ascii: "q"))
    var at = 0
    while at < word.letters.count {
      let isVowel = word.isVowel(at, frenchVowels)
      let next = at + 1 < word.letters.count ? word.letters[at + 1] : 0
      if isVowel, next == u || next == i, word.isVowel(at + 2, frenchVowels) {
        word.letters[at + 1] -= 0x20
      } else if isVowel, next == y {
        word.letters[at + 1] = UInt8(ascii: "Y")
      } else if word.letters[at] == 0xEB || word.letters[at] == 0xEF {
        let plain = word.letters[at] == 0xEB ? UInt8(ascii: "e") : i
        word.letters.replaceSubrange(at...at, with: [UInt8(ascii: "H"), plain])
      } else if word.letters[at] == y, word.isVowel(at + 1, frenchVowels) {
        word.letters[at] = UInt8(ascii: "Y")
      } else if word.letters[at] == q, next == u {
        word.letters[at + 1] = UInt8(ascii: "U")
      }
      at += 1
    }
  }

  private static func markFrenchRegions(_ word: inout Stem) {
    let letters = word.letters
    word.pV = letters.count
    if word.isVowel(0, frenchVowels), word.isVowel(1, frenchVowels), letters.count > 2 {
      word.pV = 3
    } else if ["par", "col", "tap"].contains(where: { letters.starts(with: Stem.bytes($0)) })
      || letters.starts(with: Stem.bytes("ni")) && word.isVowel(2, frenchVowels)
    {
      word.pV = 3
    } else if let first = word.past(1, frenchVowels, isIn: true) {
      word.pV = first
    }
    word.markFirstRegions(frenchVowels)
  }

  private static func cutFrench(_ word: inout Stem) -> Bool {
    guard let group = word.findAtEnd(frenchSuffixes) else { return false }
    switch group {
    case 0: return word.cut(if: word.in2)
    case 1:
      guard word.cut(if: word.in2) else { return false }
      cutOrWriteIc(&word)
    case 2: return word.put("log", if: word.in2)
    case 3: return word.put("u", if: word.in2)
    case 4: return word.put("ent", if: word.in2)
    case 5:
      guard word.cut(if: word.inV) else { return false }
      switch word.find(frenchBeforeMent) {
      case 0: if word.cut(if: word.in2) { word.cut("at", if: \.in2) }
      case 1: if !word.cut(if: word.in2) { word.put("eux", if: word.in1) }
      case 2: word.cut(if: word.in2)
      case 3: word.put("i", if: word.inV)
      default: break
      }
    case 6:
      guard word.cut(if: word.in2) else { return false }
      switch word.find(frenchBeforeIte) {
      case 0: if !word.cut(if: word.in2) { word.put("abl") }
      case 1: if !word.cut(if: word.in2) { word.put("iqU") }
      case 2: word.cut(if: word.in2)
      default: break
      }
    case 7:
      guard word.cut(if: word.in2) else { return false }
      if word.cut("at", if: \.in2) { cutOrWriteIc(&word) }
    case 8: word.put("eau")
    case 9: return word.put("al", if: word.in1)
    case 10: return word.put("ou", if: word.isBefore(frenchBeforeOux))
    case 11: return word.cut(if: word.in2) || word.put("eux", if: word.in1)
    case 12: return word.cut(if: word.in1 && word.isBefore(not: frenchVowels))
    case 13, 14:
      // What is left is a verb.
      word.put(group == 13 ? "ant" : "ent", if: word.inV)
      return false
    default:
      word.cut(if: word.isBefore(frenchVowels) && word.pV <= word.at - 1)
      return false
    }
    return true
  }

  private static func cutOrWriteIc(_ word: inout Stem) {
    word.end = word.at
    guard word.takes("ic") else { return }
    if !word.cut(if: word.in2) { word.put("iqU") }
  }

  private static func cutFrenchI(_ word: inout Stem) -> Bool {
    guard word.findVerb(frenchI) != nil else { return false }
    // What stands before the ending has to be in the region too.
    guard word.at > word.pV, word.before() != UInt8(ascii: "H") else { return false }
    return word.cut(if: word.isBefore(not: frenchVowels))
  }

  private static func cutFrenchVerb(_ word: inout Stem) -> Bool {
    guard let group = word.findVerb(frenchVerbs) else { return false }
    switch group {
    case 0: return word.cut(if: word.in2)
    case 2:
      if word.follows("e"), word.at - 1 >= word.pV { word.at -= 1 }
      return word.cut()
    case 3:
      if word.follows("al"), word.at == 3 { return false }
      return word.cut(if: !word.follows("auv") && !word.follows("épl"))
    default: return word.cut()
    }
  }

  private static func cutFrenchRest(_ word: inout Stem) {
    if word.follows("s"), word.at > 1 {
      word.at -= 1
      word.cut(if: word.follows("Hi") || word.isBefore(not: frenchKeepsS))
    }
    switch word.findVerb(frenchLast) {
    case 0: word.cut(if: word.in2 && word.at > word.pV && (word.follows("s") || word.follows("t")))
    case 1: word.put("i")
    case 2: word.cut()
    default: break
    }
  }

  /// The last é or è before consonants.
  private static func unaccentFrench(_ word: inout Stem) {
    guard let last = word.letters.lastIndex(where: frenchVowels.has), last + 1 < word.letters.count,
      word.letters[last] == 0xE9 || word.letters[last] == 0xE8
    else { return }
    word.letters[last] = UInt8(ascii: "e")
  }

  // MARK: Spanish

  private static let spanishVowels = Stem.Letters("aeiouáéíóúü")
  private static let spanishPronouns = Stem.Endings("me se sela selo selas selos la le lo las les los nos")
  private static let spanishBeforePronouns = Stem.Endings(
    "iéndo", "ándo", "ár", "ér", "ír", "ando iendo ar er ir", "yendo")
  private static let become = ["iendo", "ando", "ar", "er", "ir"]
  private static let spanishSuffixes = Stem.Endings(
    """
    anza anzas ico ica icos icas ismo ismos able ables ible ibles ista istas oso osa osos osas amiento amientos \
    imiento imientos
    """,
    "adora ador ación adoras adores aciones ante antes ancia ancias acion", "logía logías",
    "ución uciones ucion", "encia encias", "amente", "mente", "idad idades", "iva ivo ivas ivos")
  private static let spanishAfterAmente = Stem.Endings("iv", "os ic ad")
  private static let spanishAfterMente = Stem.Endings("ante able ible")
  private static let afterIdad = Stem.Endings("abil ic iv")
  private static let spanishY = Stem.Endings("ya ye yan yen yeron yendo yo yó yas yes yais yamos")
  private static let spanishVerbs = Stem.Endings(
    "en es éis emos",
    """
    arían arías arán arás aríais aría aréis aríamos aremos ará aré erían erías erán erás eríais ería eréis eríamos \
    eremos erá eré irían irías irán irás iríais iría iréis iríamos iremos irá iré aba ada ida ía ara iera ad ed id ase \
    iese aste iste an aban ían aran ieran asen iesen aron ieron ado ido ando iendo ió ar er ir as abas adas idas ías \
    aras ieras ases ieses ís áis abais íais arais ierais aseis ieseis asteis isteis ados idos amos ábamos íamos imos \
    áramos iéramos iésemos ásemos
    """)
  private static let spanishRest = Stem.Endings("os a o á í ó", "e é")

  static func stemSpanish(_ word: inout Stem) {
    word.markRegions(spanishVowels)
    if word.findAtEnd(spanishPronouns) != nil {
      let (at, end) = (word.at, word.end)
      if let group = word.find(spanishBeforePronouns), word.inV {
        if group < 5 {
          // The pronoun goes with the accent.
          word.end = end
          word.put(become[group])
        } else if group == 5 || word.follows("u") {
          (word.at, word.end) = (at, end)
          word.cut()
        }
      }
    }
    if !cutSpanish(&word) { cutSpanishVerb(&word) }
    switch word.findAtEnd(spanishRest) {
    case 0: word.cut(if: word.inV)
    case 1: if word.cut(if: word.inV) { cutU(&word) }
    default: break
    }
    word.replaceAll([0xE1: 0x61, 0xE9: 0x65, 0xED: 0x69, 0xF3: 0x6F, 0xFA: 0x75])
  }

  /// The u of "gue".
  private static func cutU(_ word: inout Stem) {
    word.cut("u") { $0.follows("g") && $0.inV }
  }

  private static func cutSpanish(_ word: inout Stem) -> Bool {
    guard let group = word.findAtEnd(spanishSuffixes) else { return false }
    switch group {
    case 2: return word.put("log", if: word.in2)
    case 3: return word.put("u", if: word.in2)
    case 4: return word.put("ente", if: word.in2)
    case 5: return word.cut(if: word.in1) && cutBeforeAmente(&word, spanishAfterAmente)
    default:
      guard word.cut(if: word.in2) else { return false }
      switch group {
      case 1: word.cut("ic", if: \.in2)
      case 6: if word.find(spanishAfterMente) != nil { word.cut(if: word.in2) }
      case 7: if word.find(afterIdad) != nil { word.cut(if: word.in2) }
      case 8: word.cut("at", if: \.in2)
      default: break
      }
      return true
    }
  }

  /// What stood before "amente", which is gone: always true.
  private static func cutBeforeAmente(_ word: inout Stem, _ endings: Stem.Endings) -> Bool {
    if let group = word.find(endings), word.in2 {
      word.cut()
      if group == 0 { word.cut("at", if: \.in2) }
    }
    return true
  }

  private static func cutSpanishVerb(_ word: inout Stem) {
    if word.findVerb(spanishY) != nil, word.cut(if: word.follows("u")) { return }
    guard let group = word.findVerb(spanishVerbs) else { return }
    if group == 0, word.follows("gu") { word.at -= 1 }
    word.cut()
  }

  // MARK: Italian

  private static let italianVowels = Stem.Letters("aeiouàèìòù")
  private static let italianPronouns = Stem.Endings(
    """
    ci gli la le li lo mi ne si ti vi sene gliela gliele glieli glielo gliene mela mele meli melo mene tela tele teli \
    telo tene cela cele celi celo cene vela vele veli velo vene
    """)
  private static let italianBeforePronouns = Stem.Endings("ando endo", "ar er ir")
  private static let italianSuffixes = Stem.Endings(
    """
    anza anze ico ici ica ice iche ichi ismo ismi abile abili ibile ibili ista iste isti istà istè istì oso osi osa ose \
    mente atrice atrici ante anti
    """,
    "azione azioni atore atori", "logia logie", "uzione uzioni usione usioni", "enza enze",
    "amento amenti imento imenti", "amente", "ità", "ivo ivi iva ive")
  private static let italianAfterAmente = Stem.Endings("iv", "os ic abil")
  private static let italianVerbs = Stem.Endings(
    """
    ammo ando ano are arono asse assero assi assimo ata ate ati ato ava avamo avano avate avi avo emmo enda ende endi \
    endo erà erai eranno ere erebbe erebbero erei eremmo eremo ereste eresti erete erò erono essero ete eva evamo \
    evano evate evi evo Yamo iamo immo irà irai iranno ire irebbe irebbero irei iremmo iremo ireste iresti irete irò \
    irono isca iscano isce isci isco iscono issero ita ite iti ito iva ivamo ivano ivate ivi ivo ono uta ute uti uto \
    ar ir
    """)
  private static let italianLast = Stem.Letters("aeioàèìò")

  static func stemItalian(_ word: inout Stem) {
    word.replaceAll([0xE1: 0xE0, 0xE9: 0xE8, 0xED: 0xEC, 0xF3: 0xF2, 0xFA: 0xF9])
    for index in word.letters.indices.dropFirst()
    where word.letters[index] == UInt8(ascii: "u") && word.letters[index - 1] == UInt8(ascii: "q") {
      word.letters[index] = UInt8(ascii: "U")
    }
    word.markBetweenVowels(
      italianVowels, [UInt8(ascii: "u"): UInt8(ascii: "U"), UInt8(ascii: "i"): UInt8(ascii: "I")])
    word.markRegions(italianVowels)
    if word.letters.starts(with: Stem.bytes("divan")) { word.pV = 5 }
    if word.findAtEnd(italianPronouns) != nil {
      let (at, end) = (word.at, word.end)
      if let group = word.find(italianBeforePronouns), word.inV {
        (word.at, word.end) = (at, end)
        word.put(group == 0 ? "" : "e")
      }
    }
    if !cutItalian(&word), word.findVerb(italianVerbs) != nil { word.cut() }
    word.rewind()
    if word.isBefore(italianLast) {
      word.at -= 1
      if word.cut(if: word.inV) { word.cut("i", if: \.inV) }
    }
    word.rewind()
    word.cut("h") { ($0.follows("c") || $0.follows("g")) && $0.pV <= $0.at - 1 }
    word.replaceAll([UInt8(ascii: "I"): UInt8(ascii: "i"), UInt8(ascii: "U"): UInt8(ascii: "u")])
  }

  private static func cutItalian(_ word: inout Stem) -> Bool {
    guard let group = word.findAtEnd(italianSuffixes) else { return false }
    switch group {
    case 2: return word.put("log", if: word.in2)
    case 3: return word.put("u", if: word.in2)
    case 4: return word.put("ente", if: word.in2)
    case 5: return word.cut(if: word.inV)
    case 6: return word.cut(if: word.in1) && cutBeforeAmente(&word, italianAfterAmente)
    default:
      guard word.cut(if: word.in2) else { return false }
      switch group {
      case 1: word.cut("ic", if: \.in2)
      case 7: if word.find(afterIdad) != nil { word.cut(if: word.in2) }
      case 8: if word.cut("at", if: \.in2) { word.cut("ic", if: \.in2) }
      default: break
      }
      return true
    }
  }

  // MARK: Portuguese

  /// ã and õ count as a vowel and a consonant, ~.
  private static let portugueseVowels = Stem.Letters("aeiouáéíóúâêô")
  private static let portugueseSuffixes = Stem.Endings(
    """
    eza ezas ico ica icos icas ismo ismos ável ível ista istas oso osa osos osas amento amentos imento imentos adora \
    ador aça~o adoras adores aço~es ante antes ância
    """,
    "logia logias", "uça~o uço~es", "ência ências", "amente", "mente", "idade idades", "iva ivo ivas ivos",
    "ira iras")
  private static let portugueseAfterMente = Stem.Endings("ante avel ível")
  private static let portugueseVerbs = Stem.Endings(
    """
    ada ida ia aria eria iria ará ara erá era irá ava asse esse isse aste este iste ei arei erei irei am iam ariam \
    eriam iriam aram eram iram avam em arem erem irem assem essem issem ado ido ando endo indo ara~o era~o ira~o ar er \
    ir as adas idas ias arias erias irias arás aras erás eras irás avas es ardes erdes irdes ares eres ires asses esses \
    isses astes estes istes is ais eis íeis aríeis eríeis iríeis áreis areis éreis ereis íreis ireis ásseis ésseis \
    ísseis áveis ados idos ámos amos íamos aríamos eríamos iríamos áramos éramos íramos ávamos emos aremos eremos \
    iremos ássemos êssemos íssemos imos armos ermos irmos eu iu ou ira iras
    """)
  private static let portugueseRest = Stem.Endings("os a i o á í ó")
  private static let portugueseForm = Stem.Endings("e é ê", "ç")

  static func stemPortuguese(_ word: inout Stem) {
    let tilde = UInt8(ascii: "~")
    word.letters = word.letters.flatMap { letter -> [UInt8] in
      letter == 0xE3 ? [UInt8(ascii: "a"), tilde] : letter == 0xF5 ? [UInt8(ascii: "o"), tilde] : [letter]
    }
    word.markRegions(portugueseVowels)
    var isCut = cutPortuguese(&word)
    if !isCut, word.findVerb(portugueseVerbs) != nil { isCut = word.cut() }
    word.rewind()
    if isCut {
      word.cut("i") { $0.follows("c") && $0.inV }
    } else if word.find(portugueseRest) != nil {
      word.cut(if: word.inV)
    }
    switch word.findAtEnd(portugueseForm) {
    case 0:
      if word.cut(if: word.inV), !word.cut("u", if: { $0.follows("g") && $0.inV }) {
        word.cut("i") { $0.follows("c") && $0.inV }
      }
    case 1: word.put("c")
    default: break
    }
    var plain: [UInt8] = []
    for letter in word.letters {
      if letter == tilde, let last = plain.popLast() {
        plain.append(last == UInt8(ascii: "a") ? 0xE3 : last == UInt8(ascii: "o") ? 0xF5 : last)
      } else {
        plain.append(letter)
      }
    }
    word.letters = plain
  }

  private static func cutPortuguese(_ word: inout Stem) -> Bool {
    guard let group = word.findAtEnd(portugueseSuffixes) else { return false }
    switch group {
    case 0: return word.cut(if: word.in2)
    case 1: return word.put("log", if: word.in2)
    case 2: return word.put("u", if: word.in2)
    case 3: return word.put("ente", if: word.in2)
    case 4: return word.cut(if: word.in1) && cutBeforeAmente(&word, spanishAfterAmente)
    case 8: return word.put("ir", if: word.inV && word.follows("e"))
    default:
      guard word.cut(if: word.in2) else { return false }
      switch group {
      case 5: if word.find(portugueseAfterMente) != nil { word.cut(if: word.in2) }
      case 6: if word.find(afterIdad) != nil { word.cut(if: word.in2) }
      case 7: word.cut("at", if: \.in2)
      default: break
      }
      return true
    }
  }
}
