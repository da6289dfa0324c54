"""The cases of lib_mlx: run.py LIBRARY [NAME-PART] [--sanitizer NAME]. The last line says how many passed.

LIBRARY is the shared library. Cases in C are in library.c; those in Python use ctypes, and cffi where it is installed.
With --sanitizer address or thread the library was built with it, and so is library.c. Cases that go through a sample
otherwise take --long."""

import ctypes
import difflib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "Sources" / "CAPI"
DEMO = ROOT / "Fixtures" / "models" / "demo"
HEADER = (SOURCES / "lib_mlx.h").read_text()
CHAT = json.dumps({"model": "demo", "max_tokens": 4, "messages": [{"role": "user", "content": "Hi"}]}).encode()

LIBRARY = pathlib.Path(sys.argv[1]).resolve()
# A case in a process of its own is told by its environment.
SANITIZER = sys.argv[sys.argv.index("--sanitizer") + 1] if "--sanitizer" in sys.argv else os.environ.get("SANITIZED")
IS_LONG = "--long" in sys.argv


class Skipped(Exception):
    pass


def compiler(*names):
    for name in names:
        if shutil.which(name):
            return name
    raise Skipped(f"there is no {' or '.join(names)}")


# MARK: In C

_programs = {}


def dispatch():
    """Swift's libdispatch, which its thread sanitizer's runtime refers to without bringing it along."""
    told = subprocess.run([compiler("swiftc"), "-print-target-info"], check=True, capture_output=True, text=True).stdout
    for place in map(pathlib.Path, json.loads(told)["paths"]["runtimeLibraryPaths"]):
        if (place / "libdispatch.so").exists():
            return place / "libdispatch.so"
    raise Skipped("the toolchain has no libdispatch.so")


def c_program(folder):
    """library.c, linked with the library by what pkg-config says."""
    if "c" not in _programs:
        # The sanitizers' runtimes of Swift and of GCC do not go together.
        cc = compiler("clang") if SANITIZER else compiler("gcc", "cc", "clang")
        out = folder / "library"
        # In the build folder the library has no soname, and is named as the linker wants it.
        flags = [f"-fsanitize={SANITIZER}"] if SANITIZER else []
        if SANITIZER == "thread":
            place = dispatch().parent
            flags += [f"-L{place}", f"-Wl,-rpath,{place}", "-Wl,--no-as-needed", "-ldispatch", "-lBlocksRuntime"]
        subprocess.run(
            [cc, "-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", *flags, "-I", SOURCES,
             ROOT / "Tests" / "Library" / "library.c", LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-pthread", "-o", out],
            check=True)
        _programs["c"] = out
    return _programs["c"]


def in_c(name, *more, seconds=600):
    def test(folder):
        environment = dict(os.environ)
        if SANITIZER:
            environment["SANITIZED"] = SANITIZER
            environment["TSAN_OPTIONS"] = f"suppressions={ROOT / 'Tests' / 'thread-sanitizer.txt'} exitcode=66"
            environment["LSAN_OPTIONS"] = f"suppressions={ROOT / 'Tests' / 'leak-sanitizer.txt'}"
        done = subprocess.run(
            [c_program(folder), name, DEMO, *more], env=environment, timeout=seconds, capture_output=True, text=True)
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr[-6000:]}"
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else None
    test.__name__ = f"test_in_c_{name}"
    return test


