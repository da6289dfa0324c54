// Exports of ChatGPT and of Open WebUI as the chats of this page. What they hold is read as one's own imports are: every member
// is checked there.

/// The text of a file, or of the `conversations.json` in a ZIP file, as ChatGPT sends it; no more than `limit` bytes.
export async function textOf(file, limit) {
  if (new Uint8Array(await file.slice(0, 4).arrayBuffer()).join() !== "80,75,3,4") return file.text();
  const bytes = new DataView(await file.arrayBuffer());
  // The directory stands at the end, and a record behind it says where it begins.
  let end = bytes.byteLength - 22;
  while (end > 0 && bytes.getUint32(end, true) !== 0x06054b50) end--;
  const name = (at, length) => new TextDecoder().decode(new Uint8Array(bytes.buffer, at, length));
  for (let at = bytes.getUint32(end + 16, true), left = bytes.getUint16(end + 10, true); left > 0; left--) {
    const [method, size, nameLength, extra, comment] = [bytes.getUint16(at + 10, true), bytes.getUint32(at + 20, true), bytes.getUint16(at + 28, true), bytes.getUint16(at + 30, true), bytes.getUint16(at + 32, true)];
    if (/(^|\/)conversations\.json$/.test(name(at + 46, nameLength))) {
      const local = bytes.getUint32(at + 42, true);
      const begin = local + 30 + bytes.getUint16(local + 26, true) + bytes.getUint16(local + 28, true);
      const packed = new Blob([new Uint8Array(bytes.buffer, begin, size)]);
      return method === 0 ? packed.text() : inflated(packed.stream(), limit);
    }
    at += 46 + nameLength + extra + comment;
  }
  return "";
}

async function inflated(stream, limit) {
  const parts = [];
  let size = 0;
  for await (const part of stream.pipeThrough(new DecompressionStream("deflate-raw"))) {
    size += part.length;
    if (size > limit) throw new Error("importTooLarge");
    parts.push(part);
  }
  return new Blob(parts).text();
}

/// The raw chats of a file, or null when it is of nobody known.
export function chatsOfOthers(data) {
  const list = (Array.isArray(data) ? data : [data]).filter((one) => one && typeof one === "object");
  const chats = list.map((one) => fromChatGPT(one) ?? fromOpenWebUI(one)).filter(Boolean);
  return chats.length ? chats : null;
}

const milliseconds = (time) => (Number.isFinite(time) ? Math.round(time > 1e11 ? time : time * 1000) : undefined);
const isObject = (value) => value !== null && typeof value === "object";

/// The nearest one above that is kept; what is between (the system's words, calls of tools) is left out.
function keptAbove(id, kept, parentOf) {
  const seen = new Set();
  for (let at = id; typeof at === "string" && !seen.has(at); at = parentOf(at)) {
    if (kept.has(at)) return at;
    seen.add(at);
  }
  return null;
}

/// `{title, create_time, mapping: {id: {message, parent}}, current_node}`
function fromChatGPT(raw) {
  if (!isObject(raw.mapping)) return null;
  const nodes = new Map(Object.entries(raw.mapping).filter(([, node]) => isObject(node)));
  const text = ({ content } = {}) => (Array.isArray(content?.parts) ? content.parts.filter((part) => typeof part === "string").join("\n\n") : "");
  const kept = new Map([...nodes].filter(([, { message }]) => ["user", "assistant"].includes(message?.author?.role)
    && (message.recipient ?? "all") === "all" && message.content?.content_type !== "thoughts" && text(message).trim()));
  const parentOf = (id) => nodes.get(id)?.parent;
  return {
    id: raw.conversation_id ?? raw.id, title: raw.title, created: milliseconds(raw.create_time), updated: milliseconds(raw.update_time),
    head: keptAbove(raw.current_node, kept, parentOf) ?? [...kept.keys()].at(-1), hasOwnTitle: true, model: raw.default_model_slug,
    messages: [...kept].map(([id, { message, parent }]) => ({
      id, parent: keptAbove(parent, kept, parentOf), role: message.author.role, text: text(message), created: milliseconds(message.create_time),
      model: message.metadata?.model_slug,
    })),
  };
}

/// `{id, title, chat: {title, models, history: {messages: {id: {role, content, parentId}}, currentId}}}`
function fromOpenWebUI(raw) {
  const chat = isObject(raw.chat) ? raw.chat : raw;
  const all = chat.history?.messages;
  if (!isObject(all)) return null;
  const nodes = new Map(Object.entries(all).filter(([, node]) => isObject(node)));
  const text = ({ content }) => Array.isArray(content)
    ? content.map((part) => (typeof part?.text === "string" ? part.text : "")).join("") : typeof content === "string" ? content : "";
  const thought = /^\s*<details type="reasoning"[^>]*>(?:\s*<summary>[^<]*<\/summary>)?([^]*?)<\/details>\s*/;
  const kept = new Map([...nodes].filter(([, node]) => ["user", "assistant"].includes(node.role)));
  const parentOf = (id) => nodes.get(id)?.parentId;
  return {
    id: raw.id ?? chat.id, title: raw.title ?? chat.title, created: milliseconds(raw.created_at ?? chat.timestamp), updated: milliseconds(raw.updated_at ?? chat.timestamp),
    head: keptAbove(chat.history.currentId, kept, parentOf) ?? [...kept.keys()].at(-1), hasOwnTitle: true, pinned: raw.pinned, model: Array.isArray(chat.models) ? chat.models[0] : "",
    settings: { system: chat.params?.system }, messages: [...kept].map(([id, node]) => ({
      id, parent: keptAbove(node.parentId, kept, parentOf), role: node.role, created: milliseconds(node.timestamp), model: node.model,
      text: text(node).replace(thought, ""), reasoning: thought.exec(text(node))?.[1].replace(/^> ?/gm, "").trim() ?? "",
    })),
  };
}
