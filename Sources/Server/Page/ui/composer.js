// The box at the lower edge: text, files, sound, the button that sends or stops, and the page's keys.

import { $, dialog, el, icon, iconButton, menu, on } from "./dom.js";
import { readFile, Recorder, textLimit } from "./files.js";
import { models } from "./models.js";
import { local, tab } from "./storage.js";
import { bytes, seconds, t } from "./words.js";

/// Pasted text longer than this becomes a file.
const pasteLimit = 8000;
const isTouch = () => matchMedia("(pointer: coarse)").matches;

/// Loaded when they are opened, or when there is nothing else to do.
const dialogs = {
  picker: () => import("./picker.js"), settings: () => import("./settings.js"), notes: () => import("./notes.js"),
};

export class Composer {
  constructor(app) {
    this.app = app;
    this.files = [];
    this.drafts = new Map();
    this.box = $("box");
    on("composer", "submit", (event) => (event.preventDefault(), this.press()));
    this.box.addEventListener("input", () => (this.fit(), this.paint(), this.keepDraft()));
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("paste", (event) => this.paste(event));
    on("attach", "click", () => $("file").click());
    on("camera", "click", () => $("photo").click());
    on("microphone", "click", () => this.record());
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
    open("open-settings", dialogs.settings, ({ openSettings }) => openSettings(app));
    open("tune", dialogs.settings, ({ openSettings }) => openSettings(app, "chat"));
    open("open-notes", dialogs.notes, ({ openNotes }) => openNotes(app));
    on("theme", "click", () => this.chooseTheme());
    on("open-keys", "click", () => this.showKeys());
    document.addEventListener("keydown", (event) => this.pageKey(event));
    this.takeDrops();
  }

  /// Loads what may be opened, so that it opens without a server too.
  prepare() { return Promise.all([dialogs.picker(), dialogs.settings()]); }

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
    tab.set(this.draftName, this.box.value);
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
    const button = $("send");
    button.replaceChildren(icon(isRunning ? "stop" : "send"));
    button.classList.toggle("stop", isRunning);
    const label = isRunning ? t("stop") : t("send");
    button.ariaLabel = label;
    button.title = label;
    button.disabled = !isRunning && (models.state === "locked" || (!this.box.value.trim() && !this.files.length));
    this.paintAbilities();
  }

  paintAbilities() {
    const id = this.app.model;
    $("open-notes").hidden = !models.server.vector_stores;
    const takesSound = models.takes(id, "audio") && models.find(id)?.status.value === "loaded";
    $("microphone").hidden = !takesSound;
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
    if ((!text && !files.length) || models.state === "locked" || this.isSending) return;
    this.isSending = true;
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
    // Enter that ends a composition of an input method sends nothing; 229 is what older browsers say.
    if (event.isComposing || event.keyCode === 229) return;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey && (!isTouch() || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (!this.app.isRunning) this.press();
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

  paintFiles() {
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
