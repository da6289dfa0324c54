// Says an answer to screen readers sentence by sentence, at most once a second.

export class Announcer {
  constructor(node) {
    this.node = node;
    this.text = "";
    this.saidAt = 0;
  }

  hear(text) {
    this.text += text;
    if (!this.timer && /[.!?…。！？:\n]\s*/.test(this.text)) {
      this.timer = setTimeout(() => this.say(), Math.max(0, this.saidAt + 1000 - Date.now()));
    }
  }

  /// Whole sentences; what follows them waits.
  say() {
    this.timer = null;
    const end = Math.max(...[".", "!", "?", "…", "。", "！", "？", "\n"].map((mark) => this.text.lastIndexOf(mark)));
    if (end < 0) return;
    this.put(this.text.slice(0, end + 1));
    this.text = this.text.slice(end + 1);
  }

  finish(note) {
    clearTimeout(this.timer);
    const rest = `${this.text} ${note}`.trim();
    this.text = "";
    if (!rest) return (this.timer = null);
    this.timer = setTimeout(() => {
      this.timer = null;
      this.put(rest);
    }, Math.max(0, this.saidAt + 1000 - Date.now()));
  }

  put(text) {
    this.saidAt = Date.now();
    this.node.textContent = text.replace(/[*_`#>|~]+/g, "").replace(/\s+/g, " ").trim().slice(0, 2000);
  }
}
