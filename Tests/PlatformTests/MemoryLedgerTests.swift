// The account of memory: what is granted, what is only counted, and what a limit is in words.

import Testing

@testable import Platform

@Suite struct MemoryLedgerTests {
  @Test func `what is left is granted, all parts or none`() {
    let ledger = MemoryLedger(limit: 100)
    #expect(ledger.reserve([(.weights, 60), (.kvCache, 30)]))
    #expect(!ledger.reserve([(.weights, 5), (.kvCache, 6)]))
    #expect(ledger.left == 10)
    #expect(ledger.reserve(10, for: .kvCache))
    ledger.release(60, from: .weights)
    #expect(ledger.left == 60)
    #expect(!ledger.reserve(.max, for: .weights))
  }

  @Test func `what is held already is counted beyond the limit, and leaves nothing`() {
    let ledger = MemoryLedger(limit: 100)
    ledger.add(150, to: .other)
    #expect(ledger.left == 0)
    #expect(!ledger.reserve(1, for: .kvCache))
    ledger.set(.other, to: 40)
    #expect(ledger.left == 60)
    ledger.set(.other, to: -7)
    #expect(ledger.left == 100)
  }

  @Test func `an account without a limit goes on for ever`() {
    let ledger = MemoryLedger()
    for _ in 0..<4 {
      #expect(ledger.reserve(.max, for: .weights))
      ledger.release(.max, from: .weights)
    }
    #expect(ledger.left == .max)
  }

