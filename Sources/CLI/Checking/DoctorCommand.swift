// `mlxserve doctor`: what this machine has for serving, what is missing, and which model would fit.

import Compute
import HTTP
import Hub
import JSON
import Platform

enum DoctorCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let findings = try findings(flags)
    if flags[.json] {
      Terminal.print(VerifyCommand.json(findings, model: nil).text)
    } else {
      for finding in findings { Terminal.print(VerifyCommand.line(finding)) }
    }
    return findings.contains { $0.status == .failed } ? ExitCode.checkFailed : ExitCode.success
  }

  private static func findings(_ flags: ParsedFlags) throws -> [Finding] {
    let settings = try flags.hubSettings()
    let prompts = try prompts(flags)
    return [
      Finding(status: .ok, subject: "version", detail: BuildInfo.lines.prefix(2).joined(separator: ", ")),
      processor, cores, memory, hugePages, descriptors(DescriptorLimit.now.hard), curl(settings),
      cache(settings), disk(settings),
      port(flags), configuration(flags), suggestion,
    ] + (flags[.kernels] ? kernels + [bandwidth] : []) + prompts
  }

  /// Which clients of a running server change the beginning of their prompts.
  private static func prompts(_ flags: ParsedFlags) throws -> [Finding] {
    guard let url = flags[.server] else { return [] }
    guard url.utf8.starts(with: "http://".utf8),
      let address = Authority.parse(String(url.dropFirst("http://".count).prefix { $0 != "/" }))
    else {
      throw UsageError.badValue(
        flag: "server", value: url, expected: "http:// with localhost or an address in numbers, and a port")
    }
    let answer = Probe.get(
      host: address.host, port: address.port ?? 80, path: "/debug/prompts",
      key: Environment.value(ServeSetup.keyVariable), seconds: 5)
    guard let answer, answer.status == 200, let body = try? JSONValue(parsing: answer.body),
      let prompts = body["prompts"]?.arrayValue
    else {
      let status = answer.map { "status \($0.status)" } ?? "nothing answers"
      return [
        Finding(
          status: .failed, subject: "prompts", detail: "\(url): \(status)",
          advice: "where the server has keys, put an admin's into \(ServeSetup.keyVariable).")
      ]
    }
    guard !prompts.isEmpty else {
      return [Finding(status: .ok, subject: "prompts", detail: "no client changes what it has sent before")]
    }
    return prompts.map { prompt in
      func text(_ name: String) -> String { JSONValue.string(prompt[name]?.stringValue ?? "").text }
      func number(_ name: String) -> Int { prompt[name]?.intValue ?? 0 }
      return Finding(
        status: .note, subject: "prompts",
        detail:
          "\(prompt["client"]?.stringValue ?? ""): from token \(number("token")) of \(number("prompt_tokens")) on, "
          + "\(number("read_again")) are read again (\(counted(number("count"), "prompt"))); behind \(text("before")) "
          + "stood \(text("was")), then \(text("now")), before \(text("after"))",
        advice: "put what changes behind everything else, or switch it off in the client.")
    }
  }

  /// Every kernel set of this machine against the scalar twins.
  private static var kernels: [Finding] {
    CPUFeatures.available.map { isa in
      let findings = KernelCheck.run(isa)
      let wrong = findings.filter { !$0.isRight }.map(\.kernel)
      let words = "\(isa.rawValue), \(findings.count) kernels"
      guard !wrong.isEmpty else {
        return Finding(status: .ok, subject: "kernels", detail: words + " agree with their scalar twins")
      }
      return Finding(
        status: .failed, subject: "kernels", detail: words + ", wrong: " + wrong.joined(separator: "; "),
        advice: "please report this output; --isa chooses another set until then.")
    }
  }

  private static var bandwidth: Finding {
    let threads = Machine.cores
    let bytes = MemoryBandwidth(threads: threads).read(seconds: 1)
    return Finding(
      status: .ok, subject: "memory bus",
      detail: "\(threads) threads read \(Size.words(Int(clamping: Int64(bytes)))) per second")
  }

  private static var processor: Finding {
    let best = CPUFeatures.best
    let name = Machine.name.map { "\($0), " } ?? ""
    guard best == .portable else {
      return Finding(status: .ok, subject: "processor", detail: "\(name)kernels for \(best.rawValue)")
    }
    return Finding(
      status: .note, subject: "processor", detail: "\(name)portable kernels only, which are slow",
      advice: "a CPU with AVX2, or any arm64 one, is several times faster.")
  }

  private static var cores: Finding {
    let (topology, threads) = (Topology.here, Machine.cores)
    let nodes = topology.nodes.count > 1 ? " on \(topology.nodes.count) nodes of memory" : ""
    let words = topology.cores == threads ? "" : ", \(threads) \(threads == 1 ? "thread" : "threads")"
    return Finding(
      status: .ok, subject: "cores", detail: "\(topology.cores) for this process\(nodes)\(words)")
  }

  private static var memory: Finding {
    let (whole, limit) = (Machine.memoryBytes, MemoryLimit.bytes)
    let words = limit < whole ? ", of which its control group leaves \(MemoryLimit.words(limit))" : ""
    let detail = MemoryLimit.words(whole) + words
    guard limit >= 1 << 30 else {
      return Finding(
        status: .note, subject: "memory", detail: detail,
        advice: "that is enough for the smallest models only.")
    }
    return Finding(status: .ok, subject: "memory", detail: detail)
  }

  private static var hugePages: Finding {
    guard let line = PseudoFile.lines("/sys/kernel/mm/transparent_hugepage/enabled").first else {
      return Finding(status: .skipped, subject: "huge pages", detail: "this system does not tell")
    }
    let chosen = line.split(separator: "[").last?.split(separator: "]").first.map(String.init) ?? String(line)
    guard chosen == "never" else { return Finding(status: .ok, subject: "huge pages", detail: chosen) }
    return Finding(
      status: .note, subject: "huge pages", detail: "never",
      advice: "write 'madvise' to /sys/kernel/mm/transparent_hugepage/enabled; weights are read faster then.")
  }

  /// What a server gives itself when it starts, and how many connections that is enough for.
  static func descriptors(_ limit: Int, connections wanted: Int = 1024) -> Finding {
    let room = Limits.connections(wanted, descriptors: limit)
    let detail =
      (limit == .max ? "no limit" : "\(limit) at once") + ", enough for \(room) connections"
    guard room < wanted else { return Finding(status: .ok, subject: "descriptors", detail: detail) }
    return Finding(
      status: .note, subject: "descriptors", detail: detail,
      advice: "a server would take \(wanted): raise the hard limit of open files (ulimit -Hn, LimitNOFILE).")
  }

  private static func curl(_ settings: HubSettings) -> Finding {
    switch HubSettings.curl {
    case .success(let path): Finding(status: .ok, subject: "curl", detail: path)
    case .failure(let error):
      Finding(
        status: .note, subject: "curl", detail: "\(error)",
        advice: "only downloads and images by URL need it.")
    }
  }

  private static func cache(_ settings: HubSettings) -> Finding {
    guard File.isDirectory(settings.cache) else {
      return Finding(status: .ok, subject: "cache", detail: "\(settings.cache), not there yet")
    }
    let count = HubCache(root: settings.cache).repositories().count
    let words = "\(settings.cache), \(counted(count, "model"))"
    guard File.isWritable(settings.cache) else {
      return Finding(
        status: .note, subject: "cache", detail: words + ", can only be read",
        advice: "give --cache-dir another folder to download into.")
    }
    return Finding(status: .ok, subject: "cache", detail: words)
  }

  private static func disk(_ settings: HubSettings) -> Finding {
    var folder = settings.cache
    while !File.isDirectory(folder), let slash = folder.lastIndex(of: "/"), slash != folder.startIndex {
      folder = String(folder[..<slash])
    }
    guard let free = File.freeBytes(folder) else {
      return Finding(status: .skipped, subject: "disk", detail: "this system does not tell")
    }
    guard free >= 2 << 30 else {
      return Finding(
        status: .note, subject: "disk", detail: "\(Size.words(free)) free at \(folder)",
        advice: "make room before you download: small models take half a gigabyte, usual ones 2 to 5.")
    }
    return Finding(status: .ok, subject: "disk", detail: "\(Size.words(free)) free at \(folder)")
  }

  private static func port(_ flags: ParsedFlags) -> Finding {
    let (host, port) = (ServeSetup.host(flags), flags[.port] ?? 8080)
    guard Probe.isFree(host: host, port: port) else {
      return Finding(
        status: .failed, subject: "port", detail: "\(port) on \(host) is taken, or not allowed",
        advice: "end the program that has it, or give --port another number.")
    }
    return Finding(status: .ok, subject: "port", detail: "\(port) on \(host) is free")
  }

  private static func configuration(_ flags: ParsedFlags) -> Finding {
    guard let path = flags.configurationPath else {
      return Finding(status: .ok, subject: "configuration", detail: "no file")
    }
    return Finding(status: .ok, subject: "configuration", detail: path)
  }

  private static var suggestion: Finding {
    guard let fitting = ModelSpeed.fitting else {
      return Finding(status: .note, subject: "model", detail: "none of the usual ones fits into memory")
    }
    return Finding(
      status: .ok, subject: "model",
      detail:
        "\(ModelSpeed.words(fitting)) suits this machine: 'mlxserve pull \(fitting.name)'")
  }
}
