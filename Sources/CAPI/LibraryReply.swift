// From what a function does to the text that it returns: JSON from malloc, whatever happens.

import JSON
import Platform
import Synchronization

/// The process that used the library first; 0 before.
private let owner = Atomic<Int32>(0)

/// What every function answers in a child of fork: the engines' threads are not there, and their locks may be held for
/// ever. Constant, because making JSON might wait for such a lock too.
private let forked: StaticString =
  #"{"ok":false,"error":{"code":"forked","message":"the library was in use before fork(): use it in one process, or start another program (exec) and load the models there"}}"#

/// Whether this process is a child of the one that uses the library.
private func isForked() -> Bool {
  let process = getpid()
  let (exchanged, found) = owner.compareExchange(expected: 0, desired: process, ordering: .relaxed)
  return !exchanged && found != process
}

/// Answers with what `body` makes, and `"ok":true` before it.
func reply(_ body: () -> JSONObject) -> UnsafeMutablePointer<CChar>? {
  if isForked() { return copy(of: forked) }
  LibraryLog.begin()
  return text(succeeded(body()))
}

/// The same for a function that may fail.
func reply(for handle: Int64?, _ body: () throws(LibraryError) -> JSONObject) -> UnsafeMutablePointer<CChar>?
{
  if isForked() { return copy(of: forked) }
  LibraryLog.begin()
  do throws(LibraryError) {
    return text(succeeded(try body()))
  } catch {
    return text(error.json(handle: handle))
  }
}

/// The same for a function with settings, which runs on a thread of the library's: a host's thread may have a small stack.
func reply(
  for handle: Int64? = nil, reading json: UnsafePointer<CChar>?,
  _ body: @escaping @Sendable (inout LibraryFields) throws(LibraryError) -> JSONObject
) -> UnsafeMutablePointer<CChar>? {
  reply(for: handle) { () throws(LibraryError) in
    let bytes = json.map {
      Array(UnsafeBufferPointer(start: $0, count: strlen($0)).map { UInt8(bitPattern: $0) })
    }
    return try onOwnThread { () throws(LibraryError) in
      var fields = try LibraryFields(bytes)
      var answer = try body(&fields)
      if !fields.unread.isEmpty { answer["ignored"] = .array(fields.unread.map(JSONValue.string)) }
      return answer
    }
  }
}

/// Runs `body` on a thread with a stack for deep calls, and waits for it.
func onOwnThread<Value: Sendable>(_ body: @escaping @Sendable () throws(LibraryError) -> Value)
  throws(LibraryError)
  -> Value
{
  let outcome = Monitor<Result<Value, LibraryError>?>(nil)
  do throws(PlatformError) {
    let thread = try Thread(name: "lib_mlx", stackBytes: 4 << 20) {
      let result: Result<Value, LibraryError>
      do throws(LibraryError) {
        result = .success(try body())
      } catch {
        result = .failure(error)
      }
      outcome.update { $0 = result }
    }
    thread.join()
  } catch {
    throw LibraryError("internal", "\(error)")
  }
  guard let result = outcome.withLock({ $0 }) else {
    throw LibraryError("internal", "the thread gave no answer")
  }
  return try result.get()
}

private func succeeded(_ members: JSONObject) -> JSONObject {
  JSONObject([("ok", true)] + members.entries.map { ($0.key, $0.value) })
}

private func text(_ object: JSONObject) -> UnsafeMutablePointer<CChar>? {
  let bytes = JSONValue.object(object).bytes
  return bytes.withUnsafeBufferPointer { copy(of: $0.baseAddress, count: $0.count) }
}

private func copy(of text: StaticString) -> UnsafeMutablePointer<CChar>? {
  copy(of: text.utf8Start, count: text.utf8CodeUnitCount)
}

private func copy(of bytes: UnsafePointer<UInt8>?, count: Int) -> UnsafeMutablePointer<CChar>? {
  guard let bytes, let memory = malloc(count + 1) else { return nil }
  memory.copyMemory(from: bytes, byteCount: count)
  memory.storeBytes(of: 0, toByteOffset: count, as: UInt8.self)
  return memory.assumingMemoryBound(to: CChar.self)
}
