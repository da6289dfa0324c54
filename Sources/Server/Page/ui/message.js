// One message as it is shown: bubble, reasoning, calls, meters and buttons; cheap to bring up to date while it grows.

import { copyButton, el, field, icon, iconButton, sends } from "./dom.js";
import { MarkdownView } from "./markdown.js";
import { callView, sourcesView, textWithSources } from "./tools.js";
import { t, number, seconds, clock } from "./words.js";

/// A message of more characters, or of more lines, is folded.
const foldedLength = 1600;
const foldedLines = 16;

/// Tokens per second after the first one. Where all came at once that says nothing: then of the whole time.
function finalRate(usage, times) {
  if (!times?.total || !(usage?.output > 1)) return null;
  const writing = times.total - times.first;
  return writing > 100 ? ((usage.output - 1) * 1000) / writing : (usage.output * 1000) / times.total;
}

export class MessageView {
  /// `actions` are the things that its buttons do; `name` begins the id of its node.
  constructor(message, actions, name = "m") {
    this.message = message;
    this.actions = actions;
    this.body = el("div.body");
    this.buttons = el("div.actions");
    this.node = el("article", { class: `message ${message.role}`, id: `${name}-${message.id}` }, this.body, this.buttons);
    if (message.role === "assistant") this.buildAnswer();
    this.update();
  }

  buildAnswer() {
    this.thought = el("div.thought-text.prose");
    this.thoughtTitle = el("span");
    this.thoughtBox = el("details.thought", { hidden: true, ontoggle: () => this.paintThought(true) },
      el("summary", icon("thought"), this.thoughtTitle, icon("chevron")), this.thought);
    this.work = el("div.calls.work");
    this.questions = el("div.calls.questions");
    this.workNodes = new Map();
    this.text = el("div.prose");
    this.sources = el("div.calls.sources", { role: "group", "aria-label": t("sources") });
    this.calls = el("div.calls");
    this.waiting = el("div.waiting", el("span.dots", { "aria-hidden": "true" }, el("i"), el("i"), el("i")), el("span.waiting-text"));
    this.note = el("div.note");
    this.meters = el("div.meters");
    this.body.append(this.thoughtBox, this.work, this.text, this.sources, this.questions, this.calls, this.waiting, this.note, this.meters);
    this.markdown = new MarkdownView(this.text);
  }

  get isRunning() { return this.message.state === "streaming"; }

  /// Shows the message as it is now, at most 20 times a second.
  changed() {
    if (this.isPainting) return;
    this.isPainting = true;
    const wait = Math.max(0, (this.paintedAt ?? 0) + Math.max(50, 4 * (this.cost ?? 0)) - performance.now());
    setTimeout(() => requestAnimationFrame(() => {
      this.isPainting = false;
      const begin = performance.now();
      if (this.isRunning) this.update();
      this.paintedAt = performance.now();
      this.cost = this.paintedAt - begin;
    }), wait);
  }

  update() {
    const { message } = this;
    this.node.ariaLabel = message.role === "user" ? t("youSaid") : t("answered", { model: message.model || t("model") });
    if (message.role === "user") this.paintUser();
    else this.paintAnswer();
    this.node.classList.toggle("running", this.isRunning);
    if (!this.isRunning || !this.hasButtons) this.paintButtons();
    this.actions.painted?.(this);
  }

  paintUser() {
    const { message } = this;
    const files = (message.files ?? []).map((file) => this.file(file));
    this.body.replaceChildren(...(files.length ? [el("div.files", files)] : []),
      ...(message.text ? this.bubble(message.text) : []));
  }

  /// What was said; of a long text the beginning, and a button for the rest.
  bubble(text) {
    const node = el("div.bubble", { dir: "auto" }, text);
    if (text.length < foldedLength && text.split("\n").length <= foldedLines) return [node];
    const more = el("button.link.fold", { onclick: () => show(!this.isUnfolded) });
    const show = (isUnfolded) => {
      this.isUnfolded = isUnfolded;
      node.classList.toggle("folded", !isUnfolded);
      more.textContent = t(isUnfolded ? "showLess" : "showAll");
      more.ariaExpanded = String(Boolean(isUnfolded));
    };
    show(this.isUnfolded);
    return [node, more];
  }

  file(file) {
    // Of an import that had something else there.
    if (file.kind !== "text" && !file.data) return el("span.file", el("span.file-name", icon("file"), file.name));
    if (file.kind === "image") return el("img", { src: file.data, alt: file.name, title: file.name, loading: "lazy" });
    if (file.kind === "sound") return el("audio", { src: file.data, controls: true, "aria-label": file.name });
    return el("details.file", el("summary", icon("file"), el("span", file.name)), el("pre", { dir: "auto" }, file.text.slice(0, 20000)));
  }

