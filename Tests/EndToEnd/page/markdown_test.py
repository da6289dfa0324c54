"""Markdown, code and formulas as nodes: what they become, whole and while they grow, and that hostile text stays text."""

import json
import re

from .browser import ask, case, until
from .fake import Answer

WORDS = {"task": "Task", "table": "Table", "code": "Code", "copyCode": "Copy", "wrap": "Wrap", "text": "text", "image": "Image"}
RENDER = """async ([text, step, words]) => {
  const { MarkdownView } = await import(new URL("ui/markdown.js", document.baseURI));
  const node = document.createElement("div");
  const view = new MarkdownView(node, words);
  for (let end = step; step && end < text.length; end += step) view.update(text.slice(0, end));
  view.update(text, true);
  return node.innerHTML;
}"""
EVERY = """async ([text, words]) => {
  const { MarkdownView } = await import(new URL("ui/markdown.js", document.baseURI));
  const make = () => { const node = document.createElement("div"); return [node, new MarkdownView(node, words)]; };
  const [whole, first] = make();
  first.update(text, true);
  for (let cut = 0; cut <= text.length; cut++) {
    const [node, view] = make();
    view.update(text.slice(0, cut));
    view.update(text, true);
    if (node.innerHTML !== whole.innerHTML) return `cut at ${cut}: ${node.innerHTML}`;
  }
  return null;
}"""
# Every node must be of these, with these attributes; anything else came out of the text.
ALLOWED = """node => {
  const tags = new Map(Object.entries({
    p: "dir class", br: "", sub: "", sup: "", kbd: "", h2: "dir class", h3: "dir class", h4: "dir class", h5: "dir class", h6: "dir class", ul: "", ol: "start", li: "class",
    blockquote: "dir class", pre: "tabindex dir role aria-label class", code: "class", table: "", thead: "", tbody: "", tr: "", th: "class scope dir",
    td: "class dir", a: "href target rel title dir", strong: "", em: "", del: "", hr: "", input: "type disabled aria-label", div: "class tabindex role aria-label",
    span: "class", button: "type class aria-label title aria-pressed", svg: "viewBox class aria-hidden", path: "d",
  }).map(([tag, names]) => [tag, new Set(names.split(" ").filter(Boolean))]));
  const formula = new Set("math mrow mi mo mn mfrac msqrt mroot msup msub msubsup mover munder munderover mtable mtr mtd mtext mspace".split(" "));
  const formulaNames = new Set("display aria-label stretchy fence largeop width mathvariant accent linethickness class".split(" "));
  const faults = [];
  for (const one of node.querySelectorAll("*")) {
    const isFormula = formula.has(one.localName) && one.namespaceURI.endsWith("MathML");
    const names = isFormula ? formulaNames : tags.get(one.localName);
    if (!names) faults.push(one.localName);
    else for (const attribute of one.getAttributeNames()) if (!names.has(attribute)) faults.push(`${one.localName} ${attribute}`);
    if (one.localName === "a" && !/^(https?:|mailto:)/.test(one.getAttribute("href"))) faults.push(one.getAttribute("href"));
  }
  return faults;
}"""


def render(page, text, step=0):
    return page.evaluate(RENDER, [text, step, WORDS])


