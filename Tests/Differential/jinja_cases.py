"""Templates from a small grammar, beside `jinja2` set up as chat templates are rendered."""

import json
import re

from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import do_wordcount
from jinja2.sandbox import ImmutableSandboxedEnvironment

REASONS = {
    "ahead": "jinja2 computes constant expressions ahead, and swallows errors there that the same values in variables raise",
    "address": "Python writes where an iterator lies in memory",
    "not": "after an operator jinja2 takes `not` for the name of a variable; here the template is refused",
    "no integer": "`is even` and its like take integers here; Python formats texts with `%`, and knows even fractions",
}
# Not the dash or percent sign of a tag.
NOT = re.compile(r"(?:(?<![{%])[-+*/%<>=~]|\bin) not\b")
VARIABLES = {
    "s": "Hello, W\u00f6rld e\u0301 \U0001f600", "e": "", "sp": "  a b\n c ", "q": "it's \"x\" \\ <b>&", "i": 7, "z": 0, "neg": -3, "f": 2.5, "g": 1e16,
    "t": True, "u": False, "n": None, "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "el": [], "mixed": [1, "a", None, 2.0, True, [1], {"k": 1}],
    "m": {"b": 1, "a": "x", "c": [1, {"k": None}]}, "em": {},
    "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo", "n": 2}, {"role": "user", "content": ""}],
}
NUMBERS = ("0", "1", "2", "-1", "7", "10", "2.5", "0.1", "1e3", "i", "z", "neg", "f", "g")
TEXTS = ("'a'", "'ab'", "''", "\"it's\"", "'a,b,,c'", "' x '", "'\\n'", "'\u00e9'", "'%s'", "s", "e", "sp", "q", "m.a", "messages[0].content", "messages[-1]['role']")
LISTS = ("l", "w", "el", "mixed", "[1, 2]", "['a', 'b']", "(1, 'b')", "[]", "messages", "m.keys()|list", "range(3)|list", "s.split()", "messages|map(attribute='role')|list")
MAPS = ("m", "em", "{'k': 1}", "{}", "messages[0]", "dict(a=1)")
OTHERS = ("t", "u", "n", "true", "false", "none", "missing", "m.missing", "messages[1].n", "l[0]", "l[9]", "m['b']", "x", "loop.index", "ns.v")
TESTS = ("defined", "undefined", "none", "string", "number", "mapping", "sequence", "iterable", "boolean", "integer", "float", "odd", "even", "true", "false",
         "eq 1", "ne 'a'", "in l", "divisibleby 2", "sameas none", "gt 1", "lower", "upper", "callable")
TEXT_FILTERS = ("upper", "lower", "title", "capitalize", "trim", "length", "string", "tojson", "default('d')", "default('d', true)", "replace('a', 'b')", "first",
                "last", "list", "reverse", "int", "float", "e", "indent(2)", "truncate(3, true, '', 0)", "wordcount", "center(9)", "join('-')", "urlencode", "safe",
                "indent(2, true)", "trim('a')", "format(1)")
LIST_FILTERS = ("length", "list", "join(',')", "join", "first", "last", "sort", "sort(reverse=true)", "reverse|list", "unique|list", "sum", "min", "max", "tojson",
                "map('upper')|list", "select('string')|list", "reject('none')|list", "batch(2)|list", "slice(2)|list", "string", "map('string')|join('+')",
                "selectattr('role', 'equalto', 'user')|list", "map(attribute='role')|list", "rejectattr('n', 'defined')|list", "tojson(indent=2)", "count",
                "groupby('role')|list|length", "map('default', 0)|list", "sum(start=1)", "sort(attribute='content')")
MAP_FILTERS = ("length", "items|list", "dictsort", "list", "tojson", "string", "first", "tojson(indent=4)", "dictsort(by='value')", "join(' ')", "tojson(sort_keys=true)")
NUMBER_FILTERS = ("abs", "int", "float", "round", "round(1)", "string", "tojson", "default(1)", "round(method='floor')", "e", "length", "upper")
METHODS = ("upper()", "lower()", "strip()", "split()", "split('a')", "replace('a', 'x')", "startswith('a')", "endswith('b')", "title()", "capitalize()", "lstrip()",
           "rstrip('c ')", "find('b')", "count('a')", "isdigit()", "split(',', 1)", "join(['x', 'y'])", "splitlines()", "isalpha()", "isupper()", "rsplit(none, 1)",
           "partition(',')", "islower()", "isspace()", "format(1)")
