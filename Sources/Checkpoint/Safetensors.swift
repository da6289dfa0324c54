// One safetensors file: 8 bytes of header length, the JSON header, then the data of the tensors.

package import Compute
import Platform

/// A mapped file and the tensors in it. Opening reads the header only; the pages of the data come in when
/// a kernel touches them. The file must not shrink while it is open: access past its end raises SIGBUS.
package final class Safetensors: WeightShard {
  package let path: String
  private let file: MappedFile
  private let entries: [SafetensorsHeader.Entry]
  /// Where the data section starts in the file.
  private let dataStart: Int
  /// `__metadata__`, in file order; `format` is `mlx` or `pt`.
  package let metadata: [(key: String, value: String)]

  /// The cap of the reference implementation.
  package static let maxHeaderBytes = 100_000_000

  /// Maps the file and checks its header.
  ///
  /// - Throws: `.file` when it cannot be opened or is not a regular file, `.foreignFormat` when it is
  ///   evidently something else, `.badHeader` when the header breaks a rule or the data is cut short.
  package init(path: String) throws(CheckpointError) {
    file = try ForeignFormat.mapped(path)
    self.path = path
    let bytes = file.bytes
    guard bytes.count >= 8 else {
      throw .badHeader(file: path, offset: nil, problem: "the file has only \(bytes.count) bytes")
    }
    let declared = UInt64(littleEndian: bytes.loadUnaligned(as: UInt64.self))
    guard let length = Int(exactly: declared), length <= Self.maxHeaderBytes else {
      throw .badHeader(
        file: path, offset: nil,
        problem: "the header length \(declared) exceeds the limit of \(Self.maxHeaderBytes)")
    }
    guard length <= bytes.count - 8 else {
      throw .badHeader(
        file: path, offset: nil,
        problem: "the file is cut short: its header needs \(length) bytes, \(bytes.count - 8) follow")
    }
    dataStart = 8 + length
    let header = try SafetensorsHeader(
      Array(bytes[8..<dataStart]), dataBytes: bytes.count - dataStart, file: path)
    entries = header.entries
    metadata = header.metadata
  }

  package var count: Int { entries.count }

  /// What the file was when it was mapped.
  var facts: FileFacts { file.facts }

  /// The name of the tensor `index`, in header order.
  func tensorName(_ index: Int) -> String { entries[index].name }

  /// The element type of the tensor `index` as the file spells it.
  func dtypeName(_ index: Int) -> String { entries[index].dtypeName }

  func dtype(_ index: Int) -> DType? { entries[index].dtype }

  func shape(_ index: Int) -> [Int] { entries[index].shape }

  func byteCount(_ index: Int) -> Int { entries[index].range.count }

  /// Bytes of all tensors.
  package var dataBytes: Int { file.bytes.count - dataStart }

  /// The tensor `index`, in header order; nil when its element type is not one that `DType` has.
  package func tensor(_ index: Int) -> TensorView? {
    let entry = entries[index]
    guard let dtype = entry.dtype else { return nil }
    // The header check proved that the range lies inside the data section.
    let range = dataStart + entry.range.lowerBound..<dataStart + entry.range.upperBound
    return TensorView(
      name: entry.name, dtype: dtype, shape: entry.shape,
      bytes: UnsafeRawBufferPointer(rebasing: file.bytes[range]), owner: file)
  }

  func blocks(_ index: Int) -> (format: BlockFormat, headRows: Int, bytes: TensorView)? { nil }
}

/// Files that people put where a safetensors file belongs, known by their first bytes.
struct ForeignFormat {
  let name: String
  let advice: String

  private static let convert = "Use an MLX conversion of the model (safetensors files)."

  /// Maps a file that is not evidently of another format.
  ///
  /// - Parameter own: the first bytes of the format that is wanted, where they are among those that are known here.
  /// - Throws: `.file` or `.foreignFormat`.
  static func mapped(_ path: String, unless own: String? = nil) throws(CheckpointError) -> MappedFile {
    let file: MappedFile
    do {
      file = try MappedFile(path)
    } catch {
      throw .file(error)
    }
    guard let format = recognise(file.bytes), own.map({ file.bytes.starts(with: $0.utf8) }) != true else {
      return file
    }
    throw .foreignFormat(file: path, format: format.name, advice: format.advice)
  }

  static func recognise(_ bytes: UnsafeRawBufferPointer) -> ForeignFormat? {
    // A real header opens here, so its length prefix may look like anything.
    if bytes.count > 8 && bytes[8] == UInt8(ascii: "{") { return nil }
    func starts(_ magic: String) -> Bool { bytes.starts(with: magic.utf8) }
    if starts("GGUF") {
      return .init(name: "a GGUF file", advice: "Call it NAME.gguf and name it as the model.")
    }
    if starts("PK\u{3}\u{4}") { return .init(name: "a zip archive (PyTorch or NumPy)", advice: convert) }
    if bytes.count >= 2, bytes[0] == 0x80, (2...5).contains(bytes[1]) {
      return .init(name: "a pickle file (PyTorch)", advice: convert)
    }
    if starts("version https://git-lfs") {
      return .init(name: "a Git LFS pointer, not the weights", advice: "Run 'git lfs pull' in the folder.")
    }
    if starts("<!DOCTYPE") || starts("<html") || starts("<HTML") {
      return .init(name: "a web page", advice: "The download failed: fetch the file again.")
    }
    return nil
  }

  /// Weight files of other programs, by the ending of their names.
  static func recognise(fileName: String) -> ForeignFormat? {
    let endings: [(String, String)] = [
      (".ggml", "a GGML file"), (".bin", "a PyTorch file"),
      (".pt", "a PyTorch file"),
      (".pth", "a PyTorch file"), (".ckpt", "a PyTorch file"), (".npz", "a NumPy file"),
      (".onnx", "an ONNX file"), (".h5", "a Keras file"), (".msgpack", "a Flax file"),
      (".zip", "a zip archive"), (".tar", "a tar archive"), (".gz", "a gzip archive"),
    ]
    for (ending, name) in endings where fileName.utf8.reversed().starts(with: ending.utf8.reversed()) {
      return .init(name: name, advice: convert)
    }
    return nil
  }
}