# Markdown and what it becomes; classes and directions are left out.
SAMPLES = {
    "__init__ and `__init__`": "<p><strong>init</strong> and <code>__init__</code></p>",
    "a\\*b\\*c, a*b*c": "<p>a*b*c, a<em>b</em>c</p>",
    "2**10 and 3**4": "<p>2**10 and 3**4</p>",
    "snake_case_name and _so_": "<p>snake_case_name and <em>so</em></p>",
    "<T> &lt; &amp; `&lt;`": "<p>&lt;T&gt; &lt; &amp; <code>&amp;lt;</code></p>",
    "***both*** **a *b* c** ~~gone~~": "<p><em><strong>both</strong></em> <strong>a <em>b</em> c</strong> <del>gone</del></p>",
    "a  \nb\nc": "<p>a<br>b\nc</p>",
    "# One\n\nTwo\n---\n\n###### six ##": "<h2>One</h2><h3>Two</h3><h6>six</h6>",
    "- a\n  - b\n    - c\n- d": "<ul><li><p>a</p><ul><li><p>b</p><ul><li><p>c</p></li></ul></li></ul></li><li><p>d</p></li></ul>",
    "3. a\n4. b": '<ol start="3"><li><p>a</p></li><li><p>b</p></li></ol>',
    "- [x] a\n- [ ] b": '<ul><li><input type="checkbox" disabled="" aria-label="Task"><div><p>a</p></div></li>'
                        '<li><input type="checkbox" disabled="" aria-label="Task"><div><p>b</p></div></li></ul>',
    "> a\n> > b\n\n***": "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote><hr>",
    "| a | b |\n|---|:-:|\n| `x\\|y` | **c** |\n| d |": '<div tabindex="0" role="group" aria-label="Table"><table><thead><tr><th scope="col">a</th>'
        '<th scope="col">b</th></tr></thead><tbody><tr><td><code>x|y</code></td><td><strong>c</strong></td></tr><tr><td>d</td><td></td></tr></tbody></table></div>',
    "[x](https://example.org/a?b=1&c=2 \"t\")": '<p><a href="https://example.org/a?b=1&amp;c=2" target="_blank" '
        'rel="noopener noreferrer nofollow" title="https://example.org/a?b=1&amp;c=2">x</a></p>',
    "[x][r] and [r]\n\n[r]: https://example.org": '<p><a href="https://example.org/" target="_blank" rel="noopener noreferrer nofollow" '
        'title="https://example.org/">x</a> and <a href="https://example.org/" target="_blank" rel="noopener noreferrer nofollow" title="https://example.org/">r</a></p>',
    "see https://example.org/a_(b), or www.example.org.": '<p>see <a href="https://example.org/a_(b)" target="_blank" rel="noopener noreferrer nofollow" '
        'title="https://example.org/a_(b)">https://example.org/a_(b)</a>, or <a href="https://www.example.org/" target="_blank" '
        'rel="noopener noreferrer nofollow" title="https://www.example.org/">www.example.org</a>.</p>',
    "It costs $5 and $10.": "<p>It costs $5 and $10.</p>",
    "1) a\n\n   b\n2) c": "<ol><li><p>a</p><p>b</p></li><li><p>c</p></li></ol>",
    "中文**重点**。": "<p>中文<strong>重点</strong>。</p>",
    "a<br>b<BR/>c<br />d": "<p>a<br>b<br>c<br>d</p>",
    "H<sub>2</sub>O, x<sup>a *b*</sup>, <kbd>Ctrl</kbd>": "<p>H<sub>2</sub>O, x<sup>a <em>b</em></sup>, <kbd>Ctrl</kbd></p>",
    "<sub>x <sup>y</sub> <br class=x> <kbd>": "<p><sub>x &lt;sup&gt;y</sub> &lt;br class=x&gt; &lt;kbd&gt;</p>",
    "> [!WARNING]\n> Mind the *gap*.\n\n> [!x]\n> y": "<blockquote><p>Warning</p><div><p>Mind the <em>gap</em>.</p></div></blockquote>"
        "<blockquote><p>[!x]\ny</p></blockquote>",
    "So[^1] and [^none].\n\n[^1]: The *reason*.": '<p>So<sup><button type="button" title="The *reason*.">1</button></sup> and [^none].</p>'
        '<div tabindex="-1"><sup>1</sup><div><p>The <em>reason</em>.</p></div></div>',
}


def plain(html):
    return re.sub(r' (?:class|dir)="[^"]*"', "", html).replace("<!---->", "")


@case()
def test_markdown_becomes_nodes(page, fake, watched):
    for text, expected in SAMPLES.items():
        found = plain(render(page, text))
        assert found == expected, f"{text!r}\n  {found}\n  {expected}"


LONG = """## Title

Some *text* with `code`, a [link](https://example.org) and $x^2$.

1. one
   ```python
   def f():
       return "`"
   ```
2. two

   more

| a | b |
|---|---|
| 1 | 2 |
| 3 | 4 |

> quote
> more

```js
const a = `x`; // ~~~
```

~~~
``` inside
~~~

- a
- b

  \\[ \\frac{a}{b} \\]

$$
\\sum_{i=0}^n i
$$

[r]: https://example.org

A claim[^a], H<sub>2</sub>O<br>and more[^b].

> [!TIP]
> Try *it*.

[^a]: First reason.
[^b]: Second
  reason.

The end [r].
"""


