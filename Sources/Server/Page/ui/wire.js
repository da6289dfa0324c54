// The server's API as the page uses it: models, answers as streams, and the way back into a stream that was lost.

import { local, tab } from "./storage.js";

/// An error as the server tells it, or `network` when it could not be reached.
export class WireError extends Error {
  constructor(message, { status = 0, code = null, param = null, retryAfter = 0, progress } = {}) {
    super(message);
    Object.assign(this, { status, code, param, retryAfter, progress });
  }

  get isNetwork() { return this.status === 0; }
}

const keyName = "mlxserve-key";

/// The API key: for this tab, or kept in this browser when that was asked for. Never part of an address.
export const key = {
  get: () => tab.get(keyName) ?? local.get(keyName) ?? key.held ?? null,
  set(value, isKept) {
    key.held = value;
    tab.set(keyName, value);
    local.set(keyName, isKept ? value : null);
  },
  forget: () => key.set(null, false),
};

/// Called when the server asks for a key, or refuses one.
export const onUnauthorized = { call: () => {} };

/// A request to this server, by an address relative to the page: the page may be below a prefix of a proxy.
export async function send(path, { method = "GET", body, form, signal } = {}) {
  const headers = {};
  const held = key.get();
  if (held) headers.authorization = `Bearer ${held}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method, headers, signal, body: form ?? (body === undefined ? undefined : JSON.stringify(body)),
      cache: "no-store", credentials: "omit", redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new WireError(error.message);
  }
  if (response.ok) return response;
  const error = await readError(response);
  if (response.status === 401) onUnauthorized.call(error);
  throw error;
}

async function readError(response) {
  let said = {};
  try {
    said = (await response.json()).error ?? {};
  } catch {
    // Not this server's words: a proxy's, perhaps.
  }
  return new WireError(String(said.message ?? `${response.status} ${response.statusText}`), {
    status: response.status, code: said.code ?? said.type ?? null, param: said.param ?? null,
    retryAfter: Number(response.headers.get("retry-after")) || 0, progress: said.details?.progress,
  });
}

export const getJSON = async (path, options) => (await send(path, options)).json();
export const postJSON = async (path, body, options) => (await send(path, { method: "POST", body, ...options })).json();

export const sendForm = async (path, form) => (await send(path, { method: "POST", form })).json();

/// The data of server-sent events. Ends without an error only when the server has ended the stream.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read().catch((error) => {
        throw error.name === "AbortError" ? error : new WireError(error.message);
      });
      if (done) throw new WireError("The stream was cut off.");
      const lines = (rest + value).split(/\r?\n/);
      rest = lines.pop();
      for (const line of lines) {
        if (line === "" && data.length) {
          const text = data.join("\n");
          data = [];
          if (text === "[DONE]") return;
          yield JSON.parse(text);
        } else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

const pause = (milliseconds, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, milliseconds);
  signal?.addEventListener("abort", () => {
    clearTimeout(timer);
    reject(new DOMException("", "AbortError"));
  }, { once: true });
});

/// Waits between attempts to get back into a stream, milliseconds; the last one repeats.
const waits = [250, 500, 1000, 2000, 4000, 5000];
const patience = 120_000;
const streamed = { stream: true, return_progress: true };

/// One answer. `on` hears `{kind, …}`: `begin`, `reading`, `reasoning`, `text`, `call`, `arguments`, `lost`, `back`, `usage`, `end`,
/// `tool`, `told` and `cite` of what the server does itself, and `complete` with the id of what the server may `forget` now.
///
/// The answer is a background response: it goes on when the network does not, and its events can be read again.
export async function answer(body, on, signal) {
  const place = { id: null, sequence: -1 };
  let response;
  try {
    response = await send("v1/responses", { method: "POST", body: { ...body, ...streamed, background: true, store: true }, signal });
  } catch (error) {
    if (error.code !== "storage_full" && error.code !== "storage_failed") throw error;
    // A server that cannot store can still answer.
    response = await send("v1/responses", { method: "POST", body: { ...body, ...streamed, store: false }, signal });
    place.isLostForever = true;
  }
  await follow(response, place, on, signal);
}

/// Goes on with an answer that began in an earlier life of the page.
export async function resume(id, sequence, on, signal) {
  const place = { id, sequence };
  await follow(await reopen(place, signal), place, on, signal);
}

const reopen = (place, signal) =>
  send(`v1/responses/${encodeURIComponent(place.id)}?stream=true${place.sequence >= 0 ? `&starting_after=${place.sequence}` : ""}`, { signal });

async function follow(response, place, on, signal) {
  const stop = () => place.id && send(`v1/responses/${encodeURIComponent(place.id)}/cancel`, { method: "POST", body: {} })
    .catch(() => {}).then(() => forget(place.id));
  signal.addEventListener("abort", stop, { once: true });
  let isRead = false;
  try {
    for (let attempt = 0, lostAt = 0; ;) {
      try {
        for await (const event of events(response)) {
          if (lostAt) on({ kind: "back" });
          attempt = lostAt = 0;
          place.sequence = event.sequence_number ?? place.sequence;
          if (event.type === "response.created") place.id = event.response.id;
          isRead = tell(event, on, place);
        }
        break;
      } catch (error) {
        if (!error.isNetwork || place.isLostForever || !place.id) throw error;
        if (isRead) break;
        lostAt ||= performance.now();
        if (performance.now() - lostAt > patience) throw error;
        on({ kind: "lost" });
        for (;;) {
          await pause(waits[Math.min(attempt++, waits.length - 1)], signal);
          try {
            response = await reopen(place, signal);
            break;
          } catch (again) {
            // A proxy says 502 or 504 while the server is away, a server that starts 503.
            const mayPass = again.isNetwork || [502, 503, 504].includes(again.status);
            if (!mayPass || performance.now() - lostAt > patience) throw again.status === 404 ? error : again;
          }
        }
      }
    }
  } finally {
    signal.removeEventListener("abort", stop);
  }
  if (!place.isLostForever) on({ kind: "complete", id: place.id });
}

/// Has a prompt read and kept: the answer to one that begins as it does comes sooner. `on` hears how far it is read.
export async function read(body, on, signal) {
  const response = await send("v1/responses", {
    method: "POST", signal, body: { ...body, ...streamed, store: false, max_output_tokens: 1, keep_prompt: true },
  });
  for await (const event of events(response)) {
    if (event.type === "mlxserve:prompt_progress") on(event.prompt_progress);
    if (event.type === "error" || event.type === "response.failed") throw failed(event.error ?? event.response?.error);
    if (event.type === "response.completed" || event.type === "response.incomplete") return;
  }
}

/// Deletes a stored response that is complete here, and kept here.
export function forget(id) {
  send(`v1/responses/${encodeURIComponent(id)}`, { method: "DELETE" }).catch(() => {});
}

/// What a failed answer says of itself, as an error.
const failed = (error) => new WireError(String(error?.message ?? "The answer failed."), { status: 500, code: error?.code ?? null });

/// Tells the counts of tokens, which the two APIs call by other names.
function count(usage, input, output, on) {
  if (!usage) return;
  on({
    kind: "usage", prompt: usage[`${input}_tokens`], output: usage[`${output}_tokens`],
    cached: usage[`${input}_tokens_details`]?.cached_tokens ?? 0, reasoning: usage[`${output}_tokens_details`]?.reasoning_tokens ?? 0,
  });
}

/// Types of items of what the server does itself.
const works = new Set(["mcp_call", "mcp_approval_request", "mcp_list_tools", "file_search_call"]);

/// One event in the page's words; true for the last one.
function tell(event, on, place) {
  const say = (kind, members) => on({ kind, ...members, sequence: place.sequence });
  switch (event.type) {
    case "mlxserve:prompt_progress":
      on({ kind: "reading", ...event.prompt_progress });
      break;
    case "response.created":
      on({ kind: "begin", id: event.response.id, model: event.response.model });
      break;
    case "response.reasoning_text.delta": case "response.reasoning.delta": case "response.reasoning_summary_text.delta":
      say("reasoning", { text: event.delta });
      break;
    case "response.output_text.delta":
      say("text", { text: event.delta });
      break;
    case "response.output_item.added":
      if (event.item.type === "function_call") {
        say("call", { id: event.item.call_id, name: event.item.name, item: event.item.id });
      } else if (works.has(event.item.type)) say("tool", { item: event.item });
      break;
    case "response.output_item.done":
      if (works.has(event.item.type)) say("told", { item: event.item });
      break;
    case "response.output_text.annotation.added":
      if (event.annotation.type === "file_citation") say("cite", { file: event.annotation.file_id, name: event.annotation.filename });
      break;
    case "response.function_call_arguments.delta":
      say("arguments", { item: event.item_id, text: event.delta });
      break;
    case "response.completed": case "response.incomplete": case "response.failed": {
      const response = event.response;
      count(response.usage, "input", "output", on);
      if (event.type === "response.failed") throw failed(response.error);
      const reason = response.status === "cancelled" ? "stopped" : response.incomplete_details?.reason;
      on({ kind: "end", reason: reason === "max_output_tokens" ? "length" : reason ?? "stop" });
      return true;
    }
    case "error":
      throw failed(event.message ? event : event.error);
  }
  return false;
}

/// Goes on with an answer whose beginning stands last in `messages`: chat completions can do that.
export async function goOn(body, on, signal) {
  const response = await send("v1/chat/completions", {
    method: "POST", signal,
    body: { ...body, ...streamed, stream_options: { include_usage: true }, continue_final_message: true, add_generation_prompt: false },
  });
  on({ kind: "begin" });
  let reason = "stop";
  for await (const chunk of events(response)) {
    if (chunk.error) throw failed(chunk.error);
    if (chunk.prompt_progress) on({ kind: "reading", ...chunk.prompt_progress });
    const choice = chunk.choices?.[0];
    const delta = choice?.delta ?? {};
    const thought = delta.reasoning_content ?? delta.reasoning;
    if (thought) on({ kind: "reasoning", text: thought });
    if (delta.content) on({ kind: "text", text: delta.content });
    if (choice?.finish_reason) reason = choice.finish_reason;
    count(chunk.usage, "prompt", "completion", on);
  }
  on({ kind: "end", reason });
}
