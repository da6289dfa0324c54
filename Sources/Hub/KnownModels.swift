// Models that are known by a short name: which repository it stands for, how large it is, and what it is good for.

/// A row of the table. The download says what its size really is.
package struct KnownModel: Sendable {
  /// `family:size`, in lower case.
  package let name: String
  /// Other names, such as the family alone.
  package let aliases: [String]
  package let repository: String
  /// Bytes of the download, about: parameters times bits.
  package let bytes: Int
  /// Of these, what each token reads: of a mixture, its active experts.
  package let bytesPerToken: Int
  /// One line.
  package let note: String

  fileprivate init(
    _ name: String, _ repository: String, _ gigabytes: Double, active: Double? = nil, _ note: String,
    aliases: [String] = []
  ) {
    (self.name, self.aliases) = (name, aliases)
    self.repository = repository.contains("/") ? repository : "mlx-community/" + repository
    bytes = Int(gigabytes * 1e9)
    bytesPerToken = Int((active ?? gigabytes) * 1e9)
    self.note = note
  }

  /// Memory for the weights, keys and values of a few thousand tokens, and buffers, about.
  package var memoryBytes: Int { bytes + bytes / 5 + 300_000_000 }

  /// Tokens of an answer per second, about: each token reads the weights once, at nine tenths of what a plain loop
  /// reads.
  package func tokensPerSecond(_ bandwidth: Double) -> Double {
    bandwidth * 0.9 / Double(max(1, bytesPerToken))
  }

  /// Whether it makes vectors or scores, for search.
  package var isForSearch: Bool { note.contains("search") }

  var names: [String] { [name] + aliases }
}

