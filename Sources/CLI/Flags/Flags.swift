// The table of all flags, by command.

import Compute
import Conversion
import Pipeline
import Platform
import Sampling
import Server
import Wire

enum Flags {
  private static let sampling = Flag(
    .sampling, "WHOSE", DefaultSampling.self, default: "local",
    "how to choose tokens if neither the request nor the model's files say: local is temperature 0.8, top_k 40, "
      + "top_p 0.95 and min_p 0.05; openai is temperature 1 over the whole vocabulary")

  private static let preparedFolder = Flag(
    .preparedDir, "DIR", default: "~/.cache/mlxserve/prepared",
    "folder for the weights that 'mlxserve prepare' makes")

  static let prepare = FlagGroup(
    "Prepared weights",
    Flag(
      .preparedDirSize, "MB", 1...1 << 40, default: "65536",
      "disk space for all of them; the oldest are deleted"),
    Flag(.remove, "delete the prepared weights of the model"))

  /// What decides the order of weights.
  static let preparedModel = FlagGroup(
    model.title,
    of: model.flags.filter {
      ["model", "threads", "isa", "compute", "prepared-dir"].contains($0.name)
    })

  static let model = FlagGroup(
    "Model",
    Flag(
      .model, "DIR",
      "a model's folder, a short name such as qwen3:0.6b, or OWNER/NAME[@REVISION]; names are downloaded once. The first "
        + "word without dashes is the model too"),
    Flag(.threads, "N", 1...1024, default: "all cores", "threads that compute"),
    Flag(
      .maxContext, "N", 1...Int(Int32.max), default: "the model's own, less if memory is short",
      "limit for a prompt and its answer together, in tokens"),
    Flag(
      .isa, "NAME", ISA.self, default: "the best of this machine",
      "instruction set: portable; avx2, avxvnni, avx512 or amx; neon, dotprod or i8mm"),
    Flag(
      .compute, "MODE", ComputeMode.self, default: "fast on AVX2 and arm64",
      "fast: int8 activations for affine, MXFP4 and NVFP4 weights, twelve bits for MXFP8 and FP8 with AVX-512; "
        + "fine: twice as many bits; exact: float32 activations"),
    Flag(
      .weights, "WHERE", WeightPlace.self, default: "auto",
      "auto: with AVX-512 VNNI and on arm64 in the order of the kernels, from the file of 'mlxserve prepare' or "
        + "copied into memory if there is room; mapped: from the model's own files, whose memory processes share"
    ),
    preparedFolder,
    Flag(
      .kvCacheType, "TYPE", KVFormat.self, default: "q16 with fast, f32 with exact",
      "how keys and values are stored: f32, q16 or q8 (int16 or int8 with a scale per position and head)"),
    Flag(
      .speculate, "HOW", Speculation.self, default: "lookup",
      "guess tokens that repeat earlier text and check several in one step; never changes an answer "
        + "(bench measures right and wrong guesses)"),
    Flag(
      .prefixCache, "MB", 0...1 << 40, default: "a quarter of what the weights leave of --memory",
      "memory for keys and values of earlier prompts; 0 keeps none"),
    Flag(
      .referenceKernels,
      "compute with the slow scalar twins of all kernels, to bisect a suspected fault"))

  /// Without the limit of a conversation: windows have their own flag.
  static let evaluatedModel = FlagGroup(
    model.title, of: model.flags.filter { $0.name != "max-context" })

  /// What a model of vectors takes of the same.
  static let encoder = FlagGroup(
    model.title,
    of: model.flags.filter {
      ["model", "threads", "isa", "compute", "prepared-dir", "reference-kernels"].contains($0.name)
    })