def test_freeing_twice_is_reported(folder):
    """A host's own mistake, which the address sanitizer finds as such."""
    if SANITIZER != "address":
        raise Skipped("the address sanitizer alone tells of it")
    done = subprocess.run([c_program(folder), "twice", DEMO], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "attempting double-free" in done.stderr, done.stderr[:2000]


# MARK: The header and the file

def test_header_is_what_the_compiler_emits(folder):
    """The declarations of lib_mlx.h, against those that swiftc makes of the Swift functions."""
    swiftc = compiler("swiftc")
    source = (SOURCES / "LibraryFunctions.swift").read_text()
    aliases = re.findall(r"public typealias [^\n]+\n?[^\n]*->[^\n]+\n", source)
    functions = re.findall(r"@_cdecl\(\"\w+\"\)\npublic func [^{]+", source)
    assert len(aliases) == 2 and len(functions) > 9, (len(aliases), len(functions))
    bodies = "".join(aliases) + "".join(
        f"{text.rstrip()} {{ {'return nil' if '->' in text else ''} }}\n" for text in functions)
    (folder / "functions.swift").write_text(bodies)
    subprocess.run(
        [swiftc, "-parse-as-library", "-emit-module", "-module-name", "CAPI", "-o", folder / "CAPI.swiftmodule",
         "-emit-objc-header-path", folder / "emitted.h", folder / "functions.swift"], check=True)
    emitted = re.findall(r"^SWIFT_EXTERN (.*?\));?(?: SWIFT.*)?;?$", (folder / "emitted.h").read_text(), re.M)
    ours = re.findall(r"^LIB_MLX_EXPORT (.*?\));$", HEADER, re.M | re.S)
    plain = {"lib_mlx_log_callback": "void(*)(int32_t,char*,void*)",
             "lib_mlx_chunk_callback": "int32_t(*)(uint8_t*,int64_t,void*)"}

    def shape(declaration):
        """The types alone: result, name, parameters."""
        text = re.sub(r"\b(const|_Nullable|_Nonnull|SWIFT_NOEXCEPT)\b", "", " ".join(declaration.split()))
        result, name, parameters = re.match(r"(.*?)\b(lib_mlx_\w+)\s*\((.*)\)$", text.strip()).groups()
        depth, parts, part = 0, [], ""
        for character in parameters:
            depth += {"(": 1, ")": -1}.get(character, 0)
            if character == "," and depth == 0:
                parts.append(part)
                part = ""
            else:
                part += character
        types = []
        for part in parts + [part]:
            part = re.sub(r"\(\s*\*\s*\w+\s*\)", "(*)", part)
            for alias, meaning in plain.items():
                part = re.sub(rf"\b{alias}\b.*", meaning, part)
            if "(*)" not in part:
                part = re.sub(r"(\*|\s)\s*\w+$", r"\1", part.strip()) if part.strip() != "void" else "void"
            types.append(re.sub(r"\s", "", part))
        return f"{re.sub(chr(92) + 's', '', result)} {name}({', '.join(types)})"

    # Pointers without names in the callbacks of the header are the typedefs'.
    for alias, meaning in plain.items():
        found = re.search(rf"typedef (\w+) \(\*{alias}\)\((.*?)\);", HEADER, re.S)
        types = [re.sub(r"\s", "", re.sub(r"(\*|\s)\s*\w+$", r"\1", re.sub(r"\bconst\b", "", part).strip()))
                 for part in found[2].split(",")]
        assert f"{found[1]}(*)({','.join(types)})" == meaning, (alias, types)
    left, right = sorted(map(shape, emitted)), sorted(map(shape, ours))
    assert left == right, "\n".join(difflib.unified_diff(left, right, "compiler", "lib_mlx.h", lineterm=""))
    return f"{len(left)} functions"


def test_header_compiles_everywhere(folder):
    gcc, plus = compiler("gcc", "cc", "clang"), compiler("g++", "c++", "clang++")
    (folder / "empty.c").write_text('#include "lib_mlx.h"\nint main(void) { lib_mlx_free(0); return LIB_MLX_ABI != 1; }\n')
    shutil.copy(folder / "empty.c", folder / "empty.cc")
    for command in ([gcc, "-std=c99", "empty.c"], [gcc, "-std=c2x", "empty.c"], [plus, "-std=c++20", "empty.cc"]):
        subprocess.run(
            command + ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I", SOURCES], cwd=folder, check=True)


def test_header_is_what_ffigen_reads(folder):
    """Only what generators of bindings understand: includes of stdint.h, plain defines, typedefs of functions."""
    code = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
    assert re.findall(r"#include\s+(.*)", code) == ["<stdint.h>"]
    for word in ("struct", "union", "enum", "...", "inline", "long", "unsigned", "size_t", "bool"):
        assert not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", code.split("extern \"C\" {")[1]), word


def test_only_its_own_symbols_are_exported(folder):
    if SANITIZER or LIBRARY.parent.name == "debug" or "debug" in LIBRARY.parts:
        raise Skipped("the library was not linked by 'make library'")
    nm = compiler("nm")
    lines = subprocess.run([nm, "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True).stdout
    # Small letters are local: the linker leaves some in the table, and nobody can be bound to them.
    names = {words[-1].split("@")[0] for words in map(str.split, lines.splitlines()) if words[-2].isupper()}
    names -= {"LIB_MLX_1"}
    declared = set(re.findall(r"\b(lib_mlx_\w+)\(", HEADER)) - {"lib_mlx_log_callback", "lib_mlx_chunk_callback"}
    assert names == declared, names ^ declared
    needed = subprocess.run(["readelf", "-d", LIBRARY], check=True, capture_output=True, text=True).stdout
    libraries = set(re.findall(r"NEEDED.*\[(.*?)\.so", needed))
    assert libraries <= {"libc", "libm", "libstdc++", "libgcc_s", "ld-linux-x86-64", "ld-linux-aarch64"}, libraries
    assert re.search(r"SONAME.*\[liblib_mlx\.so\.1\]", needed), needed
    return f"{LIBRARY.stat().st_size / 1e6:.1f} MB, needs {', '.join(sorted(libraries))}"


def test_the_example_in_c(folder):
    """docs/examples/ask.c, by what pkg-config says where 'make library' has made that."""
    if SANITIZER:
        raise Skipped("an example is linked without the sanitizer's runtime")
    cc = compiler("gcc", "cc", "clang")
    source, config = ROOT / "docs" / "examples" / "ask.c", LIBRARY.parent / "pkgconfig"
    flags = ["-I", SOURCES, str(LIBRARY)]
    if config.is_dir() and shutil.which("pkg-config"):
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "lib_mlx"], env={**os.environ, "PKG_CONFIG_PATH": str(config)},
            check=True, capture_output=True, text=True).stdout.split()
    subprocess.run(
        [cc, "-Wall", "-Wextra", "-Werror", str(source), *flags, f"-Wl,-rpath,{LIBRARY.parent}", "-o", folder / "ask"],
        check=True)
    done = subprocess.run([folder / "ask", DEMO, "Is Paris in France?"], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("data: {") and done.stdout.rstrip().endswith("data: [DONE]"), done.stdout[-300:]
    assert len(source.read_text().splitlines()) <= 40
    return f"with {'pkg-config' if config.is_dir() else 'paths'}"


# MARK: In Python

def ctypes_library():
    library = ctypes.CDLL(str(LIBRARY))
    for name in re.findall(r"char \*(lib_mlx_\w+)\(", HEADER):
        # Not c_char_p: it would copy the text and lose the pointer that is to be freed.
        getattr(library, name).restype = ctypes.c_void_p
    for name in ("start_server", "stop_server", "server_status", "unload_model"):
        getattr(library, "lib_mlx_" + name).argtypes = [ctypes.c_int64] + [ctypes.c_char_p] * (name == "start_server")
    chunk = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_uint8), ctypes.c_int64, ctypes.c_void_p)
    library.lib_mlx_request.argtypes = [
        ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64, chunk, ctypes.c_void_p]
    library.lib_mlx_free.argtypes = [ctypes.c_void_p]
    library.lib_mlx_free.restype = None
    library.Chunk = chunk
    return library