@case()
def test_text_cut_anywhere_becomes_the_same_nodes(page, fake, watched):
    assert page.evaluate(EVERY, [LONG, WORDS]) is None
    for step in (1, 2, 3, 7):
        assert render(page, LONG, step) == render(page, LONG), step


@case()
def test_finished_blocks_are_not_touched_while_an_answer_grows(page, fake, watched):
    same = page.evaluate("""async ([words]) => {
      const { MarkdownView } = await import(new URL("ui/markdown.js", document.baseURI));
      const node = document.createElement("div");
      const view = new MarkdownView(node, words);
      view.update("# a\\n\\npara\\n\\n- one\\n- two\\n");
      const [heading, list] = [node.children[0], node.children[2]];
      const first = list.children[0];
      view.update("# a\\n\\npara\\n\\n- one\\n- two\\n- three\\n\\n```js\\nlet a");
      const code = node.querySelector("pre");
      view.update("# a\\n\\npara\\n\\n- one\\n- two\\n- three\\n\\n```js\\nlet a = 1;\\nlet b");
      return [node.children[0] === heading, node.children[2] === list, list.children[0] === first, node.querySelector("pre") === code];
    }""", [WORDS])
    assert same == [True] * 4, same


@case()
def test_code_is_coloured_and_copied_exactly(page, fake, watched):
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    source = 'def f(x):\n\treturn "é" * 2  # twice\n'
    fake.answers.append(Answer(f"```python\n{source}```\n"))
    ask(page, "Code")
    assert page.locator(".hl-keyword").first.inner_text() == "def" and page.locator(".hl-comment").inner_text() == "# twice"
    page.locator(".code-head button[aria-label='Copy code']").click()
    page.wait_for_timeout(200)
    assert page.evaluate("navigator.clipboard.readText()") == source.removesuffix("\n")
    page.locator(".code-head button[aria-label='Wrap lines']").click()
    assert page.locator("pre.wrapped").count() == 1


LANGUAGES = {
    "js": "const a = 1; // c", "ts": "let a: string;", "python": "def f(): pass", "swift": "func f() {}", "cpp": "#include <a>\nint a;",
    "java": "class A {}", "kotlin": "fun f() {}", "csharp": "using A;", "go": "func f() {}", "rust": "fn f() {}", "php": "function f() {}",
    "ruby": "def f; end", "bash": "echo hi # c", "sql": "SELECT 1", "json": '{"a": true}', "yaml": "a: true", "toml": "a = true",
    "html": "<p class='a'>x</p>", "css": "p { color: red }", "lua": "local a", "r": "function(x) x", "dart": "void f() {}", "diff": "+a\n-b",
    "dockerfile": "FROM x",
}


@case()
def test_languages_are_coloured_and_nothing_is_lost(page, fake, watched):
    script = """async ([text, language]) => {
      const { highlight } = await import(new URL("ui/highlight.js", document.baseURI));
      const node = highlight(text, language);
      return node && [node.textContent, node.querySelectorAll("span").length];
    }"""
    for language, text in LANGUAGES.items():
        found = page.evaluate(script, [text, language])
        assert found and found[0] == text and found[1] > 0, (language, found)
    assert page.evaluate(script, ["x", "constructor"]) is None and page.evaluate(script, ["x", "__proto__"]) is None
    big = "let a = 1;\n" * 90_000
    html = page.evaluate("""async ([text, words]) => {
      const { MarkdownView } = await import(new URL("ui/markdown.js", document.baseURI));
      const node = document.createElement("div");
      new MarkdownView(node, words).update("```js\\n" + text + "```", true);
      return [node.querySelectorAll("code span").length, node.querySelector("code").textContent.length];
    }""", [big, WORDS])
    assert html == [0, len(big) - 1], html


