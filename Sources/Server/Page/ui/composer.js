// The box at the lower edge: text, files, sound, the button that sends or stops, and the page's keys.

import { firstFault, inForce } from "./checks.js";
import { $, dialog, el, icon, iconButton, isTouch, menu, on, sends } from "./dom.js";
import { readFile, Recorder, textLimit } from "./files.js";
import { models } from "./models.js";
import { local, tab } from "./storage.js";
import { canDictate, dictate } from "./speech.js";
import { store } from "./store.js";
import { labels, listOf } from "./tools.js";
import { getJSON } from "./wire.js";
import { bytes, plainName, seconds, t } from "./words.js";

/// Pasted text longer than this becomes a file.
const pasteLimit = 8000;

/// Files with more characters in all are read while their question is written.
const longDocument = 4_000;

/// Loaded when they are opened, or when there is nothing else to do.
const dialogs = {
  picker: () => import("./picker.js"), compare: () => import("./compare.js"), probabilities: () => import("./probabilities.js"), settings: () => import("./settings.js"), notes: () => import("./notes.js"), toolbox: () => import("./toolbox.js"),
};

export class Composer {
  constructor(app) {
    this.app = app;
    this.files = [];
    this.drafts = new Map();
    this.box = $("box");
    on("composer", "submit", (event) => (event.preventDefault(), this.press()));
    this.box.addEventListener("input", () => (this.fit(), this.paint(), this.keepDraft(), this.paintSlash()));
    this.box.addEventListener("blur", () => setTimeout(() => this.closeSlash(), 150));
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("paste", (event) => this.paste(event));
    on("attach", "click", () => $("file").click());
    on("camera", "click", () => $("photo").click());
    on("microphone", "click", () => this.record());
    on("dictate", "click", () => this.dictate());
    on("queue", "click", () => this.enqueue());
    for (const id of ["file", "photo"]) {
      $(id).addEventListener("change", async () => {
        await this.add([...$(id).files]);
        $(id).value = "";
      });
    }
    on("effort", "change", () => {
      const { settings } = app.conversation.chat;
      if ($("effort").value) settings.effort = $("effort").value;
      else delete settings.effort;
      if (!app.conversation.isEmpty) app.saveChat();
    });
    const open = (id, load, act) => $(id).addEventListener("click", () => load().then(act, () => app.refuse(t("errorNetwork"))));
    open("model", dialogs.picker, ({ openPicker }) => openPicker(app));
    this.openSettings = (section) => dialogs.settings().then(({ openSettings }) => openSettings(app, section), () => app.refuse(t("errorNetwork")));
    open("open-settings", dialogs.settings, ({ openSettings }) => openSettings(app));
    open("tune", dialogs.settings, ({ openSettings }) => openSettings(app, "chat"));
    open("open-notes", dialogs.notes, ({ openNotes }) => openNotes(app));
    open("use-tools", dialogs.toolbox, ({ openToolbox }) => openToolbox(app));
    on("use-notes", "click", () => this.switchNotes());
    on("theme", "click", () => this.chooseTheme());
    on("open-keys", "click", () => this.showKeys());
    document.addEventListener("keydown", (event) => this.pageKey(event));
    this.takeDrops();
  }

  /// Loads what may be opened, so that it opens without a server too.
  prepare() { return Promise.all([dialogs.picker(), dialogs.settings(), dialogs.compare(), dialogs.probabilities(), dialogs.toolbox()]); }

  focus() {
    if (!isTouch()) this.box.focus();
  }

  fill(text) {
    this.box.value = text;
    this.fit();
    this.paint();
    this.focus();
  }

  /// What was being written in this chat.
  show(conversation) {
    const draft = this.drafts.get(conversation.chat.id) ?? { text: tab.get(this.draftName) ?? "", files: [] };
    this.box.value = draft.text;
    this.files = draft.files;
    this.paintAll();
    this.focus();
  }

  /// Where the text is kept while the page is loaded again; new chats share a place.
  get draftName() {
    const { chat, isEmpty } = this.app.conversation;
    return isEmpty ? "draft" : `draft ${chat.id}`;
  }

  keepDraft() {
    this.drafts.set(this.app.conversation.chat.id, { text: this.box.value, files: this.files });
    if (!this.app.conversation.chat.isTemporary) tab.set(this.draftName, this.box.value);
  }

  /// After its text was sent; `draft` is where that was kept.
  clear(draft) {
    this.box.value = "";
    this.files = [];
    this.drafts.delete(this.app.conversation.chat.id);
    tab.set(draft, null);
    this.paintAll();
  }

