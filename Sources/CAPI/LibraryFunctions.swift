// The functions of lib_mlx.h. Each takes C values apart, and hands on to `Library`.

import JSON
import Platform

/// What a host gives to be told of the log.
public typealias LogCallback = @convention(c) (Int32, UnsafePointer<CChar>?, UnsafeMutableRawPointer?) -> Void
/// What a host gives to get the body of a response; anything but 0 ends it.
public typealias ChunkCallback =
  @convention(c) (UnsafePointer<UInt8>?, Int64, UnsafeMutableRawPointer?) -> Int32

/// The version of the package and of these functions.
@_cdecl("lib_mlx_version")
public func version() -> UnsafeMutablePointer<CChar>? {
  reply { Library.version }
}

/// Settings of the process, before its first model.
@_cdecl("lib_mlx_configure")
public func configure(_ configuration: UnsafePointer<CChar>?) -> UnsafeMutablePointer<CChar>? {
  reply(reading: configuration) { fields throws(LibraryError) in try Library.shared.configure(&fields) }
}

/// Where lines of the log go.
@_cdecl("lib_mlx_set_log_callback")
public func setLogCallback(_ callback: LogCallback?, _ context: UnsafeMutableRawPointer?)
  -> UnsafeMutablePointer<CChar>?
{
  reply {
    LibraryLog.shared.set(callback.map { LibraryLog.Receiver(call: $0, context: context) })
    return JSONObject()
  }
}

/// A model in memory, by a new handle.
@_cdecl("lib_mlx_load_model")
public func loadModel(_ configuration: UnsafePointer<CChar>?) -> UnsafeMutablePointer<CChar>? {
  reply(reading: configuration) { fields throws(LibraryError) in try Library.shared.load(&fields) }
}

/// A server for a handle.
@_cdecl("lib_mlx_start_server")
public func startServer(_ handle: Int64, _ configuration: UnsafePointer<CChar>?) -> UnsafeMutablePointer<
  CChar
>? {
  reply(for: handle, reading: configuration) { fields throws(LibraryError) in
    try Library.shared.start(handle, &fields)
  }
}

/// The end of a handle's server.
@_cdecl("lib_mlx_stop_server")
public func stopServer(_ handle: Int64) -> UnsafeMutablePointer<CChar>? {
  reply(for: handle) { () throws(LibraryError) in try Library.shared.stop(handle) }
}

/// How a handle stands.
@_cdecl("lib_mlx_server_status")
public func serverStatus(_ handle: Int64) -> UnsafeMutablePointer<CChar>? {
  reply(for: handle) { () throws(LibraryError) in try Library.shared.status(handle) }
}

/// The end of a handle.
@_cdecl("lib_mlx_unload_model")
public func unloadModel(_ handle: Int64) -> UnsafeMutablePointer<CChar>? {
  reply(for: handle) { () throws(LibraryError) in try Library.shared.unload(handle) }
}

/// All handles.
@_cdecl("lib_mlx_list_models")
public func listModels() -> UnsafeMutablePointer<CChar>? {
  reply { Library.shared.list }
}

/// A request without a socket.
@_cdecl("lib_mlx_request")
public func request(
  _ handle: Int64, _ method: UnsafePointer<CChar>?, _ path: UnsafePointer<CChar>?,
  _ body: UnsafePointer<CChar>?,
  _ bodyCount: Int64, _ callback: ChunkCallback?, _ context: UnsafeMutableRawPointer?
) -> UnsafeMutablePointer<CChar>? {
  reply(for: handle) { () throws(LibraryError) in
    let call = try LibraryCall(method: method, path: path, body: body, count: bodyCount)
    return try Library.shared.answer(handle, call, callback.map { ChunkReceiver(call: $0, context: context) })
  }
}

/// The end of a text that another function returned.
@_cdecl("lib_mlx_free")
public func free(_ pointer: UnsafeMutableRawPointer?) {
  Platform.free(pointer)
}