  /// Several models, and how much memory they may take together.
  static let servedModels = FlagGroup(
    model.title,
    of: [
      Flag(
        .model, "[NAME=]DIR",
        "a model's folder, a short name such as qwen3:0.6b, or OWNER/NAME[@REVISION]; names are downloaded once. Words "
          + "without dashes are models too. The first is loaded at the start, others on demand; without any, "
          + "all models of the cache are served",
        isRepeatable: true),
      Flag(
        .modelsDir, "DIR",
        "serve every folder in it that has a config.json, now and later, by the folder's name"),
      Flag(
        .alias, "NAME=MODEL", "another name for a model; '*' is every other name; may be repeated",
        isRepeatable: true),
      Flag(
        .adapter, "[NAME=]DIR",
        "a LoRA or DoRA adapter of the first model, or MODEL:NAME=DIR; requests choose it as the model MODEL:NAME; "
          + "may be repeated", isRepeatable: true),
      Flag(
        .preload, "MODEL", "load this model at the start too, and keep it loaded; may be repeated",
        isRepeatable: true),
      Flag(
        .memory, "SIZE", default: "90% of the machine's, or of the control group's",
        "limit for everything together: weights, keys and values, caches, buffers; 6G, 800M or 70%"),
      Flag(
        .idleUnload, "SECONDS", 0...31_536_000, default: "0: never",
        "unload a model after so long without a request, unless it is preloaded"),
    ] + model.flags.filter { $0.name != "model" })

  static let serve = FlagGroup(
    "Server",
    Flag(.host, "H", default: "127.0.0.1", "address to listen on; 0.0.0.0 or :: for all"),
    Flag(.port, "N", 0...65535, default: "8080", "port to listen on; 0 picks a free one"),
    Flag(.modelId, "ID", default: "the folder's name", "the first model's name in the API"),
    Flag(
      .queueLimit, "N", 0...100_000, default: "64",
      "requests that may wait for a model; more get 429 with Retry-After"),
    Flag(
      .maxAnswer, "N", 0...Int(Int32.max), default: "\(LoadedModel.usualMaxAnswer)",
      "limit in tokens for answers whose request sets none, thinking included; 0: the context alone"),
    Flag(.maxSequences, "N", 1...256, default: "8", "requests that a model computes together"),
    Flag(
      .maxStall, "MS", 10...60_000, default: "200",
      "how long running answers may wait for a token while a prompt is read"),
    Flag(
      .prefixCacheDir, "DIR", default: "in memory only",
      "folder where computed prompts outlive the server"),
    Flag(
      .prefixCacheDirSize, "MB", 1...1 << 40, default: "4096",
      "disk space for them; the longest unused are deleted"),
    Flag(
      .readAhead,
      "while nobody waits, compute what the last conversations begin with again where it is gone; needs --prefix-cache-dir"
    ),
    Flag(
      .prefixCacheScope, "WHOM", PrefixScope.self, default: "shared",
      "who may reuse a computed prompt: everybody (shared), or only the same API key (tenant)"),
    Flag(
      .allowTruncation,
      "let 'dimensions' cut vectors of embedding models that were not trained for it"),
    Flag(
      .maxConnections, "N", 1...65_536, default: "1024",
      "open connections; the one that has waited longest makes room for a new one, and if all are working new "
        + "ones get 503; fewer if the system allows too few open files"),
    Flag(
      .maxConnectionsPerAddress, "N", 1...65_536,
      default: "half of them; no limit for this machine",
      "of these, from one address, or one /64 network of IPv6"),
    Flag(
      .maxConnectionsPerKey, "N", 1...65_536, default: "no limit",
      "of these, with one API key; more get 429"),
    Flag(
      .reasoningField, "NAME", ReasoningField.self, default: "reasoning_content",
      "field for reasoning: reasoning_content, reasoning or both"),
    sampling,
    Flag(
      .receipts, "FORM", ReceiptForm.self, default: "off",
      "whether answers carry receipts, by which others can check them, if the request does not say: off, full, or digest "
        + "(without texts)"),
    Flag(
      .receiptKey, "FILE", "sign receipts with this Ed25519 key (PEM, as openssl genpkey writes it)"),
    Flag(
      .record, "FILE",
      "append requests and their receipts to FILE, for 'mlxserve replay'; with --receipts digest without texts"
    ),
    Flag(.strictParams, "refuse requests with unknown fields; otherwise a header names them"),
    Flag(
      .additionalProperties,
      "allow other properties in schemas that do not forbid them, as JSON Schema does"),
    Flag(
      .strictHistory,
      "read special tokens spelled in earlier answers as plain text, as in users' messages"),
    Flag(
      .responsesReasoningEvents, "NAME", ReasoningEvents.self, default: "openai",
      "names of reasoning events in Responses streams: openai, openresponses or none"),
    Flag(
      .refuseHostedTools,
      "refuse tools that only a provider can run (web_search, ...); otherwise they are left out and named"),
    Flag(
      .mcpConfig, "FILE", default: "none",
      "servers of tools that answers may call, as desktop programs list them (mcpServers)"),
    Flag(
      .keepLines, "CLIENT", MovingLines.self,
      "leave lines in place that this client changes in every request, so that its prompts are read anew; may be repeated",
      isRepeatable: true),
    Flag(
      .stateDir, "DIR", default: "in memory",
      "folder where stored responses, conversations, files and stores outlive the server"),
    Flag(
      .storeResponses, "N", 1...1_000_000, default: "1000",
      "how many responses to keep, and as many conversations and chat completions; at most 64 MiB, 30 days"),
    Flag(.noUi, "do not serve the chat page at /"),
    Flag(
      .embeddingModel, "MODEL", default: "the first that makes vectors",
      "the model that makes the vectors of vector stores"),
    Flag(
      .maxFileBytes, "MB", 1...1024, default: "64",
      "limit for an uploaded file; --max-body limits it too"),
    Flag(
      .storage, "MB", 1...1 << 20, default: "10240",
      "limit for all uploaded files and what batches keep"),
    Flag(.storagePerKey, "MB", 1...1 << 20, default: "1024", "the same for one API key"),
    Flag(.searchSlots, "N", 1...64, default: "4", "searches of vector stores at the same time"),
    Flag(.searchTimeout, "S", 0.1...600, default: "5", "limit for a search of a vector store"),
    Flag(.examples, "after the start, print how to talk to the server, to stderr"))

