// The table of all flags, by command.

import Compute
import Pipeline
import Platform
import Sampling
import Server
import Wire

enum Flags {
  private static let sampling = Flag(
    name: "sampling", kind: .word(DefaultSampling.self), placeholder: "WHOSE", defaultText: "local",
    help:
      "how to choose tokens if neither the request nor the model's files say: local is temperature 0.8, top_k 40, "
      + "top_p 0.95 and min_p 0.05; openai is temperature 1 over the whole vocabulary")

  private static let preparedFolder = Flag(
    name: "prepared-dir", kind: .text, placeholder: "DIR", defaultText: "~/.cache/mlxserve/prepared",
    help: "folder for the weights that 'mlxserve prepare' makes")

  static let prepare = FlagGroup(
    title: "Prepared weights",
    flags: [
      Flag(
        name: "prepared-dir-size", kind: .integer(1...1 << 40), placeholder: "MB", defaultText: "65536",
        help: "disk space for all of them; the oldest are deleted"),
      Flag(name: "remove", kind: .toggle, help: "delete the prepared weights of the model"),
    ])

  /// What decides the order of weights.
  static let preparedModel = FlagGroup(
    title: model.title,
    flags: model.flags.filter {
      ["model", "threads", "isa", "compute", "prepared-dir"].contains($0.name)
    })

  static let model = FlagGroup(
    title: "Model",
    flags: [
      Flag(
        name: "model", kind: .text, placeholder: "DIR",
        help:
          "a model's folder, a short name such as qwen3:0.6b, or OWNER/NAME[@REVISION]; names are downloaded once. The first "
          + "word without dashes is the model too"),
      Flag(
        name: "threads", kind: .integer(1...1024), placeholder: "N", defaultText: "all cores",
        help: "threads that compute"),
      Flag(
        name: "max-context", kind: .integer(1...Int(Int32.max)), placeholder: "N",
        defaultText: "the model's own, less if memory is short",
        help: "limit for a prompt and its answer together, in tokens"),
      Flag(
        name: "isa", kind: .word(ISA.self), placeholder: "NAME",
        defaultText: "the best of this machine",
        help: "instruction set: portable; avx2, avxvnni, avx512 or amx; neon, dotprod or i8mm"),
      Flag(
        name: "compute", kind: .word(ComputeMode.self), placeholder: "MODE",
        defaultText: "fast on AVX2 and arm64",
        help:
          "fast: int8 activations for affine, MXFP4 and NVFP4 weights, twelve bits for MXFP8 and FP8 with AVX-512; "
          + "exact: float32 activations"
      ),
      Flag(
        name: "weights", kind: .word(WeightPlace.self), placeholder: "WHERE", defaultText: "auto",
        help:
          "auto: with AVX-512 VNNI and on arm64 in the order of the kernels, from the file of 'mlxserve prepare' or "
          + "copied into memory if there is room; mapped: from the model's own files, whose memory processes share"
      ),
      preparedFolder,
      Flag(
        name: "kv-cache-type", kind: .word(KVFormat.self), placeholder: "TYPE",
        defaultText: "q16 with fast, f32 with exact",
        help:
          "how keys and values are stored: f32, q16 or q8 (int16 or int8 with a scale per position and head)"),
      Flag(
        name: "speculate", kind: .word(Speculation.self), placeholder: "HOW", defaultText: "lookup",
        help: "guess tokens that repeat earlier text and check several in one step; never changes an answer "
          + "(bench measures right and wrong guesses)"),
      Flag(
        name: "prefix-cache", kind: .integer(0...1 << 40), placeholder: "MB", defaultText: "2048",
        help: "memory for keys and values of earlier prompts; 0 keeps none"),
      Flag(
        name: "reference-kernels", kind: .toggle,
        help: "compute with the slow scalar twins of all kernels, to bisect a suspected fault"),
    ])

  /// Without the limit of a conversation: windows have their own flag.
  static let evaluatedModel = FlagGroup(
    title: model.title, flags: model.flags.filter { $0.name != "max-context" })

  /// What a model of vectors takes of the same.
  static let encoder = FlagGroup(
    title: model.title,
    flags: model.flags.filter {
      ["model", "threads", "isa", "compute", "prepared-dir", "reference-kernels"].contains($0.name)
    })