SLICES = ("[0]", "[-1]", "[1:]", "[:-1]", "[::-1]", "[1:2]", "[::2]", "[5]", "[-2:]", "[:0]", "[2:0:-1]")
BINARY = ("+", "-", "*", "//", "%", "/", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or", "**")


def expression(chance, depth):
    kind = chance.randrange(14 if depth else 5)
    if kind < 5:
        return chance.choice((NUMBERS, TEXTS, LISTS, MAPS, OTHERS)[kind])
    inner = lambda: expression(chance, depth - 1)
    if kind == 5:
        return f"({inner()} {chance.choice(BINARY[:-1])} {inner()})"
    if kind == 6:
        # Without brackets the order of operators decides. Powers of powers have no end.
        return f"{inner()} {chance.choice(BINARY[:-1])} {inner()}" if chance.random() < 0.9 else f"{chance.choice(NUMBERS[:6])} ** {chance.choice(NUMBERS[:4])}"
    if kind == 7:
        # In brackets: jinja2 takes what stands after a test, such as "if" or "not", for its argument.
        return f"(({inner()}) is {chance.choice(('', 'not '))}{chance.choice(TESTS)})"
    if kind == 8:
        source, filters = chance.choice(((TEXTS, TEXT_FILTERS), (LISTS, LIST_FILTERS), (MAPS, MAP_FILTERS), (NUMBERS, NUMBER_FILTERS), (OTHERS, TEXT_FILTERS)))
        return f"{chance.choice(source)}|{chance.choice(filters)}"
    if kind == 9:
        return f"({inner()})|{chance.choice(chance.choice((TEXT_FILTERS, LIST_FILTERS, MAP_FILTERS, NUMBER_FILTERS)))}"
    if kind == 10:
        return f"{chance.choice(TEXTS)}.{chance.choice(METHODS)}" if chance.random() < 0.8 else f"({inner()}).{chance.choice(METHODS)}"
    if kind == 11:
        return f"({inner()}){chance.choice(SLICES)}" if chance.random() < 0.3 else f"{chance.choice(chance.choice((TEXTS, LISTS)))}{chance.choice(SLICES)}"
    if kind == 12:
        return f"{inner()} if {inner()} else {inner()}" if chance.random() < 0.7 else f"({inner()} if {inner()})"
    return chance.choice((f"not {inner()}", f"-{chance.choice(NUMBERS)}", f"[{inner()}, {inner()}]", f"{{'k': {inner()}}}", f"({inner()},)", f"{chance.choice(MAPS)}.get('k', {inner()})"))


def blank(chance):
    return "".join(chance.choices((" ", "\n", "  ", "\t", "\r\n"), weights=(4, 3, 2, 1, 1), k=chance.choice((0, 0, 1, 1, 2))))


def tag(chance, words):
    """A statement with the signs that control white space, and some of it around."""
    return f"{blank(chance)}{{%{chance.choice(('', '', '', '-', '+'))} {words} {chance.choice(('', '', '', '-'))}%}}{blank(chance)}"


def block(chance, depth):
    kind = chance.randrange(12 if depth else 5)
    inner = lambda: "".join(block(chance, depth - 1) for _ in range(chance.randrange(1, 3)))
    if kind < 3:
        return f"{{{{{chance.choice(('', '', '-'))} {expression(chance, 2)} {chance.choice(('', '', '-'))}}}}}"
    if kind == 3:
        return chance.choice(("a", " b ", "\n", "x\n  y", "{# c #}", "{#- c -#}\n", "{% raw %}{{ r }}{% endraw %}", " {", "}}", "\u00e9"))
    if kind == 4:
        return tag(chance, f"set {chance.choice(('x', 'y', 'a, b', 'ns.v'))} = {expression(chance, 2)}")
    if kind < 7:
        other = tag(chance, chance.choice(("else", f"elif {expression(chance, 1)}"))) + inner() if chance.random() < 0.5 else ""
        return tag(chance, f"if {expression(chance, 2)}") + inner() + other + tag(chance, "endif")
    if kind < 10:
        target, source = chance.choice((("x", chance.choice(LISTS)), ("x", chance.choice(LISTS)), ("k, v", f"{chance.choice(MAPS)}.items()"), ("x", expression(chance, 1)), ("x", chance.choice(TEXTS))))
        condition = f" if {expression(chance, 1)}" if chance.random() < 0.2 else ""
        part = chance.choice(("", "", "{{ loop.index0 }}{{ loop.last }}", "{{ loop.previtem }}", "{{ loop.revindex }}/{{ loop.length }}", "{{ x }}",
                              "{% if loop.first %}{% continue %}{% endif %}", "{% if loop.index == 2 %}{% break %}{% endif %}", "{{ loop.cycle('o', 'e') }}", "{% set ns.v = ns.v ~ x %}"))
        other = tag(chance, "else") + inner() if chance.random() < 0.2 else ""
        return tag(chance, f"for {target} in {source}{condition}") + part + inner() + other + tag(chance, "endfor")
    if kind == 10:
        call = chance.choice(("mac(1)", "mac()", "mac('a', b=i)", "mac(*l)", "mac(1, 2, 3)", f"mac({expression(chance, 1)})"))
        return tag(chance, f"macro mac(a, b={expression(chance, 0)})") + "{{ a }}" + inner() + tag(chance, "endmacro") + f"{{{{ {call} }}}}"
    return chance.choice((
        lambda: tag(chance, "set x") + inner() + tag(chance, "endset"),
        lambda: tag(chance, f"filter {chance.choice(('upper', 'trim', 'indent'))}") + inner() + tag(chance, "endfilter"),
        lambda: tag(chance, f"with x = {expression(chance, 1)}") + inner() + tag(chance, "endwith"),
        lambda: tag(chance, "generation") + inner() + tag(chance, "endgeneration")))()


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(["name:endgeneration"], drop_needle=True)).set_lineno(line)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment(optimized):
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols], optimized=optimized)
    made.filters["tojson"] = tojson
    return made


