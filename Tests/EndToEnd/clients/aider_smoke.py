"""aider: one question to the model, and one message to its command line in a folder of its own."""

import os
import pathlib
import subprocess
import sys
import tempfile
from importlib.metadata import version

from smoke import CAPITAL, MODEL, URL, check, main, test


@test()
def a_message():
    """The demo model edits no files. The program's own look-ups in the network may fail."""
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            [os.path.join(os.path.dirname(sys.executable), "aider"), "--model", f"openai/{MODEL}", "--message", CAPITAL,
             "--chat-mode", "ask", "--no-git", "--yes-always", "--no-stream", "--no-pretty", "--no-check-update",
             "--no-show-model-warnings", "--no-analytics", "--map-tokens", "0"],
            cwd=folder, capture_output=True, text=True, timeout=240,
            env={**os.environ, "OPENAI_API_BASE": URL, "OPENAI_API_KEY": "none", "HOME": folder,
                 "LITELLM_LOCAL_MODEL_COST_MAP": "True"})
        check(result.returncode == 0 and "Paris" in result.stdout, result.stdout, result.stderr)
        check((pathlib.Path(folder) / ".aider.chat.history.md").read_text(), result.stdout)


main("aider " + version("aider-chat"))