  /// Several models, and how much memory they may take together.
  static let servedModels = FlagGroup(
    title: model.title,
    flags: [
      Flag(
        name: "model", kind: .text, placeholder: "[NAME=]DIR",
        help:
          "a model's folder, a short name such as qwen3:0.6b, or OWNER/NAME[@REVISION]; names are downloaded once. Words "
          + "without dashes are models too. The first is loaded at the start, others on demand; without any, "
          + "all models of the cache are served",
        isRepeatable: true),
      Flag(
        name: "models-dir", kind: .text, placeholder: "DIR",
        help: "serve every folder in it that has a config.json, now and later, by the folder's name"),
      Flag(
        name: "alias", kind: .text, placeholder: "NAME=MODEL",
        help: "another name for a model; '*' is every other name; may be repeated", isRepeatable: true
      ),
      Flag(
        name: "preload", kind: .text, placeholder: "MODEL",
        help: "load this model at the start too, and keep it loaded; may be repeated",
        isRepeatable: true),
      Flag(
        name: "memory", kind: .text, placeholder: "SIZE",
        defaultText: "90% of the machine's, or of the control group's",
        help:
          "limit for everything together: weights, keys and values, caches, buffers; 6G, 800M or 70%"),
      Flag(
        name: "idle-unload", kind: .integer(0...31_536_000), placeholder: "SECONDS", defaultText: "0: never",
        help: "unload a model after so long without a request, unless it is preloaded"),
    ] + model.flags.filter { $0.name != "model" })

