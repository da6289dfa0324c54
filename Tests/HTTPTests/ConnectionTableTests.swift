// When the table of connections tells that a crowd has gone.

import Platform
import Testing

@testable import HTTP

@Suite struct ConnectionTableTests {
  private let socket = Socket(accepted: open("/dev/null", O_RDWR), sendBufferBytes: 0)

  private func peer(_ address: String) -> Endpoint { Endpoint(address: address, port: 1) }

  private func table(_ connections: Int, _ adjust: (inout Limits) -> Void = { _ in }) -> ConnectionTable {
    var limits = Limits()
    limits.connections = connections
    adjust(&limits)
    return ConnectionTable(limits: limits)
  }

  /// Takes a connection in that waits for its first request; its number, if it has an ordinary place.
  private func add(_ table: ConnectionTable, from address: String = "127.0.0.1") -> Int? {
    guard case .taken(let id) = table.add(socket, from: peer(address)) else { return nil }
    return table.enterIdle(id) ? id : nil
  }

  /// A table with so many connections.
  private func full(_ count: Int) throws -> (ConnectionTable, [Int]) {
    let table = table(count)
    return (table, try (0..<count).map { _ in try #require(add(table)) })
  }

  @Test func `each half of a crowd that goes is told once, until no crowd is left`() throws {
    let (table, ids) = try full(200)
    let left = ids.enumerated().filter { table.remove($1) }.map { 199 - $0.offset }
    #expect(left == [100, 50])
    #expect(table.count == 0)
  }

  @Test func `a few connections are no crowd`() throws {
    let (table, ids) = try full(63)
    #expect(ids.allSatisfy { !table.remove($0) })
  }

  @Test func `in a full table the oldest connection that never asked makes room`() throws {
    let (table, ids) = try full(3)
    table.noteRequest(ids[0])
    let new = try #require(add(table))
    #expect(ids.map(table.isEnding) == [false, true, false] && !table.isEnding(new))
    _ = try #require(add(table))
    #expect(table.isEnding(ids[2]) && !table.isEnding(ids[0]))
    for id in ids { table.remove(id) }
    #expect(table.count == 2)
    #expect(try #require(add(table)) == 5 && !table.isEnding(new))
  }

  @Test func `then the one that waits longest, without a key before those with one`() throws {
    let (table, ids) = try full(4)
    for id in ids { table.noteRequest(id) }
    #expect(table.assign(ids[0], to: 7))
    for id in [1, 3, 2] {
      table.leaveIdle(ids[id])
      #expect(table.enterIdle(ids[id]))
    }
    for (round, expected) in [1, 3, 2].enumerated() {
      let new = try #require(add(table))
      table.noteRequest(new)
      table.leaveIdle(new)
      #expect(ids.filter(table.isEnding).count == round + 1 && table.isEnding(ids[expected]))
    }
    #expect(!table.isEnding(ids[0]))
    _ = try #require(add(table))
    #expect(table.isEnding(ids[0]))
  }

  @Test func `where all are at work, a few urgent ones still come in`() throws {
    let (table, ids) = try full(32)
    for id in ids {
      table.noteRequest(id)
      table.leaveIdle(id)
    }
    #expect(table.add(socket, from: peer("127.0.0.1")) == .reserve(32))
    #expect(table.add(socket, from: peer("127.0.0.1")) == .reserve(33))
    #expect(table.add(socket, from: peer("127.0.0.1")) == .full(limit: 32))
    // One in the reserve that waits makes room for the next.
    #expect(table.enterIdle(32))
    #expect(table.add(socket, from: peer("127.0.0.1")) == .reserve(34))
    #expect(table.isEnding(32) && !table.isEnding(33))
    table.remove(33)
    table.remove(ids[0])
    #expect(table.add(socket, from: peer("127.0.0.1")) == .taken(35))
    #expect(ids.dropFirst().allSatisfy { !table.isEnding($0) })
  }

  @Test func `one address gets half of the table, and one network of IPv6 addresses too`() throws {
    let table = table(8)
    let first = try (0..<4).map { _ in try #require(add(table, from: "192.0.2.1")) }
    for id in first {
      table.noteRequest(id)
      table.leaveIdle(id)
    }
    #expect(table.add(socket, from: peer("192.0.2.1")) == .full(limit: 4))
    for host in 1...4 { _ = try #require(add(table, from: "2001:db8:0:1::\(host)")) }
    _ = try #require(add(table, from: "2001:db8:0:1:ffff::5"))
    #expect(table.isEnding(4) && !table.isEnding(5))
    table.remove(first[0])
    #expect(add(table, from: "192.0.2.1") != nil)
  }

  @Test func `a bound for one address holds for this machine too, where it is set`() throws {
    let table = table(8) { $0.connectionsFromOne = 2 }
    let ids = try (0..<2).map { _ in try #require(add(table)) }
    _ = try #require(add(table))
    #expect(table.isEnding(ids[0]) && !table.isEnding(ids[1]))
    #expect(add(table, from: "127.0.0.2") != nil)
  }

  @Test func `one key has a bound, and its connections are cut when it goes`() throws {
    let table = table(8) { $0.connectionsPerKey = 2 }
    let ids = try (0..<4).map { _ in try #require(add(table)) }
    for id in ids { table.leaveIdle(id) }
    #expect(table.assign(ids[0], to: 1) && table.assign(ids[0], to: 1) && table.assign(ids[1], to: 1))
    #expect(!table.assign(ids[2], to: 1))
    #expect(table.assign(ids[2], to: 2))
    #expect(table.enterIdle(ids[0]))
    #expect(table.assign(ids[3], to: 1) && table.isEnding(ids[0]))
    table.cut(keys: [1])
    #expect(ids.map(table.isEnding) == [true, true, false, true])
    #expect(!table.enterIdle(ids[3]))
    for id in ids { table.remove(id) }
    #expect(table.count == 0)
    let new = try #require(add(table))
    #expect(table.assign(new, to: 1))
  }

  @Test func `at the end new connections have the places of urgent ones, and the end does not wait for them`()
    throws
  {
    let (table, ids) = try full(32)
    for id in ids.dropLast() { table.noteRequest(id) }
    table.leaveIdle(ids[0])
    table.beginDraining()
    #expect(!table.enterIdle(ids[1]) && !table.isLate(ids[1]))
    // It has asked nothing: its first request may be on its way.
    #expect(table.enterIdle(ids[31]) && table.isLate(ids[31]))
    // A sixteenth of 32 places; the one that waits longer makes room.
    let late = (0..<3).map { _ in table.add(socket, from: peer("127.0.0.1")) }
    #expect(late == [.reserve(32), .reserve(33), .full(limit: 32)])
    #expect(table.enterIdle(32))
    #expect(table.add(socket, from: peer("127.0.0.1")) == .reserve(34))
    #expect(!table.waitUntilServed(until: .now))
    for id in ids.dropLast() { table.remove(id) }
    #expect(table.waitUntilServed(until: .now) && table.count == 4)
    table.expire()
    #expect(!table.enterIdle(33))
  }

  @Test
  func `without a descriptor the connection that waits longest makes room, or a newcomer may only be urgent`()
    throws
  {
    let (table, ids) = try full(3)
    #expect(table.makeRoom())
    #expect(ids.map(table.isEnding) == [true, false, false])
    for id in ids { table.leaveIdle(id) }
    #expect(!table.makeRoom())
    table.remove(ids[0])
    #expect(table.add(socket, from: peer("127.0.0.1"), isCrowded: true) == .reserve(3))
    #expect(table.add(socket, from: peer("127.0.0.1")) == .taken(4))
  }

  @Test func `a client whose request has come makes no room`() throws {
    var ends: [Int32] = [0, 0]
    try #require(socketpair(AF_UNIX, ListeningSocket.streamType, 0, &ends) == 0)
    defer { for end in ends { close(end) } }
    let table = table(2)
    #expect(table.add(Socket(accepted: ends[0], sendBufferBytes: 0), from: peer("127.0.0.1")) == .taken(0))
    #expect(table.enterIdle(0))
    #expect(write(ends[1], "G", 1) == 1)
    #expect(!table.makeRoom() && !table.isEnding(0))
    var byte: UInt8 = 0
    #expect(read(ends[0], &byte, 1) == 1)
    #expect(table.makeRoom() && table.isEnding(0))
  }
}
