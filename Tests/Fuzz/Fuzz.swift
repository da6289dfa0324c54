// libFuzzer's entry point: bytes go to the parser that the environment's TARGET names.
//
// A target returns whatever happens; what must not happen is a trap, a hang, or a broken rule, and `check` makes
// a trap of the last.

import Grammar
import Platform

/// One parser.
enum FuzzTarget: String, CaseIterable {
  case http, chunked, multipart, websocket, png, jpeg, wav, json, request, safetensors, tokenizer,
    detokenizer, jinja, regex, gbnf,
    schema, calls, index, notes, hub, folder

  func run(_ bytes: [UInt8]) {
    switch self {
    case .http: HTTPTargets.requests(bytes)
    case .chunked: HTTPTargets.chunks(bytes)
    case .multipart: HTTPTargets.form(bytes)
    case .websocket: HTTPTargets.frames(bytes)
    case .png: MediaTargets.png(bytes)
    case .jpeg: MediaTargets.image(bytes)
    case .wav: MediaTargets.wav(bytes)
    case .json: FileTargets.json(bytes)
    case .request: FileTargets.request(bytes)
    case .safetensors: FileTargets.safetensors(bytes)
    case .tokenizer: FileTargets.tokenizer(bytes)
    case .detokenizer: TextTargets.detokenizer(bytes)
    case .jinja: TextTargets.template(bytes)
    case .regex: TextTargets.grammar(.regex(String(decoding: bytes, as: UTF8.self)), bytes)
    case .gbnf: TextTargets.grammar(.gbnf(String(decoding: bytes, as: UTF8.self)), bytes)
    case .schema: TextTargets.schema(bytes)
    case .calls: TextTargets.calls(bytes)
    case .index: StoreTargets.index(bytes)
    case .notes: StoreTargets.notes(bytes)
    case .hub: StoreTargets.hub(bytes)
    case .folder: StoreTargets.folder(bytes)
    }
  }

  static let chosen: FuzzTarget = {
    guard let text = getenv("TARGET"), let target = FuzzTarget(rawValue: String(cString: text)) else {
      StandardStream.write(
        "TARGET is one of \(FuzzTarget.allCases.map(\.rawValue).joined(separator: " "))\n", to: 2)
      exit(2)
    }
    return target
  }()
}

/// Ends the process where a rule does not hold, so that libFuzzer keeps the input.
func check(_ condition: Bool, _ rule: String) {
  guard !condition else { return }
  StandardStream.write("broken rule: \(rule)\n", to: 2)
  abort()
}

private typealias OneInput = @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt

/// libFuzzer's own loop.
@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ oneInput: OneInput
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
  FuzzTarget.chosen.run(Array(UnsafeBufferPointer(start: data, count: size)))
  return 0
}

/// Where the package manager's link has `main` point for a product of this name: libFuzzer's `main` is not reached.
@_cdecl("fuzz_main")
public func fuzzMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var (count, arguments) = (count, arguments)
  return runDriver(&count, &arguments) { fuzzOneInput($0, $1) }
}
