"""Notes as tools of assistants, with the official SDK's client over lines and HTTP, in every version that it speaks, and with
clients that send what they like."""

import asyncio
import contextlib
import fcntl
import json
import os
import pathlib
import re
import subprocess
import tempfile

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from cli_test import Terminal
from embeddings_test import ENCODER
from server import DEMO, Server
from vector_stores_test import finished, served, strict, upload

MODES = ["legacy", "auto", "2026-07-28"]
TARTS = "# A theft\n\nThe queen made some tarts.\nWho stole the tarts?\n"


@contextlib.contextmanager
def folder(**more):
    """A folder of notes, with one beside it that is nobody's concern."""
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        notes = place / "notes"
        (notes / "trips").mkdir(parents=True)
        (notes / "tarts.md").write_text(TARTS)
        (notes / "trips" / "alps ü.md").write_text("Bring wax and goggles to the snow.\n")
        (notes / "data.csv").write_text("name,price\nwax,3\n")
        (notes / ".hidden.md").write_text("a password")
        (place / "secret.md").write_text("another password")
        os.symlink(place / "secret.md", notes / "link.md")
        for name, text in more.items():
            (notes / name).write_text(text)
        yield place, notes


def command(s, place, *folders, model=ENCODER, more=()):
    return [s.binary, "mcp", *map(str, folders), *(["--model", str(model)] if model else []),
            "--index-dir", str(place / "index"), *map(str, more)]


def lines(words):
    return stdio_client(StdioServerParameters(command=words[0], args=words[1:]))


def text(result):
    assert not result.is_error, result
    return result.content[0].text


async def look_around(client):
    """What any session should get, whatever carries it; the notes' names."""
    # A client that knows the version asks for nothing else.
    if client.mode != "2026-07-28":
        assert client.server_info.name == "mlxserve" and "search_notes" in client.instructions
    tools = (await client.list_tools()).tools
    assert all(t.annotations.read_only_hint and t.output_schema for t in tools), tools
    listed = await client.call_tool("list_notes")
    found = await client.call_tool("search_notes", {"query": "who stole the tarts", "limit": 2})
    best = found.structured_content["results"][0]
    assert best["title"].endswith("tarts.md") and best["line"] in (1, 3, 4) and best["why"], best
    assert f"1. {best['title']}" in text(found) and best["text"] in text(found)
    whole = await client.call_tool("read_note", {"note": best["note"]})
    assert whole.structured_content["text"] == TARTS.rstrip("\n"), whole
    part = await client.call_tool("read_note", {"note": best["uri"], "line": 4, "lines": 1})
    assert text(part) == "Who stole the tarts?", part
    resources = (await client.list_resources()).resources
    assert {r.name for r in resources} == {n["note"] for n in listed.structured_content["notes"]}
    content = (await client.read_resource(best["uri"])).contents[0]
    assert content.text.rstrip() == TARTS.rstrip(), content
    assert (await client.list_resource_templates()).resource_templates == []
    assert {p.name for p in (await client.list_prompts()).prompts} == {"answer_from_notes", "summarize_note"}
    prompt = await client.get_prompt("summarize_note", {"note": best["note"]})
    assert prompt.messages[1].content.resource.text == content.text
    wrong = await client.call_tool("read_note", {"note": "../secret.md"})
    assert wrong.is_error and "password" not in wrong.content[0].text, wrong
    for ask in (client.read_resource("file:///etc/passwd"), client.call_tool("rm", {}), client.get_prompt("rm", {})):
        try:
            await ask
            raise AssertionError("an unknown name was taken")
        except MCPError as error:
            assert error.error.code == -32602, error
    return [n["title"] for n in listed.structured_content["notes"]]


def test_sessions_over_lines(s):
    async def session(words, mode):
        async with Client(lines(words), mode=mode) as client:
            expected = "2025-11-25" if mode == "legacy" else "2026-07-28"
            assert client.protocol_version == expected, client.protocol_version
            assert await look_around(client) == ["data.csv", "tarts.md", "trips/alps ü.md"]
            assert "ask" not in {t.name for t in (await client.list_tools()).tools}

    with folder() as (place, notes):
        for mode in MODES:
            asyncio.run(session(command(s, place, notes), mode))