def call(library, name, *arguments):
    pointer = getattr(library, "lib_mlx_" + name)(*arguments)
    try:
        return json.loads(ctypes.string_at(pointer))
    finally:
        library.lib_mlx_free(pointer)


def in_python(function):
    """Runs a case in a process of its own: a library stays loaded, and so does what it has done to a process."""
    def test(folder):
        environment = dict(os.environ)
        if SANITIZER:
            if sys.platform != "linux":
                raise Skipped("the sanitizer's runtime is preloaded on Linux only")
            clang = compiler("clang")
            name = {"address": "asan", "thread": "tsan"}[SANITIZER]
            runtime = subprocess.run(
                [clang, f"-print-file-name=libclang_rt.{name}.so"], capture_output=True, text=True).stdout.strip()
            if not os.path.exists(runtime):
                runtime = subprocess.run(
                    [clang, f"-print-file-name=libclang_rt.{name}-{os.uname().machine}.so"], capture_output=True,
                    text=True).stdout.strip()
            if not os.path.exists(runtime):
                raise Skipped(f"the toolchain has no shared runtime of the {SANITIZER} sanitizer")
            environment |= {
                "LD_PRELOAD": f"{runtime} {dispatch()}" if SANITIZER == "thread" else runtime, "SANITIZED": SANITIZER, "ASAN_OPTIONS": "detect_leaks=0",
                "TSAN_OPTIONS": f"suppressions={ROOT / 'Tests' / 'thread-sanitizer.txt'} exitcode=66"}
        done = subprocess.run(
            [sys.executable, __file__, str(LIBRARY), "--inside", function.__name__]
            + (["--long"] if IS_LONG else []), env=environment, capture_output=True, text=True, timeout=900)
        if done.returncode == 77:
            raise Skipped(done.stdout.strip())
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr[-6000:]}"
        return done.stdout.strip()
    test.__name__, test.inside = function.__name__, function
    return test


def load(library, **more):
    answer = call(library, "load_model", json.dumps({"model_path": str(DEMO), **more}).encode())
    assert answer["ok"], answer
    return answer["handle"]


@in_python
def test_in_ctypes():
    library = ctypes_library()
    handle = load(library, model_id="demo")
    started = call(library, "start_server", handle, b'{"host":"127.0.0.1","port":0,"queue_limit":1}')
    assert started == {"ok": True, "handle": handle, "server": {
        "host": "127.0.0.1", "port": started["server"]["port"],
        "base_url": f"http://127.0.0.1:{started['server']['port']}", "model_id": "demo", "status": "running"}}, started
    from urllib.request import Request, urlopen
    base = started["server"]["base_url"]
    served = json.load(urlopen(Request(base + "/v1/chat/completions", CHAT, {"content-type": "application/json"})))
    pieces = []

    @library.Chunk
    def take(piece, count, _):
        pieces.append(bytes(piece[:count]))
        return 0

    direct = call(library, "request", handle, b"POST", b"/v1/chat/completions", CHAT, len(CHAT), take, None)
    assert direct["status"] == 200 and direct["headers"]["content-type"] == "application/json", direct
    answers = [served, json.loads(b"".join(pieces))]
    assert answers[0]["usage"]["input_tokens"] == answers[1]["usage"]["input_tokens"] > 0
    assert call(library, "unload_model", handle) == {"ok": True, "handle": handle, "status": "unloaded"}
    assert call(library, "server_status", handle)["error"]["code"] == "invalid_handle"