  paintAll() {
    this.fit();
    this.paintFiles();
    this.paint();
  }

  /// As high as its text, up to a third of the window.
  fit() {
    this.box.style.height = "auto";
    this.box.style.height = `${Math.min(this.box.scrollHeight, Math.max(120, innerHeight / 3))}px`;
  }

  paint() {
    const isRunning = this.app.isRunning;
    this.paintForce();
    const button = $("send");
    button.replaceChildren(icon(isRunning ? "stop" : "send"));
    button.classList.toggle("stop", isRunning);
    const label = isRunning ? t("stop") : t("send");
    button.ariaLabel = label;
    button.title = label;
    $("queue").hidden = !isRunning || (!this.box.value.trim() && !this.files.length);
    button.disabled = !isRunning && (models.state === "locked" || (!this.box.value.trim() && !this.files.length));
    this.paintAbilities();
    this.paintSuggestions();
  }

  /// Beginnings of messages, in an empty chat; a press fills the box and sends nothing.
  paintSuggestions() {
    if ($("suggestions").lang === document.documentElement.lang) return;
    $("suggestions").lang = document.documentElement.lang;
    $("suggestions").replaceChildren(...["Explain", "Write", "Code", "Plan"].map((name) =>
      el("button.suggestion", { onclick: () => this.fill(`${t(`suggest${name}`)} `) }, t(`suggest${name}`), "…")));
  }

  /// What is in force in this chat beside the defaults; each part leads to its setting, and can be taken off.
  paintForce() {
    const chat = this.app.conversation?.chat;
    const parts = chat ? inForce(chat.settings) : [];
    const queued = chat ? this.app.queued() : [];
    const state = JSON.stringify([parts, queued.map(({ text }) => text), chat?.isTemporary, chat?.id, t("removeSetting")]);
    if (state === this.forceState) return;
    this.forceState = state;
    $("force").hidden = !parts.length && !queued.length && !chat?.isTemporary;
    const waiting = queued.map((entry) => el("span.pill.queued",
      el("button.pill-name", { title: entry.text, onclick: () => this.takeBack(entry) }, t("queued", { text: entry.text || entry.files[0]?.name })),
      iconButton("close", t("removeSetting", { name: entry.text.slice(0, 60) }), () => (this.app.unqueue(entry), this.paintForce(), this.box.focus()))));
    const temporary = chat?.isTemporary ? [el("span.pill.plain", t("temporaryHint"))] : [];
    $("force").replaceChildren(...waiting, ...temporary, ...parts.map(({ names, text, fault }) => el(fault ? "span.pill.wrong" : "span.pill",
      el("button.pill-name", { title: fault || text, onclick: () => this.openSetting(names[0]) }, fault ? `${text}: ${fault}` : text),
      iconButton("close", t("removeSetting", { name: text }), () => {
        for (const name of names) delete chat.settings[name];
        if (!this.app.conversation.isEmpty) this.app.saveChat();
        this.paint();
        this.box.focus();
      }))));
  }

  /// Leads to where a setting is made.
  openSetting(name) {
    const button = { servers: "use-tools", notes: "open-notes" }[name];
    if (button) $(button).click();
    else this.openSettings(name);
  }

  /// Has the answers of this chat rest on notes, or no more; of several collections one is chosen.
  async switchNotes() {
    const { app } = this;
    const { settings } = app.conversation.chat;
    const choose = (store) => {
      if (store) settings.notes = { id: store.id, name: plainName(store.name || store.id) };
      else delete settings.notes;
      if (!app.conversation.isEmpty) app.saveChat();
      this.paint();
      this.box.focus();
    };
    if (settings.notes) return choose(null);
    try {
      const { data } = await getJSON("v1/vector_stores?limit=100");
      if (!data.length) app.refuse(t("noStores"), { action: t("notes"), onaction: () => $("open-notes").click() });
      else if (data.length === 1) choose(data[0]);
      else menu($("use-notes"), data.map((one) => ({ icon: "notes", text: plainName(one.name || one.id), run: () => choose(one) })));
    } catch (error) {
      app.refuse(app.explain(error));
    }
  }

  /// A waiting message goes back into the box.
  takeBack(entry) {
    this.app.unqueue(entry);
    this.files = [...this.files, ...entry.files];
    this.box.value = [this.box.value, entry.text].filter(Boolean).join("\n");
    this.paintAll();
    this.keepDraft();
    this.box.focus();
  }

