// Linear maps of the same input, stacked so that one fork computes the outputs of all; an embedding is a stack of one.

import KernelTypes
import Platform

/// Matrices with equal columns, one after the other: output row = `[part 0 | part 1 | ...]`.
///
/// The parts keep their own formats: q and k may be 4-bit and v 6-bit.
package final class WeightStack {
  struct Part {
    let matrix: WeightMatrix
    /// The form that activations take for it in the fast mode.
    let layout: Int8Layout?
    /// The same weights in panels.
    fileprivate(set) var panels: UnsafeMutableRawPointer?
    /// Bytes of a panel, once there are some.
    fileprivate(set) var panelBytes = 0
    /// How many rows are there, from the first on.
    fileprivate(set) var copiedRows = 0
    /// Where the weights lie in the checkpoint; nil for those that no panels are prepared of.
    let place: PanelPlace?
    /// What the weights are multiplied with besides.
    let factor: Float
    /// The layer's additive bias, `[rows]`, if it has one.
    let bias: UnsafePointer<Float>?
    /// The part's first column of the output.
    let start: Int

    /// The panels from the first of some rows on, which begin a panel; nil where not all of them have been made.
    func panels(of rows: Range<Int>) -> UnsafeRawPointer? {
      guard let panels, rows.upperBound <= copiedRows else { return nil }
      return UnsafeRawPointer(panels) + rows.lowerBound / Panel.width * panelBytes
    }

    /// Bytes of panels after those of some rows that are worth prefetching.
    func aheadBytes(after rows: Range<Int>) -> Int { rows.upperBound < copiedRows ? panelBytes : 0 }
  }

  private(set) var parts: [Part]
  /// Of the tensors of the parts. Not in `Part`: tiles copy that freely, and would count references.
  let names: [String]
  private let owners: [AnyObject]
  /// Where panels are made; nil when none are wanted.
  let arena: PanelArena?
  /// Whether there may be more to copy.
  private(set) var isCopying: Bool
  /// Whether it is a linear map, and not only a table whose rows are looked up.
  package var isMultiplied: Bool
  /// Outputs of all parts.
  package let rows: Int
  /// Inputs.
  package let columns: Int
  /// Bytes that a product with one row of activations reads.
  package let byteCount: Int
  /// Whether all weights are affine and multiplied in integers.
  let isAffine: Bool
  /// Whether some weights are blocks of a GGUF file.
  let hasBlocks: Bool

  /// - Parameters:
  ///   - arena: where products may copy the weights into panels, or find them; nil leaves them in the file.
  ///   - isMultiplied: whether it is known to be a linear map.
  /// - Throws: `unsupportedWeights` when a tensor has no kernel or the parts' inputs differ.
  package init(
    _ tensors: [WeightTensors], arena: PanelArena? = nil, isMultiplied: Bool = true
  ) throws(ComputeError) {
    names = tensors.map(\.weight.name)
    var parts: [Part] = []
    var owners: [AnyObject] = []
    var start = 0
    var bytes = 0
    for tensor in tensors {
      guard tensor.order == nil else {
        throw .unsupportedWeights(
          tensor: tensor.weight.name, reason: "inputs in an order of their own (desc_act, actorder)",
          supported: "that order in linear maps outside of experts and of latent attention's heads")
      }
      let matrix = try WeightMatrix(tensor)
      let bias = try tensor.bias.map { view throws(ComputeError) in try view.floats() } ?? []
      guard tensor.columns == tensors[0].columns, bias.isEmpty || bias.count == matrix.rows else {
        throw .unsupportedWeights(
          tensor: tensor.weight.name, reason: "\(tensor.columns) inputs and \(bias.count) bias elements",
          supported: "\(tensors[0].columns) inputs and \(matrix.rows) bias elements")
      }
      let copy = FloatCopy(bias)
      owners +=
        [tensor.weight, tensor.scales, tensor.biases, tensor.table].compactMap { $0?.owner } + [copy]
      parts.append(
        Part(
          matrix: matrix, layout: Int8Layout(matrix),
          place: arena == nil ? nil : PanelPlace(matrix, owner: tensor.weight.owner),
          factor: tensor.factor, bias: bias.isEmpty ? nil : UnsafePointer(copy.floats), start: start))
      start += matrix.rows
      bytes += matrix.byteCount
    }
    if let prepared = arena?.prepared { owners.append(prepared.owner) }
    self.parts = parts
    isAffine = parts.allSatisfy { part in
      if case .affine = part.matrix.outline { return part.layout != nil }
      return false
    }
    hasBlocks = tensors.contains { $0.blocks != nil }
    self.owners = owners
    rows = start
    columns = tensors.first?.columns ?? 0
    byteCount = bytes
    (self.arena, self.isMultiplied) = (arena, isMultiplied)
    isCopying = arena != nil
    arena?.note(self)
  }

  // MARK: Panels

  /// Takes the panels of a part from the file that has them; false where there is none.
  ///
  /// - Parameters:
  ///   - panelBytes: of one panel.
  ///   - bytes: of all panels of the part.
  func adoptPrepared(part index: Int, panelBytes: Int, bytes: Int) -> Bool {
    guard let place = parts[index].place,
      let panels = arena?.prepared?.panels(at: place, bytes: bytes)
    else { return false }
    parts[index].panelBytes = panelBytes
    // Nobody writes there: all rows are made.
    parts[index].panels = UnsafeMutableRawPointer(mutating: panels)
    parts[index].copiedRows = parts[index].matrix.rows
    return true
  }

  /// No more will be copied.
  func endCopying() { isCopying = false }

  /// The part's panels are made at `panels`, in the arena.
  func place(_ panels: UnsafeMutableRawPointer, panelBytes: Int, part index: Int) {
    parts[index].panels = panels
    parts[index].panelBytes = panelBytes
  }

  /// From now on products read the panels of the part's rows up to `end`; the file's pages of those that are new are let go.
  func adopt(part index: Int, upTo end: Int) {
    letGo(part: index, rows: parts[index].copiedRows..<end)
    parts[index].copiedRows = end
  }

  /// Lets the file's pages of a part's rows go; they are read again when they are needed.
  private func letGo(part index: Int, rows: Range<Int>) {
    for (base, rowBytes) in parts[index].matrix.places {
      let bytes = UnsafeRawBufferPointer(
        start: base + rows.lowerBound * rowBytes, count: rows.count * rowBytes)
      // Only bytes of a file can be read again.
      for case let file as MappedFile in owners { file.letGo(bytes) }
    }
  }
}
