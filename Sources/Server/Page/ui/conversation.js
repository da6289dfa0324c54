// A chat as a tree of messages, of which one path is shown; and the requests that are made of that path.

import { makeID, store } from "./store.js";
import { calledMessages, itemsOf, toolFields } from "./tools.js";

export class Conversation {
  constructor(chat, messages) {
    this.chat = chat;
    this.messages = new Map(messages.map((message) => [message.id, message]));
  }

  static empty(model, settings) {
    const now = Date.now();
    return new Conversation({ id: makeID(), title: "", created: now, updated: now, pinned: false, model, settings, head: null }, []);
  }

  static async open(id) {
    const chat = store.chats.get(id);
    return chat ? new Conversation(chat, await store.messages(id)) : null;
  }

  get isEmpty() { return this.messages.size === 0; }

  /// From the first message to the head.
  get path() { return this.pathTo(this.messages.get(this.chat.head)); }

  children(parent) {
    return [...this.messages.values()].filter((message) => (message.parent ?? null) === (parent ?? null)).sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1));
  }

  branch(message) {
    const all = this.children(message.parent);
    return { all, at: all.indexOf(message), count: all.length };
  }

  /// The last message below this one, by the latest of each branch.
  leaf(message) {
    const seen = new Set();
    let last = message;
    for (let next = message; next && !seen.has(next.id); next = this.children(next.id).at(-1)) {
      seen.add(next.id);
      last = next;
    }
    return last;
  }

  /// Shows the branch `step` further on.
  turn(message, step) {
    const { all, at } = this.branch(message);
    const other = all[at + step];
    if (other) this.chat.head = this.leaf(other).id;
    return Boolean(other);
  }

  add(message) {
    const made = { id: makeID(), chat: this.chat.id, parent: this.chat.head, created: Date.now(), state: "done", ...message };
    // Two messages of one millisecond keep their order.
    const parent = this.messages.get(made.parent);
    if (parent && made.created <= parent.created) made.created = parent.created + 1;
    this.messages.set(made.id, made);
    this.chat.head = made.id;
    return made;
  }

  /// Removes a message and all below it; returns what was removed.
  remove(message) {
    const gone = [];
    const visit = (one) => {
      gone.push(one);
      this.messages.delete(one.id);
      for (const child of [...this.messages.values()].filter((other) => other.parent === one.id)) visit(child);
    };
    visit(message);
    if (gone.some((one) => one.id === this.chat.head)) {
      const sibling = this.children(message.parent).at(-1);
      this.chat.head = sibling ? this.leaf(sibling).id : message.parent;
    }
    return gone;
  }

  restore(messages, head) {
    for (const message of messages) this.messages.set(message.id, message);
    this.chat.head = head;
  }

  /// Up to and including this message.
  pathTo(message) {
    const path = [];
    const seen = new Set();
    for (let one = message; one && !seen.has(one.id); one = this.messages.get(one.parent)) {
      seen.add(one.id);
      path.push(one);
    }
    return path.reverse();
  }
}

// Requests.

/// A file as text in front of what was said, in a fence that its own text cannot close.
function fenced(file) {
  const longest = Math.max(2, ...(file.text.match(/`{3,}/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${file.name.replace(/[\r\n]/g, " ")}:\n${fence}\n${file.text}\n${fence}\n\n`;
}

const textOf = (message) => (message.files ?? []).filter((file) => file.kind === "text").map(fenced).join("") + message.text;

function userContent(message, types) {
  const media = (message.files ?? []).filter((file) => file.kind !== "text" && file.data);
  if (!media.length) return textOf(message);
  const parts = media.map((file) => file.kind === "image" ? types.image(file.data) : {
    type: "input_audio", input_audio: { data: file.data.slice(file.data.indexOf(",") + 1), format: "wav" },
  });
  const text = textOf(message);
  return text ? [...parts, { type: types.text, text }] : parts;
}

/// What both wires call by one name.
export function samplingFields(settings) {
  const out = {};
  for (const name of ["temperature", "top_p", "top_k", "min_p", "max_output_tokens", "seed", "presence_penalty", "frequency_penalty", "repetition_penalty"]) {
    if (typeof settings[name] === "number") out[name] = settings[name];
  }
  const stops = (settings.stop ?? "").split("\n").filter(Boolean);
  if (stops.length) out.stop = stops;
  return out;
}

const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
};

/// The body of a request for the answer that follows `path`.
export function responseBody(path, settings, model) {
  const input = [];
  for (const message of path) {
    if (message.role === "user") {
      input.push({
        role: "user", content: userContent(message, { text: "input_text", image: (url) => ({ type: "input_image", image_url: url }) }),
      });
      continue;
    }
    const functions = (message.calls ?? []).filter((call) => !call.kind);
    input.push(...itemsOf(message));
    for (const call of functions) {
      input.push({ type: "function_call", call_id: call.id, name: call.name, arguments: call.arguments || "{}" });
    }
    for (const call of functions) {
      input.push({ type: "function_call_output", call_id: call.id, output: call.result ?? "" });
    }
  }
  const body = { model, input, ...samplingFields(settings) };
  if (settings.system?.trim()) body.instructions = settings.system;
  if (settings.effort) body.reasoning = { effort: settings.effort };
  const schema = settings.schema?.trim() ? parsed(settings.schema) : null;
  if (schema) body.text = { format: { type: "json_schema", name: "answer", schema } };
  const functions = settings.tools?.trim() ? parsed(settings.tools) : null;
  const { tools, ...more } = toolFields(settings, model, path.at(-1)?.role === "user");
  // Both forms that people have lying about: with `function` inside, and flat.
  const own = Array.isArray(functions) ? functions.map((tool) => ({ type: "function", ...(tool.function ?? tool) })) : [];
  if (own.length + tools.length) Object.assign(body, { tools: [...own, ...tools] }, more);
  return body;
}

/// The body of a chat completion that goes on with the last message of `path`.
export function continuedBody(path, settings, model) {
  const messages = settings.system?.trim() ? [{ role: "system", content: settings.system }] : [];
  for (const message of path) {
    if (message.role === "user") {
      messages.push({
        role: "user", content: userContent(message, { text: "text", image: (url) => ({ type: "image_url", image_url: { url } }) }),
      });
      continue;
    }
    messages.push(...calledMessages(message));
    const calls = message === path.at(-1) ? [] : (message.calls ?? []).filter((call) => !call.kind);
    if (!message.text && !calls.length) continue;
    messages.push({
      role: "assistant", content: message.text,
      ...(calls.length ? { tool_calls: calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments || "{}" } })) } : {}),
    });
    for (const call of calls) messages.push({ role: "tool", tool_call_id: call.id, content: call.result ?? "" });
  }
  return { model, messages, ...samplingFields(settings) };
}
