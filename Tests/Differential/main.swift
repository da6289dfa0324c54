// Answers cases of one subject until its input ends: differential SUBJECT [TOKENIZER]. See differential.py.

import Platform

guard let subject = CommandLine.arguments.dropFirst().first.flatMap(Subject.init(rawValue:)) else {
  StandardStream.write("the subject is one of \(Subject.allCases.map(\.rawValue))\n", to: STDERR_FILENO)
  exit(2)
}
var reader = CaseReader()
var writer = AnswerWriter()
while let fields = reader.next() {
  writer.add(subject.answer(fields))
  // One who waits for an answer before the next case gets it.
  if reader.isDrained { writer.flush() }
}
writer.flush()