  static let serve = FlagGroup(
    title: "Server",
    flags: [
      Flag(
        name: "host", kind: .text, placeholder: "H", defaultText: "127.0.0.1",
        help: "address to listen on; 0.0.0.0 or :: for all"),
      Flag(
        name: "port", kind: .integer(0...65535), placeholder: "N", defaultText: "8080",
        help: "port to listen on; 0 picks a free one"),
      Flag(
        name: "model-id", kind: .text, placeholder: "ID", defaultText: "the folder's name",
        help: "the first model's name in the API"),
      Flag(
        name: "queue-limit", kind: .integer(0...100_000), placeholder: "N", defaultText: "64",
        help: "requests that may wait for a model; more get 429 with Retry-After"),
      Flag(
        name: "max-answer", kind: .integer(0...Int(Int32.max)), placeholder: "N",
        defaultText: "\(LoadedModel.usualMaxAnswer)",
        help:
          "limit in tokens for answers whose request sets none, thinking included; 0: the context alone"
      ),
      Flag(
        name: "max-sequences", kind: .integer(1...256), placeholder: "N", defaultText: "8",
        help: "requests that a model computes together"),
      Flag(
        name: "max-stall", kind: .integer(10...60_000), placeholder: "MS", defaultText: "200",
        help: "how long running answers may wait for a token while a prompt is read"),
      Flag(
        name: "prefix-cache-dir", kind: .text, placeholder: "DIR", defaultText: "in memory only",
        help: "folder where computed prompts outlive the server"),
      Flag(
        name: "prefix-cache-dir-size", kind: .integer(1...1 << 40), placeholder: "MB", defaultText: "4096",
        help: "disk space for them; the longest unused are deleted"),
      Flag(
        name: "prefix-cache-scope", kind: .word(PrefixScope.self), placeholder: "WHOM",
        defaultText: "shared",
        help: "who may reuse a computed prompt: everybody (shared), or only the same API key (tenant)"),
      Flag(
        name: "allow-truncation", kind: .toggle,
        help: "let 'dimensions' cut vectors of embedding models that were not trained for it"),
      Flag(
        name: "max-connections", kind: .integer(1...65_536), placeholder: "N", defaultText: "1024",
        help:
          "open connections; the one that has waited longest makes room for a new one, and if all are working new "
          + "ones get 503; fewer if the system allows too few open files"),
      Flag(
        name: "max-connections-per-address", kind: .integer(1...65_536), placeholder: "N",
        defaultText: "half of them; no limit for this machine",
        help: "of these, from one address, or one /64 network of IPv6"),
      Flag(
        name: "max-connections-per-key", kind: .integer(1...65_536), placeholder: "N",
        defaultText: "no limit",
        help: "of these, with one API key; more get 429"),
      Flag(
        name: "reasoning-field", kind: .word(ReasoningField.self),
        placeholder: "NAME",
        defaultText: "reasoning_content",
        help: "field for reasoning: reasoning_content, reasoning or both"),
      sampling,
      Flag(
        name: "strict-params", kind: .toggle,
        help: "refuse requests with unknown fields; otherwise a header names them"),
      Flag(
        name: "additional-properties", kind: .toggle,
        help: "allow other properties in schemas that do not forbid them, as JSON Schema does"),
      Flag(
        name: "strict-history", kind: .toggle,
        help: "read special tokens spelled in earlier answers as plain text, as in users' messages"),
      Flag(
        name: "responses-reasoning-events", kind: .word(ReasoningEvents.self),
        placeholder: "NAME", defaultText: "openai",
        help: "names of reasoning events in Responses streams: openai, openresponses or none"),
      Flag(
        name: "refuse-hosted-tools", kind: .toggle,
        help:
          "refuse tools that only a provider can run (web_search, ...); otherwise they are left out and named"
      ),
      Flag(
        name: "state-dir", kind: .text, placeholder: "DIR", defaultText: "in memory",
        help: "folder where stored responses, conversations, files and stores outlive the server"),
      Flag(
        name: "store-responses", kind: .integer(1...1_000_000), placeholder: "N", defaultText: "1000",
        help:
          "how many responses to keep, and as many conversations and chat completions; at most 64 MiB, 30 days"
      ),
      Flag(name: "no-ui", kind: .toggle, help: "do not serve the chat page at /"),
      Flag(
        name: "embedding-model", kind: .text, placeholder: "MODEL",
        defaultText: "the first that makes vectors",
        help: "the model that makes the vectors of vector stores"),
      Flag(
        name: "max-file-bytes", kind: .integer(1...1024), placeholder: "MB", defaultText: "64",
        help: "limit for an uploaded file; --max-body limits it too"),
      Flag(
        name: "storage", kind: .integer(1...1 << 20), placeholder: "MB", defaultText: "10240",
        help: "limit for all uploaded files and what batches keep"),
      Flag(
        name: "storage-per-key", kind: .integer(1...1 << 20), placeholder: "MB", defaultText: "1024",
        help: "the same for one API key"),
      Flag(
        name: "search-slots", kind: .integer(1...64), placeholder: "N", defaultText: "4",
        help: "searches of vector stores at the same time"),
      Flag(
        name: "search-timeout", kind: .decimal(0.1...600), placeholder: "S", defaultText: "5",
        help: "limit for a search of a vector store"),
      Flag(
        name: "examples", kind: .toggle, help: "after the start, print how to talk to the server, to stderr"),
    ])

  static let access = FlagGroup(
    title: "Access",
    flags: [
      Flag(
        name: "api-key-file", kind: .text, placeholder: "FILE",
        help:
          "keys that clients must send, one per line: 'name: key' or 'name admin: key'; SIGHUP reads it again"
      ),
      Flag(
        name: "api-key", kind: .text, placeholder: "KEY",
        help:
          "one more key; other users of the machine can see it, but not the variable MLXSERVE_API_KEY; may be repeated",
        isRepeatable: true),
      Flag(
        name: "allow-anonymous", kind: .toggle,
        help: "serve without keys even if other machines can connect"),
      Flag(
        name: "allow-host", kind: .text, placeholder: "NAME",
        help:
          "host name by which clients reach the server, besides its addresses; '*' is any; may be repeated",
        isRepeatable: true),
      Flag(
        name: "allow-origin", kind: .text, placeholder: "ORIGIN",
        help:
          "web pages that may use the server, such as https://chat.example.com; '*' is all; may be repeated",
        isRepeatable: true),
      Flag(
        name: "allow-desktop-apps", kind: .toggle,
        help: "let pages of desktop programs use the server: app://, tauri://, vscode-webview:// and the like"
      ),
      Flag(
        name: "unix", kind: .text, placeholder: "PATH",
        help: "listen on a Unix socket, and on TCP only if --host or --port is given too"),
      Flag(
        name: "admin-port", kind: .integer(0...65535), placeholder: "N",
        help:
          "serve health, metrics, and loading and unloading of models on a port of its own; the last three only there"
      ),
      Flag(
        name: "admin-host", kind: .text, placeholder: "H", defaultText: "127.0.0.1",
        help: "address of --admin-port"),
      Flag(
        name: "admin-unix", kind: .text, placeholder: "PATH",
        help: "the same on a Unix socket that only its owner may use"),
      Flag(
        name: "unix-mode", kind: .text, placeholder: "MODE", defaultText: "600",
        help: "permissions of the Unix socket, octal"),
    ])

