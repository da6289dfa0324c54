// Receipts on the wires: what a request wants of one, and the body that has one checked.

package import JSON

/// Whether answers carry a receipt, and which.
package enum ReceiptForm: String, CaseIterable, Sendable {
  case off, full
  /// Digests in the places of the texts.
  case digest
}

extension GenerationOptions {
  /// As `receipt` says; nil where it says nothing.
  mutating func readReceipt(_ fields: inout Fields) throws(APIError) {
    let value = fields.value(
      "receipt", Shape.any(Shape.boolean, Shape.words([ReceiptForm.digest.rawValue])),
      "whether the answer carries a receipt, with which others can check it; `digest`: without texts ([more](receipts.md))",
      like: "true")
    switch value {
    case nil: break
    case .bool(let isWanted)?: receipt = isWanted ? .full : .off
    case .string(ReceiptForm.digest.rawValue)?: receipt = .digest
    case let value?:
      guard case .string = value else {
        throw .wrongType("receipt", expected: "a boolean or 'digest'", found: value)
      }
      throw .invalidValue("receipt", "expected true, false or 'digest'")
    }
  }
}

/// POST /v1/receipts/verify.
package struct ReceiptRequest: RequestBody {
  /// As it came.
  package let receipt: JSONValue
  /// Data URLs, or base64.
  package let media: [String]
  package var ignored: [String] = []

  package init(_ fields: inout Fields) throws(APIError) {
    try fields.anyModel()
    let receipt = try fields.object(
      "receipt", "the receipt, with its texts", like: #"{"receipt":1}"#)
    if receipt == nil { _ = try fields.required("receipt") }
    self.receipt = .object(receipt ?? JSONObject())
    media =
      try fields.texts(
        "media", maxCount: 64, "the images and audio clips of its prompt, as data URLs or in base64",
        like: #"["data:image/png;base64,iVBO"]"#) ?? []
  }
}
