// What the server does for an answer: calls of the operator's tools and searches in notes. Which of them a chat has, what is
// heard of them, and how they are shown.

import { el, icon } from "./dom.js";
import { models } from "./models.js";
import { store } from "./store.js";
import { postJSON } from "./wire.js";
import { plainName, t } from "./words.js";

/// Characters of a result that are shown; the model gets all that the server gives it.
const shownLength = 20_000;
/// Around the number of a source in the text of an answer, where no text of a model can make a link of it.
const [opening, closing] = ["\ue200", "\ue201"];

/// Labels of the servers that may be used here.
export const labels = () => models.server.mcp?.servers ?? [];
/// Whether the server does something for the answers of a chat.
export const hasTools = (settings) => Boolean(settings.notes) || Object.keys(settings.servers ?? {}).length > 0;

// Permission: each tool is asked about until the reader says otherwise, for a chat or for all of them.

export const toolName = (server, name) => `${server}/${name}`;
const always = () => store.value("allowedTools", []);

/// `once`, `chat` or `always`.
export function permission(settings, tool) {
  return always().includes(tool) ? "always" : settings.allowed?.includes(tool) ? "chat" : "once";
}

export async function permit(settings, tool, kind) {
  const allowed = (settings.allowed ?? []).filter((other) => other !== tool);
  settings.allowed = kind === "chat" ? [...allowed, tool] : allowed;
  if (!settings.allowed.length) delete settings.allowed;
  const others = always().filter((other) => other !== tool);
  if (kind === "always" || others.length < always().length) await store.setValue("allowedTools", kind === "always" ? [...others, tool] : others);
}

// Requests.

/// Members of a request beside the client's own tools.
export function toolFields(settings, model, isQuestion) {
  const free = [...always(), ...(settings.allowed ?? [])];
  const tools = Object.entries(settings.servers ?? {}).map(([label, names]) => {
    const unasked = free.filter((tool) => tool.startsWith(`${label}/`)).map((tool) => tool.slice(label.length + 1));
    return {
      type: "mcp", server_label: label, ...(Array.isArray(names) && { allowed_tools: names }),
      require_approval: unasked.length ? { never: { tool_names: unasked } } : "always",
    };
  });
  if (!settings.notes) return { tools };
  tools.push({ type: "file_search", vector_store_ids: [settings.notes.id] });
  // Small models answer from memory unless they have to look.
  const looks = isQuestion && models.can(model)?.tools?.supported !== false;
  return { tools, include: ["file_search_call.results"], ...(looks && { tool_choice: { type: "file_search" } }) };
}

/// An answer as items of a request: its text in pieces, and between them what the server did. Calls that the reader has decided
/// upon are asked for; those that were cut off are left out.
export function itemsOf(message) {
  const items = [];
  const isWhole = !(message.calls ?? []).some((call) => call.kind);
  let at = 0;
  const say = (end) => {
    const text = message.text.slice(at, end);
    at = end ?? message.text.length;
    // What stands between pieces is the page's.
    if (text.trim()) items.push({ role: "assistant", content: isWhole ? text : text.replace(/^\n+|\n+$/g, "") });
  };
  const decisions = [];
  for (const call of message.calls ?? []) {
    if (!call.kind) continue;
    const { id, server: server_label, name } = call;
    const own = { server_label, name, arguments: call.arguments || "{}" };
    const isDecided = call.state === "refused" || (call.state === "asked" && call.answer !== undefined);
    if (call.kind === "search" && call.state === "done") {
      say(call.at);
      items.push({ type: "file_search_call", id, status: "completed", queries: [call.arguments], results: call.results });
    } else if (call.kind === "tool" && ["done", "failed"].includes(call.state)) {
      say(call.at);
      const error = call.state === "failed" ? { type: "mcp_protocol_error", code: -32000, message: call.result ?? "" } : null;
      items.push({ type: "mcp_call", id, ...own, status: error ? "failed" : "completed", output: error ? null : call.result ?? "", error });
    } else if (call.kind === "tool" && isDecided) {
      say(call.at);
      items.push({ type: "mcp_approval_request", id: call.question, ...own });
      decisions.push({ type: "mcp_approval_response", approval_request_id: call.question, approve: call.state === "asked" && call.answer });
    }
  }
  say();
  return [...items, ...decisions];
}