  /// What was written waits for the answer under way.
  enqueue() {
    const text = this.box.value.trim();
    if ((!text && !this.files.length) || this.isHeld()) return;
    this.app.enqueue(text, this.files);
    this.clear(this.draftName);
    this.box.focus();
  }

  /// Why nothing can be sent now, said with the way to mend it; true when something is wrong.
  isHeld() {
    const wrong = firstFault(this.app.conversation.chat.settings);
    if (wrong) this.app.refuse(t("notSent", { name: wrong.text, reason: wrong.fault }), { action: t("show"), onaction: () => this.openSettings(wrong.names[0]) });
    return Boolean(wrong);
  }

  paintAbilities() {
    const id = this.app.model;
    $("open-notes").hidden = $("use-notes").hidden = !models.server.vector_stores;
    $("use-tools").hidden = !labels().length;
    const { notes, servers } = this.app.conversation?.chat.settings ?? {};
    $("use-notes").ariaPressed = String(Boolean(notes));
    $("use-tools").ariaPressed = String(Boolean(servers));
    const takesSound = models.takes(id, "audio") && models.find(id)?.status.value === "loaded";
    $("microphone").hidden = !takesSound;
    $("dictate").hidden = !canDictate;
    $("camera").hidden = !isTouch() || !models.takes(id, "image");
    const thinking = models.can(id)?.thinking;
    $("effort-label").hidden = !thinking?.supported;
    const select = $("effort");
    const levels = ["", ...(thinking?.switch ? ["none"] : []), "low", "medium", "high"];
    const state = `${levels}${t("effort_default")}`;
    if (select.dataset.state !== state) {
      select.dataset.state = state;
      select.replaceChildren(...levels.map((level) => el("option", { value: level }, t(`effort_${level || "default"}`))));
    }
    select.value = levels.includes(this.app.conversation?.chat.settings.effort) ? this.app.conversation.chat.settings.effort : "";
  }

  async press() {
    if (this.app.isRunning) return this.app.stop();
    const text = this.box.value.trim();
    const files = this.files;
    if ((!text && !files.length) || models.state === "locked" || this.isSending || this.isHeld()) return;
    this.isSending = true;
    // What is read so far is found again.
    this.ahead?.abort();
    // What is sent may make the chat.
    const draft = this.draftName;
    try {
      if (await this.app.send(text, files)) {
        this.clear(draft);
        if (isTouch()) this.box.blur();
      }
    } finally {
      this.isSending = false;
    }
    this.paint();
  }

  // MARK: Keys

  key(event) {
    if (this.slashKey(event)) return;
    if (sends(event)) {
      event.preventDefault();
      if (this.app.isRunning) this.enqueue();
      else this.press();
    } else if (event.key === "ArrowUp" && !this.box.value && this.app.editLast()) event.preventDefault();
  }

  pageKey(event) {
    if (event.isComposing || event.defaultPrevented) return;
    const isCommand = event.ctrlKey || event.metaKey;
    const isWriting = event.target.matches?.("input, textarea, select");
    const isModal = Boolean(document.querySelector("dialog[open], [popover]:popover-open"));
    if (isCommand && !event.shiftKey && event.key.toLowerCase() === "k" && !isModal) {
      event.preventDefault();
      if (document.documentElement.dataset.side === "closed" || matchMedia("(max-width: 800px)").matches) $("side-open").click();
      $("search").focus();
      $("search").select();
    } else if (isCommand && event.shiftKey && event.key.toLowerCase() === "o" && !isModal) {
      event.preventDefault();
      this.app.newChat();
    } else if (event.key === "Escape" && !isModal) {
      if ($("side").classList.contains("open")) $("side-close").click();
      else this.app.stop();
    } else if (event.key === "?" && !isWriting && !isModal) this.showKeys();
  }

  showKeys() {
    const command = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : "Ctrl";
    const keys = [
      [["Enter"], t("send")], [["Shift", "Enter"], t("keyLine")], [["Esc"], t("keyStop")], [["↑"], t("keyEdit")],
      [[command, "K"], t("searchChats")], [[command, "Shift", "O"], t("newChat")], [["?"], t("keyboard")],
    ];
    dialog(t("keyboard"), el("dl.keys", keys.map(([all, text]) =>
      el("div", el("dt", all.map((one) => el("kbd", one))), el("dd", text)))));
  }

  chooseTheme() {
    const choose = (name) => {
      if (name) document.documentElement.dataset.theme = name;
      else delete document.documentElement.dataset.theme;
      local.set("theme", name);
    };
    menu($("theme"), [
      { icon: "system", text: t("themeSystem"), run: () => choose(null) },
      { icon: "sun", text: t("themeLight"), run: () => choose("light") },
      { icon: "moon", text: t("themeDark"), run: () => choose("dark") },
    ]);
  }