@in_python
def test_a_receipt_is_checked():
    """POST /v1/receipts/verify needs no server: an answer as it came checks, with another token it does not."""
    library = ctypes_library()
    handle = load(library, model_id="demo")

    def post(path, body):
        answer = call(library, "request", handle, b"POST", path, json.dumps(body).encode(), -1, library.Chunk(), None)
        assert answer["ok"], answer
        return answer["status"], json.loads(answer["body"])

    status, answer = post(b"/v1/chat/completions", json.loads(CHAT) | {"seed": 5, "receipt": True})
    receipt = answer["choices"][0]["receipt"]
    status, found = post(b"/v1/receipts/verify", {"receipt": receipt})
    assert status == 200 and found["is_same"] and found["words"] == "all 4 tokens as said", found
    receipt["answer"][1] = 40 if receipt["answer"][1] != 40 else 41
    status, found = post(b"/v1/receipts/verify", {"receipt": receipt})
    assert status == 200 and not found["is_same"] and found["difference"]["index"] == 1, found
    assert post(b"/v1/receipts/verify", {"receipt": {"receipt": 2}})[0] == 400
    assert call(library, "unload_model", handle)["ok"]


@in_python
def test_prepared_weights_are_mapped():
    """`prepared_dir`: what `mlxserve prepare` has left there is used, and the answers are the same bits."""
    binary = ROOT / ".build" / "release" / "mlxserve"
    if sys.platform != "linux" or not binary.exists():
        raise Skipped("there is no release binary of Linux to prepare weights with")
    library = ctypes_library()
    body = json.dumps(json.loads(CHAT) | {"max_tokens": 40, "temperature": 0, "logprobs": True}).encode()

    def said(**more):
        handle = load(library, model_id="demo", **more)
        answer = call(library, "request", handle, b"POST", b"/v1/chat/completions", body, -1, library.Chunk(), None)
        is_mapped = "prepared_dir" in more and more["prepared_dir"] in pathlib.Path("/proc/self/maps").read_text()
        assert answer["status"] == 200 and call(library, "unload_model", handle)["ok"], answer
        return json.loads(answer["body"])["choices"], is_mapped

    with tempfile.TemporaryDirectory() as folder:
        plain = said()[0]
        assert said(prepared_dir=folder) == (plain, False)
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        done = subprocess.run(
            [binary, "prepare", DEMO, "--prepared-dir", folder], env=environment, capture_output=True, text=True)
        if "nothing needs preparing" in done.stderr:
            raise Skipped("the kernels of this CPU read weights as they lie in the files")
        file = pathlib.Path(done.stdout.strip())
        assert done.returncode == 0 and said(prepared_dir=folder) == (plain, True), done
        assert folder not in pathlib.Path("/proc/self/maps").read_text()
        whole = bytearray(file.read_bytes())
        whole[70] ^= 1
        file.write_bytes(whole)
        assert said(prepared_dir=folder) == (plain, False), "a damaged head is passed over"
        assert said(prepared_dir=folder + "/nowhere") == (plain, False)
        answer = call(library, "load_model", json.dumps({"model_path": str(DEMO), "prepared_dir": 7}).encode())
        assert answer["error"]["code"] == "invalid_argument" and answer["error"]["param"] == "prepared_dir", answer


@in_python
def test_thinking_is_the_templates_switch():
    """What the model's owner says holds where a request says nothing."""
    library = ctypes_library()
    counts = {}
    for owner in (True, False):
        handle = load(library, thinking_enabled=owner, model_id="demo")
        for request in (None, True, False):
            body = json.loads(CHAT) | ({} if request is None else {"thinking": request})
            text = json.dumps(body).encode()
            answer = call(
                library, "request", handle, b"POST", b"/v1/chat/completions", text, -1, library.Chunk(), None)
            counts[owner, request] = json.loads(answer["body"])["usage"]["prompt_tokens"]
        call(library, "unload_model", handle)
    assert counts[True, None] == counts[True, True] == counts[False, True], counts
    assert counts[False, None] == counts[False, False] == counts[True, False], counts
    assert counts[True, True] != counts[True, False], "the demo's template has a switch"


