// Where digests of a folder's files are found, and what they are compared with.

import Platform
import Testing

@testable import Checkpoint

@Suite struct ChecksumTests {
  /// SHA-256 of `abc`.
  private static let digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

  @Test func `SHA256SUMS is read as sha256sum writes it`() throws {
    let folder = try TestFolder(["a.safetensors": Array("abc".utf8)])
    try folder.write(
      "SHA256SUMS",
      "\(Self.digits.uppercased())  a.safetensors\n\(Self.digits) *./b.bin\r\nnonsense\n\n1234  c\n")
    let sums = Checksums(folder: folder.path)
    #expect(sums.expected("a.safetensors") == Self.digits && sums.expected("b.bin") == Self.digits)
    #expect(sums.expected("c") == nil && sums.expected("nonsense") == nil)
    #expect(try sums.actual("a.safetensors") == Self.digits)
  }

  @Test func `the record of a download counts where its tag is a SHA-256`() throws {
    let folder = try TestFolder()
    for part in ["/.cache", "/.cache/huggingface", "/.cache/huggingface/download"] {
      mkdir(folder.path + part, 0o700)
    }
    let record = "ccf028fc8e1b3ab750a7c55b22792f57ba69f216\n\(Self.digits)\n1726498445.95\n"
    try folder.write(".cache/huggingface/download/a.safetensors.metadata", record)
    try folder.write(
      ".cache/huggingface/download/config.json.metadata", "abc\n62d1ca8d4b3c8ab21ac9a30775e1a224be66ef58\n1\n"
    )
    let sums = Checksums(folder: folder.path)
    #expect(sums.expected("a.safetensors") == Self.digits)
    #expect(sums.expected("config.json") == nil && sums.expected("other") == nil)
  }

  @Test func `a link into a cache of blobs is called by the digest`() throws {
    let folder = try TestFolder()
    for part in ["/blobs", "/snapshots"] { mkdir(folder.path + part, 0o700) }
    try folder.write("blobs/" + Self.digits, "abc")
    symlink("../blobs/" + Self.digits, folder.path + "/snapshots/a.safetensors")
    let sums = Checksums(folder: folder.path + "/snapshots")
    #expect(sums.expected("a.safetensors") == Self.digits)
    #expect(try sums.actual("a.safetensors") == Self.digits)
    #expect(throws: PlatformError.self) { try sums.actual("absent") }
  }

  @Test func `tensors that were not taken are named`() throws {
    let tensors = [TestTensor("a", "F32", [2]), TestTensor("b.c", "F32", [2]), TestTensor("b.d", "F32", [2])]
    let folder = try TestFolder(["config.json": Array("{}".utf8), "model.safetensors": safetensors(tensors)])
    let weights = try ModelFolder(path: folder.path).weights
    #expect(weights.unusedNames == ["a", "b.c", "b.d"] && weights.usedBytes == 0)
    _ = try weights.at("b").vector("c", count: 2)
    #expect(weights.has("a") && weights.unusedNames == ["a", "b.d"])
    #expect(weights.usedBytes == 8)
  }

  @Test func `the bytes of tensors that are taken are told, once each`() throws {
    let tensors = [TestTensor("a", "F32", [2]), TestTensor("b", "F32", [6])]
    let folder = try TestFolder(["config.json": Array("{}".utf8), "model.safetensors": safetensors(tensors)])
    let progress = Progress()
    let weights = try ModelFolder(path: folder.path, progress: progress).weights
    #expect(progress.part == 0)
    for _ in 0..<2 { _ = try weights.vector("a", count: 2) }
    #expect(progress.part == 0.25)
    _ = try weights.vector("b", count: 6)
    #expect(progress.part == 1)
  }
}
