// A chat in the terminal over a model that this program holds: chat-example FOLDER, a line each turn.

import Foundation
import MLXServe

guard CommandLine.arguments.count > 1 else {
  print("usage: chat-example FOLDER")
  exit(2)
}
do {
  let model = try await Model.load(folder: CommandLine.arguments[1])
  let chat = try model.chat(
    system: "You are a helpful assistant.", options: AnswerOptions(maxTokens: 500))
  print("\(model.id) is ready.")
  while let line = readLine() {
    for try await piece in chat.send(line) {
      switch piece {
      case .reasoning: continue
      case .text(let text): print(text, terminator: "")
      case .end(let isComplete): print(isComplete ? "" : " ...")
      }
    }
  }
  model.unload()
} catch {
  print("chat-example: \(error)")
  exit(1)
}