/// Messages of calls that are over, as chat completions have them.
export function calledMessages(message) {
  return (message.calls ?? []).filter((call) => call.kind === "tool" && ["done", "failed"].includes(call.state)).flatMap((call) => [
    { role: "assistant", content: null, tool_calls: [{ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments || "{}" } }] },
    { role: "tool", tool_call_id: call.id, content: call.result ?? "" },
  ]);
}

// What is heard of an answer.

/// A paragraph of its own for what follows a call.
function endParagraph(message) {
  for (const part of ["text", "reasoning"]) if (message[part] && !message[part].endsWith("\n\n")) message[part] += "\n\n";
}

/// Words of an item's error, which came as a text or as an object.
const wordsOf = (error) => typeof error === "string" ? error
  : error?.message ?? (error?.content ?? []).map((part) => part.text ?? "").join("\n");

/// Takes in what the server tells of its work: `tool` when something begins, `asks` for its arguments, `told` when it is over, and
/// `cite` for a source of the text so far.
export function hear(message, event) {
  if (event.kind === "cite") return (message.cites ??= []).push({ at: message.text.length, file: event.file, name: event.name });
  const { item } = event;
  let call = message.calls.find((one) => one.id === item.id || (item.approval_request_id && one.question === item.approval_request_id));
  const set = (members) => {
    if (!call) endParagraph(message);
    if (!call) message.calls.push(call = { id: item.id, at: message.text.length, result: null });
    Object.assign(call, members);
  };
  const isOver = event.kind === "told";
  switch (item.type) {
    case "mcp_call": {
      const state = { completed: "done", failed: "failed", incomplete: "stopped" }[item.status] ?? "running";
      set({ kind: "tool", id: item.id, server: item.server_label, name: item.name, arguments: item.arguments || call?.arguments || "", state,
        ...(isOver && { result: item.error ? wordsOf(item.error) : item.output ?? "" }) });
      break;
    }
    case "mcp_approval_request":
      if (isOver) set({ kind: "tool", question: item.id, server: item.server_label, name: item.name, arguments: item.arguments, state: "asked" });
      break;
    case "mcp_list_tools": {
      // What a server has is told where something is wrong with it, and where it changes while the model works.
      const isChange = message.lists?.includes(item.server_label);
      if (!isOver) break;
      message.lists = [...(message.lists ?? []), item.server_label];
      if (item.error || isChange) set({ kind: "list", name: item.server_label, arguments: "", state: item.error ? "failed" : "done",
        result: item.error ? wordsOf(item.error) : t("toolsNow", { names: item.tools.map((tool) => tool.name).join(", ") }) });
      break;
    }
    case "file_search_call":
      set({ kind: "search", name: "file_search", arguments: (item.queries ?? []).join("\n"), results: item.results ?? [],
        state: isOver ? (item.status === "failed" ? "failed" : "done") : "running" });
  }
}

/// What of the server's work is read aloud; a question is with the end of the answer.
export const saidOf = ({ type, name, status, results }) => type === "mcp_call" ? `${name}: ${t(`tool_${status === "completed" ? "done" : "failed"}`)}.`
  : type === "file_search_call" ? `${t("searchedNotes")}: ${t("passages", { count: results?.length ?? 0 })}.` : "";

/// After an answer has ended, however it has.
export function settle(message) {
  delete message.lists;
  const calls = (message.calls ?? []).filter((call) => call.kind);
  for (const call of calls) if (call.state === "running") call.state = "stopped";
  if (calls.length) message.text = message.text.trimEnd();
}

/// The reader decides on a call; others of a tool that is free now go with it.
export async function decide(message, call, answer, settings) {
  call.answer = answer !== "no";
  if (answer !== "chat" && answer !== "always") return;
  const tool = toolName(call.server, call.name);
  await permit(settings, tool, answer);
  for (const other of message.calls) if (isOpen(other) && toolName(other.server, other.name) === tool) other.answer = true;
}

/// The first call that the reader is asked about, if there is one.
export const openCall = (message) => message.calls?.find(isOpen);

const isOpen = (call) => call.state === "asked" && call.answer === undefined;

/// Before an answer goes on with what was decided.
export function begin(message) {
  endParagraph(message);
  for (const call of message.calls) if (call.state === "asked") call.state = call.answer ? "running" : "refused";
}

// How it is shown.

/// Calls that the reader has unfolded.
const unfolded = new WeakSet();

