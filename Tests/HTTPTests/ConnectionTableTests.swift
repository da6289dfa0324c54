// When the table of connections tells that a crowd has gone.

import Platform
import Testing

@testable import HTTP

@Suite struct ConnectionTableTests {
  /// A table with so many connections.
  private func table(of count: Int) throws -> (ConnectionTable, [Int]) {
    let table = ConnectionTable(limit: count)
    let socket = Socket(accepted: open("/dev/null", O_RDWR), sendBufferBytes: 0)
    defer { socket.shut() }
    let ids = try (0..<count).map { _ in try #require(table.add(socket)) }
    return (table, ids)
  }

  @Test func `each half of a crowd that goes is told once, until no crowd is left`() throws {
    let (table, ids) = try table(of: 200)
    let left = ids.enumerated().filter { table.remove($1) }.map { 199 - $0.offset }
    #expect(left == [100, 50])
    #expect(table.count == 0)
  }

  @Test func `a few connections are no crowd`() throws {
    let (table, ids) = try table(of: 63)
    #expect(ids.allSatisfy { !table.remove($0) })
  }
}