  // MARK: Commands

  /// What `/` offers: commands of the page, and saved prompts by their names.
  commands() {
    const { app } = this;
    return [
      { name: "new", text: t("newChat"), run: () => app.newChat() },
      { name: "temporary", text: t("temporary"), run: () => (app.conversation.isEmpty || app.newChat(), app.setTemporary(true)) },
      { name: "model", text: t("models"), run: () => $("model").click() },
      { name: "system", text: t("system"), run: () => this.openSettings("system") },
      { name: "settings", text: t("chatSettings"), run: () => this.openSettings("chat") },
      ...(models.server.vector_stores ? [{ name: "notes", text: t("notes"), run: () => $("open-notes").click() }] : []),
      ...(labels().length ? [{ name: "tools", text: t("tools"), run: () => $("use-tools").click() }] : []),
      { name: "search", text: t("searchChats"), run: () => $("search").focus() },
      { name: "keys", text: t("keyboard"), run: () => this.showKeys() },
      ...store.value("presets", []).map((preset) => ({
        name: preset.name.toLowerCase().replace(/\s+/g, "-"), text: t("usePrompt", { text: preset.text.slice(0, 80) }), run: () => {
          app.conversation.chat.settings.system = preset.text;
          if (!app.conversation.isEmpty) app.saveChat();
          this.paint();
          this.box.focus();
        },
      })),
      ...(this.texts ?? []),
    ];
  }

  /// Asks the servers of this chat, once, for prompts and resources; one that says nothing has said so in the dialog of tools.
  async readTexts() {
    const servers = Object.keys(this.app.conversation.chat.settings.servers ?? {});
    if (String(servers) === this.textsOf) return;
    this.textsOf = String(servers);
    this.texts = [];
    const { textCommands } = await dialogs.toolbox();
    for (const label of servers) {
      const list = await listOf(label).catch(() => null);
      if (String(servers) !== this.textsOf) return;
      if (list) this.texts.push(...textCommands(this.app, label, list));
    }
    if (this.box.value.startsWith("/")) this.paintSlash();
  }

  paintSlash() {
    const typed = /^\/([\p{L}\p{N}:._-]*)$/u.exec(this.box.value)?.[1].toLowerCase();
    if (typed !== undefined) this.readTexts().catch(() => (this.textsOf = null));
    this.offered = typed === undefined ? [] : this.commands().filter(({ name }) => name.split(/(?<=:)/).some((_, at, parts) => parts.slice(at).join("").startsWith(typed))).slice(0, 12);
    this.offeredAt = 0;
    $("slash").hidden = !this.offered.length;
    $("slash").replaceChildren(...this.offered.map((command, at) => el("li.menu-item", {
      role: "option", id: `slash-${at}`, onpointerdown: (event) => (event.preventDefault(), this.runSlash(command)),
    }, el("strong", { dir: "auto" }, `/${command.name}`), el("span.muted", { dir: "auto" }, command.text))));
    this.markSlash();
  }

