"""Expressions of the supported subset, each with texts, beside Python's `re`.

An expression is made as a tree and written twice: as ECMA 262 has it, and as Python must be told the same.
"""

import re
import unicodedata

REASONS = {
    "large": "an expression that needs too many states or too much work is refused here, for one request must not take it",
}
ALPHABET = "abcABxyz019_-. \n\r\t/{}()[]^$\\|+*?\u00e9\u00df\u20ac\u65e5\U0001f600\u2028\u00a0\ufeff\u0130\u0301\x00\x7f"
# The white space of ECMA 262, which is not Python's.
SPACE = r"\t\n\x0b\x0c\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
ESCAPES = {r"\d": "0-9", r"\w": "0-9A-Za-z_", r"\s": SPACE}
PROPERTIES = ("L", "Lu", "Ll", "N", "Nd", "P", "S", "Zs", "M", "C")


def escaped(character, chance):
    """One character as both write it."""
    code = ord(character)
    if character in "^$\\.*+?()[]{}|/-":
        return "\\" + character, re.escape(character)
    kind = chance.randrange(6)
    python = re.escape(character)
    if kind == 0 and code < 256:
        return f"\\x{code:02x}", python
    if kind == 1:
        return f"\\u{{{code:X}}}", python
    if kind == 2:
        units = character.encode("utf-16-be")
        return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2)), python
    if character in "\t\n\r" and kind < 5:
        return {"\t": r"\t", "\n": r"\n", "\r": r"\r"}[character], python
    return character, python


def members(name, is_in):
    """What of the alphabet has a property; the texts hold nothing else."""
    found = [character for character in ALPHABET if unicodedata.category(character).startswith(name) == is_in]
    return "".join(map(re.escape, found)) or "\U0010fffe"


def class_part(chance):
    kind = chance.randrange(6)
    if kind == 0:
        name = chance.choice(list(ESCAPES))
        return name, ESCAPES[name]
    if kind == 1:
        low, high = sorted(chance.choices("abcxyzABC0123459\u00e9\u20ac\U0001f600", k=2))
        return f"{low}-{high}", f"{low}-{high}"
    if kind == 2 and chance.random() < 0.1:
        # Large sets take long to make automata of.
        name = chance.choice(PROPERTIES)
        is_in = chance.random() < 0.7
        return rf"\{'p' if is_in else 'P'}{{{name}}}", members(name, is_in)
    return escaped(chance.choice(ALPHABET), chance)


def atom(chance):
    kind = chance.randrange(10) if chance.random() < 0.15 else chance.randrange(7)
    if kind < 5:
        return escaped(chance.choice(ALPHABET if chance.random() < 0.3 else "aab01"), chance)
    if kind == 5:
        return ".", "[^\n\r\u2028\u2029]"
    if kind == 6:
        name = chance.choice(list(ESCAPES))
        if chance.random() < 0.5:
            return name, f"[{ESCAPES[name]}]"
        return name.upper(), f"[^{ESCAPES[name]}]"
    if kind == 7:
        name = chance.choice(PROPERTIES)
        return rf"\p{{{name}}}", f"[{members(name, True)}]"
    parts = [class_part(chance) for _ in range(chance.randrange(1, 4))]
    mark = chance.choice(("", "", "^"))
    return f"[{mark}{''.join(part[0] for part in parts)}]", f"[{mark}{''.join(part[1] for part in parts)}]"


def quantifier(chance):
    low = chance.randrange(3)
    text = chance.choice(("*", "+", "?", f"{{{low}}}", f"{{{low},}}", f"{{{low},{low + chance.randrange(3)}}}"))
    return text + chance.choice(("", "", "?"))


def tree(chance, depth):
    """A sequence or a choice, in both spellings."""
    if depth == 0 or chance.random() < 0.2:
        return atom(chance)
    if chance.random() < 0.25:
        branches = [tree(chance, depth - 1) if chance.random() < 0.9 else ("", "") for _ in range(chance.randrange(2, 4))]
        opening = chance.choice(("(", "(?:", "(?<n>"))
        return opening + "|".join(branch[0] for branch in branches) + ")", "(?:" + "|".join(branch[1] for branch in branches) + ")"
    parts = []
    for _ in range(chance.randrange(1, 5)):
        part = tree(chance, depth - 1) if chance.random() < 0.4 else atom(chance)
        if chance.random() < 0.35:
            again = quantifier(chance)
            part = f"(?:{part[0]}){again}", f"(?:{part[1]}){again}"
        elif chance.random() < 0.04:
            part = chance.choice((("^", r"\A"), ("$", r"\Z")))
        parts.append(part)
    return "".join(part[0] for part in parts), "".join(part[1] for part in parts)


def expression(chance):
    ours, python = tree(chance, 3)
    kind = chance.randrange(8)
    if kind == 0:
        ours, python = f"^{ours}$", rf"\A{python}\Z"
    elif kind == 1:
        condition, mark = tree(chance, 2), chance.choice(("?=", "?!"))
        ours, python = f"^({mark}{condition[0]}){ours}", rf"\A({mark}{condition[1]}){python}"
    elif kind == 2:
        other = tree(chance, 2)
        ours, python = f"{ours}|{other[0]}", f"{python}|{other[1]}"
    return ours, python


def texts(chance, pattern):
    """Texts that match are rare among random ones: most are made of what the expression itself is made of."""
    found = []
    letters = [character for character in pattern if character in ALPHABET] or ["a"]
    for _ in range(15):
        source = letters if chance.random() < 0.4 else "ab01" if chance.random() < 0.7 else ALPHABET
        found.append("".join(chance.choices(source, k=chance.choice((1, 1, 2, 2, 3, 4, 6)))))
    return found + [""]


def case(chance):
    while True:
        ours, python = expression(chance)
        try:
            compiled = re.compile(python)
        except (re.error, OverflowError):
            # A class such as [z-a]; those of the tree are in order, but "a" after a range may make one.
            continue
        inputs = texts(chance, ours)
        found = "".join("1" if compiled.fullmatch(text) else "0" for text in inputs)
        return [ours.encode()] + [text.encode() for text in inputs], (python, found)


def judge(fields, expected, answer):
    python, found = expected
    if answer[0] == b"ok":
        ours = answer[1].decode()
        if ours == found:
            return len(found), None
        wrong = [(text.decode(), here, there) for text, here, there in zip(fields[1:], ours, found) if here != there]
        return len(found), f"text, here, Python: {wrong[:3]} for {python!r}"
    kind = answer[1].decode()
    if kind == "unsatisfiable" and "1" not in found:
        return len(found), None
    if kind == "too large":
        return len(found), "large"
    return len(found), f"{answer[2].decode()} for {python!r}"
