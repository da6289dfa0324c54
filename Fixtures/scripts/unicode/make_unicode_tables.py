"""Writes Sources/Tokenizers/Unicode/UnicodeData.swift from the Unicode character database.

Needs `unicodedata2` 16.0.0 (a drop-in for Python's own unicodedata of a chosen Unicode version), because Unicode 16
is what the regex engine of the reference library knows, and that library, `tokenizers` 0.23.3, because its
normaliser is older: characters that it does not know are left alone here, too.

Usage: python make_unicode_tables.py > Sources/Tokenizers/Unicode/UnicodeData.swift
"""
import sys
import textwrap

import unicodedata2 as ucd
from tokenizers import Regex, normalizers, pre_tokenizers

LAST = 0x110000
SPACE = {*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
BERT = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
BERT_CLEAN = normalizers.BertNormalizer(
    clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
BERT_CUT = pre_tokenizers.BertPreTokenizer()
HANGUL = range(0xAC00, 0xD7A4)  # decomposed by arithmetic, not by table


def letter(cp):
    """One letter per class that the scanners distinguish; '.' is everything else."""
    if cp in SPACE:
        return "s"
    if 0xD800 <= cp <= 0xDFFF:
        return "."
    category = ucd.category(chr(cp))
    if category == "Ll":
        return "l"
    if category in ("Lu", "Lt"):
        return "u"
    if category in ("Lm", "Lo"):
        return "o"
    if category == "Mn" and BERT.normalize_str("a" + chr(cp)) == "a":
        return "n"
    if BERT_CLEAN.normalize_str("a" + chr(cp)) == "a":
        return "c"
    if category[0] == "P":
        return "p" if len(BERT_CUT.pre_tokenize_str("a" + chr(cp))) == 2 else "y"
    return {"M": "m", "N": "d", "S": "y"}.get(category[0], ".")


def runs(values):
    out, start = [], 0
    for cp in range(1, LAST + 1):
        if cp == LAST or values[cp] != values[start]:
            out.append((values[start], cp - start))
            start = cp
    return out


def literal(name, words, comment, glue=" "):
    lines = textwrap.wrap(glue.join(words), 106) if glue else textwrap.wrap("".join(words), 106, break_on_hyphens=False)
    body = "\n".join("    " + line for line in lines)
    return f'  /// {comment}\n  static let {name}: StaticString = """\n{body}\n    """\n'


def packed(mappings):
    """Mappings of scalars, in order: the gap to the scalar before, `=` or `!`, the target, and `*n` where n scalars in a
    row have targets in a row, whose first scalars count up."""
    out, after, at = [], 0, 0
    while at < len(mappings):
        (source, mark, target), count = mappings[at], 1
        while mappings[at + count:] and mappings[at + count] == (
                source + count, mark, [target[0] + count] + target[1:]):
            count += 1
        gap = f"{source - after:X}" if source > after else ""
        out.append(gap + mark + "+".join(f"{part:X}" for part in target) + (f"*{count}" if count > 1 else ""))
        after, at = source + count, at + count
    return out


def known_class(cp):
    """The combining class, or 0 for marks that the reference's normaliser does not move."""
    value = ucd.combining(chr(cp))
    # A mark of a neighbouring class on the wrong side has to change places with it.
    probe = "a\u0345" + chr(cp) if value < 240 else "a" + chr(cp) + "\u0301"
    return value if value and normalizers.NFD().normalize_str(probe) != probe else 0


def is_known(cp, form):
    normalizer = normalizers.NFD() if form == "NFD" else normalizers.NFKD()
    return normalizer.normalize_str(chr(cp)) == ucd.normalize(form, chr(cp))


# Long and short names; those that the reference's regex engine does not know are left out.
SCRIPTS = """
Adlam=Adlm Ahom Anatolian_Hieroglyphs=Hluw Arabic=Arab Armenian=Armn Avestan=Avst Balinese=Bali Bamum=Bamu Bassa_Vah=Bass
Batak=Batk Bengali=Beng Bhaiksuki=Bhks Bopomofo=Bopo Brahmi=Brah Braille=Brai Buginese=Bugi Buhid=Buhd
Canadian_Aboriginal=Cans Carian=Cari Caucasian_Albanian=Aghb Chakma=Cakm Cham Cherokee=Cher Chorasmian=Chrs Common=Zyyy
Coptic=Copt Cuneiform=Xsux Cypriot=Cprt Cypro_Minoan=Cpmn Cyrillic=Cyrl Deseret=Dsrt Devanagari=Deva Dives_Akuru=Diak
Dogra=Dogr Duployan=Dupl Egyptian_Hieroglyphs=Egyp Elbasan=Elba Elymaic=Elym Ethiopic=Ethi Garay=Gara Georgian=Geor
Glagolitic=Glag Gothic=Goth Grantha=Gran Greek=Grek Gujarati=Gujr Gunjala_Gondi=Gong Gurmukhi=Guru Gurung_Khema=Gukh
Han=Hani Hangul=Hang Hanifi_Rohingya=Rohg Hanunoo=Hano Hatran=Hatr Hebrew=Hebr Hiragana=Hira Imperial_Aramaic=Armi
Inherited=Zinh Inscriptional_Pahlavi=Phli Inscriptional_Parthian=Prti Javanese=Java Kaithi=Kthi Kannada=Knda Katakana=Kana
Kawi Kayah_Li=Kali Kharoshthi=Khar Khitan_Small_Script=Kits Khmer=Khmr Khojki=Khoj Khudawadi=Sind Kirat_Rai=Krai Lao=Laoo
Latin=Latn Lepcha=Lepc Limbu=Limb Linear_A=Lina Linear_B=Linb Lisu Lycian=Lyci Lydian=Lydi Mahajani=Mahj Makasar=Maka
Malayalam=Mlym Mandaic=Mand Manichaean=Mani Marchen=Marc Masaram_Gondi=Gonm Medefaidrin=Medf Meetei_Mayek=Mtei
Mende_Kikakui=Mend Meroitic_Cursive=Merc Meroitic_Hieroglyphs=Mero Miao=Plrd Modi Mongolian=Mong Mro=Mroo Multani=Mult
Myanmar=Mymr Nabataean=Nbat Nag_Mundari=Nagm Nandinagari=Nand New_Tai_Lue=Talu Newa Nko=Nkoo Nushu=Nshu
Nyiakeng_Puachue_Hmong=Hmnp Ogham=Ogam Ol_Chiki=Olck Ol_Onal=Onao Old_Hungarian=Hung Old_Italic=Ital
Old_North_Arabian=Narb Old_Permic=Perm Old_Persian=Xpeo Old_Sogdian=Sogo Old_South_Arabian=Sarb Old_Turkic=Orkh
Old_Uyghur=Ougr Oriya=Orya Osage=Osge Osmanya=Osma Pahawh_Hmong=Hmng Palmyrene=Palm Pau_Cin_Hau=Pauc Phags_Pa=Phag
Phoenician=Phnx Psalter_Pahlavi=Phlp Rejang=Rjng Runic=Runr Samaritan=Samr Saurashtra=Saur Sharada=Shrd Shavian=Shaw
Siddham=Sidd SignWriting=Sgnw Sinhala=Sinh Sogdian=Sogd Sora_Sompeng=Sora Soyombo=Soyo Sundanese=Sund Sunuwar=Sunu
Syloti_Nagri=Sylo Syriac=Syrc Tagalog=Tglg Tagbanwa=Tagb Tai_Le=Tale Tai_Tham=Lana Tai_Viet=Tavt Takri=Takr Tamil=Taml
Tangsa=Tnsa Tangut=Tang Telugu=Telu Thaana=Thaa Thai Tibetan=Tibt Tifinagh=Tfng Tirhuta=Tirh Todhri=Todr Toto
Tulu_Tigalari=Tutg Ugaritic=Ugar Vai=Vaii Vithkuqi=Vith Wancho=Wcho Warang_Citi=Wara Yezidi=Yezi Yi=Yiii
Zanabazar_Square=Zanb
""".split()
SCALARS = [cp for cp in range(LAST) if not 0xD800 <= cp <= 0xDFFF]


def script(names):
    """`name=short` and the gaps and lengths of its ranges, in hexadecimal; nothing where the name is not known."""
    try:
        cut = pre_tokenizers.Split(Regex(f"\\p{{{names.split('=')[0]}}}+"), "removed")
    except Exception:
        return []
    text, inside, out = "".join(map(chr, SCALARS)), [True] * LAST, []
    for _, (start, end) in cut.pre_tokenize_str(text):
        for index in range(start, end):
            inside[SCALARS[index]] = False
    inside[0xD800:0xE000] = [False] * 0x800
    gap = 0
    for is_in, length in runs(inside):
        if is_in:
            out.append(f"{gap:x}+{length:x}" if length > 1 else f"{gap:x}")
            gap = 0
        else:
            gap = length
    return [names.lower().replace("_", "")] + out


def main():
    classes = [f"{value}{'' if length == 1 else length}" for value, length in runs([letter(cp) for cp in range(LAST)])]
    combining = []
    for value, length in runs([known_class(cp) for cp in range(LAST)]):
        combining.append(f"{value}" if length == 1 else f"{value}x{length}")
    canonical, compatible = [], []
    for cp in range(LAST):
        if cp in HANGUL or 0xD800 <= cp <= 0xDFFF:
            continue
        text = chr(cp)
        step = ucd.decomposition(text)
        if step and not step.startswith("<") and is_known(cp, "NFD"):
            # '!' marks what never composes again (exclusions and singletons).
            mark = "=" if ucd.normalize("NFC", text) == text else "!"
            canonical.append((cp, mark, [int(part, 16) for part in step.split()]))
        if ucd.normalize("NFKD", text) != ucd.normalize("NFD", text) and is_known(cp, "NFKD"):
            compatible.append((cp, "=", [ord(part) for part in ucd.normalize("NFKD", text)]))
    print("// Generated by Fixtures/scripts/unicode/make_unicode_tables.py from Unicode "
          f"{ucd.unidata_version}; do not edit.\n")
    print("/// The character database in the compact text forms that `UnicodeClasses` and `UnicodeNormalization` expand.")
    print("enum UnicodeData {")
    print(literal("classes", classes, "Runs over all scalars from 0: a class letter and the run's length (absent: 1)."))
    print(literal("combiningClasses", combining, "Runs over all scalars from 0: `class` or `classxlength`."))
    print(literal("canonical", packed(canonical),
                  "Canonical decompositions, one step each, `packed` by the script; `!` marks those that never compose."))
    print(literal("compatible", packed(compatible),
                  "Full compatibility decompositions where they differ from the canonical ones, `packed` likewise."))
    print(literal("scripts", [word for names in SCRIPTS for word in script(names)],
                  "Scripts: names, then ranges as gap and length in hexadecimal (absent: 1)."))
    print("}")


if __name__ == "__main__":
    sys.exit(main())