def test_a_session_follows_its_folders(s):
    async def session(place, notes, other):
        async with Client(lines(command(s, place, notes, other))) as client:
            listed = (await client.call_tool("list_notes")).structured_content
            assert listed["folders"] == ["notes", "other"] and listed["total"] == 4, listed
            (other / "late.md").write_text("The hatter pours tea at six.")
            (notes / "tarts.md").unlink()
            # What is known may be three seconds old.
            await asyncio.sleep(3.2)
            found = await client.call_tool("search_notes", {"query": "the hatter pours tea", "limit": 1})
            best = found.structured_content["results"][0]
            assert best["note"] == "other/late.md" and best["line"] == 1, best
            names = [n["note"] for n in (await client.call_tool("list_notes", {"folder": "notes"})).structured_content["notes"]]
            assert names == ["notes/data.csv", "notes/trips/alps ü.md"], names
            within = await client.call_tool("search_notes", {"query": "tea", "folder": "notes"})
            assert all(r["note"].startswith("notes/") for r in within.structured_content["results"])
            # Another process may use the index meanwhile.
            result = subprocess.run(
                [s.binary, "search", str(other), "tea", "--index-dir", str(place / "index"), "--json"],
                capture_output=True, text=True, timeout=120)
            assert result.returncode == 0 and "another process" not in result.stderr, result

    with folder() as (place, notes):
        other = place / "other"
        other.mkdir()
        (other / "tea.md").write_text("Tea needs four minutes.")
        asyncio.run(session(place, notes, other))


def test_notes_are_written_only_where_that_is_allowed(s):
    with folder() as (place, notes):
        os.symlink(place, notes / "out")

        async def session(more):
            async with Client(lines(command(s, place, notes, more=more))) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]

                async def write(note, words, **rest):
                    result = await client.call_tool("write_note", {"note": note, "text": words, **rest})
                    return result.is_error, result.content[0].text

                if not more:
                    return names, None
                tool = next(tool for tool in (await client.list_tools()).tools if tool.name == "write_note")
                assert not tool.annotations.read_only_hint and not tool.annotations.destructive_hint
                said = [await write("plans/tea.md", "# Tea"), await write("plans/tea.md", "# Coffee"),
                        await write("plans/tea.md", "Two minutes.", append=True)]
                for wrong in ("../x.md", "/etc/x.md", ".hidden.md", "a/../b.md", "run.sh", "out/x.md", "link.md", "a//b.md", ""):
                    said.append(await write(wrong, "words", append=True))
                read = await client.call_tool("read_note", {"note": "plans/tea.md"})
                return names, (said, text(read))

        names, _ = asyncio.run(session([]))
        assert "write_note" not in names
        names, (said, read) = asyncio.run(session(["--allow-write"]))
        assert "write_note" in names and said[0] == (False, "plans/tea.md has 6 bytes now."), said
        assert said[1][0] and "say append" in said[1][1] and not said[2][0], said
        assert read == "# Tea\n\nTwo minutes." == (notes / "plans" / "tea.md").read_text().rstrip("\n")
        assert all(wrong for wrong, _ in said[3:]), said
        assert sorted(path.name for path in place.iterdir()) == ["index", "notes", "secret.md"]
        assert (place / "secret.md").read_text() == "another password"


def test_an_index_that_another_process_makes(s):
    ask = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_notes"}}).encode()
    with folder() as (place, _):
        notes = place / "new"
        notes.mkdir()
        words = command(s, place, notes)
        assert talk(words, ask)[0]["result"]["structuredContent"]["total"] == 0
        (notes / "tea.md").write_text("Tea needs four minutes.")
        lock = next((place / "index").rglob("lock"))
        with open(lock) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            result = talk(words, ask)[0]["result"]
            assert result["isError"] and "another process" in result["content"][0]["text"], result
        assert talk(words, ask)[0]["result"]["structuredContent"]["total"] == 1
        # What is known already answers meanwhile.
        with open(lock) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert talk(words, ask)[0]["result"]["structuredContent"]["total"] == 1


