"""The programs of docs/examples: against a running server, and, in Swift and C, with the model inside."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from server import DEMO, ROOT, Server

EXAMPLES = ROOT / "docs" / "examples"


def run(server, *command):
    done = subprocess.run(
        [str(word) for word in command], env={**os.environ, "BASE": server.base_url}, capture_output=True, text=True,
        timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"model: {server.model}\n"), done.stdout
    return done.stdout


def test_curl(server):
    if not shutil.which("curl"):
        return "SKIPPED: there is no curl"
    lines = run(server, "sh", EXAMPLES / "ask.sh", "Is Paris in France?").splitlines()
    assert lines[1].startswith('{"id":"chatcmpl-') and lines[2].startswith("data: {") and "data: [DONE]" in lines


def test_python(server):
    output = run(server, sys.executable, EXAMPLES / "ask.py", "Is Paris in France?")
    # The schema lets the model write blanks and ends of lines between members.
    answer = json.loads(output[output.rindex("{"):])
    assert list(answer) == ["yes"] and isinstance(answer["yes"], bool), output


def test_golden_answers(server):
    """The recipe of docs/receipts.md: written, equal, and told in words where they are not."""
    with tempfile.TemporaryDirectory() as folder:
        golden = pathlib.Path(folder, "golden.json")
        environment = {**os.environ, "MODEL": str(DEMO), "MLXSERVE": str(server.binary), "GOLDEN_FILE": str(golden)}

        def check(**more):
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLES / "golden" / "test_golden.py"]
            done = subprocess.run(command, env={**environment, **more}, cwd=folder, capture_output=True, text=True, timeout=300)
            return done.returncode, done.stdout + done.stderr

        for more in [{"GOLDEN": "update"}, {}]:
            code, said = check(**more)
            assert code == 0 and "3 passed" in said, said
        answers = json.loads(golden.read_text())
        answers["Name a colour."]["text"] += "!"
        answers["Name a colour."]["receipt"]["settings"]["seed"] = 8
        golden.write_text(json.dumps(answers))
        code, said = check()
        assert code == 1 and "1 failed, 2 passed" in said and "- the setting seed is 7 and 8" in " ".join(said.split()), said


def test_golden_answers_in_swift(server):
    """The same recipe for XCTest, in a package of its own."""
    if not shutil.which("swift"):
        return "SKIPPED: there is no swift"
    with tempfile.TemporaryDirectory() as folder:
        package, golden = pathlib.Path(folder), pathlib.Path(folder, "Golden")
        (package / "Tests" / "GoldenTests").mkdir(parents=True)
        shutil.copy(EXAMPLES / "golden" / "GoldenTests.swift", package / "Tests" / "GoldenTests")
        (package / "Package.swift").write_text(
            '// swift-tools-version: 6.2\nimport PackageDescription\n'
            'let package = Package(name: "Golden", targets: [.testTarget(name: "GoldenTests")])\n')
        environment = {**os.environ, "MODEL": str(DEMO), "MLXSERVE": str(server.binary), "GOLDEN_FOLDER": str(golden)}

        def check(**more):
            done = subprocess.run(
                ["swift", "test"], env={**environment, **more}, cwd=folder, capture_output=True, text=True, timeout=600)
            return done.returncode, done.stdout + done.stderr

        code, said = check(GOLDEN="update")
        if "no such module 'XCTest'" in said:
            return "SKIPPED: this toolchain has no XCTest"
        for code, said in ((code, said), check()):
            assert code == 0 and "Executed 2 tests, with 0 failures" in said, said
        answer = json.loads((golden / "Name a colour.").read_text())
        answer["choices"][0]["message"]["content"] += "!"
        answer["choices"][0]["receipt"]["settings"]["seed"] = 8
        (golden / "Name a colour.").write_text(json.dumps(answer))
        code, said = check()
        assert code == 1 and "Executed 2 tests, with 1 failure" in said and "- the setting seed is 7 and 8" in " ".join(said.split()), said


def test_what_a_model_lacks_is_said(server):
    """No server, no model for this, a question with quotes: a line that says so, and no traceback."""
    encoder = DEMO.parent / "encoder-tiny"

    def fails(command, *words, base):
        address = {"BASE": base, "MLXSERVE_URL": base.removesuffix("/v1")}
        done = subprocess.run([str(word) for word in command], env={**os.environ, **address}, capture_output=True, text=True, timeout=300)
        assert done.returncode not in (0, -5, -6, -11, 132, 133), done
        said = done.stdout + done.stderr
        assert all(word in said for word in words) and "Traceback" not in said and "Fatal error" not in said, said

    with tempfile.TemporaryDirectory() as folder, Server(server.binary, model=encoder) as vectors:
        pathlib.Path(folder, "a.md").write_text("The cat sat on the mat.\n")
        ask, notes = [sys.executable, EXAMPLES / "ask.py", "Hi"], [sys.executable, EXAMPLES / "notes_search.py", folder, "cat"]
        fails(ask, "ask.py: ", "writes none", base=vectors.base_url)
        fails(ask, "Connection error", base="http://127.0.0.1:9/v1")
        fails(notes, "notes_search.py: ", "embedding", base=server.base_url)
        fails(notes, "Connection error", base="http://127.0.0.1:9/v1")
        if shutil.which("curl"):
            fails(["sh", EXAMPLES / "ask.sh", "Hi"], "writes none", base=vectors.base_url)
            fails(["sh", EXAMPLES / "ask.sh", "Hi"], "connect", base="http://127.0.0.1:9/v1")
            quoted = 'Is "Paris" a \\ in France?'
            assert "data: [DONE]" in run(server, "sh", EXAMPLES / "ask.sh", quoted)
        if found := built("chat-example"):
            fails([found[0], folder], "chat-example: ", "config.json", base="")
            fails([found[0]], "usage: ", base="")
        if found := built("notes-example"):
            fails([found[0], DEMO, folder, f"{folder}/index"], "notes-example: ", base="")


def built(name):
    """What the package's tests have built, with its kind of build; None where they were not."""
    return next(((place, kind) for kind in ("debug", "release") if (place := ROOT / ".build" / kind / name).exists()), None)