FORMULAS = {
    r"\frac{a}{b}": "<mfrac><mi>a</mi><mi>b</mi></mfrac>",
    r"x_i^2": "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>",
    r"\sqrt[3]{x}": "<mroot><mi>x</mi><mn>3</mn></mroot>",
    r"\sum_{i=0}^{n} i": '<munderover><mo largeop="true">∑</mo>',
    r"\mathbb{R}": "<mi>ℝ</mi>",
    r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}": "<mtable><mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr>",
    r"\left( \frac{1}{2} \right)": '<mo fence="true" stretchy="true">(</mo>',
    r"\begin{cases} 1 & x > 0 \\ 0 & \text{else} \end{cases}": "<mtext>else</mtext>",
    r"\alpha \leq \beta": "<mi>α</mi><mo>≤</mo><mi>β</mi>",
    r"\int_0^1 f(x)\,dx": "<msubsup><mo largeop=\"true\">∫</mo>",
    r"\hat{x} \vec{v}": '<mover accent="true"><mi>x</mi>',
    r"f'(x)": "<msup><mi>f</mi>",
    r"\operatorname{rank} A": "rank",
    r"3.14": "<mn>3.14</mn>",
}


@case()
def test_formulas_are_mathml_and_what_is_not_known_is_source(page, fake, watched):
    for text, expected in FORMULAS.items():
        for form in (f"\\({text}\\)", f"$${text}$$", f"\\[{text}\\]"):
            found = render(page, form)
            assert expected in found and "<math" in found, (form, found)
    for text in (r"\frac{a", r"\href{javascript:alert(1)}{x}", r"\unknown", r"a & b", r"\begin{x}\end{x}", "{" * 200, r"\left( x"):
        found = render(page, f"\\({text}\\)")
        assert "<math" not in found and 'class="tex"' in found, (text, found)


HOSTILE = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", '<iframe srcdoc="<script>alert(1)</script>">',
    "<math><mtext></table><style><img src=x onerror=alert(1)></style>", "[x](javascript:alert(1))", "[x](java\tscript:alert(1))",
    "[x](java\nscript:alert(1))", "[x](&#106;avascript:alert(1))", "[x](JAVASCRIPT:alert(1))", "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x)", '[x](https://a"onmouseover=alert(1))', "<javascript:alert(1)>", "[x][r]\n\n[r]: javascript:alert(1)",
    '![a](https://evil.example/x.png?d=secret)', '![a](x "t\\" onerror=alert(1))', '![<img src=x onerror=alert(1)>](https://evil.example/x)',
    '```"><img src=x onerror=alert(1)>\nx\n```', "| <img src=x onerror=alert(1)> |\n|---|\n| <script>alert(1)</script> |",
    "[^<img>]: note\n\nx[^<img>]", "[x](https://good.example@evil.example)", "[https://good.example](https://evil.example)",
    "[\u202egro.doog\u202c](https://evil.example)", "a\u2028b\u2029c", "nul \0 nul", ">" * 10_000 + " x", "*" * 10_000, "*a " * 3000, "[" * 10_000,
    "![" * 5000, "`" * 9999, "$$\\href{javascript:alert(1)}{x}$$", "<style>*{display:none}</style>", "</textarea><script>alert(1)</script>",
    "{{constructor.constructor('alert(1)')()}}", "[__proto__]: https://example.org\n\n[__proto__] [constructor]", "```__proto__\nx\n```",
    "- " * 3000, "<a href='javascript:alert(1)'>x</a>", "[x]( javascript:alert(1))", "[x](\u0001javascript:alert(1))", "<https://a\"onclick=alert(1)>",
    "<sub onclick=alert(1)>x</sub><kbd><img src=x onerror=alert(1)></kbd>", "<sup>" * 5000 + "</sup>" * 5000, "<br onload=alert(1)/>",
    "> [!NOTE]\n> <script>alert(1)</script>", "x[^a]\n\n[^a]: <img src=x onerror=alert(1)>", "[^__proto__] [^constructor]\n\n[^__proto__]: x",
    "[^a]: [^a]\n" * 500, "&lt;img src=x onerror=alert(1)&gt;", "[a](//evil.example)", "[a](/v1/models)", "(" * 5000 + "[x](" + "(" * 5000,
]


