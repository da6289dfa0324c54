"""Chat templates. The hostile corpus runs in JinjaTests; here is what a server makes of them."""

import json
import time

from reliability.folders import changed, refuses
from reliability.watch import CHAT, answered, begin, body, code_of, cpu_seconds, endless, read_event
from server import Server

# Long texts take more steps than a template may: a fault that one request brings along.
HUNGRY = ("{% for m in messages %}{% if m.content|length > 100 %}{% for i in range(99999) %}{% for j in range(99999) %}"
          "{% endfor %}{% endfor %}{% endif %}{% if m.content == 'no' %}{{ raise_exception('boom, \"no\"') }}{% endif %}"
          "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
          "{{ '<|im_start|>assistant\n' }}")


def test_templates_that_cannot_be_loaded(s):
    for source in ("{% for x in y %}", "{{ x | nofilter }}", "{% endif %}", "{{ (((((", "{% nosuch %}", "{{ 'a }}"):
        with changed(chat_template_dot_jinja="ok\n" + source) as folder:
            errors = refuses(s.binary, folder)
            assert "line" in errors and any(word in errors for word in ("template", "jinja")), errors


def test_faults_of_a_template_are_faults_of_a_request(s):
    with changed(chat_template_dot_jinja=HUNGRY) as folder:
        other = Server(s.binary, model=folder)
        try:
            streams = [begin(other, endless(other)) for _ in range(4)]
            for stream in streams:
                read_event(stream)
            status, _, data = answered(other, CHAT, body(other, "no"))
            assert status == 400 and 'boom, \\"no\\"' in data.decode(), data
            start = time.monotonic()
            status, _, data = answered(other, CHAT, body(other, "x" * 101))
            assert status == 400 and time.monotonic() - start < 20, (status, data)
            for stream in streams:
                read_event(stream)
                stream.close()
            assert answered(other, CHAT, body(other, "yes", max_tokens=2))[0] == 200
        finally:
            assert other.stop() == 0


def test_text_is_no_template(s):
    for text in ("{{7*7}}", "{% for i in range(9) %}x{% endfor %}", "{#", "{{ ''.__class__.__mro__ }}", "{% include 'x' %}"):
        content = {"messages": [{"role": "user", "content": text}]}
        assert text in json.loads(answered(s, "/apply-template", content)[2])["prompt"]


def test_long_conversations_are_rendered_fast(s):
    messages = [{"role": ("user", "assistant")[i % 2], "content": f"message {i}"} for i in range(1001)]
    tools = [{"type": "function", "function": {"name": f"f{i}", "parameters": {"type": "object"}}} for i in range(128)]
    before = cpu_seconds(s)
    for _ in range(5):
        assert answered(s, "/apply-template", {"messages": messages, "tools": tools})[0] == 200
    seconds = (cpu_seconds(s) - before) / 5
    assert seconds < 0.2, seconds
    return f"{seconds * 1000:.0f} ms of processor time each"