@in_python
def test_the_sources_questions_have_their_events():
    """The question that the library's sources ask, whole, streamed, and as a response."""
    library = ctypes_library()
    handle = load(library, model_id="demo")

    def ask(path, **more):
        answer = call(library, "request", handle, b"POST", path, json.dumps(more).encode(), -1, library.Chunk(), None)
        assert answer["status"] == 200, answer
        return answer["body"]

    def events(text):
        return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]

    question = {"role": "user", "content": "Is the capital of France Paris? Answer Yes or No."}
    chat = {"model": "demo", "messages": [question], "temperature": 0, "max_tokens": 60}
    for thinking in (True, False):
        whole = json.loads(ask(b"/v1/chat/completions", **chat, thinking=thinking))
        message = whole["choices"][0]["message"]
        assert whole["usage"]["input_tokens"] > 0 and whole["usage"]["output_tokens"] > 0, whole
        deltas = [event["choices"][0]["delta"] for event in events(ask(b"/v1/chat/completions", **chat, thinking=thinking, stream=True))
                  if event["choices"]]
        for name in ("content", "reasoning_content"):
            assert "".join(delta.get(name) or "" for delta in deltas) == (message.get(name) or ""), (name, message, deltas)
        found = events(ask(b"/v1/responses", model="demo", input=[question], temperature=0, max_output_tokens=60,
                           stream=True, thinking=thinking, store=False))
        assert [event["sequence_number"] for event in found] == list(range(len(found))), found
        types = [event["type"] for event in found]
        assert types[:2] == ["response.created", "response.in_progress"], types
        assert types[-1] in ("response.completed", "response.incomplete"), types
        once = [name for at, name in enumerate(types) if at == 0 or types[at - 1] != name]
        assert ("response.reasoning_text.delta" in once) == bool(message.get("reasoning_content")), once
        if "response.reasoning_text.delta" in once:
            at = once.index("response.reasoning_text.delta")
            assert once[at + 1] == "response.reasoning_text.done", once
        if "response.output_text.delta" in once:
            at = once.index("response.output_text.delta")
            assert once[at - 2 : at] == ["response.output_item.added", "response.content_part.added"], once
            assert once[at + 1 : at + 4] == [
                "response.output_text.done", "response.content_part.done", "response.output_item.done"], once
    call(library, "unload_model", handle)


@in_python
def test_encoders_of_images_load_when_the_first_one_comes():
    """At once, or with the first image; the answers are the same, before it and after it."""
    sys.path.append(str(ROOT / "Tests" / "EndToEnd"))
    try:
        import media_test as media
    except ImportError as missing:
        print(f"{missing.name} is not installed")
        sys.exit(77)
    if not media.GOLDEN.is_dir():
        print("the shared data folder is absent")
        sys.exit(77)
    library = ctypes_library()
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        media.make_model(pathlib.Path(folder))
        for is_lazy in (True, False):
            loaded = call(library, "load_model", json.dumps(
                {"model_path": folder, "model_id": "m", "lazy_encoders": is_lazy, "max_context": 4096}).encode())
            assert loaded["ok"], loaded
            said = []
            for content in ("What?", [media.image(media.png(64, 64)), media.text("What?")], "What?"):
                body = {"model": "m", "messages": [{"role": "user", "content": content}], "max_tokens": 8, "temperature": 0}
                answer = call(library, "request", loaded["handle"], b"POST", b"/v1/chat/completions", json.dumps(body).encode(), -1,
                              library.Chunk(), None)
                assert answer["status"] == 200, answer
                said.append((json.loads(answer["body"])["choices"], json.loads(answer["body"])["usage"]["prompt_tokens"]))
            assert said[0] == said[2] and said[1][1] > said[0][1] + 50, said
            answers.append(said)
            call(library, "unload_model", loaded["handle"])
    assert answers[0] == answers[1], answers


def widen_image_encoder(folder, width):
    """Pads the middle of the encoder's MLPs with zeros: the same answers, from an encoder of some megabytes."""
    config = json.loads((folder / "config.json").read_text())
    data = (folder / "model.safetensors").read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    had, config["vision_config"]["intermediate_size"] = config["vision_config"]["intermediate_size"], width
    body, entries = bytearray(), {}
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        piece = data[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]]
        rows, *columns = entry["shape"] or [1]
        if re.search(r"vision_tower.*mlp\.down_proj\.linear\.weight", name):
            piece = b"".join(piece[row * had * 2 : (row + 1) * had * 2] + bytes((width - had) * 2) for row in range(rows))
            entry["shape"] = [rows, width]
        elif re.search(r"vision_tower.*mlp\.\w+\.linear\.weight", name):
            piece += bytes((width - had) * columns[0] * 2)
            entry["shape"] = [width, *columns]
        entries[name] = {**entry, "data_offsets": [len(body), len(body) + len(piece)]}
        body += piece
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()  # A link to what others read.
    (folder / "config.json").write_text(json.dumps(config))
    head = json.dumps(entries).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + body)


@in_python
def show_memory_of_encoders():
    """Resident bytes once a model with images is loaded, and after an image; run in a process of its own each time."""
    sys.path.append(str(ROOT / "Tests" / "EndToEnd"))
    import media_test as media
    library = ctypes_library()
    folder, is_lazy = os.environ["ENCODERS"], os.environ["LAZY"] == "1"
    handle = call(library, "load_model", json.dumps(
        {"model_path": folder, "model_id": "m", "lazy_encoders": is_lazy, "max_context": 4096}).encode())["handle"]
    loaded = resident()
    content = [media.image(media.png(64, 64)), media.text("What?")]
    body = {"model": "m", "messages": [{"role": "user", "content": content}], "max_tokens": 4, "temperature": 0}
    answer = call(library, "request", handle, b"POST", b"/v1/chat/completions", json.dumps(body).encode(), -1, library.Chunk(), None)
    print(json.dumps([loaded, resident(), json.loads(answer["body"])["choices"]]))