@case()
def test_hostile_text_stays_text(page, fake, watched):
    for text in HOSTILE:
        faults = page.evaluate("""async ([text, words, allowed]) => {
          const { MarkdownView } = await import(new URL("ui/markdown.js", document.baseURI));
          const node = document.createElement("div");
          document.body.append(node);
          const view = new MarkdownView(node, words);
          const check = %s;
          const faults = [];
          const step = text.length > 500 ? Math.ceil(text.length / 5) : 1;
          for (let end = 1; end < text.length; end += step) view.update(text.slice(0, end)), faults.push(...check(node));
          view.update(text, true);
          faults.push(...check(node));
          node.remove();
          return faults;
        }""" % ALLOWED, [text, WORDS, ""])
        assert not faults, (text[:80], faults[:5])
    assert "(evil.example)" in render(page, "[https://good.example](https://evil.example)")
    assert "(evil.example)" in render(page, "[\u202egro.doog\u202c](https://evil.example)")


@case(with_policy=False)
def test_hostile_text_stays_text_everywhere_on_the_page_without_the_policy(page, fake, watched):
    """The policy is the second wall; the first one has to hold alone."""
    watched.expected += ["500"]
    for index, text in enumerate(HOSTILE[:26]):
        fake.answers.append(Answer(text, reasoning=[text], calls=[(text, json.dumps({text: text}))] if index % 3 == 0 else []))
        ask(page, text)
        if index % 5 == 0:
            page.keyboard.press("Control+Shift+O")
            page.wait_for_timeout(50)
    page.evaluate("document.querySelectorAll('.thought').forEach(one => one.open = true)")
    fake.models[0]["id"] = fake.models[1]["id"] = HOSTILE[1]
    fake.models[1]["status"] = {"value": "unloaded", "failed": True, "error": HOSTILE[2]}
    page.click("#model")
    page.wait_for_selector(".model-row")
    page.wait_for_timeout(300)
    page.keyboard.press("Escape")
    fake.answers.append(Answer(status=500, error={"code": HOSTILE[1], "message": HOSTILE[0]}))
    page.fill("#box", "error")
    page.keyboard.press("Enter")
    page.wait_for_selector(".error")
    until(page, "document.querySelector('.error').textContent.includes('<script>alert(1)')")
    assert page.evaluate("document.querySelectorAll('body script, iframe, body style, img:not(.files img):not(.chip img), [onerror], [onload], [onmouseover], math style').length") == 0


# What of the whole page may be there: no script of the text, nothing that is fetched from elsewhere or handles events. Its own
# script and style sheet are the first of their kind.
FOREIGN = """() => [...document.querySelectorAll("*")].filter(
  one => !["head > script:first-of-type", "head > style:first-of-type"].some(own => one === document.querySelector(own))
).flatMap(one => {
  const faults = [];
  if (["iframe", "object", "embed", "style", "base", "frame", "template", "applet"].includes(one.localName)) faults.push(one.localName);
  if (one.localName === "script" && !/^http:.*\\/ui\\/[a-z]+\\.js$/.test(one.src)) faults.push("script");
  for (const { name, value } of one.attributes) {
    if (/^on|^srcdoc$|^formaction$|^style$/.test(name) && !one.matches(".context-bar i, textarea, .menu")) faults.push(`${one.localName} ${name}`);
    if (["src", "srcset", "poster", "data"].includes(name) && one.localName !== "script" && !value.startsWith("data:")) faults.push(`${name}=${value}`);
    if (name === "href" && !/^(https?:|mailto:|#|ui\\/)/.test(value)) faults.push(`href=${value}`);
  }
  return faults;
})"""


def chat_of(number, text):
    """A chat of an export whose every text is this one."""
    file = {"kind": "text", "name": text, "size": 3, "text": text}
    call = {"id": text, "name": text, "arguments": json.dumps({text: text}), "result": text}
    return {"id": f"chat{number}", "title": text, "folder": text, "model": text, "created": 1, "updated": number, "head": f"a{number}",
            "settings": {"system": text, "stop": text, "schema": text, "tools": text}, "messages": [
                {"id": f"u{number}", "role": "user", "text": text, "files": [file, {**file, "kind": "image", "data": text}], "created": 1},
                {"id": f"a{number}", "parent": f"u{number}", "role": "assistant", "text": text, "reasoning": text, "model": text, "calls": [call],
                 "state": "error", "error": {"message": text, "code": text, "status": 418}, "created": 2}]}


