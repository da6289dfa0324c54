// The members of a request: what is read, refused and told as unknown.

import JSON
import Testing

@testable import CAPI

@Suite struct LibraryFieldsTests {
  private func fields(_ text: String) throws -> LibraryFields { try LibraryFields(Array(text.utf8)) }

  @Test func `what is no object is refused`() {
    #expect(throws: LibraryError.self) { try LibraryFields(nil) }
    for text in ["", "[]", "{", "null", "1", "{\"a\":1} x", String(repeating: "[", count: 10_000)] {
      let error = #expect(throws: LibraryError.self) { try fields(text) }
      #expect(error?.code == "invalid_json", "\(text.prefix(20))")
    }
    let error = #expect(throws: LibraryError.self) {
      try LibraryFields([0x7B, 0x22, 0xFF, 0x22, 0x3A, 0x31, 0x7D])
    }
    #expect(error?.code == "invalid_json")
  }

  @Test func `a member has its type or is refused by name`() throws {
    var fields = try fields(#"{"s":1,"b":"x","i":1.5,"n":"a\u0000b","z":null,"w":"loud","m":"-3","more":[]}"#)
    for read in [
      { (f: inout LibraryFields) in _ = try f.string("s") }, { _ = try $0.bool("b") },
      { _ = try $0.integer("i") },
      { _ = try $0.string("n") }, { _ = try $0.word("w", { Int($0) }, of: ["quiet"]) },
      { _ = try $0.size("m") },
    ] {
      let error = #expect(throws: LibraryError.self) { try read(&fields) }
      #expect(error?.code == "invalid_argument")
    }
    #expect(try fields.string("z") == nil)
    #expect(try fields.string("absent") == nil)
    #expect(fields.unread == ["more"])
  }

  @Test func `sizes are bytes or words`() throws {
    var fields = try fields(#"{"a":1048576,"b":"6G"}"#)
    #expect(try fields.size("a") == 1 << 20)
    #expect(try fields.size("b") == 6 << 30)
  }
}