def test_encoders_take_no_memory_before_the_first_image(folder):
    """Resident memory, lazy and at once."""
    if SANITIZER or sys.platform != "linux":
        raise Skipped("resident memory is measured on Linux, without a sanitizer")
    sys.path.append(str(ROOT / "Tests" / "EndToEnd"))
    try:
        import media_test as media
    except ImportError as missing:
        raise Skipped(f"{missing.name} is not installed") from None
    if not media.GOLDEN.is_dir():
        raise Skipped("the shared data folder is absent")
    place = folder / "encoders"
    place.mkdir()
    media.make_model(place)
    widen_image_encoder(place, 24_576)
    found = {}
    for lazy in ("1", "0"):
        os.environ.update(ENCODERS=str(place), LAZY=lazy)
        found[lazy] = json.loads(show_memory_of_encoders(folder))
    lazily, at_once = found["1"], found["0"]
    assert lazily[2] == at_once[2], found
    # The encoder has 19 MB; some of it is read from the file where it lies.
    assert at_once[0] - lazily[0] > 4 << 20 and lazily[1] - lazily[0] > 8 << 20, found
    return f"resident {lazily[0] >> 10} KiB, at once {at_once[0] >> 10} KiB, with an image {lazily[1] >> 10} KiB"


HOST = """
#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif
typealias Load = @convention(c) (UnsafePointer<CChar>?) -> UnsafeMutablePointer<CChar>?
typealias Unload = @convention(c) (Int64) -> UnsafeMutablePointer<CChar>?
let words = CommandLine.arguments
guard let library = dlopen(words[1], RTLD_NOW) else { fatalError(String(cString: dlerror())) }
let load = unsafeBitCast(dlsym(library, "lib_mlx_load_model"), to: Load.self)
let unload = unsafeBitCast(dlsym(library, "lib_mlx_unload_model"), to: Unload.self)
let numbers = Dictionary(grouping: 0..<1000) { "\\($0 % 7)" }.mapValues(\\.count)
print(String(cString: load(#"{"model_path":"\\#(words[2])"}"#)!))
print(numbers["3"]!, [3, 1, 2].sorted().map(String.init).joined(separator: " "))
print(String(cString: unload(1)!))
"""


