"""Documents, whole and mutated, beside Python's `json`."""

import json
import re
import sys

sys.set_int_max_str_digits(0)

REASONS = {
    "depth": "nested more than 128 deep is refused here, so that no stack can end; Python's bound lies near 1,000",
}
DEPTH = 128
WORDS = ("", "a", "key", "\u00e9", "e\u0301", "\u65e5\u672c", "\U0001f600", "\\", '"', "/", "\n\t\r\b\f", "\0", "\x1f", "\x7f", "\u2028", "\ufffd")
NUMBERS = ("0", "-0", "-0.0", "1", "-1", "1.5", "1e3", "1E+3", "1e-3", "1e400", "-1e400", "1e-400", "0.1", "123456789012345678",
           "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1" * 40, "2.2250738585072011e-308",
           "4.9e-324", "2.4e-324", "1.7976931348623157e308", "1.7976931348623159e308", "0.30000000000000004", "5e-1", "12e0", "1.0")
PIECES = (b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u", b"\\ud800", b"\\udc00", b"\\ud83d\\ude00", b"\\u00E9", b"\\u00g0", b"\\x",
          b"\\/", b"null", b"true", b"false", b"NaN", b"Infinity", b"-Infinity", b"-", b"+", b".", b"e", b"0", b"00", b"1", b"1.", b".5", b"1e",
          b"//", b"/**/", b"'", b" ", b"\t", b"\n", b"\r", b"\x0b", b"\x0c", b"\0", b"\x1f", b"\x7f", b"\xa0", b"\xc2\xa0", b"\xef\xbb\xbf",
          b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\xc0\x80", b"\xff", b"\xe2\x80", b"\xf4\x90\x80\x80", b"[[[[[[[[", b"]]]]]]]]")


def blank(chance):
    return "".join(chance.choices((" ", "\n", "\t", "\r"), k=chance.choice((0, 0, 0, 1, 2))))


def number(chance):
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice(NUMBERS)
    if kind == 1:
        return repr(chance.uniform(-1, 1) * 10.0 ** chance.randrange(-310, 308))
    if kind == 2:
        return str(chance.randrange(-10 ** chance.randrange(1, 25), 10 ** chance.randrange(1, 25)))
    return f"{chance.choice(('', '-'))}{chance.randrange(10 ** 6)}.{chance.randrange(10 ** chance.randrange(1, 22))}e{chance.randrange(-330, 330)}"


def string(chance):
    out = []
    for character in "".join(chance.choices(WORDS, k=chance.randrange(4))):
        if character in '"\\' or character < " " or chance.random() < 0.2:
            units = character.encode("utf-16-be")
            out += [f"\\u{units[at] << 8 | units[at + 1]:{chance.choice(('04x', '04X'))}}" for at in range(0, len(units), 2)]
        else:
            out.append(character)
    if chance.random() < 0.1:
        out.insert(chance.randrange(len(out) + 1), chance.choice((r"\ud800", r"\udfff", r"\udc00\ud800", r"\n", r"\/", r"\b\f\r\t", r"\"\\")))
    return '"' + "".join(out) + '"'


def value(chance, depth):
    kind = chance.randrange(8 if depth else 5)
    if kind == 0:
        return chance.choice(("null", "true", "false"))
    if kind < 3:
        return number(chance)
    if kind < 5:
        return string(chance)
    count = chance.choice((0, 1, 2, 3) if depth > 1 else (0, 1, 2, 15))
    if kind == 5:
        parts = [f"{string(chance)}{blank(chance)}:{blank(chance)}{value(chance, depth - 1)}" for _ in range(count)]
        return "{" + blank(chance) + f"{blank(chance)},{blank(chance)}".join(parts) + blank(chance) + "}"
    return "[" + blank(chance) + f",{blank(chance)}".join(value(chance, depth - 1) for _ in range(count)) + blank(chance) + "]"


def mutated(chance, data):
    for _ in range(chance.choice((0, 1, 1, 1, 2, 4))):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(6)
        if kind == 0:
            data = data[:at] + data[at + chance.choice((1, 1, 2, 8)):]
        elif kind == 1:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1:]
        elif kind == 2:
            data = data[:at]
        elif kind == 3 and data:
            start = chance.randrange(len(data))
            data = data[:at] + data[start:start + chance.randrange(1, 20)] + data[at:]
        else:
            data = data[:at] + chance.choice(PIECES) + data[at + chance.choice((0, 0, 1)):]
    return data


def case(chance):
    if chance.random() < 0.01:
        depth = chance.choice((126, 127, 128, 129, 130, 300))
        text = b"".join(chance.choice((b"[", b'{"a":')) for _ in range(depth))
        data = text + b"0" + bytes(reversed(text.replace(b'{"a":', b"{").translate(bytes.maketrans(b"[{", b"]}"))))
    else:
        data = mutated(chance, (blank(chance) + value(chance, 3) + blank(chance)).encode())
    return [data], read(data)


def refuse(word):
    raise ValueError(word)


def double(digits):
    """One that overflows would be no JSON when it is written again."""
    if abs(found := float(digits)) == float("inf"):
        raise ValueError("too large for a double")
    return found


def text(word):
    """A lone surrogate has no UTF-8 form."""
    return re.sub("[\ud800-\udfff]", "\ufffd", word)


def read(data):
    """The value, in a form that tells 1, 1.0 and True apart and keeps the order of keys; None when it is refused."""
    try:
        return form(json.loads(data.decode("utf-8"), parse_constant=refuse, parse_float=double,
                               object_pairs_hook=lambda pairs: {text(key): member for key, member in pairs}))
    except (ValueError, RecursionError):
        return None


def form(found):
    if isinstance(found, dict):
        return "{" + ",".join(f"{key!r}:{form(member)}" for key, member in found.items()) + "}"
    if isinstance(found, list):
        return "[" + ",".join(map(form, found)) + "]"
    if isinstance(found, str):
        return repr(text(found))
    return repr(found)


def judge(fields, expected, answer):
    ours = read(answer[1]) if answer[0] == b"ok" else None
    if answer[0] == b"ok" and ours is None:
        return 1, f"what was written is no JSON: {answer[1]!r}"
    if ours == expected:
        return 1, None
    if ours is None and f"more than {DEPTH} levels".encode() in answer[1]:
        return 1, "depth"
    return 1, f"here {answer!r}, Python {expected}"