  markSlash() {
    [...$("slash").children].forEach((node, at) => (node.ariaSelected = String(at === this.offeredAt)));
    if (this.offered?.length) this.box.setAttribute("aria-activedescendant", `slash-${this.offeredAt}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  closeSlash() {
    this.offered = [];
    $("slash").hidden = true;
    this.markSlash();
  }

  runSlash(command) {
    this.closeSlash();
    this.fill("");
    this.keepDraft();
    command.run();
  }

  /// Whether the key was for the commands that are offered.
  slashKey(event) {
    const count = this.offered?.length ?? 0;
    if (!count || event.isComposing) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.offeredAt = (this.offeredAt + step + count) % count, this.markSlash();
    else if (event.key === "Escape") event.stopPropagation(), this.closeSlash();
    else if ((event.key === "Enter" && !event.shiftKey) || event.key === "Tab") this.runSlash(this.offered[this.offeredAt]);
    else return false;
    event.preventDefault();
    return true;
  }

  // MARK: Files

  /// A file that is there already.
  attach(file) { this.setFiles([...this.files, file]); }

  setFiles(files) {
    this.files = files;
    this.paintFiles();
    this.paint();
    this.keepDraft();
  }

  async add(files) {
    for (const file of files.slice(0, 20)) {
      try {
        const read = await readFile(file);
        if (models.takesFile(this.app.model, read)) this.attach(read);
        else this.app.refuseFile(read);
      } catch (error) {
        this.app.refuse(`${file.name}: ${t(error.message, error.values)}`);
      }
    }
  }

  /// Has long documents read while their question is written.
  readAhead() {
    if (this.ahead?.files === this.files) return;
    this.ahead?.abort();
    const ahead = this.ahead = Object.assign(new AbortController(), { files: this.files });
    const tell = (words) => {
      if (this.ahead === ahead) $("chips-note").textContent = words;
    };
    tell("");
    const length = this.files.reduce((sum, file) => sum + (file.text?.length ?? 0), 0);
    if (length >= longDocument && !this.app.isRunning) this.app.readAhead(ahead.files, tell, ahead.signal).catch(() => tell(""));
  }

  paintFiles() {
    this.readAhead();
    $("chips").hidden = !this.files.length;
    $("chips").replaceChildren(...this.files.map((file) => el("div.chip",
      file.kind === "image" ? el("img", { src: file.data, alt: "" }) : icon(file.kind === "sound" ? "sound" : "file"),
      el("span.chip-name", { dir: "auto" }, file.name), el("span.chip-size", bytes(file.size)),
      iconButton("close", t("removeFile", { name: file.name }), () => {
        this.setFiles(this.files.filter((other) => other !== file));
        this.box.focus();
      }))));
  }

  paste(event) {
    const files = [...event.clipboardData.files];
    const text = event.clipboardData.getData("text/plain");
    if (files.length && !text) {
      event.preventDefault();
      this.add(files);
    } else if (text.length > pasteLimit) {
      event.preventDefault();
      if (text.length > textLimit) return this.app.refuse(t("fileTooLarge", { limit: bytes(textLimit) }));
      this.attach({ kind: "text", name: t("pastedText"), size: text.length, text });
    }
  }

  takeDrops() {
    let depth = 0;
    const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    const show = (isShown) => ($("drop").hidden = !isShown);
    addEventListener("dragenter", (event) => hasFiles(event) && (depth++, show(true)));
    addEventListener("dragleave", (event) => hasFiles(event) && (depth = Math.max(0, depth - 1), depth || show(false)));
    addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
    addEventListener("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      depth = 0;
      show(false);
      this.add([...event.dataTransfer.files]);
    });
  }

  // MARK: Sound

  async record() {
    if (this.recorder) return this.endRecording();
    if (!navigator.mediaDevices?.getUserMedia) return this.app.refuse(t("microphoneInsecure"));
    try {
      this.recorder = await Recorder.start();
    } catch (error) {
      this.recorder = null;
      return this.app.refuse(t(error.name === "NotAllowedError" ? "microphoneDenied" : "microphoneMissing"));
    }
    $("microphone").classList.add("recording");
    $("microphone").ariaLabel = t("endRecording");
    this.recordingTimer = setInterval(() => {
      const time = this.recorder.seconds;
      $("hint").textContent = t("recording", { time: seconds(time) });
      const most = models.can(this.app.model)?.sounds?.seconds ?? 30;
      if (time >= most) this.endRecording();
    }, 200);
  }

  /// Words that are spoken go into the box.
  async dictate() {
    if (this.dictation) return this.dictation.stop();
    const hear = (sure, open) => {
      const { selectionStart: at, value } = this.box;
      const space = sure && at > 0 && !/\s$/.test(value.slice(0, at)) ? " " : "";
      if (sure) this.box.setRangeText(space + sure.trim(), at, this.box.selectionEnd, "end");
      $("hint").textContent = open.slice(-40);
      this.fit();
      this.paint();
      this.keepDraft();
    };
    const show = (isOn) => {
      $("dictate").classList.toggle("recording", isOn);
      $("dictate").ariaPressed = String(isOn);
      $("hint").textContent = "";
    };
    try {
      this.dictation = await dictate(hear, (fault) => {
        this.dictation = null;
        show(false);
        if (fault && fault !== "no-speech" && fault !== "aborted") this.app.refuse(t(fault === "not-allowed" ? "microphoneDenied" : "dictateFailed"));
      });
      show(Boolean(this.dictation));
    } catch {
      this.app.refuse(t("dictateFailed"));
    }
  }

  async endRecording() {
    clearInterval(this.recordingTimer);
    const { recorder } = this;
    this.recorder = null;
    $("microphone").classList.remove("recording");
    $("microphone").ariaLabel = t("record");
    $("hint").textContent = "";
    const file = await recorder.end();
    if (file) this.attach({ ...file, name: t("recordingName") });
  }
}