  static let limits = FlagGroup(
    title: "Limits",
    flags: [
      Flag(
        name: "max-body", kind: .integer(1...1024), placeholder: "MB",
        defaultText: "8, or 48 where the model takes images or audio",
        help: "largest body of a request; a larger one gets 413"),
      Flag(
        name: "header-timeout", kind: .decimal(0.1...3600), placeholder: "S", defaultText: "10",
        help: "seconds for the head of a request; then 408"),
      Flag(
        name: "body-timeout", kind: .decimal(0.1...3600), placeholder: "S", defaultText: "30",
        help: "over each such time a body must bring 1 KiB per second on average; else 408"),
      Flag(
        name: "idle-timeout", kind: .decimal(0.1...3600), placeholder: "S", defaultText: "30",
        help: "seconds that a connection may wait for its next request"),
      Flag(
        name: "drain-seconds", kind: .decimal(0...86_400), placeholder: "S", defaultText: "30",
        help: "seconds that running answers get after SIGTERM or Ctrl-C"),
    ])

  static let testing = FlagGroup(
    title: "Testing the server",
    flags: [
      Flag(
        name: "test-hooks", kind: .toggle,
        help: "GET /debug/state shows what the server holds; on a loopback address only"),
      Flag(
        name: "step-delay-ms", kind: .integer(0...999), placeholder: "N", defaultText: "0",
        help: "with --test-hooks: make each step of the engine so much longer"),
    ])

  static let logging = FlagGroup(
    title: "Logging (to stderr)",
    flags: [
      Flag(name: "json-log", kind: .toggle, help: "one JSON object per line, also on stdout"),
      Flag(
        name: "log-level", kind: .choice(Log.Level.allCases.map(\.name)), placeholder: "LEVEL",
        defaultText: "info", help: "lowest level written: debug, info, warning or error"),
    ])

  static let chat = FlagGroup(
    title: "Chat",
    flags: [
      Flag(name: "system", kind: .text, placeholder: "TEXT", help: "system message"),
      Flag(
        name: "max-tokens", kind: .integer(1...Int(Int32.max)), placeholder: "N",
        defaultText: "\(LoadedModel.usualMaxAnswer)",
        help: "limit for an answer in tokens, thinking included"),
      Flag(
        name: "temperature", kind: .decimal(0...2), placeholder: "T",
        defaultText: "the model's own, else 0.8",
        help: "0 always takes the likeliest token"),
      Flag(
        name: "top-p", kind: .decimal(0...1), placeholder: "P", defaultText: "the model's own, else 0.95",
        help: "choose among the likeliest tokens that together have this probability"),
      sampling,
      Flag(
        name: "seed", kind: .integer(0...Int.max), placeholder: "N", defaultText: "random",
        help: "the same seed gives the same answers"),
      Flag(
        name: "stop", kind: .text, placeholder: "TEXT",
        help: "end an answer before this text; may be repeated", isRepeatable: true),
      Flag(
        name: "schema", kind: .text, placeholder: "FILE",
        help: "JSON Schema that every answer must match"),
      Flag(
        name: "tools", kind: .text, placeholder: "FILE",
        help:
          "JSON array of tools as in the API; a call is shown, and the next line you type is its result"
      ),
      Flag(name: "no-thinking", kind: .toggle, help: "ask the template to switch reasoning off"),
    ])

  static let conversation = FlagGroup(
    title: "Conversation",
    flags: [
      Flag(name: "continue", kind: .toggle, help: "continue the last conversation of a terminal")
    ])

