// What every route shares, and the one step from a request's `model` to the model that serves it.

import HTTP
import JSON
import OpenAI

struct AppHost: Sendable {
  let models: ModelFleet
  let settings: App.Settings
  let limits = RequestLimits()
  /// Responses that are made in the background.
  let jobs = ResponseJobs()
  /// Images and audio on their way to the model.
  let desk: MediaDesk
  /// Nil where nothing is fetched.
  let fetcher: MediaFetcher?

  init(models: ModelFleet, settings: App.Settings) {
    self.models = models
    self.settings = settings
    desk = MediaDesk(ledger: models.ledger)
    fetcher = settings.mediaURLs.map { MediaFetcher($0) }
  }

  /// The model that a body asks for, loaded, and kept for as long as the result is held.
  ///
  /// A body without a proper name gets the first model: where the name is optional that is meant, and elsewhere the
  /// body's reader says what is wrong with it.
  ///
  /// - Parameter client: whose request it is; nobody's where that makes no difference.
  /// - Throws: 404 for a model that does not exist, 500 or 503 for one that is not to be had.
  func core(_ body: JSONValue, for client: ClientIdentity = ClientIdentity()) throws(APIError) -> AppCore {
    let name = body["model"]?.stringValue ?? ""
    let lease = name.utf8.isEmpty ? try models.leaseFirst() : try models.lease(name)
    return AppCore(host: self, lease: lease, client: client)
  }

  /// - Parameter fields: of the request, that nobody knows.
  /// - Throws: 400 for the first of them, if the server is strict.
  func checkUnknown(_ fields: [String]) throws(APIError) {
    if settings.strictParameters, let field = fields.first { throw .unknownParameter(field) }
  }
}