  @Test func `a snapshot has every kind with its present and its peak`() {
    let ledger = MemoryLedger(limit: 100)
    #expect(ledger.reserve(50, for: .kvCache))
    ledger.move(20, from: .kvCache, to: .prefixCache)
    ledger.release(15, from: .prefixCache)
    let snapshot = ledger.snapshot()
    #expect(snapshot.lines.map(\.kind) == MemoryKind.allCases)
    #expect(
      snapshot.lines.filter { $0.peak > 0 } == [
        MemoryLedger.Line(kind: .kvCache, bytes: 30, peak: 50),
        MemoryLedger.Line(kind: .prefixCache, bytes: 5, peak: 20),
      ])
    #expect(snapshot.total == 35)
    #expect(snapshot.left == 65)
  }

  @Test func `many threads leave nothing behind and never exceed the limit`() throws {
    let ledger = MemoryLedger(limit: 1_000)
    let threads = try (0..<4).map { _ in
      try Thread(name: "spender") {
        for _ in 0..<2_000 where ledger.reserve(300, for: .kvCache) {
          ledger.move(100, from: .kvCache, to: .prefixCache)
          ledger.release(200, from: .kvCache)
          ledger.release(100, from: .prefixCache)
        }
      }
    }
    for thread in threads { thread.join() }
    let snapshot = ledger.snapshot()
    #expect(snapshot.total == 0)
    #expect(snapshot.lines.allSatisfy { $0.peak <= 1_000 })
  }

  @Test func `a loan holds what it took until it goes`() {
    let ledger = MemoryLedger(limit: 100)
    do {
      let loan = MemoryLoan(holding: 60, of: ledger, for: .answers)
      #expect(loan != nil && ledger.bytes(of: .answers) == 60)
      #expect(MemoryLoan(holding: 60, of: ledger, for: .answers) == nil)
      #expect(loan?.extend(by: 40) == true && ledger.left == 0)
    }
    #expect(ledger.left == 100)
  }

  @Test func `caches leave the slack free, which others may take`() {
    let ledger = MemoryLedger(limit: 100, slack: 20)
    #expect(!ledger.reserveGrowth(81, for: .kvCache))
    #expect(ledger.reserveGrowth(80, for: .kvCache))
    #expect(ledger.left == 20 && ledger.leftForGrowth == 0)
    #expect(!ledger.reserveGrowth(1, for: .kvCache))
    #expect(ledger.reserve(20, for: .weights))
    #expect(MemoryLedger.slack(of: 32 << 20) == 2 << 20)
    #expect(MemoryLedger.slack(of: 80 << 20) == 4 << 20)
    #expect(MemoryLedger.slack(of: 1 << 30) == 32 << 20)
    #expect(MemoryLedger.slack(of: .max) == 64 << 20)
  }

  @Test
  func `what is only measured is measured each time caches have grown by a megabyte, before they get more`() {
    let ledger = MemoryLedger(limit: 64 << 20)
    // A machine so fast that nothing but the growth of caches lets time pass: with each megabyte of keys and values the
    // heap takes another.
    let heap = Monitor(0)
    ledger.onMeasurement { [weak ledger] in ledger?.set(.other, to: heap.withLock { $0 }) }
    while ledger.reserveGrowth(256 << 10, for: .kvCache) { heap.withLock { $0 += 256 << 10 } }
    let held = ledger.bytes(of: .kvCache) + heap.withLock { $0 }
    #expect(held > 60 << 20 && held <= 65 << 20, "\(held)")
  }

  @Test func `requests leave half of the slack free, and what is measured counts before they get more`() {
    let ledger = MemoryLedger(limit: 64 << 20, slack: 4 << 20)
    // Each request takes as much heap as it claims, within less than a second.
    let heap = Monitor(0)
    ledger.onMeasurement { [weak ledger] in ledger?.set(.other, to: heap.withLock { $0 }) }
    while ledger.reserve(256 << 10, for: .requestBodies, waiting: 0) { heap.withLock { $0 += 256 << 10 } }
    let held = ledger.bytes(of: .requestBodies) + heap.withLock { $0 }
    #expect(held > 58 << 20 && held <= 63 << 20, "\(held)")
    let small = MemoryLedger(limit: 100, slack: 20)
    #expect(!small.reserve(91, for: .answers, waiting: 0) && small.reserve(90, for: .answers, waiting: 0))
    let asked = Monitor(0)
    small.onShortage { bytes in asked.update { $0 = bytes } }
    // What can never be had pushes nothing out.
    #expect(!small.reserve(101, for: .answers, waiting: 0) && asked.withLock { $0 } == 0)
    #expect(!small.reserve(1, for: .answers, waiting: 0) && asked.withLock { $0 } == 11)
  }

  @Test func `a shortage is told to who listens`() {
    let ledger = MemoryLedger(limit: 10)
    let heard = Monitor(0)
    ledger.ask(for: 1)
    ledger.onShortage { bytes in heard.update { $0 += bytes } }
    ledger.ask(for: 5)
    #expect(heard.withLock { $0 } == 5)
  }

  @Test(arguments: [
    ("6G", 6 << 30), ("800M", 800 << 20), ("1.5GiB", 3 << 29), ("2gb", 2 << 30), ("70%", 700),
    ("100%", 1_000),
    ("4096", 4_096), ("12K", 12 << 10), ("1T", 1 << 40), ("0.5k", 512),
  ])
  func `a size is read as people write it`(text: String, bytes: Int) {
    #expect(MemoryLimit.parse(text, of: 1_000) == bytes)
  }

  @Test(arguments: [
    "", "G", "-1G", "6X", "6 G", "101%", "0", "0%", "1e3", ".5G", "1.2.3G", "99999999T", "nan", "6GG",
    "0.0001K",
  ])
  func `what is no size is none`(text: String) { #expect(MemoryLimit.parse(text, of: 1_000) == nil) }

  @Test func `bytes have words`() {
    #expect(MemoryLimit.words(0) == "0 KiB")
    #expect(MemoryLimit.words(512) == "1 KiB")
    #expect(MemoryLimit.words(500 << 20) == "500 MiB")
    #expect(MemoryLimit.words(3 << 30) == "3.0 GiB")
    #expect(MemoryLimit.words(.max) == "8589934591.0 GiB")
  }

  @Test func `limits of control groups are looked for in all enclosing groups`() {
    #expect(
      MemoryLimit.controlFiles(["9:name=systemd:/", "4:cpu,memory:/a/b", "0::/c"]) == [
        "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/c/memory.max",
        "/sys/fs/cgroup/unified/memory.max", "/sys/fs/cgroup/unified/c/memory.max",
      ])
    #expect(MemoryLimit.controlFiles(["4:memory:/../x", "nonsense", ""]).isEmpty)
    #expect(MemoryLimit.bytes > 1 << 20)
  }

  @Test func `anonymous memory is less than all memory`() throws {
    #if os(Linux)
      let bytes = try #require(ProcessUsage.privateBytes)
      #expect((1 << 16..<Machine.memoryBytes).contains(bytes))
    #endif
    Machine.trimHeap()
  }
}
