// Lists of files that say anything about a file.

import JSON
import Testing

@testable import Hub

@Suite struct RepositoryFileTests {
  private static let git = String(repeating: "a", count: 40)

  private func read(_ size: JSONValue) throws -> RepositoryFile? {
    try RepositoryFile.read(["type": "file", "path": "a.bin", "size": size, "oid": .string(Self.git)])
  }

  @Test(arguments: [-1, Int.min, RepositoryFile.mostBytes + 1, 1 << 62, .max])
  func `a length that no file has is refused`(bytes: Int) {
    #expect(throws: HubError.self) { try read(.int(bytes)) }
    #expect(throws: HubError.self) {
      try RepositoryFile.read(
        path: "a.bin", cached: ["size": .int(bytes), "blob_id": .string(Self.git)])
    }
  }

  @Test func `the largest lengths add up`() throws {
    let file = try #require(try read(.int(RepositoryFile.mostBytes)))
    let plan = DownloadPlan(
      reference: ModelReference(try RepositoryName("owner/name")), commit: "", previous: nil,
      files: [(path: String, bytes: Int, isHere: Bool)](
        repeating: (file.path + ".safetensors", file.bytes, false), count: 500_000),
      digests: [:], folder: "", licence: nil)
    #expect(plan.totalBytes == 500_000 << 42 && plan.missingBytes == plan.totalBytes)
  }
}
