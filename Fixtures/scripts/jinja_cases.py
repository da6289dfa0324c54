# Renders small templates with jinja2, set up as chat templates are rendered, into templates/expressions.jsonl.
# Usage: python3 jinja_cases.py > ../templates/expressions.jsonl     (needs jinja2 3.1)
import json
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2 import nodes


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
environment.filters["tojson"] = tojson

VARIABLES = {
    "s": "Grüße, \"Welt\" 's\n\t日本語 e\u0301 é 😀",
    "l": [3, 1, 2],
    "m": {"b": 1, "A": "x", "c": [1, {"k": None}], "items": "key", "é": 1, "e\u0301": 2},
    "f": [0.1, 1e16, 1e-5, 123456789.0, 1.5e300, 2.0, 12345678901234567.0, 0.0001, -0.0, 100.0],
    "t": True, "n": None, "i": 7, "big": 2**70,
    "people": [{"name": "Bo", "age": 3, "x": {"y": 1}}, {"name": "al", "age": 1}, {"name": "Cy", "age": 2}],
    "crlf": "a\r\nb\r\n",
}

SOURCES = r"""
{{ s }}|{{ l }}|{{ m }}|{{ f }}|{{ t }}|{{ n }}|{{ big }}|{{ missing }}
{{ s|tojson }}|{{ m|tojson }}|{{ f|tojson }}|{{ [t, n, big]|tojson }}
{{ m|tojson(indent=2) }}
{{ [[], {}, [1], {'a': {}}]|tojson(indent=4) }}
{{ s|tojson(ensure_ascii=true) }}|{{ m|tojson(sort_keys=true) }}|{{ l|tojson(separators=(',', ':')) }}
{{ [s]|string }}
{{ ["it's", 'say "x"', 'both \' and "', '\\', '\x7f\u200b\u00ad'] }}
{{ (1,) }}{{ (1, 2) }}{{ () }}{{ {1: 2, 'a': (3, none)} }}
{{ 1 + 2 * 3 - 4 // 3 % 5 ** 2 }}|{{ 7 // -2 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7 % -3 }}|{{ 7.5 // 2 }}|{{ -7.5 % 2 }}
{{ 1 / 2 }}|{{ 4 / 2 }}|{{ 2 ** 10 }}|{{ 2 ** -1 }}|{{ 2 ** 3 ** 2 }}|{{ -2 ** 2 }}
{{ 1 ~ 2 + 3 if false else 'a' ~ 1 + 'b' }}
{{ 'a' ~ 1 ~ none ~ true ~ [1] }}
{{ 'ab' * 3 }}|{{ 2 * 'x' }}|{{ [1] * 2 }}|{{ 'x' * -1 }}
{{ 1 < 2 < 3 }}|{{ 1 < 3 < 2 }}|{{ 1 == 1.0 == true }}|{{ 'a' < 'b' }}|{{ [1, 2] < [1, 3] }}|{{ 1 != 1 }}
{{ 'a' in 'abc' }}|{{ 'b' not in ['b'] }}|{{ 'A' in m }}|{{ 1 in (1, 2) }}|{{ '' in '' }}|{{ 1 in missing }}
{{ not true }}|{{ not missing }}|{{ not l or 'x' }}|{{ l and 'y' }}|{{ '' or none or 0 }}|{{ 1 and 0 }}
{{ not missing|default(false) }}|{{ -1|abs }}|{{ -l|length }}
{{ 'x' if missing }}|{{ 'x' if t else 'y' }}|{{ 1 if false else 2 if false else 3 }}
{{ l[0] }}{{ l[-1] }}{{ l[5] }}{{ l[1:] }}{{ l[:-1] }}{{ l[::-1] }}{{ l[::2] }}{{ l[-2:] }}{{ l[5:] }}{{ l[2:0:-1] }}
{{ s[0] }}{{ s[2] }}{{ s[-1] }}{{ s[:5] }}{{ s[-3:] }}{{ s[::-1] }}{{ s[100:] }}|{{ s[3:1] }}
{{ s|length }}|{{ 'é'|length }}|{{ 'e\u0301'|length }}|{{ '\r\n'|length }}|{{ crlf|length }}|{{ crlf|tojson }}
{{ m.b }}|{{ m['A'] }}|{{ m.missing }}|{{ m.items is string }}|{{ m['items'] }}|{{ m['é'] }}{{ m['e\u0301'] }}
{{ m.get('b') }}|{{ m.get('q') }}|{{ m.get('q', 5) }}|{{ m.keys()|list }}|{{ m.values()|list|length }}
{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in m %}{{ k }},{% endfor %}|{{ m|length }}|{{ m|list }}|{{ m|first }}|{{ m|last }}
{% for k, v in {'b': 1, 'a': 2, 'B': 3, 'A': 4}|dictsort %}{{ k }}{{ v }} {% endfor %}
{{ {'b': 1, 'a': 2}|dictsort(by='value') }}|{{ {'b': 1, 'A': 2}|dictsort(true) }}|{{ {'b': 1, 'a': 2}|dictsort(reverse=true) }}
{{ 'a,b,,c'.split(',') }}|{{ ' a  b '.split() }}|{{ 'a b c'.split(' ', 1) }}|{{ 'a b c'.rsplit(' ', 1) }}|{{ ' a  b c '.split(none, 1) }}|{{ ' a  b c '.rsplit(none, 1) }}
{{ '  x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xya'.lstrip('yx') }}|{{ 'axy'.rstrip('yx') }}|{{ '\u00a0 x\u3000'.strip() }}|
{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'abc'.startswith('') }}{{ 'é'.startswith('e') }}
{{ 'aXbXc'.replace('X', '--') }}|{{ 'aaa'.replace('a', 'b', 2) }}|{{ 'ab'.replace('', '.') }}|{{ 'aaa'|replace('aa', 'b') }}
{{ 'hello wORLD'.title() }}|{{ "it's"|title }}|{{ "it's".title() }}|{{ 'hELLO'.capitalize() }}|{{ 'straße'.upper() }}|{{ 'ÀÉ'|lower }}
{{ 'a-b c'|title }}|{{ 'abc'.find('c') }}{{ 'abc'.find('x') }}|{{ 'äbc'.find('c') }}|{{ 'abab'.rfind('ab') }}|{{ 'aaa'.count('a') }}
{{ ','.join(['a', 'b']) }}|{{ ['a', 1, none]|join('-') }}|{{ people|join(',', attribute='name') }}|{{ 'abc'|join('.') }}
{{ 'a\nb\r\nc'.splitlines() }}|{{ 'a=b=c'.partition('=') }}|{{ 'a=b=c'.rpartition('=') }}|{{ 'abc'.partition('x') }}
{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}{{ 'abc'.removeprefix('x') }}|{{ '12'.isdigit() }}{{ 'a1'.isalnum() }}{{ ''.isdigit() }}{{ 'Ab'.islower() }}
{{ missing is defined }}{{ m.b is defined }}{{ m.q is defined }}{{ missing is undefined }}{{ none is none }}{{ none is defined }}
{{ s is string }}{{ m is mapping }}{{ l is sequence }}{{ s is sequence }}{{ m is sequence }}{{ l is iterable }}{{ 1 is iterable }}{{ missing is iterable }}
{{ true is boolean }}{{ 1 is boolean }}{{ 1 is number }}{{ true is number }}{{ 1.0 is float }}{{ 1 is integer }}{{ true is integer }}{{ true is true }}{{ 1 is true }}{{ false is false }}
{{ 3 is odd }}{{ 3 is even }}{{ 9 is divisibleby 3 }}{{ 1 is eq 1 }}{{ 1 is sameas 1 }}{{ 'a' is in ['a'] }}{{ 2 is gt 1 }}{{ 'ab' is lower }}{{ 1 is not none }}
{{ x is defined and x is not none or 'd' }}
{{ missing|default('d') }}|{{ n|default('d') }}|{{ n|default('d', true) }}|{{ ''|default('d', true) }}|{{ ''|default('d') }}|{{ missing|default }}|
{{ l|first }}{{ l|last }}{{ []|first }}{{ l|sort }}{{ l|sort(reverse=true) }}{{ ['b', 'A', 'c']|sort }}{{ l|reverse|list }}{{ 'abc'|reverse }}
{{ people|sort(attribute='name')|map(attribute='name')|list }}|{{ people|sort(attribute='age')|map(attribute='age')|join }}
{{ people|map(attribute='x.y', default=0)|list }}|{{ people|selectattr('age', 'gt', 1)|map(attribute='name')|list }}|{{ people|rejectattr('x')|list|length }}
{{ ['a', 'B']|map('upper')|list }}|{{ [1, 2, 3]|select('odd')|list }}|{{ [1, 0, 2]|select|list }}|{{ ['a', 'b']|reject('equalto', 'a')|list }}|{{ none|map('upper')|list }}
{{ l|min }}{{ l|max }}{{ l|sum }}{{ people|sum(attribute='age') }}{{ [1.5, 2]|sum }}{{ []|sum }}|{{ ['b', 'A']|min }}
{{ ['a', 'A', 'b', 'a']|unique|list }}|{{ [1, 2, 3, 4, 5]|batch(2)|list }}|{{ [1, 2, 3]|batch(2, 0)|list }}|{{ [1, 2, 3, 4, 5]|slice(2)|list }}
{% for g, items in people|groupby('age') %}{{ g }}:{{ items|length }} {% endfor %}
{{ '3'|int }}{{ 'x'|int }}{{ 'x'|int(9) }}{{ 3.9|int }}{{ '3.7'|int }}{{ ' 42 '|int }}{{ none|int }}{{ '1_000'|int }}{{ 'ff'|int(base=16) }}{{ true|int }}
{{ '1.5'|float }}|{{ 'x'|float }}|{{ 3|float }}|{{ '1e3'|float }}|{{ 'inf'|float }}|{{ 2.5|round }}|{{ 3.5|round }}|{{ 2.567|round(2) }}|{{ 2.1|round(method='ceil') }}|{{ 7|round }}
{{ '  a '|trim }}|{{ 'xax'|trim('x') }}|{{ 1|string ~ 2 }}|{{ missing|upper }}|{{ missing|trim }}|{{ missing|length }}|{{ missing|list }}|{{ missing|string }}|{{ missing|join }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(1, blank=true) }}|{{ 'a\nb'|indent('>') }}
{{ 'hello world foo'|truncate(11) }}|{{ 'hello world foo bar'|truncate(11) }}|{{ 'hello world foo bar'|truncate(11, true) }}|{{ 'abcdef'|truncate(4, true, '', 0) }}
{{ '<a href="x">\'&'|escape }}|{{ '<b>'|safe }}|{{ '<'|safe + '>' }}|{{ '<' + '>'|e }}|{{ 'a b/c?ä'|urlencode }}
{{ 'ab'|center(7) }}|{{ 'abc'|center(6) }}|{{ 'a b  c'|wordcount }}|{{ '%s is %d and %05.2f%%'|format('x', 3, 2.5) }}|{{ '%-4s|%4s' % ('a', 'b') }}|{{ '%x' % 255 }}
{{ '{} {1} {x}'.format('a', 'b', x=1) if false else '{0}-{x}-{0}'.format('a', x=1) }}|{{ '{}{}'.format(1, 'b') }}|{{ '{{}}'.format() }}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}none{% endfor %}{% for x in [] %}{% else %}empty{% endfor %}
{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{% if loop.last %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for x in 'aé😀' %}[{{ x }}]{% endfor %}{% for x in range(3) %}{{ x }}{% endfor %}{{ range(5, 0, -2)|list }}{{ range(3) }}
{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}
{% for x in [[1, [2]], [3]] recursive %}{{ x if x is number else '(' ~ loop(x) ~ ')' }}{{ loop.depth }}{% endfor %}
{% set x = 1 %}{% for i in l %}{{ x }}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(a=1, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.q }}
{% if false %}{% set y = 1 %}{% endif %}{{ y is defined }}{% if true %}{% set y = 2 %}{% endif %}{{ y }}
{% set a, b = 1, 2 %}{{ b }}{{ a }}{% set c %}<{{ a }}>{% endset %}{{ c }}{% set d | upper | trim %} x {% endset %}{{ d }}
{% set x %}{% set inner = 5 %}{{ inner }}{% endset %}{{ x }}{{ inner is defined }}
{% macro m1(a, b=2, c='z') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m1(1) }}|{{ m1(1, c=3) }}|{{ m1() }}|{{ m1(b=1) }}
{% macro f2(n) %}{{ n }}{% if n > 0 %}{{ f2(n - 1) }}{% endif %}{% endmacro %}{{ f2(3) }}
{% macro late() %}{{ g }}{% endmacro %}{% set g = 1 %}{{ late() }}{% set g = 2 %}{{ late() }}
{% for i in [1, 2] %}{% macro q() %}{{ i }}{% endmacro %}{{ q() }}{% endfor %}
{% macro v(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, 3, k=4) }}
{% macro box(t) %}[{{ t }}:{{ caller() }}]{% endmacro %}{% call box('x') %}in{% endcall %}
{% macro each(l) %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(x) each([1, 2]) %}<{{ x }}>{% endcall %}
{% macro d(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ d(1) }}{{ d(1, 2) }}{{ d(*[3, 4]) }}{{ d(**{'a': 5}) }}
{% filter upper %}a{{ 'b' }}{% endfilter %}{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}
{% generation %}x{% endgeneration %}{% raw %}{{ not }} {% this %}{% endraw %}{# comment #}
{{ "a" 'b' }}|{{ 'tab\tnl\n\x41\u00e9\q\'' }}|{{ 0x1f }}{{ 1_000 }}{{ 1.5e3 }}{{ 0b11 }}{{ 0o17 }}
{{ {'a': {'b': [1, 2]}}.a.b.1 }}|{{ [1, 2].0 }}|{{ {'a': 1}['a'] }}|{{ {} }}{{ [] }}
{{ [1, 2] + [3] }}|{{ (1,) + (2,) }}|{{ [1, [2, {'a': 'b'}]] == [1, [2, {'a': 'b'}]] }}|{{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }}
{{ dict(a=1, b=2) }}|{{ dict([('x', 1)]) }}|{{ {'a': 1}|items|list }}|{{ missing|items|list }}
{{ ['a', ['string', 'null']]|upper }}|{{ 1|upper }}|{{ none|string|lower }}|{{ 5|lower }}
{{ (l|map('string')) is sequence }}{{ (l|map('string')) is iterable }}{{ (l|map('string')) is string }}{{ 'yes' if []|select else 'no' }}
{{ true + 1 }}|{{ true ~ '' }}|{{ 1.0 }}|{{ 1e3 }}|{{ 10 // 3.0 }}|{{ 1e16 }}|{{ 1e-7 }}|{{ 0.1 + 0.2 }}
{{ m.c[1].k }}|{{ m['c'][0] }}|{{ people[0].x.y }}|{{ people[0]['x']['z'] }}
{{ 'a' 'b' if 1 else 'c' }}|{{ ('a' if 0 else 'b') ~ 'c' }}|{{ (1 if 0) is defined }}
{{ [1,2,3]|first + [4]|last }}|{{ 'x'|upper ~ 'y'|upper }}|{{ ('a'|upper).lower() }}|{{ 'a'.upper().lower().title() }}
{{ 'q' if 'a' is string and 'b' is not number else 'r' }}
{{ namespace(a=1).a }}|{{ raise_exception is defined }}|{{ range is callable }}|{{ 'upper' is filter }}
{{ l.count(1) }}{{ l.index(2) }}|{{ [1,2][-3:] }}|{{ 'abc'[1:2] }}|{{ 'abc'[-10:10] }}
{{ [1, 2]|sort(attribute='content') }}|{{ people|sort(attribute='nope')|length }}
{{ t|round }}|{{ false|round(1) }}|{{ t|round(method='floor') }}
{% for x in [-0.4, -0.0, 0.3] %}{{ x|round(method='ceil') }} {{ x|round(0, 'floor') }} {{ x|round }} {% endfor %}{{ -0.04|round(1) }}
{% for x in [1.115, 2.675, 1.005, 5.015, 0.285, 123456789012345.67, 0.5, -1.115, 0.995, 0.999] %}{{ x|round(2) }} {{ '%.2f' % x }} {{ '%.0f' % x }} {% endfor %}{{ 1e22|round(2) }}
{% for x in [25.0, 35.0, 249.99999999999997, 250.0, 250.00000000000003, 1e300] %}{{ x|round(-1) }} {{ x|round(-2) }} {% endfor %}
{% for x in [1e16, -1e16, 7.5, -7.5, 0.0, -0.0, 1e300, 0.3] %}{% for y in [3, -3, 0.1, 2.5, -0.7] %}{{ x // y }} {{ x % y }} {% endfor %}{% endfor %}
{% for x in [7, 5, 15, 25, -5, -15, -25, -7, 0, 149, 150, 250, 12345678901234565] %}{{ x|round(-1) }} {{ x|round(-2) }} {{ x|round(2) }} {% endfor %}
{{ missing is callable }}{{ none is callable }}
{{ 1|indent }}
{{ none|truncate(2, true, '', 0) }}
{{ missing|truncate(3) }}|{{ l|truncate(3) }}|{{ m|truncate(9)|length }}
{{ l|truncate(2, true, '', 0) }}
{{ ['ab', 'c/']|urlencode }}|{{ {'a b': 'c/ä', 'n': none}|urlencode }}|{{ missing|urlencode }}|{{ none|urlencode }}|{{ 'a b/c'|urlencode }}
{{ ['abc']|urlencode }}
{{ l|urlencode }}
{{ 'x' % 1 }}
{{ '%%' % 'a' }}
{{ '%s' % ('a', 'b') }}
{{ 'a'|format(1) }}
{{ 'x' % [1] }}{{ 'x' % m }}{{ 'x' % missing }}{{ 'x' % range(2) }}{{ 'x'|format }}
{% macro mm(a) %}{% endmacro %}{{ mm }}
{% for x in l %}{{ x }}{% continue %}{% else %}E{% endfor %}
{% for x in l %}{% break %}{% else %}E{% endfor %}
{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}E{% endfor %}
{% set ns = namespace(v='') %}{% for x in l if x not in ns.v|list and not ns.v %}{% set ns.v = ns.v ~ x %}[{{ x }}]{% endfor %}{{ ns.v }}
{% set ns = namespace(v=0) %}{% for x in l if ns.v < 2 %}{{ loop.last }}{% set ns.v = ns.v + 1 %}{{ x }} {% endfor %}
{% set ns = namespace(v=0) %}{% for x in l if ns.v < 2 %}{{ loop.length }}{% set ns.v = ns.v + 1 %}{{ x }}{{ loop.revindex }} {% endfor %}
{% set ns = namespace(v=0) %}{% for x in l if ns.v < 2 %}{% set ns.v = ns.v + 1 %}{{ x }}{{ loop.nextitem }} {% endfor %}
{% for x in l if 1 // (x - 1) %}{{ x }}{% break %}{% endfor %}
{% for x in [] %}{% else %}{% set y = 1 %}{{ y }}{% endfor %}{{ y }}{% generation %}{% set z = 2 %}{{ z }}{% endgeneration %}{{ z }}{% for q in l %}{% generation %}{% if q == 1 %}{% continue %}{% endif %}{{ q }}{% endgeneration %}{% endfor %}
{% set ns = namespace(l=none) %}{% for x in l if x != 1 %}{% set ns.l = loop %}{% endfor %}{{ ns.l.index }}{{ ns.l.last }}{{ ns.l.previtem }}{{ ns.l.length }}
{{ [m]|unique|list }}
{{ [1, 1.0, 'a', 'A', (1, 2), (1, 2), none]|unique|list }}
{{ 1e3 % -1e3 }} {{ -6.0 % 3 }} {{ 6 % -3.0 }} {{ -0.0 % 5 }} {{ 7.5 % -2 }}
{{ ['<a>,b'|e, '<a>,b'|safe]|map('upper')|list }} {{ [' a<'|e|trim, 'a b'|e|capitalize, 'A'|safe|lower, 'a b'|safe|title] }} {{ ('<a> b'|e).split() }} {{ ('<a>b'|safe).rsplit('>', 1) }} {{ ('a,b'|e).partition(',') }}
{{ ('ab'|e)[0] ~ '<' }} {{ ('ab'|e)[1:] ~ '<' }} {{ ('ab'|e).upper() ~ '<' }} {{ ('a'|safe).replace('a', '<') }} {{ ('-'|safe).join(['<', '>'|safe]) }} {{ ('{}'|safe).format('<') }} {{ 'ab'.upper() ~ '<' }}
{{ [('a\nb'|e).splitlines(), ('ab'|e).find('b'), ('ab'|e).strip('a'), 'x'.split()] }}
{{ 1 + }}
{{ 'a' + 1 }}
{{ [] + '' }}
{{ none.x }}
{{ missing.x }}
{{ missing() }}
{{ m.q.r }}
{{ l.append(4) }}
{{ m.pop('b') }}
{{ 1 < 'a' }}
{{ 1 in 'a' }}
{{ none|length }}
{{ [missing]|tojson }}
{{ (l|map('string'))|tojson }}
{{ {[1]: 2} }}
{{ 1 // 0 }}
{{ 1 / 0 }}
{{ 1.5 % 0 }}
{{ missing + 1 }}
{{ 'a'|int + none }}
{{ m|items|length }}
{{ 5|items|list }}
{{ none|list }}
{% for x in 5 %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% set x.y = 1 %}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=1) }}
{% macro m(a) %}{% endmacro %}{{ m(1, a=1) }}
{{ 'abc'.split('') }}
{{ l['a'] }}{{ l.x.y }}
{{ l[::0] }}
{{ -'a' }}
{{ 'a'.nope() }}
{{ range(100001) }}
{{ '%d' % 'x' }}
{{ '%s %s' % 'x' }}
{% endfor %}
{% if %}x{% endif %}
{% for x in l %}
{{ 'a }}
{{ {'a' 1} }}
{{ (1 }}
{{ a b }}
{{ 1|nope }}
{{ 1 is nope }}
{# never closed
{% raw %} never closed
{% include 'x' %}
{% break %}
""".strip("\n").split("\n")

