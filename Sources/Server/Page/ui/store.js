// Chats in this browser: IndexedDB, or memory where that is blocked; other tabs are told of every change.
//
//   chats     {id, title, created, updated, pinned, folder, model, settings, head, hasOwnTitle, isTitled}
//   messages  {id, chat, parent, role, text, …}     one record each, so that of two tabs the last writer wins per message
//   values    {name, value}                         settings, presets

import { chatsOfOthers, textOf } from "./others.js";

const version = 1;
export const format = "mlxserve-chats";
export const formatVersion = 1;
/// An import may have no more, bytes.
const importLimit = 256 << 20;

const promised = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

export const makeID = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/// Text as search compares it: lower case, without accents, full width as half width.
export const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

class Store {
  constructor() {
    this.chats = new Map();
    this.values = new Map();
    /// Whether chats outlive the page.
    this.isKept = false;
    this.memory = new Map();
    this.texts = new Map();
    this.onchange = () => {};
  }

  async open() {
    try {
      const request = indexedDB.open("mlxserve", version);
      request.onupgradeneeded = () => {
        const base = request.result;
        base.createObjectStore("chats", { keyPath: "id" });
        base.createObjectStore("messages", { keyPath: "id" }).createIndex("chat", "chat");
        base.createObjectStore("values", { keyPath: "name" });
      };
      this.base = await promised(request);
      this.base.onversionchange = () => this.base.close();
      this.isKept = true;
      const [chats, values] = await Promise.all([this.all("chats"), this.all("values")]);
      for (const chat of chats) this.chats.set(chat.id, chat);
      for (const { name, value } of values) this.values.set(name, value);
    } catch {
      this.base = null;
    }
    try {
      this.channel = new BroadcastChannel("mlxserve");
      this.channel.onmessage = ({ data }) => this.hear(data);
    } catch {
      // One tab alone.
    }
  }

  objects(name, mode) { return this.base.transaction(name, mode).objectStore(name); }

  all(name) { return promised(this.objects(name).getAll()); }