def test_a_chat_in_swift(server):
    found = built("chat-example")
    if found is None:
        return "SKIPPED: chat-example is not built"
    done = subprocess.run(
        [found[0], DEMO], input="Is Paris in France?\nAnd Berlin?\n", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.startswith("demo is ready.\n") and len(done.stdout) > 20, done


def test_notes_in_swift(server):
    found = built("notes-example")
    if found is None:
        return "SKIPPED: notes-example is not built"
    with tempfile.TemporaryDirectory() as folder:
        notes = pathlib.Path(folder) / "notes"
        notes.mkdir()
        (notes / "cat.md").write_text("The cat sat on the mat.\n")
        (notes / "dog.md").write_text("A dog ran in the park.\n")
        command = [found[0], ROOT / "Fixtures" / "models" / "encoder-tiny", notes, pathlib.Path(folder) / "index"]
        for said in ("2 files were read, 0 are gone.", "0 files were read, 0 are gone."):
            done = subprocess.run(command, input="cat mat\n", capture_output=True, text=True, timeout=300)
            lines = done.stdout.splitlines()
            assert done.returncode == 0 and lines[0] == said and "cat.md" in lines[1] and "cat" in lines[2], done


def in_c(folder, libraries, linker=("gcc",)):
    """ask.c, compiled and linked with these, on one question."""
    subprocess.run(
        ["gcc", "-Wall", "-Werror", "-c", EXAMPLES / "ask.c", "-I", ROOT / "Sources" / "CAPI", "-o", f"{folder}/ask.o"], check=True)
    subprocess.run([*linker, f"{folder}/ask.o", *libraries, "-o", f"{folder}/ask"], check=True)
    done = subprocess.run([f"{folder}/ask", DEMO, "Is Paris in France?"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.startswith("data: {") and done.stdout.rstrip().endswith("data: [DONE]"), done


def test_c(server):
    found = built("liblib_mlx.so")
    if found is None or not shutil.which("gcc"):
        return "SKIPPED: lib_mlx is not built, or there is no gcc"
    with tempfile.TemporaryDirectory() as folder:
        in_c(folder, [found[0], f"-Wl,-rpath,{found[0].parent}"])


def test_c_with_the_library_inside(server):
    found = built("liblib_mlx-static.a")
    if found is None or not shutil.which("gcc") or not shutil.which("swiftc"):
        return "SKIPPED: lib_mlx-static is not built, or there is no gcc or swiftc"
    # swiftc knows what the runtime needs; code that was not optimised needs one library more.
    more = ["-lswiftSwiftOnoneSupport"] if found[1] == "debug" else []
    with tempfile.TemporaryDirectory() as folder:
        in_c(folder, [found[0], *more], ("swiftc", "-static-stdlib"))


def test_the_binding_in_dart_is_that_of_the_header(server):
    """No Dart is needed for this: names, counts and types of what lib_mlx.dart looks up, against lib_mlx.h."""
    header = (ROOT / "Sources" / "CAPI" / "lib_mlx.h").read_text()
    kinds = {"char *": "Pointer<Utf8>", "const char *": "Pointer<Utf8>", "void *": "Pointer<Void>", "void ": "Void", "int64_t ": "Int64"}
    declared = {}
    for result, name, parameters in re.findall(r"^LIB_MLX_EXPORT ([^#\n]*?)(lib_mlx_\w+)\((.*?)\);", header, re.M | re.S):
        types = [kinds.get(re.sub(r"\w+$", "", " ".join(part.split()))) for part in parameters.split(",")]
        declared[name] = f"{kinds[result]} Function({', '.join(map(str, types))})"
    source = (EXAMPLES / "dart" / "lib_mlx.dart").read_text()
    types = dict(re.findall(r"typedef (\w+) = (.*);", source))
    def meant(type):
        return types.get(type, type)
    type = r"\w+(?: Function\([\w<>, ]*\))?"
    native = {name: meant(of) for of, name in re.findall(rf"lookupFunction<({type}), {type}>\('(lib_mlx_\w+)'\)", source)}
    of_a_handle = re.search(r"lookupFunction<(\w+), \w+>\(name\)", source)[1]
    native |= {name: meant(of_a_handle) for name in re.findall(r"_of\('(lib_mlx_\w+)'", source)}
    assert native == {name: declared[name] for name in native}
    assert set(native) == set(re.findall(r"lib_mlx_\w+(?=')", source)) and len(native) == 6, native
    # What Dart's side takes is what the native side takes, in Dart's words.
    for c, dart in re.findall(r"lookupFunction<(\w+), (\w+)>", source):
        assert meant(dart) == meant(c).replace("Int64", "int"), (c, dart)
    # The members that the client reads and writes are those of the functions.
    client = (EXAMPLES / "dart" / "chat.dart").read_text()
    for member in ("model_path", "model_id", "handle", "base_url"):
        assert f"'{member}'" in client and f'"{member}"' in header, member


def test_examples_are_short_and_linked(server):
    readme = "".join((ROOT / page).read_text() for page in ("README.md", "docs/search-notes.md", "docs/receipts.md", "docs/add-a-tool.md"))
    dart = (EXAMPLES / "dart" / "README.md").read_text()
    for file in EXAMPLES.rglob("*.*"):
        if file.suffix in (".c", ".dart", ".py", ".sh", ".swift"):
            # A recipe for tests starts a server and tells why an answer differs.
            assert len(file.read_text().splitlines()) <= (70 if file.parent.name == "golden" else 40), file
            name = str(file.relative_to(EXAMPLES))
            assert f"examples/{name})" in readme or file.name in dart, file
