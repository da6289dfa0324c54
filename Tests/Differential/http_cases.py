"""Messages, whole and mutated, beside llhttp, the parser of Node.js, as `httptools` wraps it.

What this server hands to a handler must be what llhttp reads too: two readings of one message are how requests are
smuggled. It may refuse more, for reasons that are listed by the words of the refusal.
"""

import re

import httptools

STRICT = "Malformed HTTP request: "
REASONS = {
    "a later minor version": "HTTP/1.2 is read as 1.1 (RFC 9110, 2.5); llhttp refuses it",
    "framing in a trailer": "what stands in trailers does not frame anything and is left out (RFC 9110, 6.5.1); llhttp refuses it",
    "blanks in a chunk extension": "RFC 9112, 7.1.1 allows them around ';' and '='; llhttp refuses them",
    "Malformed HTTP request: an invalid chunk extension.": "RFC 9112, 7.1.1: a name, and a value where there is a '='; llhttp reads less closely",
    "not yet": "llhttp refuses a start of a message that here is refused later, or never becomes a request",
    "This server speaks HTTP/1.1 and HTTP/1.0.": "llhttp reads 0.9 and 2.0 too",
    "This server does not know the request's method.": "llhttp knows more methods, no route has them",
    "The only transfer coding this server reads is chunked.": "RFC 9112, 6.1: 501",
    "The only expectation this server meets is 100-continue.": "RFC 9110, 10.1.1",
    STRICT + "no host field.": "RFC 9112, 3.2: 400",
    STRICT + "an invalid host.": "RFC 9112, 3.2: 400",
    STRICT + "two host fields.": "RFC 9112, 3.2: 400",
    STRICT + "two content-type fields.": "RFC 9110, 5.3: not a list; a proxy may use the other one",
    STRICT + "two expect fields.": "RFC 9110, 5.3: not a list; a proxy may use the other one",
    STRICT + "transfer-encoding in an HTTP/1.0 request.": "RFC 9112, 6.1: faulty framing",
    STRICT + "a transfer-encoding that is not chunked.": "RFC 9112, 6.3: the length cannot be known",
    STRICT + "a byte that a request target must not contain.": "RFC 9112, 3.2: spaces, bytes beyond ASCII, and '#'; llhttp reads HTTP/0.9 and '#'",
    STRICT + "a request target that is neither a path nor an http URL.": "RFC 9112, 3.2: other schemes are for proxies",
    STRICT + "an invalid host in the request target.": "RFC 9112, 3.2.2",
    STRICT + "a percent escape in the path that is not UTF-8 text.": "RFC 3986, 2.1; llhttp does not look into the path",
    STRICT + "the target * with another method than OPTIONS.": "RFC 9112, 3.2.4",
    STRICT + "no HTTP version after the request target.": "RFC 9112, 3: one space; llhttp takes more, and requests without a version",
    STRICT + "a carriage return without a line feed.": "RFC 9112, 2.2; llhttp skips carriage returns before a request",
    STRICT + "a byte that a method must not contain.": "llhttp skips line feeds before a request",
}
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "get", "CONNECT", "PROPFIND", "G@T")
TARGETS = ("/", "/v1/models", "/a?b=c", "/%41", "/%zz", "*", "http://h/x", "http://h?q", "h:80", "/a#b", "/\x80", "/a b", "//x", "/?", "/a%2Fb")
VERSIONS = ("HTTP/1.1",) * 20 + ("HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.10", "HTTP/1", "")
FIELDS = ("Accept: */*", "X-A: b", "X-A:b", "X-A:  b \t", "X-Empty:", "x_y: 1", "X A: b", "X-A : b", ": b", "X-A", "X-\x80: b", "X-A: \x80\xff",
          "X-A: a\x00b", "X-A: a\x01b", "X-A: a\rb", "X-A: a\nY: c", "X-A: a\r\n b", " X-A: b", "Connection: close", "Connection: keep-alive",
          "Connection: Upgrade", "Expect: 100-continue", "Host: other", "Content-Type: text/plain", "Content-Length: 0", "Content-Length: +3",
          "Content-Length: 3, 3", "Content-Length: 0x3", "Content-Length: 3 ", "Content-Length: -1", "Content-Length: 99999999999999999999",
          "Transfer-Encoding: chunked", "Transfer-Encoding: Chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: identity",
          "Transfer-Encoding: chunked, chunked", "Transfer-Encoding:\x0bchunked", "Transfer-Encoding: chunked;q=1")
