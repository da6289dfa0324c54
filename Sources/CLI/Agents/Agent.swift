// The agents that `mlxserve launch` knows, as data: what tells each of them where the server is and what its model can.
//
// `{url}`, `{v1}` (the URL with /v1), `{model}`, `{context}`, `{input}`, `{output}` (tokens), `{seconds}`,
// `{milliseconds}` (how long an answer may take) and `{key}` stand for what the server says. Docs: agents/README.md.

/// Where an agent reads its settings, in the words above.
struct Agent: Sendable {
  /// A file with settings of an agent.
  struct SettingsFile: Sendable {
    /// Begins with `~/` and is below the user's home.
    let path: String
    /// JSON, which goes into what the file has; any other text is a whole file.
    let content: String

    var isJSON: Bool { path.hasSuffix(".json") }
  }

  let name: String
  let title: String
  /// The program; nil for one that is not started from a terminal.
  var program: String?
  var arguments: [String] = []
  /// Variables for the program alone.
  var environment: KeyValuePairs<String, String> = [:]
  var files: [SettingsFile] = []
  /// What a person has to do.
  var steps: [String] = []
  /// Tokens of its first request where they were counted, with Qwen3's tokenizer: its instructions and tools.
  var firstRequest: Int?

  #if os(macOS)
    private static let codeFolder = "~/Library/Application Support/Code/User"
  #else
    private static let codeFolder = "~/.config/Code/User"
  #endif
  private static let aiderFolder = "~/.config/mlxserve"