/// A call, folded, with a question where the reader is asked. `answer` hears `once`, `chat`, `always` or `no`; null where it is
/// too late to say.
export function callView(call, answer) {
  const isSearch = call.kind === "search";
  const name = isSearch ? t("searchedNotes") : call.kind === "list" ? t(call.state === "failed" ? "toolsMissing" : "toolsChanged") : call.name;
  const facts = [isSearch ? null : call.kind === "list" ? call.name : call.server];
  if (isSearch && call.state === "done") facts.push(t("passages", { count: call.results.length }));
  else if (call.kind !== "list") facts.push(t(`tool_${call.state}`));
  const asks = isOpen(call) && answer;
  const node = el("details.call.server-call", {
    "data-state": call.state, open: asks || unfolded.has(call),
  }, el("summary.call-head", { onclick: () => node.open ? unfolded.delete(call) : unfolded.add(call) }, icon(isSearch ? "notes" : "tool"), el("strong", { dir: "auto" }, name),
    el("span.muted", facts.filter(Boolean).join(" · ")), icon("chevron")));
  if (call.arguments) node.append(el("pre", { tabindex: 0, dir: isSearch ? "auto" : "ltr", "aria-label": t(isSearch ? "searchedFor" : "arguments") }, pretty(call.arguments)));
  if (call.result) node.append(el("pre", { tabindex: 0, dir: "auto", "aria-label": t("result") }, shortened(call.result)));
  if (isSearch) node.append(...call.results.map((one) => passage(plainName(one.filename ?? ""), [one.text])));
  if (asks) {
    node.append(el("p", t("toolAsks", { name: call.name, server: call.server })), el("div.row", { role: "group", "aria-label": t("toolAsks", { name: call.name, server: call.server }) },
      ...["once", "chat", "always"].map((kind) => el(kind === "once" ? "button.button.primary" : "button.button", { onclick: () => answer(kind) }, t(`allow_${kind}`))),
      el("button.button", { onclick: () => answer("no") }, t("allow_no"))));
  }
  return node;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

const shortened = (text) => text.length > shownLength ? `${text.slice(0, shownLength)}…` : text;

const passage = (name, texts, number) => el("details.file", el("summary", number ? el("span.source-number", String(number)) : icon("file"), el("span", { dir: "auto" }, name)),
  texts.map((text) => el("pre", { tabindex: 0, dir: "auto" }, shortened(text))));

/// Files that an answer cites, in the order in which it does.
function cited(message) {
  const names = new Map();
  for (const { file, name } of message.cites ?? []) if (!names.has(file)) names.set(file, name);
  return [...names];
}

/// The text of an answer with the numbers of its sources.
export function textWithSources(message) {
  const numbers = new Map(cited(message).map(([file], at) => [file, at + 1]));
  let out = "";
  let from = 0;
  for (const { at, file } of message.cites ?? []) {
    out += `${message.text.slice(from, at)}${opening}${numbers.get(file)}${closing}`;
    from = at;
  }
  return out + message.text.slice(from);
}

/// The sources of an answer, each with what of it was found.
export function sourcesView(message) {
  const found = message.calls.flatMap((call) => call.results ?? []);
  return cited(message).map(([file, name], at) =>
    passage(plainName(name), found.filter((one) => one.file_id === file).map((one) => one.text), at + 1));
}

/// The mark of a source that begins at a place of a text: the node, and how long it is there.
export function sourceMark(text, at) {
  const found = /^\ue200(\d{1,3})\ue201/.exec(text.slice(at, at + 5));
  if (!found) return null;
  const show = ({ target }) => {
    const source = target.closest(".message")?.querySelectorAll(".sources details")[Number(found[1]) - 1];
    if (!source) return;
    source.open = true;
    source.scrollIntoView({ block: "nearest" });
    source.firstChild.focus({ preventScroll: true });
  };
  return { length: found[0].length, node: el("sup", el("button.note-mark", { "aria-label": t("openSource", { number: found[1] }), onclick: show }, found[1])) };
}

// What servers have.

const lists = new Map();

/// `{tools, prompts, resources, error}` of a server, as it said last; asked again where that is wanted.
export async function listOf(label, isAgain = false) {
  if (isAgain || !lists.has(label)) {
    lists.set(label, postJSON(`v1/mcp/servers/${encodeURIComponent(label)}`, {}));
    lists.get(label).then((list) => list.error && lists.delete(label), () => lists.delete(label));
  }
  return lists.get(label);
}

/// The text of a prompt, `{prompt, arguments}`, or of a resource, `{resource}`.
export const textOf = async (label, body) => (await postJSON(`v1/mcp/servers/${encodeURIComponent(label)}/text`, body)).text;
