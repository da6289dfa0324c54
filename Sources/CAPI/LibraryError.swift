// Why a function could not do what it was called for, as the host sees it.

import JSON
import MLXServe

/// The member `error` of an answer.
struct LibraryError: Error {
  /// `invalid_json`, `invalid_handle`, `already_running`, `forked`, or a code of `MLXServeError`.
  let code: String
  let message: String
  /// The member of the request that cannot be used, where it is one.
  var param: String?
  /// What programs may want to know of it.
  var detail: JSONObject?

  init(_ code: String, _ message: String, param: String? = nil, detail: JSONObject? = nil) {
    (self.code, self.message, self.param) = (code, message, param)
    self.detail = detail
  }

  init(_ error: MLXServeError) {
    self.init(error.code.rawValue, error.description, param: error.setting)
  }

  static func invalid(_ param: String, _ problem: String) -> LibraryError {
    LibraryError("invalid_argument", "'\(param)' \(problem)", param: param)
  }

  static func invalidHandle(_ handle: Int64) -> LibraryError {
    LibraryError(
      "invalid_handle", "there is no model with the handle \(handle): load one, or ask lib_mlx_list_models")
  }

  /// - Parameter handle: the one that the function was called with.
  func json(handle: Int64?) -> JSONObject {
    var error = JSONObject([("code", .string(code)), ("message", .string(message))])
    error["param"] = param.map(JSONValue.string)
    error["detail"] = detail.map(JSONValue.object)
    var answer = JSONObject([("ok", false)])
    answer["handle"] = handle.map { .int(Int($0)) }
    answer["error"] = .object(error)
    return answer
  }
}