  static let answer = FlagGroup(
    title: "Answer",
    flags: [
      Flag(
        name: "prompt", kind: .text, placeholder: "TEXT",
        help: "the prompt; words after the model are the prompt too"),
      Flag(
        name: "json", kind: .toggle,
        help: "print a JSON object with the answer, why it ended and what it cost"),
    ])

  static let doctor = FlagGroup(
    title: "Kernels",
    flags: [
      Flag(
        name: "kernels", kind: .toggle,
        help:
          "compare every kernel set of this machine with its scalar twins, and measure memory for a second")
    ])

  static let bench = FlagGroup(
    title: "Benchmark",
    flags: [
      Flag(
        name: "prompt-tokens", kind: .integer(1...1_000_000), placeholder: "N", defaultText: "512",
        help: "tokens of the prefill run"),
      Flag(
        name: "generate-tokens", kind: .integer(2...1_000_000), placeholder: "N", defaultText: "64",
        help: "tokens of each decode run"),
      Flag(
        name: "depth", kind: .integers(0...1_000_000), placeholder: "N,N,...", defaultText: "0,1024",
        help: "context depths at which decode is measured"),
      Flag(
        name: "sequences", kind: .integers(1...256), placeholder: "N,N,...", defaultText: "1",
        help: "sequences that decode together; more than 1 with and without a text that they share"),
      Flag(
        name: "repetitions", kind: .integer(1...1000), placeholder: "N", defaultText: "3",
        help: "runs of each; the median and the spread are shown"),
      Flag(name: "json", kind: .toggle, help: "print one JSON object"),
      Flag(name: "csv", kind: .toggle, help: "print one CSV line per measurement"),
      Flag(
        name: "index", kind: .integers(10_000...10_000_000), placeholder: "N,N,...",
        help: "measure searches in an index of so many vectors, not a model"),
      Flag(
        name: "index-dir", kind: .text, placeholder: "DIR", defaultText: "a temporary one",
        help: "folder that keeps such an index for the next run"),
    ])

  static let encoders = FlagGroup(
    title: "Images and audio",
    flags: [
      Flag(name: "no-vision", kind: .toggle, help: "take no images, even if the model can"),
      Flag(name: "no-audio", kind: .toggle, help: "take no audio, even if the model can"),
      Flag(
        name: "no-lazy-encoders", kind: .toggle,
        help: "load the image and audio encoders at the start, not with the first image or clip"),
      Flag(
        name: "media-root", kind: .text, placeholder: "DIR", defaultText: "none",
        help: "folder whose files requests may name in file:// URLs"),
      Flag(
        name: "allow-media-urls", kind: .toggle,
        help: "fetch images from http:// and https:// URLs in requests, from public addresses, with curl"
      ),
      Flag(
        name: "media-url-host", kind: .text, placeholder: "HOST[:PORT]", defaultText: "any public one",
        help: "fetch only from this host, even if its address is private; may be repeated",
        isRepeatable: true),
    ])

  static let search = FlagGroup(
    title: "Search",
    flags: [
      Flag(
        name: "model", kind: .text, placeholder: "MODEL",
        defaultText: "the one that the folder was indexed with",
        help: "embedding model, needed the first time: its folder, or a name such as minilm"),
      Flag(
        name: "threads", kind: .integer(1...1024), placeholder: "N", defaultText: "all cores",
        help: "threads that compute"),
      Flag(
        name: "limit", kind: .integer(1...50), placeholder: "N", defaultText: "5", help: "how many results"),
      Flag(name: "json", kind: .toggle, help: "print a JSON object per result, with the whole reason"),
      Flag(name: "files", kind: .toggle, help: "print only the paths of the files, best first"),
      Flag(
        name: "watch", kind: .toggle,
        help: "read questions from standard input, one per line; a new one ends the search for the one before"
      ),
      Flag(
        name: "evaluate", kind: .text, placeholder: "FILE",
        help:
          "score the search on your own judgements: lines such as {\"query\": \"...\", \"relevant\": {\"path.md\": 2}}"
      ),
      Flag(
        name: "vector-weight", kind: .decimal(0...1), placeholder: "W",
        defaultText: "0.8, and 0.5 for names and numbers",
        help: "weight of meaning against words: 1 is meaning only, 0 words only"),
      Flag(
        name: "no-update", kind: .toggle,
        help: "search the index as it is, without looking for changes in the folder"),
      Flag(name: "all-files", kind: .toggle, help: "include hidden files and those in .gitignore"),
      Flag(name: "verbose", kind: .toggle, help: "list the files that were left out, and why"),
      Flag(
        name: "rebuild", kind: .toggle,
        help: "make the index anew from the folder, for instance if it is damaged"),
      Flag(
        name: "list", kind: .toggle, help: "list the indexed folders and the size of each index"),
      Flag(name: "forget", kind: .toggle, help: "delete the index of FOLDER, even if the folder is gone"),
      Flag(
        name: "index-dir", kind: .text, placeholder: "DIR", defaultText: "~/.cache/mlxserve/search",
        help: "folder for indexes; nothing is written to the searched folder itself"),
      Flag(
        name: "export", kind: .text, placeholder: "FILE",
        help: "write all passages and vectors as JSON lines, for another engine; - is standard output"),
      Flag(
        name: "import", kind: .text, placeholder: "FILE",
        help: "add passages and vectors to the index, as --export writes them"),
      Flag(
        name: "rerank", kind: .text, placeholder: "MODEL",
        help:
          "reranker that orders the first results: its folder, or a name such as ms-marco-minilm"),
    ])