  static let check = FlagGroup(
    "Check",
    Flag(.explain, "tell in words what differs between two receipts; takes no model"),
    Flag(
      .media, "FILE",
      "an image or WAV of the prompt, of which receipts have digests alone; may be repeated",
      isRepeatable: true),
    Flag(.signedBy, "KEY", "refuse receipts that this public key has not signed (base64)"),
    Flag(.json, "print what is found as JSON, a line for each receipt"))

  static let replay = FlagGroup(
    "Replay", Flag(.json, "print what is found as JSON, a line for each request"))

  static let access = FlagGroup(
    "Access",
    Flag(
      .apiKeyFile, "FILE",
      "keys that clients must send, one per line: 'name: key' or 'name admin: key'; SIGHUP reads it again"),
    Flag(
      .apiKey, "KEY",
      "one more key; other users of the machine can see it, but not the variable MLXSERVE_API_KEY; may be repeated",
      isRepeatable: true),
    Flag(.allowAnonymous, "serve without keys even if other machines can connect"),
    Flag(
      .allowHost, "NAME",
      "host name by which clients reach the server, besides its addresses; '*' is any; may be repeated",
      isRepeatable: true),
    Flag(
      .allowOrigin, "ORIGIN",
      "web pages that may use the server, such as https://chat.example.com; '*' is all; may be repeated",
      isRepeatable: true),
    Flag(
      .allowDesktopApps,
      "let pages of desktop programs use the server: app://, tauri://, vscode-webview:// and the like"),
    Flag(.unix, "PATH", "listen on a Unix socket, and on TCP only if --host or --port is given too"),
    Flag(
      .adminPort, "N", 0...65535,
      "serve health, metrics, and loading and unloading of models on a port of its own; the last three only there"
    ),
    Flag(.adminHost, "H", default: "127.0.0.1", "address of --admin-port"),
    Flag(.adminUnix, "PATH", "the same on a Unix socket that only its owner may use"),
    Flag(.unixMode, "MODE", default: "600", "permissions of the Unix socket, octal"))