def test_answers_have_citations(s):
    async def session(words):
        told = []

        async def progress(done, total, message):
            told.append((done, message))

        async with Client(lines(words)) as client:
            result = await client.call_tool("ask", {"question": "Who stole the tarts?"}, progress_callback=progress)
            answer = result.structured_content
            assert answer["answer"] and answer["citations"], result
            for citation in answer["citations"]:
                note = await client.call_tool("read_note", {"note": citation["note"]})
                whole = note.structured_content["text"]
                assert citation["text"].strip() in whole, (citation, whole)
                before = whole[:whole.index(citation["text"].strip())]
                assert citation["line"] in (before.count("\n") + 1, before.rstrip("\n").count("\n") + 1), citation
        dones = [done for done, _ in told]
        assert dones == sorted(dones) and any("answering" == m for _, m in told), told

    with folder() as (place, notes):
        # The text of a table has other lines than its file.
        (notes / "data.csv").unlink()
        asyncio.run(session(command(s, place, notes, more=["--answer-model", DEMO])))


def test_a_chat_asks_notes(s):
    """`@notes:folder question`: an answer with passages of the folder's notes, which the conversation goes on from."""
    with folder() as (place, notes):
        # The text of a table has other lines than its file.
        (notes / "data.csv").unlink()
        env = {**os.environ, "XDG_CACHE_HOME": str(place), "HOME": str(place)}

        def run(*words, typed=""):
            return subprocess.run([s.binary, *map(str, words)], capture_output=True, text=True, timeout=120, input=typed, env=env)

        question = f"@notes:{notes} Who stole the tarts?"
        fresh = run("run", s.demo, question)
        assert fresh.returncode != 0 and "mlxserve search" in fresh.stderr and "is not indexed yet" in fresh.stderr, fresh
        assert run("search", notes, "tarts", "--model", ENCODER).returncode == 0
        found = run("run", s.demo, question, "--json")
        answer = json.loads(found.stdout)
        assert found.returncode == 0 and answer["answer"] and answer["citations"], found
        for citation in answer["citations"]:
            assert citation["text"].strip() in (notes / citation["note"]).read_text(), citation
        plain = run("run", s.demo, question)
        assert plain.returncode == 0 and "\n> " in plain.stdout and re.search(r"\(.+\.md(:\d+)?\)", plain.stdout), plain
        # A folder that is not there stays text, and what comes through a pipe is data.
        gone = run("run", s.demo, f"@notes:{place}/gone Hello", "--max-tokens", 2)
        assert gone.returncode == 0 and "not a file here" in gone.stderr, gone
        piped = run("chat", s.demo, "--max-tokens", "2", typed=question + "\n")
        assert piped.returncode == 0 and "\n> " not in piped.stdout, piped
        chat = Terminal(os.path.abspath(s.binary), "chat", str(s.demo), "--max-tokens", "2", columns=200, TERM="xterm-256color",
                        XDG_STATE_HOME=str(place), XDG_CACHE_HOME=str(place), HOME=str(place))
        chat.expect(">>> ")
        for words in (question, "/regen"):
            chat.type(words + "\r")
            chat.expect(".md")
            chat.expect(">>> ")
        chat.type("And then?\r")
        chat.expect("tokens/s]")
        chat.expect(">>> ")
        chat.type(f"/save {place}/chat.json\r")
        chat.expect("Saved 4 messages")
        chat.expect(">>> ")
        chat.type("/bye\r")
        assert chat.end() == 0
        kept = json.loads((place / "chat.json").read_text())["messages"]
        assert kept[0] == {"role": "user", "content": "Who stole the tarts?"} and "\n> " in kept[1]["content"], kept