GOOD = ("Accept: */*", "X-A: b", "X-A:b", "X-A:  b \t", "X-Empty:", "x_y: 1", "X-A: \x80\xff", "Content-Type: text/plain", "Connection: keep-alive")
ENDS = ("\r\n",) * 60 + ("\n", "\r", "\r\r\n", "\n\n", "\r\n ")
PIECES = (b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\0", b" ", b"\t", b":", b"0", b"0\r\n\r\n", b"\xff", b"Content-Length: 3\r\n",
          b"Transfer-Encoding: chunked\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b";", b";a=b", b"\x0b", b"\x7f", b"F", b"HTTP/1.1")
SIZES = ("{:x}",) * 12 + ("{:X}", "00{:x}", "{:x} ", "{:x};a=b", '{:x};a="b;\\"c"', "{:x};", "{:x};a", " {:x}", "+{:x}", "0x{:x}", "{:x}\t", "-{:x}", "{:x};a\x01")


def usual(chance, good, all_of_them, often=0.93):
    return chance.choice(good if chance.random() < often else all_of_them)


def message(chance):
    end = lambda: chance.choice(ENDS)
    body = bytes(chance.choices(b"abc\r\n0 GET", k=chance.choice((0, 1, 3, 17))))
    lines = [" ".join((usual(chance, ("GET", "POST"), METHODS), usual(chance, ("/", "/a?b=c"), TARGETS), chance.choice(VERSIONS))) + end()]
    fields = ["Host: x"] if chance.random() < 0.97 else []
    fields += [usual(chance, GOOD, FIELDS, 0.85) for _ in range(chance.randrange(4))]
    kind = chance.randrange(3)
    if kind == 0:
        fields.append(f"Content-Length: {len(body)}")
    elif kind == 1:
        fields.append("Transfer-Encoding: chunked")
        parts, at = [], 0
        while at < len(body):
            size = chance.randrange(1, 8)
            piece = body[at:at + size]
            parts.append(chance.choice(SIZES).format(len(piece)).encode() + end().encode() + piece + end().encode())
            at += size
        trailer = "" if chance.random() < 0.8 else chance.choice(FIELDS) + end()
        body = b"".join(parts) + b"0" + end().encode() + (trailer + end()).encode("latin-1")
    else:
        body = b""
    chance.shuffle(fields)
    return ("".join(lines) + "".join(field + end() for field in fields) + end()).encode("latin-1") + body


def case(chance):
    data = b"".join(message(chance) for _ in range(chance.choice((1, 1, 2, 3))))
    for _ in range(chance.choice((0, 0, 1, 2))):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            data = data[:at] + data[at + chance.choice((1, 1, 2, 8)):]
        elif kind == 1:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1:]
        else:
            data = data[:at] + chance.choice(PIECES) + data[at + chance.choice((0, 0, 1)):]
    return [data], reference(data)


class Reader:
    """What llhttp tells, as one tuple for each complete message."""

    def __init__(self):
        self.found, self.parser = [], httptools.HttpRequestParser(self)
        # Whether a connection stays open is not the parser's business here.
        self.parser.set_dangerous_leniencies(lenient_keep_alive=True)

    def on_message_begin(self):
        self.url, self.fields, self.body, self.is_head = b"", [], b"", True

    def on_url(self, url):
        self.url += url

    def on_header(self, name, value):
        # Trailers come here too.
        if self.is_head:
            self.fields.append((name, value.strip(b" \t")))

    def on_headers_complete(self):
        self.is_head = False
        self.head = self.parser.get_method(), self.url, tuple(self.fields)

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        self.found.append(self.head + (self.body,))


def reference(data):
    reader = Reader()
    try:
        reader.parser.feed_data(data)
        return reader.found, None
    except (httptools.HttpParserError, httptools.HttpParserUpgrade) as problem:
        return reader.found, str(problem)


def requests(answer):
    """The requests of an answer, and its last words."""
    found, at = [], 0
    while answer[at] == b"request":
        method, path, query, _, count = answer[at + 1:at + 6]
        at += 6
        fields = tuple((answer[at + 2 * index], answer[at + 2 * index + 1]) for index in range(int(count)))
        at += 2 * int(count)
        found.append((method, path + query, fields, answer[at]))
        at += 1
    return found, answer[at:]


def judge(fields, expected, answer):
    ours, last = requests(answer)
    theirs, problem = expected
    for index, request in enumerate(ours):
        if index >= len(theirs):
            if problem == "Invalid HTTP version" and b" HTTP/1." in fields[0]:
                return 1, "a later minor version"
            names = [name.lower() for name, _ in request[2]]
            if problem is not None and ("Transfer-Encoding" in problem or "Content-Length" in problem) \
                    and b"transfer-encoding" in names and b"content-length" not in names:
                return 1, "framing in a trailer"
            if problem is not None and "chunk" in problem and re.search(rb"[0-9A-Fa-f][\t ]+;|;[\t ]|[\t ][;=]|=[\t ]", fields[0]):
                return 1, "blanks in a chunk extension"
            return 1, f"a request that llhttp does not read ({problem}): {request}"
        other = theirs[index]
        # Of a whole URL only the path and the query are asked for here.
        url = re.sub(rb"^https?://[^/?]*", b"", other[1], flags=re.I)
        url = url if url.startswith((b"/", b"*")) else b"/" + url
        if request != (other[0], url, other[2], other[3]):
            return 1, f"here {request}, llhttp {other}"
    if len(theirs) > len(ours):
        words = last[-1].decode()
        return 1, words if words in REASONS else f"{words}: llhttp goes on: {theirs[len(ours)]}"
    return 1, "not yet" if last[0] == b"partial" and problem is not None else None
