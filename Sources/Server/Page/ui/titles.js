// Titles of chats by their model, written when nothing else is to do: the first answer is there, and no one waits.

import { continuedBody } from "./conversation.js";
import { models } from "./models.js";
import { store } from "./store.js";
import { postJSON } from "./wire.js";

/// After an answer, before the model is asked; milliseconds.
const idle = 2500;
const request = "Write a title of at most six words for this conversation, in its language. Reply with the title alone.";

/// The title in what the model wrote; empty where it is none.
export function titleIn(text) {
  const line = text.replace(/<think>[^]*?(<\/think>|$)/g, "").split("\n").map((one) => one.trim()).find(Boolean) ?? "";
  const title = line.replace(/^[#*\s]+|[*\s]+$/g, "").replace(/^\p{L}{4,12}:\s+(?=\S)/u, "").replace(/^["'“”„«‘*]+|["'“”»’*.]+$/gu, "").trim();
  return title.length >= 2 && title.length <= 60 && title.split(/\s+/).length <= 10 ? title : "";
}

export class Titles {
  constructor(app) {
    this.app = app;
  }

  /// Someone works: what is under way can wait.
  hold() {
    clearTimeout(this.timer);
    this.controller?.abort();
  }

  /// An answer is there; its chat may get a title.
  plan(conversation) {
    const { chat } = conversation;
    if (chat.isTemporary || chat.hasOwnTitle || chat.isTitled || !store.value("titles", true)) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(conversation), idle);
  }

  async write(conversation) {
    const { chat } = conversation;
    const id = this.app.model;
    const thinking = models.can(id)?.thinking;
    const isFree = !this.app.isBusy() && !document.hidden && models.find(id)?.status.value === "loaded";
    // A model that cannot but think would take minutes over six words.
    if (!isFree || (thinking?.supported && !thinking.switch)) return;
    const controller = this.controller = new AbortController();
    try {
      // The beginning is what was just read, which the server still holds.
      const { messages } = continuedBody(conversation.path.slice(0, 2), { system: chat.settings.system }, id);
      const body = { model: id, messages: [...messages, { role: "user", content: request }], max_tokens: 24, temperature: 0.2 };
      if (thinking?.switch) body.reasoning_effort = "none";
      const { choices } = await postJSON("v1/chat/completions", body, { signal: controller.signal });
      const title = titleIn(String(choices?.[0]?.message?.content ?? ""));
      if (chat.hasOwnTitle || !store.chats.has(chat.id)) return;
      chat.isTitled = true;
      if (title) chat.title = title;
      await this.app.saveChat(chat);
      this.app.titled(chat);
    } catch {
      // The first line of the question stays its title.
    }
  }
}
