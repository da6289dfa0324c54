// The executable: hands its arguments to the command line and exits with its code.

import CLI

CommandLineTool.runAndExit(CommandLine.arguments)