  static let all: [Agent] = [
    Agent(
      name: "claude", title: "Claude Code", program: "claude",
      environment: [
        "ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_AUTH_TOKEN": "{key}", "ANTHROPIC_MODEL": "{model}",
        "ANTHROPIC_DEFAULT_OPUS_MODEL": "{model}", "ANTHROPIC_DEFAULT_SONNET_MODEL": "{model}",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "{model}", "CLAUDE_CODE_SUBAGENT_MODEL": "{model}",
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "{context}",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "{output}", "API_TIMEOUT_MS": "{milliseconds}",
        // Its header changes with every request, at the beginning of the prompt.
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
      ], firstRequest: 11_700),
    Agent(
      name: "codex", title: "Codex", program: "codex",
      arguments: [
        "-m", "{model}", "-c", "model_provider=\"mlxserve\"", "-c",
        "model_providers.mlxserve={name=\"mlxserve\", base_url=\"{v1}\", env_key=\"MLXSERVE_API_KEY\", "
          + "wire_api=\"responses\", stream_idle_timeout_ms={milliseconds}}",
        "-c", "model_context_window={context}", "-c", "model_max_output_tokens={output}",
      ],
      environment: ["MLXSERVE_API_KEY": "{key}"], firstRequest: 8_400),
    Agent(
      name: "opencode", title: "opencode", program: "opencode",
      environment: [
        "MLXSERVE_API_KEY": "{key}",
        "OPENCODE_CONFIG_CONTENT": #"""
        {"provider": {"mlxserve": {"npm": "@ai-sdk/openai-compatible", "name": "mlxserve",
          "options": {"baseURL": "{v1}", "apiKey": "{env:MLXSERVE_API_KEY}", "timeout": false,
            "headerTimeout": false, "chunkTimeout": false},
          "models": {"{model}": {"name": "{model}", "limit": {"context": "{context}", "output": "{output}"}}}}},
          "model": "mlxserve/{model}", "small_model": "mlxserve/{model}"}
        """#,
      ]),
    Agent(
      name: "cline", title: "Cline",
      steps: [
        "In Cline's settings choose the API provider 'OpenAI Compatible'.",
        "Base URL: {v1}", "API key: {key}", "Model ID: {model}",
        "Under 'Model Configuration': context window {context}, max output tokens {output}.",
      ]),
    Agent(
      name: "zed", title: "Zed", program: "zed",
      environment: ["MLXSERVE_API_KEY": "{key}"],
      files: [
        SettingsFile(
          path: "~/.config/zed/settings.json",
          content: #"""
            {"language_models": {"openai_compatible": {"mlxserve": {"api_url": "{v1}", "available_models": [
              {"name": "{model}", "display_name": "{model}", "max_tokens": "{context}",
                "max_output_tokens": "{output}", "capabilities": {"tools": true, "images": false}}]}}},
              "agent": {"default_model": {"provider": "mlxserve", "model": "{model}"}}}
            """#)
      ]),
    Agent(
      name: "continue", title: "Continue",
      files: [
        SettingsFile(
          path: "~/.continue/config.yaml",
          content: #"""
            name: mlxserve
            version: 1.0.0
            schema: v1
            models:
              - name: "{model}"
                provider: openai
                model: "{model}"
                apiBase: "{v1}"
                apiKey: "{key}"
                roles: [chat, edit, apply]
                defaultCompletionOptions:
                  contextLength: {context}
                  maxTokens: {output}
                requestOptions:
                  timeout: {seconds}

            """#)
      ]),
    Agent(
      name: "aider", title: "aider", program: "aider",
      environment: [
        "OPENAI_API_BASE": "{v1}", "OPENAI_API_KEY": "{key}", "AIDER_MODEL": "openai/{model}",
        "AIDER_TIMEOUT": "{seconds}", "AIDER_SHOW_MODEL_WARNINGS": "false",
        "AIDER_MODEL_METADATA_FILE": aiderFolder + "/aider.model.metadata.json",
        "AIDER_MODEL_SETTINGS_FILE": aiderFolder + "/aider.model.settings.yml",
      ],
      files: [
        SettingsFile(
          path: aiderFolder + "/aider.model.metadata.json",
          content: #"""
            {"openai/{model}": {"max_input_tokens": "{input}", "max_output_tokens": "{output}",
              "max_tokens": "{output}", "input_cost_per_token": 0, "output_cost_per_token": 0,
              "litellm_provider": "openai", "mode": "chat"}}
            """#),
        // A reminder after the last message is not there any more in the next turn.
        SettingsFile(
          path: aiderFolder + "/aider.model.settings.yml",
          content: #"""
            - name: "openai/{model}"
              reminder: none
              use_temperature: false

            """#),
      ]),
    Agent(
      name: "vscode", title: "VS Code", program: "code",
      files: [
        SettingsFile(
          path: codeFolder + "/chatLanguageModels.json",
          content: #"""
            [{"name": "mlxserve", "vendor": "customendpoint", "apiKey": "{key}", "apiType": "chat-completions",
              "models": [{"id": "{model}", "name": "{model}", "url": "{v1}/chat/completions",
                "toolCalling": true, "vision": false, "maxInputTokens": "{input}",
                "maxOutputTokens": "{output}"}]}]
            """#)
      ],
      steps: ["Choose {model} in the model picker of the chat view (VS Code 1.122 and later)."]),
    Agent(
      name: "goose", title: "goose", program: "goose", arguments: ["session"],
      environment: [
        "GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "{model}", "OPENAI_HOST": "{url}",
        "OPENAI_BASE_PATH": "v1/chat/completions", "OPENAI_API_KEY": "{key}", "OPENAI_TIMEOUT": "{seconds}",
        "GOOSE_CONTEXT_LIMIT": "{context}", "GOOSE_MAX_TOKENS": "{output}",
      ]),
    Agent(
      name: "home-assistant", title: "Home Assistant",
      steps: [
        "Settings, Devices & services, Add integration, Ollama. URL: {url} (another machine needs --host and its name).",
        "Model: {model}",
        "In the options of the conversation agent: context window size {context}, keep alive -1.",
        "Expose few entities: each is a line of every prompt.",
      ]),
    Agent(
      name: "open-webui", title: "Open WebUI", program: "open-webui", arguments: ["serve", "--port", "3000"],
      environment: [
        "OPENAI_API_BASE_URLS": "{v1}", "OPENAI_API_KEYS": "{key}", "ENABLE_OLLAMA_API": "False",
        "DEFAULT_MODELS": "{model}", "AIOHTTP_CLIENT_TIMEOUT": "{seconds}",
      ],
      steps: ["Open http://127.0.0.1:3000. Connections that Open WebUI has stored win over these variables."]),
  ]
}
