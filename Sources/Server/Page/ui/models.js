// The models of the server: which there are, what each can do, and whether the server is there at all.

import { getJSON, postJSON } from "./wire.js";
import { howFar } from "./words.js";

/// Between two looks at the server: while something changes, and otherwise. Milliseconds.
const quick = 1000;
const slow = 20_000;

/// Others make vectors or scores of texts. What a model is for may not be known before it is loaded.
export const isForChat = (model) => !model.task || model.task === "chat";

class Models {
  constructor() {
    this.list = [];
    this.capabilities = new Map();
    /// Whether it can `pull` models, and search `vector_stores`.
    this.server = {};
    /// When a model that is being loaded was first seen so, by its id.
    this.began = new Map();
    /// `connecting`, `ready`, `loading`, `down` or `locked`.
    this.state = "connecting";
    /// What the server says of a download before it begins, and the part of its first model that is there.
    this.words = "";
    this.since = Date.now();
    this.onchange = () => {};
  }

  find(id) { return this.list.find((model) => model.id === id || model.aliases?.includes(id)); }

  /// The model that a chat gets: its own, if there is one of that name, or the first that is loaded.
  pick(id) {
    const own = this.find(id);
    const able = this.list.filter(isForChat);
    return own && isForChat(own) ? own : able.find((model) => model.status.value === "loaded") ?? able[0];
  }

  can(id) { return this.capabilities.get(this.find(id)?.id); }

  takes(id, kind) {
    const model = this.find(id);
    const list = this.can(id)?.modalities?.input ?? model?.input_modalities;
    // Not known before it is loaded.
    return !Array.isArray(list) || list.includes(kind);
  }

  takesFile(id, { kind }) { return kind === "text" || this.takes(id, kind === "sound" ? "audio" : "image"); }

  async refresh() {
    clearTimeout(this.timer);
    this.refreshing ??= this.look().finally(() => (this.refreshing = null));
    await this.refreshing;
    const isChanging = this.state !== "ready" || this.list.some((model) => model.status.value === "loading");
    this.timer = setTimeout(() => this.refresh(), this.state === "locked" || document.hidden ? slow : isChanging ? quick : slow);
  }

  async look() {
    let state = "ready";
    try {
      this.list = (await getJSON("v1/models")).data;
      const loaded = this.list.filter((model) => model.status.value === "loaded").map((model) => model.id).join("\n");
      if (loaded !== this.loaded) {
        const { data, server } = await getJSON("v1/capabilities");
        this.capabilities = new Map(data.map((model) => [model.id, model]));
        this.server = server ?? {};
        this.loaded = loaded;
      }
    } catch (error) {
      this.words = error.code === "downloading" ? error.message : "";
      this.part = error.progress;
      state = error.status === 401 ? "locked" : error.status === 503 ? "loading" : error.isNetwork || error.status >= 500 ? "down" : "ready";
    }
    if (state !== this.state) this.since = Date.now();
    this.state = state;
    this.tell();
  }

  tell() {
    for (const { id, status } of this.list) {
      if (status.value !== "loading") this.began.delete(id);
      else if (!this.began.has(id)) this.began.set(id, Date.now());
    }
    this.onchange();
  }

  /// How far a model is that is being loaded, or without one how far the server is that begins.
  progress(model) {
    const since = model ? this.began.get(model.id) ?? Date.now() : this.since;
    return howFar(model ? model.status.progress : this.part, (Date.now() - since) / 1000);
  }

  async load(id) {
    await postJSON("models/load", { model: id });
    const model = this.find(id);
    if (model && model.status.value !== "loaded") model.status = { value: "loading" };
    this.tell();
    await this.refreshAnew();
  }

  async unload(id) {
    await postJSON("models/unload", { model: id });
    this.loaded = null;
    await this.refreshAnew();
  }

  /// A look that is under way may have begun before something changed.
  async refreshAnew() {
    await this.refreshing;
    await this.refresh();
  }
}

export const models = new Models();