  static let limits = FlagGroup(
    "Limits",
    Flag(
      .maxBody, "MB", 1...1024, default: "8, or 48 where the model takes images or audio",
      "largest body of a request; a larger one gets 413"),
    Flag(
      .headerTimeout, "S", 0.1...3600, default: "10", "seconds for the head of a request; then 408"),
    Flag(
      .bodyTimeout, "S", 0.1...3600, default: "30",
      "over each such time a body must bring 1 KiB per second on average; else 408"),
    Flag(
      .idleTimeout, "S", 0.1...3600, default: "30",
      "seconds that a connection may wait for its next request"),
    Flag(
      .drainSeconds, "S", 0...86_400, default: "30",
      "seconds that running answers get after SIGTERM or Ctrl-C"))

  static let testing = FlagGroup(
    "Testing the server",
    Flag(.testHooks, "GET /debug/state shows what the server holds; on a loopback address only"),
    Flag(
      .stepDelayMs, "N", 0...999, default: "0",
      "with --test-hooks: make each step of the engine so much longer"))

  static let logging = FlagGroup(
    "Logging (to stderr)",
    Flag(.jsonLog, "one JSON object per line, also on stdout"),
    Flag(
      .logLevel, "LEVEL", choices: Log.Level.allCases.map(\.name), default: "info",
      "lowest level written: debug, info, warning or error"))

  static let chat = FlagGroup(
    "Chat",
    Flag(.system, "TEXT", "system message"),
    Flag(
      .maxTokens, "N", 1...Int(Int32.max), default: "\(LoadedModel.usualMaxAnswer)",
      "limit for an answer in tokens, thinking included"),
    Flag(
      .temperature, "T", 0...2, default: "the model's own, else 0.8",
      "0 always takes the likeliest token"),
    Flag(
      .topP, "P", 0...1, default: "the model's own, else 0.95",
      "choose among the likeliest tokens that together have this probability"),
    sampling,
    Flag(.seed, "N", 0...Int.max, default: "random", "the same seed gives the same answers"),
    Flag(.stop, "TEXT", "end an answer before this text; may be repeated", isRepeatable: true),
    Flag(.schema, "FILE", "JSON Schema that every answer must match"),
    Flag(
      .tools, "FILE",
      "JSON array of tools as in the API; a call is shown, and the next line you type is its result"),
    Flag(
      .mcpConfig, "FILE",
      "servers whose tools the model may call, as desktop programs list them; you are asked before each call"),
    Flag(.noThinking, "ask the template to switch reasoning off"))

  static let conversation = FlagGroup(
    "Conversation",
    Flag(.continue, "continue the last conversation of a terminal"))

  static let answer = FlagGroup(
    "Answer",
    Flag(.prompt, "TEXT", "the prompt; words after the model are the prompt too"),
    Flag(.json, "print a JSON object with the answer, why it ended and what it cost"))

  static let askedModel = FlagGroup(
    model.title,
    of: [
      Flag(
        .model, "MODEL", default: "the only one in the cache",
        "a model's folder, a GGUF file, a short name such as qwen3:0.6b, or OWNER/NAME[@REVISION]; names are downloaded "
          + "once")
    ] + model.flags.filter { $0.name != "model" })

