// Places for those who read files of requests.

import OpenAI
import Testing

@testable import Server

struct RequestFilesTests {
  @Test func `two read at a time, and who is not wanted any more waits no longer`() throws {
    let readers = FileReaders()
    try readers.enter("a") { false }
    try readers.enter("b") { false }
    #expect(throws: APIError.self) { try readers.enter("c") { true } }
    readers.leave()
    try readers.enter("c") { true }
    do throws(APIError) {
      try readers.enter("d") { true }
      Issue.record("a third one")
    } catch {
      #expect(error.status == 499 && error.code == "client_gone")
    }
  }
}