  paintAnswer() {
    const { message } = this;
    const calls = message.calls ?? [];
    const works = calls.filter((call) => call.kind);
    const isEmpty = !message.text.trim() && calls.length === works.length && !works.some((call) => call.state === "running");
    this.paintThought();
    this.paintWork(works);
    this.markdown.update(message.cites ? textWithSources(message) : message.text, !this.isRunning);
    this.paintCalls();
    const isThinking = Boolean(message.reasoning) && !works.length;
    this.waiting.hidden = !this.isRunning || (!message.isLost && (!isEmpty || isThinking));
    this.waiting.lastChild.textContent = message.isLost ? t("lost") : message.wait?.() ?? "";
    this.paintNote();
    this.paintMeters();
  }

  paintThought(isToggled = false) {
    const { message } = this;
    if (this.thoughtBox.hidden && !message.reasoning) return;
    this.thoughtBox.hidden = !message.reasoning;
    if (!message.reasoning) return;
    const isThinking = this.isRunning && !message.text && !(message.calls ?? []).length;
    const time = isThinking && message.thoughtBegan ? (Date.now() - message.thoughtBegan) / 1000 : Math.max(0.1, (message.times?.thought ?? 0) / 1000);
    const tokens = message.usage?.reasoning;
    this.thoughtTitle.textContent = isThinking
      ? t("thinking", { time: number(Math.floor(time)) })
      : t("thought", { time: seconds(time) }) + (tokens ? ` (${t("tokens", { count: tokens })})` : "");
    this.thoughtBox.classList.toggle("busy", isThinking);
    if (!this.thoughtBox.open) return;
    this.thoughtMarkdown ??= new MarkdownView(this.thought);
    if (isToggled || this.thoughtLength !== message.reasoning.length) this.thoughtMarkdown.update(message.reasoning, !isThinking);
    this.thoughtLength = message.reasoning.length;
  }

  /// What the server did: a call that has changed is painted anew, the others keep their place and the keyboard.
  paintWork(calls) {
    const canAnswer = !this.isRunning && !this.actions.isAnswered(this.message);
    for (const call of calls) {
      const state = `${call.state}${call.answer}${call.arguments.length}${call.result?.length}${call.results?.length}${canAnswer}`;
      const known = this.workNodes.get(call);
      if (known?.state === state) continue;
      const node = callView(call, canAnswer ? (answer) => this.actions.decide(this.message, call, answer) : null);
      const hadFocus = known?.node.contains(document.activeElement);
      // A question stands at the end, where the reader is.
      const place = call.state === "asked" ? this.questions : this.work;
      if (known?.node.parentNode === place) known.node.replaceWith(node);
      else known?.node.remove(), place.append(node);
      if (hadFocus) node.firstChild.focus();
      this.workNodes.set(call, { node, state });
    }
    const count = this.message.cites?.length ?? 0;
    if (count === (this.citeCount ?? 0)) return;
    this.citeCount = count;
    this.sources.replaceChildren(...sourcesView(this.message));
  }

  paintCalls() {
    const calls = (this.message.calls ?? []).filter((call) => !call.kind);
    const state = calls.map((call) => `${call.id}${call.arguments}${call.result ?? ""}`).join("\n") + this.isRunning;
    if (state === this.callState) return;
    this.callState = state;
    if (calls.length && this.calls.contains(document.activeElement)) return;
    this.calls.replaceChildren(...calls.map((call) => this.call(call)));
    if (calls.length && !this.isRunning && !this.actions.isAnswered(this.message)) {
      this.calls.append(el("button.button.primary", {
        onclick: () => this.actions.sendResults(this.message),
      }, t("sendResults")));
    }
  }

  call(call) {
    let pretty = call.arguments;
    try {
      pretty = JSON.stringify(JSON.parse(call.arguments || "{}"), null, 2);
    } catch {
      // Cut off, or still being written.
    }
    const isLocked = this.isRunning || this.actions.isAnswered(this.message);
    return el("section.call", { "aria-label": t("callOf", { name: call.name }) },
      el("div.call-head", icon("tool"), el("strong", call.name)),
      el("pre", { tabindex: 0, dir: "ltr" }, pretty),
      field(t("result"), el("textarea", {
        rows: 2, value: call.result ?? "", placeholder: t("resultHint"), readonly: isLocked,
        onchange: (event) => this.actions.setResult(this.message, call, event.target.value),
      })));
  }

  paintNote() {
    const { message } = this;
    const parts = [];
    if (message.state === "stopped") parts.push(el("span", t("stopped")));
    if (message.state === "length") parts.push(el("span", t("cutOff")));
    if (message.state === "error" && message.error) {
      const { error } = message;
      const code = [error.status || null, error.code].filter(Boolean).join(" · ");
      this.retry = el("button.button", { onclick: () => this.actions.retry(message) }, t("retry"));
      parts.push(el("div.error", { role: "alert" },
        el("p", this.actions.explain(error)), code ? el("p.code-word", code) : null, this.retry));
      this.countDown(error.retryAfter ?? 0);
    }
    this.note.replaceChildren(...parts);
  }

