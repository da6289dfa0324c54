// `mlxserve pull`: a model from the hub into the cache that the hub's own tools share.

import Hub
import JSON
import Platform

enum PullCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let settings = try flags.hubSettings()
    var reference = try ModelLocator.reference(try flags.argument("NAME"), settings)
    if let revision = flags[.revision] {
      try ModelReference.check(revision, of: revision)
      reference.revision = revision
    }
    var request = DownloadRequest(reference)
    request.selection.included = flags.texts(.include)
    request.selection.excluded = flags.texts(.exclude)
    request.selection.takesAll = flags[.allFiles]
    request.folder = flags[.to]
    request.jobs = flags[.jobs] ?? request.jobs
    request.rateLimit = try flags.size(.limitRate)
    request.isDryRun = flags[.dryRun]
    request.isForced = flags[.force]
    do {
      let folder = try ModelFetch.folder(
        request, settings, asJSON: flags[.json], isQuiet: flags[.quiet])
      if !flags[.json] { Terminal.print(folder) }
      if Terminal.outputIsTerminal, Terminal.errorIsTerminal, request.folder == nil, !request.isDryRun,
        !flags[.json], !flags[.quiet]
      {
        let name = try flags.argument("NAME") + (flags[.revision].map { "@" + $0 } ?? "")
        Terminal.printError("Talk to it:  mlxserve run \(name)")
        Terminal.printError("Serve it:    mlxserve --model \(name)")
      }
      return ExitCode.success
    } catch {
      if flags[.json] {
        let event: JSONValue = [
          "event": "error", "message": .string(String(describing: error)),
          "code": .int(Int(ExitCode.of(error))),
        ]
        Terminal.print(event.text)
      }
      throw error
    }
  }
}