  static let documents = FlagGroup(
    "Documents",
    Flag(
      .prefixCacheDir, "DIR", default: "~/.cache/mlxserve/documents",
      "folder where what was computed of documents is kept"),
    Flag(
      .prefixCacheDirSize, "MB", 1...1 << 40, default: "16384",
      "disk space for it; the longest unused is deleted"),
    Flag(
      .server, "URL", default: "the one that has this folder, if one runs",
      "a server that reads and answers with its own model; its key is in MLXSERVE_API_KEY"))

  /// What changes the beginning of a prompt about a document.
  static let read = FlagGroup(
    "Reading",
    of: chat.flags.filter { ["system", "no-thinking"].contains($0.name) } + [
      Flag(.json, "print a JSON object for each document")
    ])

  static let asked = FlagGroup(
    "Answer",
    of: [
      Flag(
        .quotes,
        "begin with the passages that the answer rests on, each as it stands in the document, with its line or page"
      )
    ] + answer.flags.filter { $0.name == "json" })

  static let doctor = FlagGroup(
    "Doctor",
    Flag(
      .server, "URL",
      "tell which clients of this server change the beginning of their prompts; its key is in MLXSERVE_API_KEY"
    ),
    Flag(
      .kernels,
      "compare every kernel set of this machine with its scalar twins, and measure memory for a second"))

  static let bench = FlagGroup(
    "Benchmark",
    Flag(.promptTokens, "N", 1...1_000_000, default: "512", "tokens of the prefill run"),
    Flag(.generateTokens, "N", 2...1_000_000, default: "64", "tokens of each decode run"),
    Flag(
      .depth, "N,N,...", 0...1_000_000, default: "0,1024",
      "context depths at which decode is measured"),
    Flag(
      .sequences, "N,N,...", 1...256, default: "1",
      "sequences that decode together; more than 1 with and without a text that they share"),
    Flag(
      .repetitions, "N", 1...1000, default: "3", "runs of each; the median and the spread are shown"),
    Flag(.json, "print one JSON object"),
    Flag(.csv, "print one CSV line per measurement"),
    Flag(
      .index, "N,N,...", 10_000...10_000_000,
      "measure searches in an index of so many vectors, not a model"),
    Flag(
      .indexDir, "DIR", default: "a temporary one", "folder that keeps such an index for the next run"))

  static let encoders = FlagGroup(
    "Images and audio",
    Flag(.noVision, "take no images, even if the model can"),
    Flag(.noAudio, "take no audio, even if the model can"),
    Flag(
      .noLazyEncoders,
      "load the image and audio encoders at the start, not with the first image or clip"),
    Flag(.mediaRoot, "DIR", default: "none", "folder whose files requests may name in file:// URLs"),
    Flag(
      .allowMediaUrls,
      "fetch images from http:// and https:// URLs in requests, from public addresses, with curl"),
    Flag(
      .mediaUrlHost, "HOST[:PORT]", default: "any public one",
      "fetch only from this host, even if its address is private; may be repeated", isRepeatable: true))

  static let search = FlagGroup(
    "Search",
    Flag(
      .model, "MODEL", default: "the one that the folder was indexed with",
      "embedding model, needed the first time: its folder, or a name such as minilm"),
    Flag(.threads, "N", 1...1024, default: "all cores", "threads that compute"),
    Flag(.limit, "N", 1...50, default: "5", "how many results"),
    Flag(.json, "print a JSON object per result, with the whole reason"),
    Flag(.files, "print only the paths of the files, best first"),
    Flag(
      .watch,
      "read questions from standard input, one per line; a new one ends the search for the one before"),
    Flag(
      .evaluate, "FILE",
      "score the search on your own judgements: lines such as {\"query\": \"...\", \"relevant\": {\"path.md\": 2}}"
    ),
    Flag(
      .vectorWeight, "W", 0...1, default: "0.8, and 0.5 for names and numbers",
      "weight of meaning against words: 1 is meaning only, 0 words only"),
    Flag(.noUpdate, "search the index as it is, without looking for changes in the folder"),
    Flag(.allFiles, "include hidden files and those in .gitignore"),
    Flag(.verbose, "list the files that were left out, and why"),
    Flag(.rebuild, "make the index anew from the folder, for instance if it is damaged"),
    Flag(.list, "list the indexed folders and the size of each index"),
    Flag(.forget, "delete the index of FOLDER, even if the folder is gone"),
    Flag(
      .indexDir, "DIR", default: "~/.cache/mlxserve/search",
      "folder for indexes; nothing is written to the searched folder itself"),
    Flag(
      .export, "FILE",
      "write all passages and vectors as JSON lines, for another engine; - is standard output"),
    Flag(.import, "FILE", "add passages and vectors to the index, as --export writes them"),
    Flag(
      .rerank, "MODEL",
      "reranker that orders the first results: its folder, or a name such as ms-marco-minilm"))