  /// Says on the button for how long the server wants to be left alone.
  countDown(wait) {
    clearInterval(this.timer);
    const end = (this.message.failedAt ?? 0) + wait * 1000;
    const show = () => {
      const left = Math.ceil((end - Date.now()) / 1000);
      if (!this.retry) return;
      this.retry.disabled = left > 0;
      this.retry.textContent = left > 0 ? t("retryIn", { count: left }) : t("retry");
      if (left <= 0) clearInterval(this.timer);
    };
    if (wait > 0 && Date.now() < end) {
      this.timer = setInterval(show, 250);
      show();
    }
  }

  paintMeters() {
    const { usage, times, live } = this.message;
    const parts = [];
    const rate = this.isRunning ? live?.rate : finalRate(usage, times);
    if (rate) parts.push(t("rate", { rate: number(rate < 100 ? rate : Math.round(rate)) }));
    // A stopped answer has no count of the server's: what came is what is known.
    if ((this.isRunning || !usage) && live?.count) parts.push(t("tokens", { count: live.count }));
    if (!this.isRunning && usage) {
      parts.push(t("tokens", { count: usage.output }));
      if (times?.first) parts.push(t("first", { time: seconds(times.first / 1000) }));
      parts.push(t("prompt", { count: usage.prompt }) + (usage.cached ? ` (${t("cached", { count: usage.cached })})` : ""));
    }
    const text = parts.join(" · ");
    if (this.meters.textContent !== text) this.meters.textContent = text;
  }

  paintButtons() {
    const { message, actions } = this;
    this.hasButtons = true;
    const branch = actions.branch(message);
    const parts = [];
    if (branch.count > 1) {
      parts.push(el("span.branches",
        iconButton("left", t("previousVersion"), () => actions.turn(message, -1), { disabled: branch.at === 0 }),
        el("span", { "aria-label": t("version", { at: branch.at + 1, count: branch.count }) }, `${number(branch.at + 1)}/${number(branch.count)}`),
        iconButton("right", t("nextVersion"), () => actions.turn(message, 1), { disabled: branch.at === branch.count - 1 })));
    }
    if (!this.isRunning) {
      if (message.text) parts.push(copyButton(t("copy"), () => message.text));
      if (message.role === "user") parts.push(iconButton("edit", t("edit"), () => this.edit()));
      else {
        parts.push(iconButton("again", t("regenerate"), () => actions.regenerate(message)));
        if (message.text && actions.canRead) {
          const read = iconButton("speak", t("readAloud"), () => actions.readAloud(this.text, (isRead) => {
            read.ariaPressed = String(isRead);
            read.replaceChildren(icon(isRead ? "stop" : "speak"));
          }), { "aria-pressed": "false" });
          parts.push(read);
        }
        if (message.text && (message.state === "stopped" || message.state === "length" || message.state === "error")) {
          parts.push(iconButton("go", t("continue"), () => actions.goOn(message)));
        }
      }
      parts.push(iconButton("trash", t("delete"), () => actions.remove(message)));
      if (message.role === "assistant") {
        const more = iconButton("more", t("moreActions"), () => actions.more(message, more), { "aria-haspopup": "menu", "aria-expanded": "false" });
        parts.push(more);
      }
      parts.push(el("time", { datetime: new Date(message.created).toISOString() }, clock(message.created)));
    }
    this.buttons.replaceChildren(...parts);
  }

  /// Shows another view of the text, such as its tokens; null shows the text again.
  showInstead(node) {
    this.instead?.remove();
    this.instead = node;
    this.text.hidden = Boolean(node);
    if (node) this.text.after(node);
  }

  /// The keyboard stays on the buttons that turn between versions.
  focusTurn(step) {
    const [left, right] = this.buttons.querySelectorAll(".branches button");
    const [wanted, other] = step < 0 ? [left, right] : [right, left];
    (wanted?.disabled ? other : wanted)?.focus();
  }

  /// The bubble becomes a box; what is sent from it is another branch.
  edit() {
    const box = el("textarea.edit-box", { value: this.message.text, "aria-label": t("edit"), dir: "auto" });
    const close = () => {
      this.update();
      this.buttons.hidden = false;
      this.buttons.querySelector("button")?.focus();
    };
    const save = () => {
      const text = box.value.trim();
      this.buttons.hidden = false;
      if (text && text !== this.message.text) this.actions.editTo(this.message, text);
      else close();
    };
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") event.stopPropagation(), close();
      if (sends(event)) event.preventDefault(), save();
    });
    this.body.replaceChildren(el("div.edit", box, el("div.row",
      el("button.button", { onclick: close }, t("cancel")),
      el("button.button.primary", { onclick: save }, t("send")))));
    this.buttons.hidden = true;
    box.style.height = `${Math.min(box.scrollHeight + 4, innerHeight / 2)}px`;
    box.focus();
  }
}
