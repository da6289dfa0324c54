// `mlxserve pull`: a model from the hub into the cache that the hub's own tools share.

import Hub
import JSON
import Platform

enum PullCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let settings = try flags.hubSettings()
    var reference = try ModelLocator.reference(try flags.argument("NAME"), settings)
    if let revision = flags.text("revision") {
      try ModelReference.check(revision, of: revision)
      reference.revision = revision
    }
    var request = DownloadRequest(reference)
    request.selection.included = flags.texts("include")
    request.selection.excluded = flags.texts("exclude")
    request.selection.takesAll = flags.isSet("all-files")
    request.folder = flags.text("to")
    request.jobs = flags.integer("jobs") ?? request.jobs
    request.rateLimit = try flags.size("limit-rate")
    request.isDryRun = flags.isSet("dry-run")
    request.isForced = flags.isSet("force")
    do {
      let folder = try ModelFetch.folder(
        request, settings, asJSON: flags.isSet("json"), isQuiet: flags.isSet("quiet"))
      if !flags.isSet("json") { Terminal.print(folder) }
      if Terminal.outputIsTerminal, Terminal.errorIsTerminal, request.folder == nil, !request.isDryRun,
        !flags.isSet("json"), !flags.isSet("quiet")
      {
        let name = try flags.argument("NAME") + (flags.text("revision").map { "@" + $0 } ?? "")
        Terminal.printError("Talk to it:  mlxserve run \(name)")
        Terminal.printError("Serve it:    mlxserve --model \(name)")
      }
      return ExitCode.success
    } catch {
      if flags.isSet("json") {
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