  static let notes = FlagGroup(
    "Notes",
    of: search.flags.filter {
      ["model", "threads", "no-update", "all-files", "index-dir", "rerank"].contains($0.name)
    } + [
      Flag(
        .answerModel, "MODEL", default: "none: no tool 'ask'",
        "model that answers questions from the notes: its folder, a short name or OWNER/NAME"),
      Flag(
        .allowWrite, "also offer a tool that makes notes and adds to them; nothing that is written is changed"
      ),
      Flag(.name, "NAME", default: "notes", "with install: what the program calls the server"),
      Flag(.print, "with install: only show what the program has to know"),
      Flag(.write, "with install: write it without asking; what was there is kept beside it"),
    ])

  static let embed = FlagGroup(
    "Vectors",
    Flag(.query, "the texts are questions: add what the model wants before them"),
    Flag(.document, "the texts are documents, likewise"),
    Flag(
      .dimensions, "N", 1...1 << 20, default: "the model's own",
      "elements of a vector, for models trained for fewer"),
    Flag(.similarity, "print how similar the texts are instead"))

  static let speechModel = FlagGroup(
    model.title,
    of: askedModel.flags.filter {
      ["model", "threads", "isa", "compute", "kv-cache-type", "prepared-dir", "reference-kernels"].contains(
        $0.name)
    })

  static let transcript = FlagGroup(
    "Transcript",
    Flag(.language, "NAME", default: "detected", "what is spoken: a code or an English name"),
    Flag(.translate, "write English, whatever is spoken"),
    Flag(.prompt, "TEXT", "what was said before, or names as they are spelt"),
    Flag(
      .temperature, "T", 0...1, default: "0, and warmer where that fails",
      "how much is left to chance"),
    Flag(.format, "NAME", TranscriptFormat.self, default: "txt", "txt, srt, vtt or json"),
    Flag(.words, "with json: when each word was said"),
    Flag(.output, "PATH", default: "standard output", "a file, or a folder for one file each"),
    Flag(.beside, "write beside each sound file, with the ending of the format"))

  static let media = FlagGroup(
    "Image or audio",
    Flag(.file, "FILE", "a PNG, JPEG or WAV file (required)"),
    Flag(
      .imageTokens, "N", 1...4096, default: "280",
      "limit of soft tokens, which decides the size that the model sees"),
    Flag(
      .raw, "OUT",
      "write the pixels as RGB, row by row; for a clip the samples at 16 kHz as 32-bit floats"),
    Flag(.resized, "with --raw: at the size that the model sees"))

  static let perplexity = FlagGroup(
    "Perplexity",
    Flag(.text, "FILE", "the text to predict, UTF-8"),
    Flag(.ids, "FILE", "the text as a JSON array of token ids instead; works without a tokenizer"),
    Flag(
      .context, "N", 2...Int(Int32.max), default: "512, or less if the model's is",
      "tokens per window; windows do not overlap"),
    Flag(.tokens, "N", 1...Int(Int32.max), default: "the whole text", "how many tokens to predict"),
    Flag(.compare, "run the exact and the fast mode side by side and print the difference"),
    Flag(.json, "print one JSON object"))