  static let embed = FlagGroup(
    title: "Vectors",
    flags: [
      Flag(
        name: "query", kind: .toggle,
        help: "the texts are questions: add what the model wants before them"
      ),
      Flag(name: "document", kind: .toggle, help: "the texts are documents, likewise"),
      Flag(
        name: "dimensions", kind: .integer(1...1 << 20), placeholder: "N", defaultText: "the model's own",
        help: "elements of a vector, for models trained for fewer"),
      Flag(name: "similarity", kind: .toggle, help: "print how similar the texts are instead"),
    ])

  static let media = FlagGroup(
    title: "Image or audio",
    flags: [
      Flag(
        name: "file", kind: .text, placeholder: "FILE",
        help: "a PNG, JPEG or WAV file (required)"),
      Flag(
        name: "image-tokens", kind: .integer(1...4096), placeholder: "N", defaultText: "280",
        help: "limit of soft tokens, which decides the size that the model sees"),
      Flag(
        name: "raw", kind: .text, placeholder: "OUT",
        help: "write the pixels as RGB, row by row; for a clip the samples at 16 kHz as 32-bit floats"
      ),
      Flag(name: "resized", kind: .toggle, help: "with --raw: at the size that the model sees"),
    ])

  static let perplexity = FlagGroup(
    title: "Perplexity",
    flags: [
      Flag(
        name: "text", kind: .text, placeholder: "FILE", help: "the text to predict, UTF-8"),
      Flag(
        name: "ids", kind: .text, placeholder: "FILE",
        help: "the text as a JSON array of token ids instead; works without a tokenizer"),
      Flag(
        name: "context", kind: .integer(2...Int(Int32.max)), placeholder: "N",
        defaultText: "512, or less if the model's is",
        help: "tokens per window; windows do not overlap"),
      Flag(
        name: "tokens", kind: .integer(1...Int(Int32.max)), placeholder: "N", defaultText: "the whole text",
        help: "how many tokens to predict"),
      Flag(
        name: "compare", kind: .toggle,
        help: "run the exact and the fast mode side by side and print the difference"),
      Flag(name: "json", kind: .toggle, help: "print one JSON object"),
    ])

  static let verify = FlagGroup(
    title: "Verification",
    flags: [
      Flag(
        name: "no-checksums", kind: .toggle,
        help: "do not check weights against the SHA-256 of their download"),
      Flag(
        name: "state-dir", kind: .text, placeholder: "DIR",
        help: "check what a server has stored; needs no model"),
      Flag(
        name: "prefix-cache-dir", kind: .text, placeholder: "DIR",
        help: "check saved prefixes; needs no model"),
      Flag(name: "json", kind: .toggle, help: "print one JSON object"),
    ])
}

extension Flags {
  /// What `serve` takes, and `config` shows.
  static let serving = [
    servedModels, serve, encoders, access, limits, logging, testing, servedHub,
  ]
}