  /// Writes records of one kind; throws what the browser says, such as a full disk.
  async write(name, records, removed = []) {
    if (!this.base) {
      if (name === "messages") {
        for (const record of records) this.memory.set(record.id, record);
        for (const id of removed) this.memory.delete(id);
      }
      return;
    }
    const objects = this.objects(name, "readwrite");
    const { transaction } = objects;
    for (const record of records) objects.put(record);
    for (const id of removed) objects.delete(id);
    await new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = transaction.onerror = () => reject(transaction.error ?? new Error("The browser could not store it."));
    });
  }

  tell(change) { this.channel?.postMessage(change); }

  async hear(change) {
    if (change.removed) {
      this.chats.delete(change.removed);
      this.texts.delete(change.removed);
    } else if (change.chat && this.base) {
      const chat = await promised(this.objects("chats").get(change.chat));
      if (chat) this.chats.set(chat.id, chat);
      this.texts.delete(change.chat);
    } else if (change.all && this.base) {
      this.chats = new Map((await this.all("chats")).map((chat) => [chat.id, chat]));
      this.texts.clear();
    }
    this.onchange(change);
  }

  // Values.

  value(name, otherwise) { return this.values.get(name) ?? otherwise; }

  async setValue(name, value) {
    this.values.set(name, value);
    await this.write("values", [{ name, value }]);
  }

  // Chats and messages.

  async saveChat(chat) {
    this.chats.set(chat.id, chat);
    await this.write("chats", [chat]);
    this.tell({ chat: chat.id });
  }

  async saveMessages(chat, messages) {
    this.texts.delete(chat.id);
    await this.write("messages", messages);
    this.tell({ chat: chat.id, messages: messages.map((message) => message.id) });
  }

  async removeMessages(chat, ids) {
    this.texts.delete(chat.id);
    await this.write("messages", [], ids);
    this.tell({ chat: chat.id });
  }

  async messages(id) {
    if (!this.base) return [...this.memory.values()].filter((message) => message.chat === id);
    return promised(this.objects("messages").index("chat").getAll(id));
  }

  async removeChat(id) {
    const ids = (await this.messages(id)).map((message) => message.id);
    this.chats.delete(id);
    this.texts.delete(id);
    await this.write("messages", [], ids);
    await this.write("chats", [], [id]);
    this.tell({ removed: id });
  }

  async removeAll() {
    for (const name of ["messages", "chats"]) {
      if (this.base) await promised(this.objects(name, "readwrite").clear());
    }
    this.chats.clear();
    this.texts.clear();
    this.memory.clear();
    this.tell({ all: true });
  }

  /// Pinned ones first, then those in folders, by name, then the latest.
  get sorted() {
    const folder = (chat) => (chat.pinned ? "" : chat.folder ?? "");
    return [...this.chats.values()].sort((a, b) => Number(b.pinned ?? false) - Number(a.pinned ?? false)
      || Number(Boolean(folder(b))) - Number(Boolean(folder(a))) || folder(a).localeCompare(folder(b)) || b.updated - a.updated);
  }

  // Search.

  /// Reads the text of all chats, so that the first search is as quick as the others.
  async prepareSearch() {
    if (this.preparing) return this.preparing;
    this.preparing = this.readTexts().finally(() => (this.preparing = null));
    return this.preparing;
  }

  async readTexts() {
    const missing = [...this.chats.keys()].filter((id) => !this.texts.has(id));
    if (missing.length > 50 && this.base) {
      const byChat = new Map();
      for (const message of await this.all("messages")) {
        if (!byChat.has(message.chat)) byChat.set(message.chat, []);
        byChat.get(message.chat).push(message);
      }
      for (const id of missing) this.texts.set(id, searchable(byChat.get(id) ?? []));
    } else for (const id of missing) this.texts.set(id, searchable(await this.messages(id)));
  }

  get isSearchReady() { return [...this.chats.keys()].every((id) => this.texts.has(id)); }

  /// Where texts cannot be read, titles are searched.
  giveUpSearch() {
    for (const id of this.chats.keys()) if (!this.texts.has(id)) this.texts.set(id, searchable([]));
  }

  /// Chats whose title or messages hold every word, with the words around the first one.
  search(query) {
    const words = folded(query).split(/\s+/).filter(Boolean);
    const found = [];
    for (const chat of this.sorted) {
      const title = folded(chat.title ?? "");
      const text = this.texts.get(chat.id);
      if (!words.every((word) => title.includes(word) || text?.folded.includes(word))) continue;
      const hits = words.map((word) => ({ at: text?.folded.indexOf(word) ?? -1, length: word.length })).filter((hit) => hit.at >= 0);
      const first = hits.sort((a, b) => a.at - b.at)[0];
      found.push({ chat, snippet: first ? around(text, first.at, first.length) : null });
    }
    return found;
  }

  // Files.

  async exported(ids = [...this.chats.keys()]) {
    const chats = [];
    for (const id of ids) chats.push({ ...this.chats.get(id), messages: await this.messages(id) });
    return JSON.stringify({ format, version: formatVersion, exported: new Date().toISOString(), chats }, null, 1);
  }

  /// Adds the chats of a file. Those that are here already are brought up to the later of both.
  ///
  /// Throws an Error whose message is the name of a sentence.
  async imported(file) {
    if (file.size > importLimit) throw new Error("importTooLarge");
    let data;
    try {
      data = JSON.parse(await textOf(file, importLimit));
    } catch (error) {
      throw new Error(error.message === "importTooLarge" ? error.message : "importNoJSON");
    }
    const isOwn = data?.format === format && Array.isArray(data.chats);
    const found = isOwn ? data.chats : chatsOfOthers(data);
    if (!found) throw new Error("importOther");
    if (isOwn && !(data.version <= formatVersion)) throw new Error("importNewer");
    const chats = [];
    const messages = [];
    for (const raw of found) {
      const chat = readChat(raw);
      if (!chat) continue;
      const here = this.chats.get(chat.id);
      if (!here || here.updated <= chat.updated) chats.push(chat);
      for (const message of Array.isArray(raw.messages) ? raw.messages : []) {
        const read = readMessage(message, chat.id);
        if (read) messages.push(read);
      }
    }
    await this.write("messages", messages);
    await this.write("chats", chats);
    for (const chat of chats) this.chats.set(chat.id, chat);
    this.texts.clear();
    this.tell({ all: true });
    return chats.length;
  }
}

function searchable(messages) {
  const plain = [...messages].sort((a, b) => a.created - b.created).map((message) => `${message.text ?? ""}\n${(message.files ?? []).map((file) => file.name).join(" ")}`).join("\n");
  return { plain, folded: folded(plain) };
}

