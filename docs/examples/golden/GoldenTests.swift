// Golden answers of a model, for XCTest: a program's questions have the answers of the folder Golden, word by word.
//
//     MODEL=~/models/mine swift test     # GOLDEN=update writes the folder anew
//
// Answers are kept as they came, with their receipts: where one differs, `mlxserve check --explain` says why.

import Foundation
import XCTest

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

final class GoldenTests: XCTestCase {
  private static let environment = ProcessInfo.processInfo.environment
  private static let folder = URL(fileURLWithPath: environment["GOLDEN_FOLDER"] ?? "Golden")
  nonisolated(unsafe) private static var server: Process?
  nonisolated(unsafe) private static var base = ""

  override class func setUp() {
    let output = Pipe()
    server = start(["serve", "--model", environment["MODEL"] ?? "", "--model-id", "golden", "--port", "0"], output)
    var line = ""
    while !line.contains("\n"), case let data = output.fileHandleForReading.availableData, !data.isEmpty {
      line += String(decoding: data, as: UTF8.self)
    }
    base = line.split(separator: " ").first { $0.hasPrefix("http") }.map(String.init) ?? "no server: \(line)"
  }

  override class func tearDown() { server?.terminate() }

  func testColour() async throws { try await check("Name a colour.") }
  func testCounting() async throws { try await check("Count to five.") }

  private func check(_ question: String) async throws {
    var request = URLRequest(url: try XCTUnwrap(URL(string: Self.base + "/chat/completions")))
    (request.httpMethod, request.timeoutInterval) = ("POST", 300)
    request.setValue("application/json", forHTTPHeaderField: "Content-Type")
    request.httpBody = try JSONSerialization.data(withJSONObject: [
      "model": "golden", "messages": [["role": "user", "content": question]], "seed": 7, "max_tokens": 24, "receipt": true,
    ])
    let answer = try await URLSession.shared.data(for: request).0
    let (golden, now) = (Self.folder.appending(path: question), Self.folder.appending(path: question + " now"))
    if Self.environment["GOLDEN"] == "update" {
      try FileManager.default.createDirectory(at: Self.folder, withIntermediateDirectories: true)
      return try answer.write(to: golden)
    }
    if try Reply(answer) == Reply(Data(contentsOf: golden)) { return }
    try answer.write(to: now)
    let output = Pipe()
    Self.start(["check", "--explain", now.path, golden.path], output)
    XCTFail(String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self))
  }

  @discardableResult private static func start(_ arguments: [String], _ output: Pipe) -> Process? {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    (process.arguments, process.standardOutput) = ([environment["MLXSERVE"] ?? "mlxserve"] + arguments, output)
    do { try process.run() } catch { return nil }
    return process
  }
}

private struct Reply: Decodable, Equatable {
  struct Choice: Decodable, Equatable { let message: Message }
  struct Message: Decodable, Equatable { let content: String }
  let choices: [Choice]

  init(_ data: Data) throws { self = try JSONDecoder().decode(Reply.self, from: data) }
}