def test_sessions_over_http(s):
    async def session(url, mode, key):
        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}, timeout=60) as http:
            async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                names = await look_around(client)
                assert sorted(names) == ["alps.md", "tarts.md"], names
                told = []

                async def progress(done, total, message):
                    told.append(message)

                result = await client.call_tool("ask", {"question": "Who stole the tarts?"}, progress_callback=progress)
                assert not result.is_error and result.structured_content["citations"], result
                for citation in result.structured_content["citations"]:
                    assert citation["text"].strip() in TARTS + "Bring wax.\n", citation
                assert "answering" in told, told

    with served(s, "--api-key", "sk-anna", "--api-key", "sk-bert") as other:
        client = strict(other, key="sk-anna")
        files = [upload(client, name, body) for name, body in {"tarts.md": TARTS, "alps.md": "Bring wax.\n"}.items()]
        store = client.vector_stores.create(name="Notes", file_ids=[f.id for f in files])
        finished(client, store.id)
        url = f"http://{other.host}:{other.port}/mcp"
        for mode in MODES:
            asyncio.run(session(url, mode, "sk-anna"))
        # Who has another key has other notes, or none.
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_notes"}}
        status, _, answer = other.post("/mcp", body, ["Authorization: Bearer sk-bert"])
        assert status == 200 and json.loads(answer)["result"]["structuredContent"]["total"] == 0, answer
        status, headers, answer = other.post("/mcp", body)
        assert status == 401 and headers["www-authenticate"] == "Bearer", headers
        assert json.loads(answer)["error"]["data"]["code"] == "invalid_api_key", answer
        status, _, answer = other.post("/mcp", body, ["Authorization: Bearer sk-anna", "Origin: https://evil.example"])
        assert status == 403 and b"origin" in answer, answer


def test_http_that_is_none_of_the_protocol(s):
    with served(s) as other:
        def post(body, *headers):
            status, head, answer = other.post("/mcp", body, headers)
            return status, head, json.loads(answer) if answer else None

        def ask(method, *headers, **params):
            return post({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}, *headers)

        for method in ("GET", "DELETE", "PUT"):
            status, head, _ = other.get("/mcp", method=method)
            assert status == 405 and "POST" in head["allow"], (method, head)
        for body, code in ((b"{", -32700), (b"[]", -32600), (b"5", -32600), (b"{}", -32600), (b"[" * 100_000, -32700),
                           (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600)):
            status, _, answer = post(body)
            assert status == 400 and answer["error"]["code"] == code and answer["id"] is None, answer
        status, _, answer = post(b"x=1", "Content-Type: application/x-www-form-urlencoded")
        assert status == 415 and answer["error"]["code"] == -32000, answer
        assert post({"jsonrpc": "2.0", "method": "notifications/initialized"})[::2] == (202, None)
        assert post({"jsonrpc": "2.0", "id": 3, "result": {}})[::2] == (202, None)
        assert post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}})[0] == 202
        status, head, answer = ask("initialize", protocolVersion="2025-06-18", capabilities={})
        assert status == 200 and answer["result"]["protocolVersion"] == "2025-06-18" and head["mcp-session-id"], answer
        assert ask("tools/list", f"Mcp-Session-Id: {head['mcp-session-id']}", "MCP-Protocol-Version: 2025-06-18")[0] == 200
        status, _, answer = ask("tools/list", "MCP-Protocol-Version: 1.0")
        assert status == 400 and answer["error"]["data"]["supported"] == ["2026-07-28"], answer
        assert ask("nothing/here")[0] == 200 and ask("nothing/here")[2]["error"]["code"] == -32601
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        right = ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: list_notes"]
        assert ask("tools/call", *right, _meta=meta, name="list_notes")[0] == 200
        encoded = [*right[:2], "Mcp-Name: =?base64?bGlzdF9ub3Rlcw==?="]
        assert ask("tools/call", *encoded, _meta=meta, name="list_notes")[0] == 200
        for wrong in (right[:2], right[1:], [right[0], "Mcp-Method: ping", right[2]], [*right[:2], "Mcp-Name: ask"],
                      [*right[:2], "Mcp-Name: =?base64?!?="]):
            status, _, answer = ask("tools/call", *wrong, _meta=meta, name="list_notes")
            assert status == 400 and answer["error"]["code"] == -32020 and answer["id"] == 7, (wrong, answer)
        status, _, answer = ask("nothing", "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: nothing", _meta=meta)
        assert status == 404 and answer["error"]["code"] == -32601, answer


