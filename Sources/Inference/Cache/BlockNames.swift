// What blocks of keys and values are called on disk: a hash of everything that their bits depend on, but for the values
// of the weights, by which the folder is called that holds them.

import Compute
import Platform

/// A name holds the names before it, so a block is found only after the very tokens after which it was computed.
struct BlockNames {
  /// What the bits depend on besides the tokens and the weights: the model's outline, the kernels, the format.
  let model: [UInt8]

  /// - Parameters:
  ///   - content: a digest of the checkpoint's outline.
  ///   - compute: instruction set, mode and format, as the client names them.
  ///   - version: of the program: another one may compute in another order.
  init(content: [UInt8], compute: String, version: String, shape: [KVLayerShape]) {
    var hash = SHA256()
    hash.update(content)
    let layers = shape.map { "\($0.kvHeads)x\($0.headDim)/\($0.latentValues ?? $0.headDim)" }.joined(
      separator: ",")
    hash.update(Array("|\(compute)|\(version)|\(KVCache.blockTokens)|\(layers)".utf8))
    model = hash.finish()
  }

  /// What the beginning of all sequences with one root is called.
  func name(of root: PrefixCache.Root) -> String {
    var hash = SHA256()
    hash.update(model)
    hash.update(Array("|\(root.ropeVariant)|\(root.tenant)".utf8))
    if let adapter = root.adapter {
      hash.update(Array("|adapter|\(adapter.digest)|\(adapter.strength.bitPattern)".utf8))
    }
    return SHA256.hexadecimal(hash.finish())
  }

  func name(of tokens: [Int32], after parent: String) -> String {
    var hash = SHA256()
    hash.update(Array(parent.utf8))
    for token in tokens { hash.update(Self.bytes(of: token)) }
    return SHA256.hexadecimal(hash.finish())
  }

  private static func bytes(of token: Int32) -> [UInt8] {
    (0..<4).map { UInt8(truncatingIfNeeded: token >> (8 * Int32($0))) }
  }
}