  /// Several models side by side.
  static let comparedModels = FlagGroup(
    model.title,
    of: [
      Flag(
        .model, "DIR",
        "a model's folder, a GGUF file, a short name such as qwen3:0.6b, or OWNER/NAME[@REVISION]. Words without dashes are "
          + "models too; the others are compared with the first",
        isRepeatable: true)
    ] + evaluatedModel.flags.filter { $0.name != "model" })

  static let eval = FlagGroup(
    "Evaluation",
    of: [
      Flag(
        .choices, "FILE",
        "questions as JSON lines: \"question\" or \"prompt\", \"choices\" and \"answer\", the place of the right one from 0"
      ),
      Flag(
        .tasks, "FILE", "tasks as JSON lines: \"prompt\" and \"answer\", which has to be given exactly"),
      Flag(
        .tools, "FILE",
        "requests as JSON lines: \"question\", \"tools\", and the \"calls\" that are right, or none; docs/convert.md has more"
      ),
      Flag(
        .maxTokens, "N", 1...Int(Int32.max), default: "64; 256 with tools",
        "limit for each answer in tokens"),
      Flag(.svg, "FILE", "write a chart of the results too"),
    ] + perplexity.flags.filter { $0.name != "ids" })

  /// What is converted, and with how many threads.
  static let convertedModel = FlagGroup(
    model.title, of: model.flags.filter { ["model", "threads"].contains($0.name) })

  static let fuse = FlagGroup(
    "Fusing",
    of: [Flag(.adapter, "DIR", "the folder of the LoRA or DoRA adapter (required)")]
      + convert.flags.filter { ["output", "dtype", "dequantize", "shard-size", "json"].contains($0.name) })

  static let convert = FlagGroup(
    "Conversion",
    Flag(.output, "DIR", "the folder to write, which must not exist (required)"),
    Flag(
      .bits, "N", 2...8, default: "4, or as stored where the source is quantized",
      "bits of a weight in affine mode: 2, 3, 4, 5, 6 or 8"),
    Flag(.groupSize, "N", 16...128, default: "64", "weights that share a scale: 32, 64 or 128"),
    Flag(
      .mode, "MODE", ModeName.self, default: "affine",
      "how weights are stored: affine, mxfp4, mxfp8 or nvfp4"),
    Flag(
      .recipe, "NAME", ConversionOptions.Recipe.self,
      "more bits where fewer cost most (mixed_LOW_HIGH), or scales searched for the least error of products (best)"
    ),
    Flag(
      .module, "PATTERN=RULE",
      "what modules of matching names get: plain, bits with or without a group size (6/32), or a mode; may be repeated",
      isRepeatable: true),
    Flag(
      .dtype, "TYPE", FloatName.self, default: "the one that config.json names, else as stored",
      "type of floats, scales and biases: float16, bfloat16 or float32"),
    Flag(.dequantize, "write floats alone"),
    Flag(.requantize, "round weights again that are quantized already"),
    Flag(.shardSize, "SIZE", default: "5 GiB", "largest file of weights, such as 2G"),
    Flag(
      .text, "FILE",
      "measure how the result predicts this text beside the source; with the recipe best also what scales are searched by"
    ),
    Flag(.tokens, "N", 1...Int(Int32.max), default: "4096", "how many tokens of it to predict"),
    Flag(.json, "print one JSON object"))

  static let verify = FlagGroup(
    "Verification",
    Flag(.noChecksums, "do not check weights against the SHA-256 of their download"),
    Flag(.stateDir, "DIR", "check what a server has stored; needs no model"),
    Flag(.prefixCacheDir, "DIR", "check saved prefixes; needs no model"),
    Flag(.json, "print one JSON object"))
}

extension Flags {
  /// What `serve` takes, and `config` shows.
  static let serving = [
    servedModels, serve, encoders, access, limits, logging, testing, servedHub,
  ]
}