package enum KnownModels {
  /// Tokens per second at which an answer comes about as fast as people read.
  package static let readingSpeed = 8.0

  /// A good one for a first try: the largest of the usual ones that leaves half of the memory to others and answers as fast
  /// as people read, else the smallest; nil where none leaves so much memory.
  ///
  /// - Parameter bandwidth: bytes per second that the machine reads from memory; nil where it is not known.
  package static func fitting(memory: Int, bandwidth: Double?) -> KnownModel? {
    let usual = ["qwen3:8b", "qwen3:4b", "qwen3:1.7b", "qwen3:0.6b"].compactMap { find($0) }
      .filter { $0.memoryBytes <= memory / 20 * 9 }
    return usual.first { model in bandwidth.map { model.tokensPerSecond($0) >= readingSpeed } ?? true }
      ?? usual.last
  }

  /// Families that the engine runs, in 4 bits unless the name says otherwise.
  package static let all: [KnownModel] = [
    KnownModel("qwen3:0.6b", "Qwen3-0.6B-4bit", 0.35, "tiny, with thinking and tools; for trying things out"),
    KnownModel("qwen3:1.7b", "Qwen3-1.7B-4bit", 1.0, "small, with thinking and tools"),
    KnownModel(
      "qwen3:4b", "Qwen3-4B-4bit", 2.3, "good all-round model for a laptop, with thinking and tools",
      aliases: ["qwen3", "qwen"]),
    KnownModel("qwen3:8b", "Qwen3-8B-4bit", 4.6, "better answers, half as fast"),
    KnownModel(
      "qwen3:30b-a3b", "Qwen3-30B-A3B-4bit", 17, active: 1.9,
      "mixture of experts: as fast as 3B, as good as far larger"),
    KnownModel("qwen3.5:2b", "Qwen3.5-2B-4bit", 1.4, "small, long contexts at little memory"),
    KnownModel("qwen2.5:1.5b", "Qwen2.5-1.5B-Instruct-4bit", 0.9, "small, without thinking"),
    KnownModel(
      "qwen2.5:7b", "Qwen2.5-7B-Instruct-4bit", 4.3, "all-round, without thinking", aliases: ["qwen2.5"]),
    KnownModel(
      "qwen2.5-coder:0.5b", "Qwen2.5-Coder-0.5B-4bit", 0.3, "code completion in editors, base model"),
    KnownModel(
      "qwen2.5-coder:1.5b", "Qwen2.5-Coder-1.5B-4bit", 0.9, "code completion in editors, base model",
      aliases: ["qwen2.5-coder"]),
    KnownModel("qwen2.5-coder:3b", "Qwen2.5-Coder-3B-4bit", 1.8, "code completion in editors, base model"),
    KnownModel("qwen2.5-coder:7b", "Qwen2.5-Coder-7B-4bit", 4.3, "code completion in editors, base model"),
    KnownModel("llama3.2:1b", "Llama-3.2-1B-Instruct-4bit", 0.7, "tiny, many languages"),
    KnownModel(
      "llama3.2:3b", "Llama-3.2-3B-Instruct-4bit", 1.8, "small, tools", aliases: ["llama3.2", "llama"]),
    KnownModel(
      "llama3.1:8b", "Meta-Llama-3.1-8B-Instruct-4bit", 4.5, "all-round, tools, long contexts",
      aliases: ["llama3.1", "llama3", "llama3:8b"]),
    KnownModel("gemma3:1b", "gemma-3-1b-it-qat-4bit", 0.8, "tiny, many languages", aliases: ["gemma3"]),
    KnownModel(
      "gemma3n:e2b", "gemma-3n-E2B-it-lm-4bit", 2.6, active: 1.2, "small, many languages",
      aliases: ["gemma3n"]),
    KnownModel(
      "gemma4:e2b", "gemma-4-e2b-it-4bit", 3.5, active: 1.4, "small; images and audio", aliases: ["gemma4:2b"]
    ),
    KnownModel(
      "gemma4:e4b", "gemma-4-e4b-it-4bit", 5, active: 2.7, "all-round; images and audio, thinking and tools",
      aliases: ["gemma4", "gemma"]),
    KnownModel("gemma4:26b-a4b", "gemma-4-26b-a4b-it-4bit", 15, active: 2.3, "mixture of experts; images"),
    KnownModel("gemma2:2b", "gemma-2-2b-it-4bit", 1.5, "small, older", aliases: ["gemma2"]),
    KnownModel("gemma2:9b", "gemma-2-9b-it-4bit", 5.2, "all-round, older"),
    KnownModel(
      "gpt-oss:20b", "gpt-oss-20b-MXFP4-Q8", 12, active: 2.6, "mixture of experts with thinking and tools",
      aliases: ["gpt-oss"]),
    KnownModel("mistral:7b", "Mistral-7B-Instruct-v0.3-4bit", 4.1, "all-round, tools", aliases: ["mistral"]),
    KnownModel(
      "mistral-nemo", "Mistral-Nemo-Instruct-2407-4bit", 6.9, "many languages", aliases: ["mistral-nemo:12b"]),
    KnownModel(
      "ministral3:3b", "Ministral-3-3B-Instruct-2512-4bit", 2.8, "small, tools", aliases: ["ministral3"]),
    KnownModel(
      "phi3.5", "Phi-3.5-mini-instruct-4bit", 2.2, "reasoning in a small model",
      aliases: ["phi3.5:mini", "phi3.5:3.8b", "phi3", "phi3:mini"]),
    KnownModel(
      "phi4-mini", "Phi-4-mini-instruct-4bit", 2.2, "mathematics and tools",
      aliases: ["phi4-mini:3.8b", "phi"]),
    KnownModel("smollm3", "SmolLM3-3B-4bit", 1.7, "small, with thinking", aliases: ["smollm3:3b"]),
    KnownModel(
      "smollm:135m", "SmolLM-135M-Instruct-4bit", 0.1, "the smallest; for tests", aliases: ["smollm"]),
    KnownModel(
      "granite3.3:2b", "granite-3.3-2b-instruct-4bit", 1.4, "business texts, tools", aliases: ["granite3.3"]),
    KnownModel(
      "deepseek-r1:7b", "DeepSeek-R1-Distill-Qwen-7B-4bit", 4.3, "long thinking before answers",
      aliases: ["deepseek-r1", "deepseek"]),
    KnownModel(
      "minilm", "sentence-transformers/all-MiniLM-L6-v2", 0.09, "for search of English notes, tiny and quick",
      aliases: ["all-minilm", "all-minilm-l6-v2"]),
    KnownModel(
      "e5-small", "intfloat/multilingual-e5-small", 0.47, "for search in a hundred languages, small",
      aliases: ["multilingual-e5-small", "e5"]),
    KnownModel("bge-small", "BAAI/bge-small-en-v1.5", 0.13, "for search of English notes", aliases: ["bge"]),
    KnownModel(
      "qwen3-embedding:0.6b", "Qwen/Qwen3-Embedding-0.6B", 1.2, "for search in a hundred languages, larger",
      aliases: ["qwen3-embedding"]),
    KnownModel(
      "ms-marco-minilm", "cross-encoder/ms-marco-MiniLM-L6-v2", 0.09,
      "puts results of a search in order, English"),
    KnownModel(
      "bge-reranker", "BAAI/bge-reranker-v2-m3", 2.3, "puts results of a search in order, many languages",
      aliases: ["bge-reranker-v2-m3"]),
  ]

  /// What Ollama's tags add to a size without meaning another model: these have four bits and follow instructions.
  private static let usualTags: Set<Substring> = [
    "latest", "instruct", "it", "chat", "text", "q4_0", "q4_k_m", "q4_k_s", "4bit",
  ]

  /// The model of a short name or an alias, in any case, also with a tag such as `:latest` or `-instruct-q4_K_M`.
  package static func find(_ name: String) -> KnownModel? {
    var low = name.lowercased()[...]
    while true {
      if let model = all.first(where: { $0.names.contains { $0 == low } }) { return model }
      guard let mark = low.lastIndex(where: { $0 == "-" || $0 == ":" }),
        usualTags.contains(low[low.index(after: mark)...])
      else { return nil }
      low = low[..<mark]
    }
  }

  /// The models that have every word in their name, repository or note.
  package static func search(_ words: [String]) -> [KnownModel] {
    let low = words.map { $0.lowercased() }
    return all.filter { model in
      let text = (model.names + [model.repository, model.note]).joined(separator: " ").lowercased()
      return low.allSatisfy { text.contains($0) }
    }
  }

  /// Every name that can be typed, and the repositories.
  package static var names: [String] { all.flatMap { $0.names + [$0.repository] } }
}
