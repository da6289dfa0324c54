// libFuzzer's entry point: bytes go to the parser that `--target=NAME` names.
//
// A target returns whatever happens; what must not happen is a trap, a hang, or a broken rule, and `check` makes
// a trap of the last. Each program holds the targets of a few modules and no others, because libFuzzer looks through the
// counters of all the code in a program after every input.

/// One parser: what becomes of an input.
public typealias FuzzTarget = @Sendable ([UInt8]) -> Void

public enum Fuzz {
  /// libFuzzer calls a function of C, which can hold nothing: set once before its loop begins.
  nonisolated(unsafe) fileprivate static var chosen: FuzzTarget?

  /// Runs libFuzzer's loop over the target that an argument names; libFuzzer skips arguments with two hyphens.
  ///
  /// A program calls it from where the package manager's link has `main` point: libFuzzer's `main` is not reached.
  public static func run(
    _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?,
    _ targets: [String: FuzzTarget]
  ) -> CInt {
    for argument in CommandLine.arguments where argument.hasPrefix("--target=") {
      chosen = targets[String(argument.dropFirst("--target=".count))]
    }
    guard chosen != nil else {
      print("--target= is one of " + targets.keys.sorted().joined(separator: " "))
      return 2
    }
    var (count, arguments) = (count, arguments)
    return runDriver(&count, &arguments, runOne)
  }
}

private func runOne(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
  Fuzz.chosen?(Array(UnsafeBufferPointer(start: data, count: size)))
  return 0
}

/// Ends the process where a rule does not hold, so that libFuzzer keeps the input.
public func check(_ condition: Bool, _ rule: StaticString) {
  if !condition { fatalError("broken rule: \(rule)") }
}

private typealias OneInput = @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt

/// libFuzzer's own loop.
@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ oneInput: OneInput
) -> CInt