@case(with_policy=False)
def test_hostile_text_in_every_field_of_imported_chats_stays_text(page, fake, watched):
    """Titles, files, reasoning, calls, results, errors, models and settings; here too the policy is off."""
    chats = [chat_of(number, text) for number, text in enumerate(HOSTILE)]
    data = json.dumps({"format": "mlxserve-chats", "version": 1, "chats": chats}).encode()
    page.click("#open-settings")
    with page.expect_file_chooser() as waiting:
        page.get_by_role("button", name="Import").click()
    waiting.value.set_files({"name": "chats.json", "mimeType": "application/json", "buffer": data})
    page.wait_for_selector(f".toast span:has-text('{len(HOSTILE)} chats were imported.')")
    page.keyboard.press("Escape")
    fake.models = [{**fake.models[0], "id": text, "status": {"value": "unloaded", "failed": True, "error": text}} for text in HOSTILE]
    for number in range(len(HOSTILE)):
        page.evaluate("id => { location.hash = `#chat=${id}` }", f"chat{number}")
        until(page, "id => document.querySelector(`#m-a${id} .error`) !== null", number)
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        page.wait_for_timeout(20)
        faults = page.evaluate(FOREIGN)
        assert not faults, (HOSTILE[number][:80], faults[:5])
    page.click("#tune")
    page.wait_for_selector("dialog[open] textarea")
    assert not page.evaluate(FOREIGN)
    page.keyboard.press("Escape")
    page.click("#model")
    until(page, "count => document.querySelectorAll('.model-row').length === count", len(HOSTILE))
    assert not page.evaluate(FOREIGN)


WIDE = "| name | what it is for, in a few words | " + " | ".join(f"c{n}" for n in range(12)) + " |\n" + "|---" * 14 + "|\n" + (
    "| x | " + "a sentence that would be very long in a single line of a table " * 3 + "| a longer value here " * 12 + "|\n")


@case()
def test_a_wide_table_uses_the_room_and_fades_where_it_is_cut(page, fake, watched):
    fake.answers += [Answer(WIDE), Answer("| a | b |\n|---|---|\n| 1 | 2 |\n")]
    ask(page, "Table")
    until(page, "document.querySelector('.table').matches('.cut')")
    sizes = """() => {
      const cells = [...document.querySelectorAll('td')].map(one => one.getBoundingClientRect().width);
      const probe = document.createElement('span');
      probe.textContent = '0'.repeat(10);
      document.querySelector('td').append(probe);
      const size = probe.getBoundingClientRect().width / 10;
      probe.remove();
      const table = document.querySelector('.table').getBoundingClientRect();
      return [cells.slice(1).map(one => (one - 26) / size), table.width, document.querySelector('.prose').getBoundingClientRect().width, table.right, innerWidth];
    }"""
    cells, table, column, right, window = page.evaluate(sizes)
    assert all(11.5 <= cell <= 28.5 for cell in cells), cells
    assert table > column + 40 and right <= window, (table, column, right)
    page.evaluate("document.querySelector('.table').scrollLeft = 1e6")
    until(page, "!document.querySelector('.table').matches('.cut')")
    ask(page, "Small")
    until(page, "!document.querySelectorAll('.table')[1].matches('.cut')")
    narrow = page.evaluate("(([small, prose]) => small / prose)([...document.querySelectorAll('.table, .prose:has(.table)')].slice(-2).map(one => one.clientWidth).reverse())")
    assert 0.99 < narrow <= 1, narrow
    page.set_viewport_size({"width": 390, "height": 844})
    until(page, "document.querySelector('#scroll').scrollWidth <= 390")


@case()
def test_a_note_is_gone_to_from_its_mark(page, fake, watched):
    fake.answers.append(Answer("Claim[^x].\n\n" + "words\n\n" * 60 + "[^x]: The reason.\n"))
    ask(page, "Hi")
    page.locator(".note-mark").click()
    until(page, "document.activeElement.matches('.footnote')")
    assert page.evaluate("document.activeElement.textContent") == "xThe reason."
