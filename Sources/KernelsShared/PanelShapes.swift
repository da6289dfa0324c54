// A kept panel by one row of x: a function for each width and block, at every level that keeps panels.
//
// A level says what such a product reads (`PanelRow`) and computes it (`panelRow`), where widths have to be constants.
// Inlined in one function all shapes exceed what the compiler inlines.

import KernelTypes

/// The product with weights of a shape, in blocks of `block`.
@inline(__always)
func multiplyRow(_ p: PanelRow, _ shape: PanelShape, _ block: Int) {
  switch shape.factors {
  case .pairs(let format): multiplyRow(p, shape.bits, block, format)
  case .halves where shape.bits == 4: row4Halves(p)
  case .halves where shape.bits == 5: row5Halves(p)
  case .halves: row8Halves(p)
  case .bytes where shape.bits == 4: row4Bytes(p)
  case .bytes: row5Bytes(p)
  case .signedBytes where shape.bits == 4: row4SignedBytes(p)
  case .signedBytes: row6SignedBytes(p)
  case .nibbles: row2Nibbles(p)
  }
}

@inline(__always)
private func multiplyRow(_ p: PanelRow, _ bits: Int, _ block: Int, _ format: FloatFormat) {
  switch (bits, block) {
  case (2, 64): row2x64(p, format)
  case (2, _): row2x32(p, format)
  case (3, 64): row3x64(p, format)
  case (3, _): row3x32(p, format)
  case (4, 64): row4x64(p, format)
  case (4, _): row4x32(p, format)
  case (5, 64): row5x64(p, format)
  case (5, _): row5x32(p, format)
  case (6, 64): row6x64(p, format)
  case (6, _): row6x32(p, format)
  case (_, 64): row8x64(p, format)
  default: row8x32(p, format)
  }
}

@inline(never)
func row2x64(_ p: PanelRow, _ format: FloatFormat) { panelRow(p, low: 2, high: 0, block: 64, .pairs(format)) }

@inline(never)
func row2x32(_ p: PanelRow, _ format: FloatFormat) { panelRow(p, low: 2, high: 0, block: 32, .pairs(format)) }

@inline(never)
func row3x64(_ p: PanelRow, _ format: FloatFormat) { panelRow(p, low: 2, high: 1, block: 64, .pairs(format)) }

@inline(never)
func row3x32(_ p: PanelRow, _ format: FloatFormat) { panelRow(p, low: 2, high: 1, block: 32, .pairs(format)) }

@inline(never)
func row4x64(_ p: PanelRow, _ format: FloatFormat) { panelRow(p, low: 4, high: 0, block: 64, .pairs(format)) }

@inline(never)
func row4x32(_ p: PanelRow, _ format: FloatFormat) { panelRow(p, low: 4, high: 0, block: 32, .pairs(format)) }

@inline(never)
func row5x64(_ p: PanelRow, _ format: FloatFormat) { panelRow(p, low: 4, high: 1, block: 64, .pairs(format)) }

@inline(never)
func row5x32(_ p: PanelRow, _ format: FloatFormat) { panelRow(p, low: 4, high: 1, block: 32, .pairs(format)) }

@inline(never)
func row6x64(_ p: PanelRow, _ format: FloatFormat) { panelRow(p, low: 4, high: 2, block: 64, .pairs(format)) }

@inline(never)
func row6x32(_ p: PanelRow, _ format: FloatFormat) { panelRow(p, low: 4, high: 2, block: 32, .pairs(format)) }

@inline(never)
func row8x64(_ p: PanelRow, _ format: FloatFormat) { panelRow(p, low: 8, high: 0, block: 64, .pairs(format)) }

@inline(never)
func row8x32(_ p: PanelRow, _ format: FloatFormat) { panelRow(p, low: 8, high: 0, block: 32, .pairs(format)) }

@inline(never)
func row4Halves(_ p: PanelRow) { panelRow(p, low: 4, high: 0, block: 32, .halves) }

@inline(never)
func row5Halves(_ p: PanelRow) { panelRow(p, low: 4, high: 1, block: 32, .halves) }

@inline(never)
func row8Halves(_ p: PanelRow) { panelRow(p, low: 8, high: 0, block: 32, .halves) }

@inline(never)
func row4Bytes(_ p: PanelRow) { panelRow(p, low: 4, high: 0, block: 32, .bytes) }

@inline(never)
func row5Bytes(_ p: PanelRow) { panelRow(p, low: 4, high: 1, block: 32, .bytes) }

@inline(never)
func row4SignedBytes(_ p: PanelRow) { panelRow(p, low: 4, high: 0, block: 16, .signedBytes) }

@inline(never)
func row6SignedBytes(_ p: PanelRow) { panelRow(p, low: 4, high: 2, block: 16, .signedBytes) }

@inline(never)
func row2Nibbles(_ p: PanelRow) { panelRow(p, low: 2, high: 0, block: 16, .nibbles) }
