// The names of all flags, each in the type of its value: a name that no flag has does not compile.

/// A flag's name in Swift's manner: `maxContext` is `--max-context`.
protocol FlagName: RawRepresentable<String>, CaseIterable, Sendable {}

extension FlagName {
  /// As it is typed, without the leading dashes.
  var name: String {
    rawValue.reduce(into: "") { name, letter in
      name += letter.isUppercase ? "-" + letter.lowercased() : String(letter)
    }
  }
}

/// Present or absent.
enum Toggle: String, FlagName {
  case additionalProperties, all, allFiles, allowAnonymous, allowDesktopApps, allowMediaUrls, allowPull,
    allowTruncation, allowWrite, beside, compare, `continue`, csv, dequantize, document, dryRun, examples,
    explain, files,
    force,
    forget, json, jsonLog, kernels, list, names, noAudio, noChecksums, noConfig, noLazyEncoders, noStart,
    noThinking,
    noUi, noUpdate, noVision, print, query, quiet, quotes, readAhead, rebuild, referenceKernels,
    refuseHostedTools,
    remote, remove, requantize, resized, show, similarity, strictHistory, strictParams, testHooks, translate,
    verbose, watch, words, write, yes
}

/// A text, or one of a few words.
enum TextFlag: String, FlagName {
  case adapter, adminHost, adminUnix, alias, allowHost, allowOrigin, answerModel, apiKey, apiKeyFile,
    cacheDir,
    choices, compute, config, dtype, embeddingModel, evaluate, exclude, export, file, format, host, ids,
    `import`,
    include, indexDir, isa, keepLines, kvCacheType, language, limitRate, logLevel, mcpConfig, media,
    mediaRoot,
    mediaUrlHost, memory, mode, model, modelId, modelsDir, module, name, output, prefixCacheDir,
    prefixCacheScope,
    preload, preparedDir, prompt, raw, reasoningField, receiptKey, receipts, recipe, record, rerank,
    responsesReasoningEvents, revision, sampling, schema, server, shardSize, signedBy, speculate, stateDir,
    stop,
    svg, system, tasks, text, to, tokenFile, tools, unix, unixMode, weights
}

/// A whole number.
enum IntegerFlag: String, FlagName {
  case adminPort, bits, context, dimensions, generateTokens, groupSize, idleUnload, imageTokens, jobs, limit,
    maxAnswer, maxBody, maxConnections, maxConnectionsPerAddress, maxConnectionsPerKey, maxContext,
    maxFileBytes,
    maxSequences, maxStall, maxTokens, port, prefixCache, prefixCacheDirSize, preparedDirSize, promptTokens,
    queueLimit, repetitions, searchSlots, seed, stepDelayMs, storage, storagePerKey, storeResponses, threads,
    tokens
}

/// A number.
enum DecimalFlag: String, FlagName {
  case bodyTimeout, drainSeconds, headerTimeout, idleTimeout, searchTimeout, temperature, timeout, topP,
    vectorWeight
}

/// Whole numbers with commas between them.
enum IntegersFlag: String, FlagName {
  case depth, index, sequences
}
