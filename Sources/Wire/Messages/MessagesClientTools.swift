// The tools of Anthropic's API that a client runs (`bash_20250124` and its like), as functions that any model can call.
//
// A request names their type alone, since Anthropic's models know them. The schemas here are the published ones.

import JSON

/// What a model is told of them. Their calls are `tool_use` blocks like all others.
enum MessagesClientTools {
  /// A family, and its version: the date at the end of its types.
  private struct Version {
    let family: String
    let date: Int

    init?(_ type: String) {
      guard let place = type.utf8.lastIndex(of: UInt8(ascii: "_")) else { return nil }
      let digits = String(type[type.utf8.index(after: place)...])
      guard digits.utf8.count == 8, let date = Int(digits), date > 0 else { return nil }
      (family, self.date) = (String(type[..<place]), date)
    }
  }

  /// The functions of a tool; nil for a type that no client runs.
  static func read(_ tool: inout Fields, type: String, limits: RequestLimits) throws(APIError) -> [Tool]? {
    guard let version = Version(type) else { return nil }
    switch version.family {
    case "bash": return [try function(&tool, usual: "bash", bash, limits)]
    case "text_editor":
      let isOld = version.date < 20_250_429
      let name = isOld ? "str_replace_editor" : "str_replace_based_edit_tool"
      _ = try tool.integer("max_characters", in: 1...Int.max)
      return [try function(&tool, usual: name, editor(isOld: isOld), limits)]
    case "memory": return [try function(&tool, usual: "memory", memory, limits)]
    case "computer": return [try function(&tool, usual: "computer", computer(&tool, version.date), limits)]
    case "computer_toolset": return try toolset(&tool, limits)
    default: return nil
    }
  }

  /// What is told of one function.
  private struct Description {
    let text: String
    let properties: [(String, JSONValue)]
    var required: [String] = []

    var schema: JSONValue {
      [
        "type": "object", "properties": .object(JSONObject(properties)),
        "required": .array(required.map(JSONValue.string)), "additionalProperties": false,
      ]
    }
  }

  private static func function(
    _ tool: inout Fields, usual: String, _ description: Description, _ limits: RequestLimits
  ) throws(APIError) -> Tool {
    var fields = try Fields(
      [
        "name": .string(try tool.string("name") ?? usual), "description": .string(description.text),
        "parameters": description.schema, "strict": tool.value("strict") ?? nil,
        "defer_loading": tool.value("defer_loading") ?? nil,
      ], path: tool.path)
    return try Tool(&fields, limits: limits)
  }

  private static func member(_ type: String, _ words: String) -> JSONValue {
    ["type": .string(type), "description": .string(words)]
  }

  private static func word(of words: [String], _ description: String) -> JSONValue {
    ["type": "string", "enum": .array(words.map(JSONValue.string)), "description": .string(description)]
  }

  private static func numbers(_ count: Int, _ words: String) -> JSONValue {
    [
      "type": "array", "items": ["type": "integer"], "minItems": .int(count), "maxItems": .int(count),
      "description": .string(words),
    ]
  }

  // MARK: Shell, files, memory

  private static let bash = Description(
    text: "Runs commands in a bash shell. Its state stays from one call to the next.",
    properties: [
      ("command", member("string", "The bash command to run. Required unless the tool is being restarted.")),
      ("restart", member("boolean", "True restarts the tool. Otherwise leave it out.")),
    ])

  /// What commands on files have in common.
  private static func files(_ commands: [String], insertion: String) -> [(String, JSONValue)] {
    [
      ("command", word(of: commands, "What to do.")),
      ("path", member("string", "Absolute path of a file or directory.")),
      ("file_text", member("string", "Of create: the content of the new file.")),
      ("old_str", member("string", "For str_replace: the text to replace, exactly as in the file.")),
      ("new_str", member("string", "Of str_replace: the new text; without it the old text is deleted.")),
      (
        "insert_line",
        member("integer", "Of insert: the line after which the text comes, 0 for the beginning.")
      ),
      (
        insertion,
        member("string", "Of insert: the text to insert. Of str_replace, where it is new_str: the new text.")
      ),
      ("view_range", numbers(2, "Of view: the first and the last line to show, from 1; -1 for the end.")),
    ].reduce(into: []) { members, member in
      // The older editors insert what replaces.
      members.removeAll { $0.0 == member.0 }
      members.append(member)
    }
  }

  private static func editor(isOld: Bool) -> Description {
    let commands = ["view", "create", "str_replace", "insert"] + (isOld ? ["undo_edit"] : [])
    return Description(
      text: "Views, creates and edits files. Its state stays from one call to the next.",
      properties: files(commands, insertion: isOld ? "new_str" : "insert_text"),
      required: ["command", "path"])
  }