def test_a_host_in_swift(folder):
    """A program with a Swift runtime of its own."""
    if SANITIZER:
        raise Skipped("the sanitizer's runtime is not in the program")
    swiftc = compiler("swiftc")
    (folder / "main.swift").write_text(HOST)
    subprocess.run([swiftc, "-O", "main.swift", "-o", "host"], cwd=folder, check=True, capture_output=True)
    done = subprocess.run([folder / "host", LIBRARY, DEMO], check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert json.loads(lines[0])["handle"] == 1 and lines[1] == "143 1 2 3", done
    assert json.loads(lines[2]) == {"ok": True, "handle": 1, "status": "unloaded"}, done


@in_python
def test_in_cffi():
    try:
        import cffi
    except ImportError:
        print("cffi is not installed")
        sys.exit(77)
    ffi = cffi.FFI()
    code = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
    code = "\n".join(line for line in code.splitlines() if not line.startswith("#"))
    ffi.cdef(code.replace("LIB_MLX_EXPORT ", "").replace('extern "C" {', "").replace("\n}\n", "\n"))
    library = ffi.dlopen(str(LIBRARY))
    lines = []

    @ffi.callback("lib_mlx_log_callback")
    def log(level, line, _):
        lines.append((level, ffi.string(line).decode()))

    def text(pointer):
        owned = ffi.gc(pointer, library.lib_mlx_free)
        return json.loads(ffi.string(owned))

    assert text(library.lib_mlx_configure(b'{"log_level":"info","memory_limit":"1G"}'))["ok"]
    assert text(library.lib_mlx_set_log_callback(log, ffi.NULL))["ok"]
    for _ in range(10):
        loaded = text(library.lib_mlx_load_model(json.dumps({"model_path": str(DEMO)}).encode()))
        answer = text(library.lib_mlx_request(
            loaded["handle"], b"POST", b"/v1/chat/completions", CHAT, len(CHAT), ffi.NULL, ffi.NULL))
        assert answer["status"] == 200, answer
        assert text(library.lib_mlx_unload_model(loaded["handle"]))["status"] == "unloaded"
    assert text(library.lib_mlx_set_log_callback(ffi.NULL, ffi.NULL))["ok"]


@in_python
def test_a_limit_that_is_too_small_holds_nothing():
    library = ctypes_library()
    assert call(library, "configure", b'{"memory_limit":4096}')["ok"]
    for _ in range(3):
        answer = call(library, "load_model", json.dumps({"model_path": str(DEMO)}).encode())
        assert answer["error"]["code"] == "out_of_memory", answer
    assert call(library, "configure", b'{"memory_limit":"1G","threads":2}')["ok"]
    handle = load(library)
    assert call(library, "configure", b'{"threads":1}')["error"]["code"] == "busy"
    call(library, "unload_model", handle)
    assert len(os.listdir("/proc/self/task")) < 4 if sys.platform == "linux" else True


def anonymous():
    """Bytes of this process that no file backs, in memory or swapped out."""
    fields = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return sum(int(fields[name].split()[0]) << 10 for name in ("RssAnon", "VmSwap"))


@in_python
def test_requests_stay_below_a_small_limit():
    """Bodies and answers are claimed: what does not fit is refused, one at a time and eight at once."""
    if sys.platform != "linux" or SANITIZER:
        raise Skipped("it counts the memory of a process of Linux, without a sanitizer's")
    library = ctypes_library()
    limit = 64 << 20
    assert call(library, "configure", json.dumps({"memory_limit": limit + (2 << 20)}).encode())["ok"]
    handle = load(library)
    most = 12 << 20
    texts = {
        "/tokenize": b'{"with_pieces":true,"content":"' + b"a1 " * (most // 3) + b'"}',
        "/v1/chat/completions": b'{"messages":[' + b"{}," * (most // 3) + b"{}]}",
        "/detokenize": b'{"tokens":[' + b"300," * ((1 << 18) - 1) + b"300]}",
        "/v1/completions": b'{"model":"demo","prompt":["a"],"n":128,"logprobs":5,"max_tokens":20}',
    }
    receiver = library.Chunk(lambda *_: 0)
    call(library, "request", handle, b"POST", b"/v1/chat/completions", CHAT, len(CHAT), library.Chunk(0), None)
    start, peak, ended, found = anonymous(), [0], threading.Event(), set()

    def look():
        while not ended.wait(0.003):
            peak[0] = max(peak[0], anonymous())

    def ask(path, receiver):
        body = texts[path]
        answer = call(library, "request", handle, b"POST", path.encode(), body, len(body), receiver, None)
        found.add((path, answer.get("status") or answer["error"]["code"]))

    looking = threading.Thread(target=look)
    looking.start()
    for path in texts:
        ask(path, receiver)
        ask(path, library.Chunk(0))
        crowd = [threading.Thread(target=ask, args=(path, receiver)) for _ in range(8)]
        for one in crowd:
            one.start()
        for one in crowd:
            one.join()
    ended.set()
    looking.join()
    assert {code for _, code in found} <= {200, 400, 429, 503, "out_of_memory"}, found
    # How many of the crowd meet is the machine's matter.
    assert ("/v1/completions", 200) in found and len(found) > 4, found
    taken = peak[0] - start
    # Stacks, and what the allocator keeps of memory that was freed, are not told from the host's own: they come on top.
    assert taken <= 2 * limit, f"{taken >> 20} MiB of {limit >> 20}: {found}"
    call(library, "unload_model", handle)
    return f"{taken >> 20} MiB"


@in_python
def test_broken_folders_have_their_codes():
    library = ctypes_library()
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder) / "m"
        weights = next(name for name in os.listdir(DEMO) if name.endswith(".safetensors"))

        def code():
            answer = call(library, "load_model", json.dumps({"model_path": str(place)}).encode())
            assert not answer["ok"], answer
            return answer["error"]["code"]

        def fresh():
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(DEMO, place)

        place.mkdir()
        assert code() == "model_not_found"
        fresh()
        config = json.loads((place / "config.json").read_text())
        (place / "config.json").write_text(json.dumps(config | {"model_type": "mamba9"}))
        assert code() == "model_unsupported"
        (place / "config.json").write_text("{")
        assert code() == "model_corrupt"
        fresh()
        whole = (place / weights).read_bytes()
        for cut in (0, 4, 100, len(whole) // 2, len(whole) - 1):
            (place / weights).write_bytes(whole[:cut])
            assert code() == "model_corrupt", cut
        # A dtype that the tensor's size does not fit.
        (place / weights).write_bytes(whole.replace(b'"U32"', b'"F64"', 1).replace(b'"BF16"', b'"F64" ', 1))
        assert code() == "model_corrupt"
        fresh()
        (place / "tokenizer.json").write_text("[]")
        assert code() == "model_corrupt"
        fresh()
        (place / "tokenizer.json").unlink()
        assert code() in ("model_corrupt", "model_not_found")


@in_python
def test_status_does_not_wait():
    """Looked at while others load, start and unload."""
    library = ctypes_library()
    handle = load(library)
    slowest, goes_on = 0, True

    def others():
        while goes_on:
            other = load(library, max_sequences=2)
            call(library, "start_server", other, b"{}")
            call(library, "unload_model", other)

    threads = [threading.Thread(target=others) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        begin = time.monotonic()
        assert call(library, "server_status", handle)["model"]["status"] == "ready"
        slowest = max(slowest, time.monotonic() - begin)
        time.sleep(0.002)
    goes_on = False
    for thread in threads:
        thread.join()
    print(f"slowest {slowest * 1e3:.1f} ms")


@in_python
def test_a_hundred_times_in_python():
    library = ctypes_library()
    for round in range(100):
        handle = load(library)
        assert call(library, "start_server", handle, b"{}")["ok"]
        if round % 10 == 0:
            call(library, "request", handle, b"POST", b"/v1/chat/completions", CHAT, -1, library.Chunk(), None)
        assert call(library, "unload_model", handle)["ok"]
        if round == 25 and sys.platform == "linux":
            before = len(os.listdir("/proc/self/fd")), resident()
    if sys.platform == "linux":
        after = len(os.listdir("/proc/self/fd")), resident()
        assert after[0] == before[0], (before, after)
        assert os.environ.get("SANITIZED") or after[1] < before[1] * 1.05 + (1 << 20), (before, after)
        print(f"resident {before[1] >> 10} KiB after a quarter, {after[1] >> 10} KiB at the end")


@in_python
def test_unloading_gives_the_heap_back():
    """Also what goes last, such as the tokenizer: here one of 60,000 tokens more than the model has."""
    if SANITIZER or sys.platform != "linux":
        raise Skipped("resident memory is measured on Linux, without a sanitizer")
    library = ctypes_library()
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder) / "m"
        shutil.copytree(DEMO, place)
        path = place / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        first = 1 + max([*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"])])
        tokenizer["added_tokens"] += [
            {"id": first + number, "content": f"<|reserved_of_many_{number}|>", "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False, "special": False} for number in range(60_000)]
        path.write_text(json.dumps(tokenizer))
        kept = []
        for _ in range(4):
            handle = load(library, model_path=str(place), model_id="demo")
            held = resident()
            answer = call(library, "request", handle, b"POST", b"/v1/chat/completions", CHAT, -1, library.Chunk(), None)
            assert answer["ok"], answer
            assert call(library, "unload_model", handle)["ok"]
            after = resident()
            ctypes.CDLL(None).malloc_trim(0)
            kept.append(after - resident())
        assert max(kept) < 3 << 20, kept
        print(f"{held >> 10} KiB with the model, {after >> 10} without; {max(kept) >> 10} KiB more by another trim")


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")


@in_python
def test_two_copies_do_not_disturb_each_other():
    """Opened twice, closed, and a copy of the file beside it."""
    first = ctypes_library()
    handle = load(first)
    import _ctypes
    for _ in range(3):
        again = ctypes.CDLL(str(LIBRARY))
        _ctypes.dlclose(again._handle)
    assert call(first, "server_status", handle)["ok"]
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "copy.so"
        shutil.copy(LIBRARY, copy)
        second = ctypes.CDLL(str(copy))
        for name in ("lib_mlx_load_model", "lib_mlx_server_status", "lib_mlx_unload_model"):
            getattr(second, name).restype = ctypes.c_void_p
        second.lib_mlx_free.argtypes = [ctypes.c_void_p]
        other = load(second)
        assert other == 1 and handle == 1
        assert call(second, "unload_model", ctypes.c_int64(other))["ok"]
        assert call(first, "server_status", handle)["ok"]
        assert call(first, "unload_model", handle)["ok"]


TESTS = [
    test_header_is_what_the_compiler_emits, test_header_compiles_everywhere, test_header_is_what_ffigen_reads,
    test_only_its_own_symbols_are_exported, test_the_example_in_c,
    in_c("whole"), in_c("bad"), in_c("requests"), in_c("several"), in_c("queue"), in_c("streaming"), in_c("prefill"), in_c("forking"),
    in_c("manners"), in_c("logging"), in_c("small"), test_freeing_twice_is_reported, in_c("again", "1000" if IS_LONG else "100", seconds=3600),
    in_c("storm", "60" if IS_LONG else "5"),
    test_in_ctypes, test_in_cffi, test_a_receipt_is_checked, test_prepared_weights_are_mapped, test_thinking_is_the_templates_switch, test_a_limit_that_is_too_small_holds_nothing,
    test_requests_stay_below_a_small_limit, test_broken_folders_have_their_codes, test_the_sources_questions_have_their_events,
    test_encoders_of_images_load_when_the_first_one_comes, test_encoders_take_no_memory_before_the_first_image, test_a_host_in_swift,
    test_status_does_not_wait, test_a_hundred_times_in_python, test_unloading_gives_the_heap_back,
    test_two_copies_do_not_disturb_each_other,
]


def main():
    cases = {case.__name__ for case in TESTS}
    missing = [name for name in globals() if name.startswith("test_") and name not in cases]
    assert not missing, f"not among TESTS: {missing}"
    if "--inside" in sys.argv:
        name = sys.argv[sys.argv.index("--inside") + 1]
        try:
            next(test for test in [*TESTS, show_memory_of_encoders] if test.__name__ == name).inside()
        except Skipped as reason:
            print(reason)
            return 77
        return 0
    part = sys.argv[2] if len(sys.argv) > 2 and not sys.argv[2].startswith("--") else ""
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for test in TESTS:
            name = test.__name__
            if part not in name:
                continue
            begin = time.monotonic()
            try:
                note = test(pathlib.Path(folder))
                passed += 1
                print(f"ok    {name} ({time.monotonic() - begin:.2f} s){f': {note}' if note else ''}", flush=True)
            except Skipped as reason:
                print(f"SKIPPED  {name}: {reason}", flush=True)
            except Exception:
                failed += 1
                print(f"FAIL  {name}\n{traceback.format_exc()}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
