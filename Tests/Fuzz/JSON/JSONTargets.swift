// Documents of JSON.

import Driver

@testable import JSON

@_cdecl("fuzz_json_main")
public func main(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
  Fuzz.run(count, arguments, ["json": JSONTargets.json])
}

enum JSONTargets {
  static func json(_ bytes: [UInt8]) {
    guard let value = try? JSONValue(parsing: bytes) else { return }
    let written = value.bytes
    let again = try? JSONValue(parsing: written)
    check(again == value, "what is read survives being written")
    check(again?.bytes == written, "writing is settled after one round")
  }
}