  private static let memory = Description(
    text:
      "Views, creates, edits, deletes and renames files of notes below /memories, which outlive the conversation.",
    properties: files(
      ["view", "create", "str_replace", "insert", "delete", "rename"], insertion: "insert_text") + [
        ("old_path", member("string", "Of rename: the path that there is.")),
        ("new_path", member("string", "Of rename: the new path.")),
      ],
    required: ["command"])

  // MARK: The computer

  private static let oldActions = [
    "key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click",
    "double_click",
    "screenshot", "cursor_position",
  ]
  private static let newActions = [
    "left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "triple_click",
  ]

  private static let text = member(
    "string", "Text to type, or keys as ctrl+s; of a click: keys that are held down.")
  private static let place = numbers(2, "x and y in pixels from the left and the upper edge.")
  private static let start = numbers(2, "Of left_click_drag: x and y where it begins.")
  private static let direction = word(of: ["up", "down", "left", "right"], "Of scroll.")
  private static let amount = member("integer", "Of scroll: clicks of the wheel.")
  private static let duration = member("integer", "Of hold_key and wait: seconds.")
  private static let region = numbers(4, "Of zoom: x and y of the upper left and of the lower right corner.")

  private static func computer(_ tool: inout Fields, _ date: Int) throws(APIError) -> Description {
    let sizes = try ["display_width_px", "display_height_px"].map { (name) throws(APIError) -> Int in
      guard let size = try tool.integer(name, in: 1...Int.max) else { throw .missing(tool.name(of: name)) }
      return size
    }
    let zooms = try tool.bool("enable_zoom") ?? false
    let isNew = date >= 20_250_124
    let actions = oldActions + (isNew ? newActions : []) + (zooms ? ["zoom"] : [])
    var properties = [
      ("action", word(of: actions, "What to do.")), ("coordinate", place), ("text", text),
    ]
    if isNew {
      properties += [
        ("start_coordinate", start), ("scroll_direction", direction), ("scroll_amount", amount),
        ("duration", duration),
      ]
    }
    if zooms { properties.append(("region", region)) }
    return Description(
      text:
        "Uses the mouse and the keyboard of a computer, and takes screenshots. The screen has \(sizes[0]) by \(sizes[1]) pixels.",
      properties: properties, required: ["action"])
  }

  private static let click: [(String, JSONValue)] = [("coordinate", place), ("text", text)]

  /// The members of the toolset, each of which is a function of its own.
  private static let members: [(name: String, description: Description)] = [
    (
      "key",
      Description(
        text: "Presses a key or keys.",
        properties: [("text", text), ("repeat", member("integer", "Times; 1 if left out."))],
        required: ["text"])
    ),
    (
      "hold_key",
      Description(
        text: "Holds keys down.", properties: [("text", text), ("duration", duration)],
        required: ["text", "duration"])
    ),
    ("type", Description(text: "Types a text.", properties: [("text", text)], required: ["text"])),
    ("cursor_position", Description(text: "Tells where the cursor is.", properties: [])),
    (
      "mouse_move",
      Description(text: "Moves the cursor.", properties: [("coordinate", place)], required: ["coordinate"])
    ),
    ("left_mouse_down", Description(text: "Presses the left button.", properties: [])),
    ("left_mouse_up", Description(text: "Releases the left button.", properties: [])),
    ("left_click", Description(text: "Clicks with the left button.", properties: click)),
    (
      "left_click_drag",
      Description(
        text: "Drags with the left button.", properties: click + [("start_coordinate", start)],
        required: ["coordinate", "start_coordinate"])
    ),
    ("right_click", Description(text: "Clicks with the right button.", properties: click)),
    ("middle_click", Description(text: "Clicks with the middle button.", properties: click)),
    ("double_click", Description(text: "Clicks twice.", properties: click)),
    ("triple_click", Description(text: "Clicks three times.", properties: click)),
    (
      "scroll",
      Description(
        text: "Scrolls.", properties: click + [("scroll_direction", direction), ("scroll_amount", amount)],
        required: ["scroll_direction", "scroll_amount"])
    ),
    ("wait", Description(text: "Waits.", properties: [("duration", duration)], required: ["duration"])),
    ("screenshot", Description(text: "Takes a screenshot.", properties: [])),
    (
      "zoom",
      Description(
        text: "Takes an enlarged screenshot of a part of the screen.", properties: [("region", region)],
        required: ["region"])
    ),
  ]

  /// All members that `configs` does not switch off.
  private static func toolset(_ tool: inout Fields, _ limits: RequestLimits) throws(APIError) -> [Tool] {
    var configs = try tool.fields("configs")
    var tools: [Tool] = []
    for (name, description) in members {
      var config = try configs?.fields(name)
      guard try config?.bool("enabled") != false else { continue }
      var entry = try Fields(
        ["defer_loading": config?.value("defer_loading") ?? nil], path: config?.path ?? tool.path)
      tools.append(try function(&entry, usual: name, description, limits))
    }
    if let unknown = configs?.unread.first, let configs {
      throw .invalidValue(configs.name(of: unknown), "the toolset has no such member")
    }
    return tools
  }
}