ENVIRONMENT, PLAIN = environment(True), environment(False)


def placed(text):
    if " object at 0x" in str(text):
        raise ValueError("counts where an iterator lies")
    return do_wordcount(text)


# The words of an iterator's address are counted like any.
COUNTING = environment(True)
COUNTING.filters["wordcount"] = placed


def case(chance):
    source = "{% set ns = namespace(v='') %}" * (chance.random() < 0.7) + "".join(block(chance, 2) for _ in range(chance.randrange(1, 4)))
    return [source.encode(), json.dumps(VARIABLES).encode()], reference(source)


def reference(source, setting=ENVIRONMENT):
    """The text, or what was raised."""
    try:
        return setting.from_string(source).render(**VARIABLES), None
    except Exception as error:  # Whatever Python raises is a refusal.
        return None, f"{type(error).__name__}: {error}"[:200]


def judge(fields, expected, answer):
    text, error = expected
    words = answer[1].decode()
    ours = words if answer[0] == b"ok" else None
    if ours == text:
        return 1, None
    if ours is not None and text is not None and " object at 0x" in text.lower():
        return 1, "address"
    if "wordcount" in fields[0].decode() and "an iterator lies" in (reference(fields[0].decode(), COUNTING)[1] or ""):
        return 1, "address"
    if ours == reference(fields[0].decode(), PLAIN)[0]:
        return 1, "ahead"
    # A constant is cut ahead into an undefined value, with the optimizer or without; in a variable it is an error.
    if ours is None and "cannot be sliced" in words:
        return 1, "ahead"
    if ours is None and ("expected an index" in words or "unknown function 'not'" in words) and NOT.search(fields[0].decode()):
        return 1, "not"
    if ours is None and "the test needs an integer, not" in words:
        return 1, "no integer"
    return 1, f"here {words!r}, jinja2 {error or repr(text)}"
