// Which addresses are there for everyone, in every way of writing one.

import Platform
import Testing

@Suite struct IPAddressTests {
  /// What the C library makes of a literal.
  private func address(_ text: String) throws -> IPAddress {
    let found = try IPAddress.find(text, until: Instant.now.adding(seconds: 30), holding: 0)
    return try #require(found?.first, "\(text)")
  }

  @Test(arguments: [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
    "128.0.0.0", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255",
    "198.17.255.255",
    "198.20.0.0", "223.255.255.255", "2606:4700:4700::1111", "2a00::1", "2001:200::1", "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8", "2002:808:808::1",
  ])
  func `an address of the internet is public`(text: String) throws {
    #expect(try address(text).isPublic)
  }

  @Test(arguments: [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
    "198.19.255.255", "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16", "2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "::", "::1", "::127.0.0.1",
    "::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::8.8.8.8", "2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:101::1", "fe80::1", "fec0::1",
    "fc00::1",
    "fd12:3456::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "2001::1", "2001:2::1", "2001:10::1",
    "3fff::1",
    "5f00::1", "100::1", "4000::1",
  ])
  func `an address of anything else is not public`(text: String) throws {
    #expect(try !address(text).isPublic)
  }

  @Test func `addresses are written as URLs have them`() throws {
    #expect(try address("127.1").text == "127.0.0.1")
    #expect(try address("::ffff:1.2.3.4").text == "0:0:0:0:0:ffff:102:304")
    #expect(IPAddress([1, 2, 3]) == nil)
  }

  @Test func `a host that does not exist has no addresses`() throws {
    let deadline = Instant.now.adding(seconds: 30)
    for host in ["", "127.0.0.1\0.example", "256.1.1.1.1"] {
      #expect(try IPAddress.find(host, until: deadline, holding: 0) == [], "\(host)")
    }
  }

  @Test func `what is held is kept until the answer is there, and no answer in time is none`() throws {
    final class Place: Sendable {
      let left: Monitor<Bool>
      init(_ left: Monitor<Bool>) { self.left = left }
      deinit { left.update { $0 = true } }
    }
    let left = Monitor(false)
    let past = Instant(nanoseconds: 0)
    // The thread may be quicker than the look at its answer.
    _ = try IPAddress.find("127.0.0.1", until: past, holding: Place(left))
    let isFree: Bool? = left.wait(until: Instant.now.adding(seconds: 30)) { $0 ? true : nil }
    #expect(isFree == true)
  }
}