/// A hit with the words around it, as they were written; where folding has moved them, as they were folded: what is before
/// it, the hit, what is behind it. The list is narrow: little stands before.
function around({ plain, folded: text }, at, length) {
  const shown = plain.length === text.length ? plain : text;
  const begin = at <= 12 ? 0 : shown.indexOf(" ", at - 12) + 1 || at;
  const start = Math.min(begin, at);
  return [`${start > 0 ? "…" : ""}${shown.slice(start, at)}`, shown.slice(at, at + length), shown.slice(at + length, at + 80)];
}

// What comes from a file of somebody else: every member is checked, none is taken over as it is.

const text = (value, limit = 4 << 20) => (typeof value === "string" ? value.slice(0, limit) : "");
const number = (value, otherwise) => (Number.isFinite(value) ? value : otherwise);
const isID = (value) => typeof value === "string" && /^[\w-]{1,64}$/.test(value);
const dataAddress = (value) => (typeof value === "string" && /^data:(image\/(png|jpeg)|audio\/wav);base64,[A-Za-z0-9+/=]*$/.test(value) ? value : "");

/// Members that settings may have, and their types.
const settingTypes = {
  system: "string", temperature: "number", top_p: "number", top_k: "number", min_p: "number", max_output_tokens: "number",
  seed: "number", presence_penalty: "number", frequency_penalty: "number", repetition_penalty: "number", stop: "string",
  effort: "string", schema: "string", tools: "string",
};

export function readSettings(value) {
  const out = {};
  for (const [name, type] of Object.entries(settingTypes)) {
    const member = value && Object.hasOwn(value, name) ? value[name] : undefined;
    if (typeof member === type && (type !== "number" || Number.isFinite(member))) out[name] = member;
  }
  return out;
}

function readChat(raw) {
  if (!raw || !isID(raw.id)) return null;
  const now = Date.now();
  return {
    id: raw.id, title: text(raw.title, 200), created: number(raw.created, now), updated: number(raw.updated, now),
    pinned: raw.pinned === true, folder: text(raw.folder, 60), model: text(raw.model, 300), settings: readSettings(raw.settings),
    head: isID(raw.head) ? raw.head : null, hasOwnTitle: raw.hasOwnTitle === true, ...(raw.isTitled === true && { isTitled: true }),
  };
}

function readMessage(raw, chat) {
  if (!raw || !isID(raw.id) || !["user", "assistant"].includes(raw.role)) return null;
  const list = (value, read) => (Array.isArray(value) ? value.slice(0, 200).map(read).filter(Boolean) : []);
  const message = {
    id: raw.id, chat, role: raw.role, parent: isID(raw.parent) ? raw.parent : null, text: text(raw.text),
    created: number(raw.created, Date.now()), model: text(raw.model, 300), reasoning: text(raw.reasoning),
    state: ["done", "stopped", "length", "error"].includes(raw.state) ? raw.state : "done",
    files: list(raw.files, (file) => file && ["image", "sound", "text"].includes(file.kind) && {
      kind: file.kind, name: text(file.name, 300), size: number(file.size, 0), data: dataAddress(file.data), text: text(file.text),
    }),
    calls: list(raw.calls, (call) => call && {
      id: text(call.id, 200), name: text(call.name, 200), arguments: text(call.arguments), result: typeof call.result === "string" ? text(call.result) : null,
      ...(["tool", "search", "list"].includes(call.kind) && {
        kind: call.kind, server: text(call.server, 64), at: number(call.at, 0),
        // A file asks nobody.
        state: ["done", "failed", "refused"].includes(call.state) ? call.state : "stopped", question: text(call.question, 200),
        results: list(call.results, (one) => one && { file_id: text(one.file_id, 200), filename: text(one.filename, 300), score: number(one.score, 0), text: text(one.text) }),
      }),
    }),
    ...(Array.isArray(raw.cites) && { cites: list(raw.cites, (one) => one && { at: number(one.at, 0), file: text(one.file, 200), name: text(one.name, 300) }) }),
  };
  if (raw.error && typeof raw.error === "object") message.error = { message: text(raw.error.message, 2000), code: text(raw.error.code, 100), status: number(raw.error.status, 0) };
  for (const [member, names] of [["usage", ["prompt", "output", "cached", "reasoning"]], ["times", ["first", "total", "thought"]]]) {
    const value = raw[member];
    if (value && typeof value === "object") message[member] = Object.fromEntries(names.map((name) => [name, number(value[name], 0)]));
  }
  return message;
}

export const store = new Store();
