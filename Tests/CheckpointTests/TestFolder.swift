// A temporary model folder, and safetensors files built tensor by tensor.

import JSON
import Platform

/// A new folder under the system's temporary folder, removed with its files by `deinit`.
final class TestFolder {
  let path: String

  init(_ files: [String: [UInt8]] = [:]) throws {
    var template = Array("/tmp/mlxserve-test-XXXXXX".utf8CString)
    guard let made = template.withUnsafeMutableBufferPointer({ $0.baseAddress.flatMap(mkdtemp) }) else {
      throw PlatformError.file(action: "create", path: "/tmp", code: errno)
    }
    path = String(cString: made)
    for (name, bytes) in files { try write(name, bytes) }
  }

  func write(_ name: String, _ bytes: [UInt8]) throws {
    // A file that was cut to nothing is flushed to the disk when it is closed (ext4): a new one is not.
    unlink(path + "/" + name)
    guard let file = fopen(path + "/" + name, "w") else {
      throw PlatformError.file(action: "create", path: path + "/" + name, code: errno)
    }
    defer { fclose(file) }
    guard fwrite(bytes, 1, bytes.count, file) == bytes.count else {
      throw PlatformError.file(action: "write", path: path + "/" + name, code: errno)
    }
  }

  func write(_ name: String, _ text: String) throws { try write(name, Array(text.utf8)) }

  deinit { Self.remove(path) }

  private static func remove(_ path: String) {
    var status = stat()
    guard lstat(path, &status) == 0 else { return }
    if status.st_mode & S_IFMT == S_IFDIR {
      for name in (try? File.names(in: path)) ?? [] { remove(path + "/" + name) }
      rmdir(path)
    } else {
      unlink(path)
    }
  }
}

/// A tensor to store.
struct TestTensor {
  var name: String
  var dtype: String
  var shape: [Int]
  var data: [UInt8]

  init(_ name: String, _ dtype: String, _ shape: [Int], data: [UInt8]? = nil) {
    self.name = name
    self.dtype = dtype
    self.shape = shape
    let width = ["F32": 4, "U32": 4, "I32": 4, "F64": 8, "I64": 8, "BF16": 2, "F16": 2][dtype] ?? 1
    self.data = data ?? (0..<shape.reduce(width, *)).map { UInt8(truncatingIfNeeded: $0) }
  }
}

/// A header text with its length before it and data after it.
func safetensors(header: String, data: [UInt8] = []) -> [UInt8] {
  let text = Array(header.utf8)
  let length = (0..<8).map { UInt8(truncatingIfNeeded: text.count >> ($0 * 8)) }
  return length + text + data
}

/// A valid file of the given tensors.
func safetensors(_ tensors: [TestTensor]) -> [UInt8] {
  var header = JSONObject([("__metadata__", ["format": "mlx"] as JSONValue)])
  var data: [UInt8] = []
  for tensor in tensors {
    let entry: JSONValue = [
      "dtype": .string(tensor.dtype), "shape": .array(tensor.shape.map { .int($0) }),
      "data_offsets": [.int(data.count), .int(data.count + tensor.data.count)],
    ]
    header[tensor.name] = entry
    data += tensor.data
  }
  return safetensors(header: JSONValue.object(header).text, data: data)
}