# Whitespace control: these hold newlines.
BLOCKS = [
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n",
    "a\n  {%- if true -%}\n  b\n  {%- endif -%}\nc\n\n",
    "a\n  {%+ if true +%}\n  b\n  {%+ endif %}\nc",
    "  {{ 1 }}\n  {{- 2 -}}\n  {{ 3 }}\n",
    "a {# x #}\n  {# y #}\n  {#- z -#}\n b {#+ w +#}\n c",
    "{% for i in [1, 2] %}\n  {{ i }}\n{% endfor %}\n",
    "{% for i in [1, 2] -%}\n  {{ i }}\n{%- endfor %}\n\n",
    "x{% if true %} {% endif %}  {% if true %}\n\ty{% endif %}\n",
    "\n\n{% set a = 1 %}\n\n{{ a }}\n\n",
    "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc\r\n",
    "a\rb\n",
    "  {% raw %}\n {{ x }} {%- y %}\n  {% endraw %}\n z",
    " a {%- raw -%} \n {{ x }} \n {%- endraw -%} \n z",
    "{{ '{{' }}{{ '%}' }}{{ {'a': {'b': 1}}['a']['b'] }}{{ {'a': {}}}}",
    "{%if true%}x{%endif%}{{1}}{{-1}}{{ -1 }}",
    "a\n \u00a0{% if true %}b{% endif %}",
    "a \u2003{%- if true %}b{% endif -%}\u3000 c",
    "{{ 'a\nb' }}\n{{ 'a\\\nb' }}",
    "\ta\n\t{% if true %}\n\tb\n\t{% endif %}\tc\n",
    "{% set x = [\n  1,\n  2,\n] %}\n{{ x }}",
    "{{ {\n 'a': 1,\n} }}",
    "<{% filter trim %}\n  x  \n{% endfilter %}>",
    "{% macro a() %}\n  x\n{% endmacro %}\n{{ a() }}|\n  {%- macro b() -%}\n y \n{%- endmacro -%}\n {{ b() }}",
    "{% if false %}\na\n{% elif true %}\nb\n{% else %}\nc\n{% endif %}\n",
    "x\n\n  {# only a comment #}  \n\ny",
]

if __name__ == "__main__":
    for source in SOURCES + BLOCKS:
        row = {"template": source}
        try:
            row["output"] = environment.from_string(source).render(**VARIABLES, raise_exception=None)
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"[:120]
        print(json.dumps(row, ensure_ascii=False))
