// Safetensors files: what a valid header yields, and that every broken rule is refused.

import Compute
import JSON
import Platform
import Support
import Testing

@testable import Checkpoint

private func open(_ bytes: [UInt8]) throws -> Safetensors {
  let folder = try TestFolder(["model.safetensors": bytes])
  // The mapping outlives the folder: the open file keeps its pages.
  return try Safetensors(path: folder.path + "/model.safetensors")
}

/// The words of the error that opening `bytes` throws.
private func fault(_ bytes: [UInt8]) -> String {
  do {
    _ = try open(bytes)
    return "no error"
  } catch let error as CheckpointError {
    if case .badHeader(_, _, let problem) = error { return problem }
    return error.description
  } catch {
    return "another error: \(error)"
  }
}

@Test func `a valid file yields its tensors in header order`() throws {
  let file = try open(
    safetensors([
      TestTensor("b", "F32", [2, 3]), TestTensor("a", "U8", [4], data: [9, 8, 7, 6]),
      TestTensor("s", "BF16", []),
    ]))
  #expect(file.count == 3)
  #expect(file.metadata.map(\.key) == ["format"])
  #expect(file.metadata.map(\.value) == ["mlx"])
  let b = try #require(file.tensor(0))
  #expect(b.name == "b")
  #expect(b.dtype == .f32)
  #expect(b.shape == [2, 3])
  #expect(Array(b.bytes) == Array(0..<24))
  let a = try #require(file.tensor(1))
  #expect(Array(a.bytes) == [9, 8, 7, 6])
  let s = try #require(file.tensor(2))
  #expect(s.shape.isEmpty)
  #expect(s.count == 1)
  #expect(Array(s.bytes) == [0, 1])
  #expect(file.dataBytes == 30)
}

@Test func `tensors may be listed in another order than they are stored`() throws {
  let file = try open(
    safetensors(
      header: #"{"late":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"#
        + #""early":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"}}"#,
      data: [10, 20]))
  #expect(file.tensor(0).map { Array($0.bytes) } == [20])
  #expect(file.tensor(1).map { Array($0.bytes) } == [10])
}

@Test func `spaces, escapes and unknown keys in a header are read`() throws {
  let file = try open(
    safetensors(
      header: #"{ "t\u0041\n" : { "dtype" : "U8" , "note" : {"x":[1,"}"]} , "shape" : [ 2 ] ,"#
        + #" "data_offsets" : [ 0 , 2 ] } }   "#,
      data: [1, 2]))
  #expect(file.tensor(0)?.name == "tA\n")
}