def talk(words, sent, code=0):
    result = subprocess.run(words, input=sent, capture_output=True, timeout=120)
    assert result.returncode == code, result
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_hostile_lines(s):
    def ask(number, method, **params):
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"

    with folder() as (place, notes):
        words = command(s, place, notes)
        deep = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 9_000 + b"1" + b"}" * 9_001 + b"\n"
        answers = talk(words, b"".join([
            b"\x00\xff\xfe\n", b"garbage\n", deep, b"[]\n", b"x" * (6 << 20) + b"\n", b"\r\n\r\n",
            ask(1, "ping"), ask(1, "ping"), ask(2, "rm/rf"),
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nothing"}}\n',
            ask(3, "tools/call", name="read_note", arguments={"note": str(place / "secret.md")}),
            ask(4, "tools/call", name="read_note", arguments={"note": "link.md"}),
            ask(5, "tools/call", name="read_note", arguments={"note": ".hidden.md"}),
            ask(6, "resources/read", uri=(place / "secret.md").as_uri()),
            ask(7, "resources/read", uri=(notes / ".." / "secret.md").as_uri()),
            b'{"jsonrpc":"2.0","id":8,"method":"ping"}',
        ]))
        assert "password" not in json.dumps(answers), answers
        assert [a["error"]["code"] for a in answers if a["id"] is None] == [-32700, -32700, -32700, -32600, -32600]
        assert sum(a["id"] == 1 and a["result"] == {} for a in answers if "result" in a) == 2
        by_id = {a["id"]: a for a in answers}
        assert by_id[2]["error"]["code"] == -32601 and by_id[8]["result"] == {}
        assert all(by_id[i]["result"]["isError"] for i in (3, 4, 5)), answers
        assert all(by_id[i]["error"]["code"] == -32602 for i in (6, 7)), answers
        # A client that reads nothing and goes.
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        process.stdin.write(ask(1, "ping") + ask(2, "tools/call", name="list_notes"))
        process.stdin.close()
        assert process.wait(timeout=60) == 0, process.stderr.read()
        assert process.stderr.read() == b""


def test_what_is_wrong_is_told_before_anybody_asks(s):
    with folder() as (place, notes):
        def refused(*words):
            result = subprocess.run(words, input="", capture_output=True, text=True, timeout=60)
            assert result.returncode == 2 and result.stdout == "", result
            return result.stderr

        assert "name a folder" in refused(s.binary, "mcp")
        assert "is not a folder" in refused(*command(s, place, place / "nowhere"))
        assert "--model minilm" in refused(*command(s, place, notes, model=None))
        # What turns out later is told to those who ask.
        answers = talk(command(s, place, notes, model=DEMO), json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_notes"}}).encode())
        assert "makes no vectors" in answers[0]["result"]["content"][0]["text"], answers


def test_clients_are_told(s):
    with folder() as (place, notes):
        home = place / "home"
        home.mkdir()

        def install(*words, code=0):
            result = subprocess.run(
                [*command(s, place, "install", *words)], capture_output=True, text=True, timeout=60,
                env={**os.environ, "HOME": str(home)}, input="")
            assert result.returncode == code, result
            return result.stdout

        assert install().split()[0] == "claude-desktop"
        assert re.match(r"claude mcp add -s user notes -- \S+ mcp ", install("claude", notes))
        assert re.match(r"codex mcp add tea -- \S+ mcp ", install("codex", notes, "--name", "tea"))
        # Nobody can be asked here, so nothing is written.
        shown = install("cursor", notes)
        assert '"mcpServers"' in shown and not (home / ".cursor").exists(), shown
        (home / ".cursor").mkdir()
        before = '{"mcpServers": {"other": {"url": "https://x"}}}'
        (home / ".cursor" / "mcp.json").write_text(before)
        install("cursor", notes, "--write")
        servers = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]
        assert servers["other"] == {"url": "https://x"}
        assert next((home / ".cursor").glob("*before-mlxserve*")).read_text() == before
        words = [servers["notes"]["command"], *servers["notes"]["args"]]
        assert pathlib.Path(words[0]).is_absolute() and words[2] == str(notes.resolve()), words
        assert "as it should be" in install("cursor", notes, "--write")
        # What is written works.
        assert len(talk(words, b'{"jsonrpc":"2.0","id":1,"method":"ping"}')) == 1
        for client, names in (("claude-desktop", ["mcpServers"]), ("vscode", ["servers"]), ("zed", ["context_servers"])):
            install(client, notes, "--write")
            files = [f for f in home.rglob("*.json") if names[0] in f.read_text() and "cursor" not in str(f)]
            assert any(json.loads(f.read_text())[names[0]]["notes"]["args"][0] == "mcp" for f in files), (client, files)
        install("emacs", notes, code=2)