@Test func `a file that MLX saved without metadata is read`() throws {
  let file = try open(
    safetensors(
      header: #"{"__metadata__":null,"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#, data: [7]))
  #expect(file.tensor(0).map { Array($0.bytes) } == [7] && file.metadata.isEmpty)
}

@Test func `names that only look the same are two tensors`() throws {
  let file = try open(safetensors([TestTensor("\u{E9}", "U8", [1]), TestTensor("e\u{301}", "U8", [1])]))
  #expect(file.count == 2)
}

@Test func `empty tensors take no bytes anywhere`() throws {
  let file = try open(
    safetensors([TestTensor("a", "U8", [0]), TestTensor("b", "F32", [3, 0]), TestTensor("c", "U8", [2])]))
  #expect(file.tensor(1)?.bytes.count == 0)
  #expect(file.tensor(2)?.bytes.count == 2)
}

@Test func `an element type without a Swift counterpart is valid but has no view`() throws {
  let file = try open(
    safetensors([TestTensor("a", "F8_E5M2", [2]), TestTensor("b", "U8", [1])]))
  #expect(file.tensor(0) == nil)
  #expect(file.dtypeName(0) == "F8_E5M2")
  #expect(file.tensor(1) != nil)
}

@Test(arguments: [
  (#"[]"#, "the header does not start with '{'"),
  (#" {}"#, "the header does not start with '{'"),
  (#"{"#, "expected a string in double quotes"),
  (#"{}x"#, "text after the end of the document"),
  (#"{"a":1}"#, "expected an object"),
  (#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},}"#, "expected a string in double quotes"),
  (#"{"__metadata__":nil}"#, "expected a value"),
  (#"{"__metadata__":{"a":1}}"#, "a value of __metadata__ is not a string"),
  (#"{"__metadata__":{},"__metadata__":{}}"#, "__metadata__ appears twice"),
  (#"{"a":{"shape":[1],"data_offsets":[0,1]}}"#, "tensor 'a' has no dtype"),
  (#"{"a":{"dtype":"U8","data_offsets":[0,1]}}"#, "tensor 'a' has no shape"),
  (#"{"a":{"dtype":"U8","shape":[1]}}"#, "tensor 'a' needs data_offsets with two numbers"),
  (#"{"a":{"dtype":"u8","shape":[1],"data_offsets":[0,1]}}"#, "tensor 'a' has the unknown dtype 'u8'"),
  (#"{"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}}"#, "the dtype of 'a' is not a string"),
  (
    #"{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
    "dtype of tensor 'a' appears twice"
  ),
  (#"{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}"#, "tensor 'a' needs non-negative integers"),
  (#"{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,1]}}"#, "tensor 'a' needs non-negative integers"),
  (#"{"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}"#, "tensor 'a' needs non-negative integers"),
  (#"{"a":{"dtype":"U8","shape":[1e0],"data_offsets":[0,1]}}"#, "tensor 'a' needs non-negative integers"),
  (#"{"a":{"dtype":"U8","shape":[1,],"data_offsets":[0,1]}}"#, "expected a value"),
  (#"{"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}}"#, "tensor 'a' needs non-negative integers"),
  (#"{"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}}"#, "tensor 'a' needs non-negative integers"),
  (#"{"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}}"#, "expected an array of integers for tensor 'a'"),
  (#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}"#, "the data_offsets of tensor 'a' are reversed"),
  (#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}}"#, "tensor 'a' needs data_offsets with two numbers"),
  (
    #"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}}"#,
    "tensor 'a' needs data_offsets with two numbers"
  ),
  (#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2,3]}}"#, "too many numbers for tensor 'a'"),
  (
    #"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,9223372036854775808]}}"#,
    "a number of tensor 'a' is too large"
  ),
  (
    #"{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}"#,
    "the size of tensor 'a' with shape [4611686018427387904, 4] is not a number of bytes"
  ),
  (
    #"{"a":{"dtype":"F32","shape":[4611686018427387904,0,4],"data_offsets":[0,0]}}"#,
    "the size of tensor 'a' with shape [4611686018427387904, 0, 4] is not a number of bytes"
  ),
  (
    #"{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}"#,
    "the size of tensor 'a' with shape [3] is not a number of bytes"
  ),
  (
    #"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,1]}}"#,
    "tensor 'a' with shape [1] of F32 needs 4 bytes, its data_offsets span 1"
  ),
  (
    #"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#,
    "the file is cut short: its tensors need 2 bytes of data, it has 1"
  ),
  (#"{}"#, "1 bytes after the last tensor belong to no tensor"),
  (#"{"a":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}}"#, "tensor 'a' leaves a gap before it"),
  (
    #"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
    "tensor 'b' overlaps the tensor before it"
  ),
  (
    #"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}}"#,
    "tensor 'a' appears twice"
  ),
  (#"{"a\"#, "the string does not end"),
  ("{\"a\u{1}\":{}}", "control characters in strings must be escaped"),
  (#"{"\q":{}}"#, "unknown escape"),
  (#"{"a":{"x":}}"#, "expected a value"),
  (#"{"a":{"x":tru}}"#, "expected a value"),
])
func `a header that breaks a rule is refused with the rule`(header: String, words: String) {
  #expect(fault(safetensors(header: header, data: [0])) == words)
}

@Test func `a header nested without end is refused`() {
  let deep = #"{"a":{"x":"# + String(repeating: "[", count: 100_000)
  #expect(fault(safetensors(header: deep + "}}")) == "the document ends inside a value")
  let closed = deep + String(repeating: "]", count: 100_000) + "}}"
  #expect(fault(safetensors(header: closed)) == "nested more than 128 levels deep")
}

@Test func `a header that is not UTF-8 is refused`() {
  var bytes = safetensors([TestTensor("name", "U8", [1])])
  guard let at = bytes.firstIndex(of: UInt8(ascii: "n")) else { return }
  bytes[at] = 0xFF
  #expect(fault(bytes).contains("UTF-8"))
}

@Test(
  arguments: [
    ([], "the file has only 0 bytes"),
    ([2, 0, 0, 0, 0, 0, 0], "the file has only 7 bytes"),
    ([3, 0, 0, 0, 0, 0, 0, 0, 0x7B, 0x7D], "the file is cut short: its header needs 3 bytes, 2 follow"),
    ([0, 0, 0, 0, 0, 0, 0, 0], "the header does not start with '{'"),
    (
      [0, 0, 0, 0, 0, 0, 0, 0x80, 0x7B, 0x7D],
      "the header length 9223372036854775808 exceeds the limit of 100000000"
    ),
    (
      [UInt8](repeating: 0xFF, count: 8) + [0x7B, 0x7D],
      "the header length 18446744073709551615 exceeds the limit of 100000000"
    ),
    ([1, 0xE1, 0xF5, 5, 0, 0, 0, 0, 0x7B], "the header length 100000001 exceeds the limit of 100000000"),
  ] as [([UInt8], String)])
func `a length prefix that cannot be is refused`(bytes: [UInt8], words: String) {
  #expect(fault(bytes) == words)
}

@Test func `a file cut at any byte is refused`() {
  let whole = safetensors([TestTensor("a", "F32", [3]), TestTensor("b", "U8", [5])])
  for count in 0..<whole.count {
    #expect(fault(Array(whole[..<count])) != "no error", "cut to \(count) bytes")
  }
  #expect(fault(whole) == "no error")
}

@Test(arguments: [
  ("GGUF\u{3}\0\0\0rest", "a GGUF file"),
  ("PK\u{3}\u{4}\u{14}\0rest of it", "a zip archive (PyTorch or NumPy)"),
  ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer, not the weights"),
  ("<!DOCTYPE html>", "a web page"),
])
func `a file of another kind is named`(text: String, format: String) throws {
  let folder = try TestFolder(["model.safetensors": Array(text.utf8)])
  #expect {
    try Safetensors(path: folder.path + "/model.safetensors")
  } throws: { error in
    guard case CheckpointError.foreignFormat(_, let found, _) = error else { return false }
    return found == format
  }
}

@Test func `a pickle is named, a header whose length looks like one is read`() throws {
  #expect(fault([0x80, 2, 0x8A, 10, 0x6C]).contains("pickle"))
  let padding = String(repeating: " ", count: 0x280 - 2)
  #expect(try open(safetensors(header: "{}" + padding)).count == 0)
}

@Test func `a FIFO, a folder and a device are refused at once`() throws {
  let folder = try TestFolder()
  #expect(mkfifo(folder.path + "/pipe", 0o600) == 0)
  for path in [folder.path + "/pipe", folder.path, "/dev/zero"] {
    #expect(throws: CheckpointError.file(.notARegularFile(path: path))) { try Safetensors(path: path) }
  }
}

@Test func `any flipped bit of a header ends in a file or an error`() throws {
  let whole = safetensors([TestTensor("a.weight", "F32", [2, 3]), TestTensor("b", "U8", [5])])
  let header = Array(whole[8..<whole.count - 29])
  var refused = 0
  for bit in 0..<header.count * 8 {
    var flipped = header
    flipped[bit / 8] ^= 1 << (bit % 8)
    do {
      let found = try SafetensorsHeader(flipped, dataBytes: 29, file: "f")
      for entry in found.entries { #expect(entry.range.upperBound <= 29, "bit \(bit)") }
    } catch {
      refused += 1
    }
  }
  #expect(refused > header.count * 4)
}

@Test func `ten thousand mutations of a file end in a file or an error`() {
  var random = SeededGenerator(seed: 20_260_301)
  let seeds = [
    safetensors([
      TestTensor("a", "F32", [1, 2]), TestTensor("weight", "BF16", [3]), TestTensor("n", "U8", [0]),
    ]),
    safetensors(
      header:
        #"{"__metadata__":{"format":"pt"},"x\u00e9":{"dtype":"I64","shape":[],"data_offsets":[0,8],"k":[{}]}}"#,
      data: [UInt8](repeating: 1, count: 8)),
  ]
  var accepted = 0
  for round in 0..<10_000 {
    let bytes = mutated(seeds[round % seeds.count], using: &random)
    // The header parser is called as `Safetensors` calls it, without the detour over a file.
    guard bytes.count >= 8 else { continue }
    let length = bytes[0..<8].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    let header = Array(bytes[8..<8 + Int(min(length, UInt64(bytes.count - 8)))])
    let dataBytes = bytes.count - 8 - header.count
    if let found = try? SafetensorsHeader(header, dataBytes: dataBytes, file: "f") {
      accepted += 1
      for entry in found.entries { #expect(entry.range.upperBound <= dataBytes) }
    }
  }
  #expect(accepted > 100)
}

// MARK: - Shared corpus

@Test(.enabled(if: TestData.shared != nil, "the shared data folder is absent"))
func `the corpus of good and hostile files gets its verdicts`() throws {
  let folder = try #require(TestData.shared) + "/safetensors"
  let manifest = try JSONValue(parsing: TestData.bytes(folder + "/manifest.json"))
  let cases = try #require(manifest.arrayValue)
  #expect(cases.count >= 37)
  for item in cases {
    let name = try #require(item["file"]?.stringValue)
    let verdict = try #require(item["verdict"]?.stringValue)
    let found: String
    do {
      found = "accept(\(try Safetensors(path: folder + "/" + name).count))"
    } catch {
      found = "reject"
      let words = error.description
      #expect(!words.utf8.contains(10) && words.utf8.count < 700, "\(name): \(words)")
    }
    switch verdict {
    case "accept": #expect(found == item["ref"]?.stringValue, "\(name)")
    case "reject": #expect(found == "reject", "\(name)")
    default: break
    }
  }
}
