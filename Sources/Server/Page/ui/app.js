// The chat page: what is shown, what is running, and what keys and buttons do.

import { $, dialog, el, field, icon, menu, on, toast } from "./dom.js";
import { Conversation, continuedBody, responseBody } from "./conversation.js";
import { MessageView } from "./message.js";
import { Announcer } from "./announcer.js";
import { History } from "./history.js";
import { Composer } from "./composer.js";
import { isForChat, models } from "./models.js";
import { local } from "./storage.js";
import { store } from "./store.js";
import { canRead, readAloud, stopReading } from "./speech.js";
import { Titles } from "./titles.js";
import { begin as beginTools, decide, hasTools, hear, openCall, saidOf, settle } from "./tools.js";
import { answer, forget, goOn, key, onUnauthorized, read, resume } from "./wire.js";
import { language, number, preferred, setLanguage, t } from "./words.js";

/// Messages of a chat that are painted at once; the others follow while nothing else is to do.
const painted = 20;
/// An answer is written to the browser's storage this often while it grows, milliseconds.
const saveEvery = 2000;
/// The reader follows the end of an answer within this distance of it, pixels.
const nearEnd = 24;

const announcer = new Announcer($("live"));
/// Answers under way, by the id of their message.
const runs = new Map();
const views = new Map();
let conversation = null;
let isFollowing = true;

export const app = {
  get conversation() { return conversation; },
  get model() { return models.pick(conversation?.chat.model)?.id ?? conversation?.chat.model ?? ""; },
  get isRunning() { return Boolean(running()); },
  send, stop, newChat, openChat, editLast, chooseModel, saveChat, explain, refuse, refuseFile, renderChat, stopAll,
  get files() { return composer.files; },
  attach: (file) => composer.attach(file),
  detach: (file) => composer.setFiles(composer.files.filter((other) => other !== file)),
  focus: () => composer.focus(),
  fill: (text) => composer.fill(text),
  repaintForce: () => composer.paintForce(),
  repaint: () => (history.paint(), composer.paint(), paintTop()),
  /// Whether answers are under way: in one chat, or in any.
  isBusy: (id) => (id ? [...runs.values()].some((run) => run.conversation.chat.id === id) : runs.size > 0),
  readAhead, enqueue, queued: () => queues.get(conversation?.chat.id) ?? [], unqueue, setTemporary, titled,
};

const history = new History(app);
const composer = new Composer(app);
const titles = new Titles(app);
/// Messages that wait for the answer under way, by the id of their chat.
const queues = new Map();

// MARK: Chats

/// A chat that is not kept ends with its being left.
function leave() {
  stopReading();
  if (conversation?.chat.isTemporary) stopAll(conversation.chat.id);
}

function newChat() {
  leave();
  conversation = Conversation.empty(app.model, { ...store.value("defaults", {}), ...defaultPreset() });
  location.hash = "";
  show();
  composer.focus();
}

function defaultPreset() {
  const preset = store.value("presets", []).find((one) => one.isDefault);
  return preset ? { system: preset.text } : {};
}

async function openChat(id) {
  const held = [...runs.values()].find((run) => run.conversation.chat.id === id)?.conversation;
  const found = held ?? (await Conversation.open(id));
  if (!found) return newChat();
  if (found !== conversation) leave();
  conversation = found;
  if (location.hash !== `#chat=${id}`) window.history.replaceState(null, "", `#chat=${id}`);
  show();
  for (const message of conversation.path) if (message.state === "streaming" && !runs.has(message.id)) takeUp(message);
  sendQueued();
}

/// A chat that is not kept, while it is empty.
function setTemporary(isTemporary) {
  if (!conversation.isEmpty) return;
  conversation.chat.isTemporary = isTemporary;
  paintTop();
  composer.paint();
  composer.focus();
}

/// The model has found a title.
function titled(chat) {
  history.paint();
  if (chat === conversation.chat) paintTitle();
}

function show() {
  isFollowing = true;
  renderChat();
  history.paint();
  composer.show(conversation);
  history.close();
  paintTop();
}

/// Paints the whole path anew: the end first, what is above it piece by piece.
function renderChat() {
  views.clear();
  const path = conversation.path;
  const nodes = path.map((message, at) => at >= path.length - painted ? view(message).node : placeholder(message));
  $("log").replaceChildren(...nodes);
  $("empty").hidden = path.length > 0;
  document.body.classList.toggle("is-empty", path.length === 0);
  paintTitle();
  toEnd();
  paintTop();
  const shown = conversation;
  let at = path.length - painted - 1;
  const work = (deadline) => {
    while (at >= 0 && shown === conversation && deadline.timeRemaining() > 4) {
      const node = document.getElementById(`m-${path[at].id}`);
      if (node && !views.has(path[at].id)) node.replaceWith(view(path[at]).node);
      at--;
    }
    if (at >= 0 && shown === conversation) later(work);
  };
  if (at >= 0) later(work);
}

function paintTitle() {
  $("title").textContent = conversation.chat.title || t("newChat");
  document.title = conversation.chat.title ? `${conversation.chat.title} – mlxserve` : "mlxserve";
}

const later = (work) => (window.requestIdleCallback ?? ((call) => setTimeout(() => call({ timeRemaining: () => 10 }), 30)))(work, { timeout: 500 });

/// The text alone, so that the browser's own search finds it before it is painted.
const placeholder = (message) => el("article", { class: `message ${message.role} plain`, id: `m-${message.id}` }, message.text);

function view(message, name) {
  const made = new MessageView(message, actions, name);
  views.set(message.id, made);
  return made;
}

async function saveChat(chat = conversation.chat) {
  if (!chat.isTemporary) await guarded(() => store.saveChat(chat));
}

async function saveMessages(chat, messages) {
  if (!chat.isTemporary) await guarded(() => store.saveMessages(chat, messages));
}

/// What the browser cannot store is said, and stays on the page.
async function guarded(work) {
  try {
    await work();
  } catch (error) {
    toast(error.name === "QuotaExceededError" ? t("storageFull") : t("storageFailed", { reason: String(error.message ?? error) }), { seconds: 10 });
  }
}

// MARK: Sending

async function send(text, files) {
  if (running()) return false;
  titles.hold();
  // The first message may be quicker than the list of models.
  if (!app.model) await models.refresh();
  if (!app.model) return refuse(t({ down: "errorNetwork", loading: "errorLoading", locked: "bannerLocked" }[models.state] ?? "noModels"));
  const refused = files.find((file) => !models.takesFile(app.model, file));
  if (refused) return refuseFile(refused);
  // Asked for when there is something to lose: some browsers ask their reader then.
  if (!store.chats.size) navigator.storage?.persist?.().catch(() => {});
  const before = conversation.chat.head;
  const message = conversation.add({ role: "user", text, files });
  // It asks no more.
  views.get(before)?.update();
  if (!conversation.chat.title) conversation.chat.title = titleOf(message);
  conversation.chat.model = app.model;
  conversation.chat.updated = Date.now();
  $("log").append(view(message).node);
  $("empty").hidden = true;
  document.body.classList.remove("is-empty");
  isFollowing = true;
  await Promise.all([saveMessages(conversation.chat, [message]), saveChat()]);
  if (!conversation.chat.isTemporary) window.history.replaceState(null, "", `#chat=${conversation.chat.id}`);
  history.paint();
  respond();
  return true;
}

/// Has files read that the next message will begin with. `tell` gets words on how far that is.
async function readAhead(files, tell, signal) {
  const model = models.find(app.model);
  // What servers have is asked for when a question is sent.
  if (hasTools(conversation.chat.settings) || model?.status.value !== "loaded" || files.some((file) => !models.takesFile(app.model, file))) return;
  const path = [...conversation.path, { role: "user", text: "", files }];
  await read(responseBody(path, conversation.chat.settings, model.id), (progress) => tell(readingWords(progress)), signal);
  tell(t("documentRead"));
}

/// Keeps a message until the answer under way is there.
function enqueue(text, files) {
  const { id } = conversation.chat;
  queues.set(id, [...(queues.get(id) ?? []), { text, files }]);
}

/// Takes a waiting message back.
function unqueue(entry) {
  const { id } = conversation.chat;
  queues.set(id, (queues.get(id) ?? []).filter((other) => other !== entry));
}

/// Sends what waits in the chat that is shown.
async function sendQueued() {
  const [entry] = queues.get(conversation.chat.id) ?? [];
  if (!entry || running() || composer.isHeld()) return;
  unqueue(entry);
  if (!(await send(entry.text, entry.files))) queues.get(conversation.chat.id).unshift(entry);
  composer.paint();
}

function refuse(text, options = {}) {
  toast(text, { seconds: 6, ...options });
  return false;
}

function refuseFile(file) {
  return refuse(t(file.kind === "sound" ? "modelTakesNoSound" : "modelTakesNoImages", { model: app.model }));
}

const titleOf = (message) => (message.text.trim().split("\n")[0] || message.files?.[0]?.name || "").slice(0, 80);

/// A new answer below the head, by the chat's model or by another one.
function respond(model = app.model) {
  titles.hold();
  const message = conversation.add({ role: "assistant", text: "", reasoning: "", calls: [], model, state: "streaming" });
  const status = models.find(model)?.status.value;
  if (status && status !== "loaded") {
    message.wait = () => `${t("waitLoading")} ${models.progress(models.find(model))}`;
    setTimeout(() => models.refresh(), 200);
  }
  $("log").append(view(message).node);
  toEnd();
  saveMessages(conversation.chat, [stored(message)]);
  saveChat();
  // The button that was pressed may be gone.
  composer.focus();
  const path = conversation.pathTo(message).slice(0, -1);
  const { settings } = conversation.chat;
  run(message, (on, signal) => answer(responseBody(path, settings, model), on, signal));
  return message;
}

/// Goes on with an answer that was under way when the page was left.
function takeUp(message) {
  if (!message.response) return end(message, conversation, "stopped");
  run(message, (on, signal) => resume(message.response.id, message.response.sequence, on, signal));
}

function continueAnswer(message) {
  if (running() || composer.isHeld()) return;
  const { settings } = conversation.chat;
  titles.hold();
  const body = continuedBody(conversation.pathTo(message), settings, models.find(message.model)?.id ?? app.model);
  Object.assign(message, { state: "streaming", error: null });
  composer.focus();
  run(message, (on, signal) => goOn(body, on, signal));
}

/// How much of a prompt is to be read, and how long that takes; nothing where it takes no time.
function readingWords({ total, cache, time_ms: spent, remaining_ms: left }) {
  if (left === null || spent + left < 1000) return "";
  return t("readingPrompt", { count: total - cache, time: number(Math.ceil(left / 1000)) });
}

/// Drives one answer from its first event to its last, wherever the reader is meanwhile.
async function run(message, start) {
  const controller = new AbortController();
  const chat = conversation;
  runs.set(message.id, { controller, conversation: chat });
  const begin = performance.now();
  let first = 0;
  let savedAt = performance.now();
  const before = message.usage?.output ?? 0;
  const live = { count: 0, rate: 0 };
  let done = null;
  message.live = live;
  composer.paint();
  paintTop();
  const current = () => views.get(message.id);
  current()?.update();
  const tick = setInterval(() => current()?.update(), 1000);
  const grow = (event) => {
    if (!first) first = performance.now();
    live.count++;
    const spent = performance.now() - first;
    if (spent > 200) live.rate = ((live.count - 1) * 1000) / spent;
    if (performance.now() - savedAt > saveEvery) {
      savedAt = performance.now();
      saveMessages(chat.chat, [stored(message)]);
    }
  };
  const on = (event) => {
    if (message.response && event.sequence !== undefined) message.response.sequence = event.sequence;
    switch (event.kind) {
      case "tool": case "told": case "cite":
        endThought(message);
        hear(message, event);
        if (event.kind !== "told") break;
        saveMessages(chat.chat, [stored(message)]);
        if (chat === conversation) announcer.hear(`${saidOf(event.item)} `);
        break;
      case "begin":
        message.wait = null;
        if (event.id) message.response = { id: event.id, sequence: 0 };
        if (event.model) message.model = event.model;
        if (event.id) saveMessages(chat.chat, [stored(message)]);
        break;
      case "reading":
        message.wait = () => readingWords(event);
        break;
      case "reasoning":
        grow(event);
        message.thoughtBegan ??= Date.now();
        message.reasoning = (message.reasoning ?? "") + event.text;
        break;
      case "text":
        grow(event);
        endThought(message);
        message.text += event.text;
        if (chat === conversation) announcer.hear(event.text);
        break;
      case "call":
        endThought(message);
        message.calls.push({ id: event.id, name: event.name, arguments: "", item: event.item, result: null });
        break;
      case "arguments": {
        grow(event);
        const call = message.calls.find((one) => one.item === event.item) ?? message.calls.at(-1);
        if (call) call.arguments += event.text;
        break;
      }
      case "lost": case "back":
        message.isLost = event.kind === "lost";
        if (message.isLost) models.refresh();
        break;
      case "usage":
        message.usage = { prompt: event.prompt, output: event.output + (message.isContinued ? before : 0), cached: event.cached, reasoning: event.reasoning };
        break;
      case "end":
        message.reason = event.reason;
        break;
      case "complete":
        done = event.id;
        break;
    }
    current()?.changed();
  };
  let state = "done";
  try {
    await start(on, controller.signal);
    state = { length: "length", stopped: "stopped" }[message.reason] ?? "done";
  } catch (error) {
    // An answer of an earlier life of the page, which the server has no more, is what it was.
    const isGone = error.status === 404 && message.response && !message.live.count;
    state = controller.signal.aborted || isGone ? "stopped" : "error";
    if (state === "error") {
      message.error = { message: error.message, code: error.code ?? null, status: error.status ?? 0, retryAfter: error.retryAfter ?? 0 };
      message.failedAt = Date.now();
      if (error.isNetwork) models.refresh();
    }
  }
  clearInterval(tick);
  message.times = {
    first: first ? Math.round(first - begin) : 0, total: Math.round(performance.now() - begin), thought: message.times?.thought ?? 0,
  };
  await end(message, chat, state);
  // Not before it is kept here.
  if (done) forget(done);
}

/// The question that an answer ends with, for those who do not see it.
function asked(message) {
  const call = openCall(message);
  return call ? t("toolAsks", { name: call.name, server: call.server }) : "";
}

function endThought(message) {
  if (!message.thoughtBegan || message.times?.thought) return;
  message.times = { ...message.times, thought: Date.now() - message.thoughtBegan };
}

async function end(message, chat, state) {
  endThought(message);
  settle(message);
  runs.delete(message.id);
  Object.assign(message, { state, isLost: false });
  delete message.response;
  chat.chat.updated = Date.now();
  if (chat === conversation) {
    views.get(message.id)?.update();
    announcer.finish(state === "error" ? explain(message.error) : state === "stopped" ? t("stopped") : asked(message));
    follow();
  } else if (state === "done") toast(t("answerReady", { title: chat.chat.title }), { action: t("show"), onaction: () => openChat(chat.chat.id) });
  composer.paint();
  history.paint();
  paintTop();
  // A chat that was deleted meanwhile is not written again.
  if (store.chats.has(chat.chat.id)) await Promise.all([saveMessages(chat.chat, [stored(message)]), saveChat(chat.chat)]);
  const isWhole = state === "done" || state === "length";
  if (chat === conversation && isWhole && !openCall(message)) sendQueued();
  if (isWhole && !runs.size) titles.plan(chat);
}

/// Without what only this page needs.
function stored({ live, isLost, wait, failedAt, ...rest }) {
  return rest;
}

/// The answer under way in the chat that is shown.
const running = () => conversation && [...runs].find(([, run]) => run.conversation === conversation);

function stop() {
  const found = running();
  if (!found) return false;
  found[1].controller.abort();
  return true;
}

/// Ends what runs: everything, or in one chat.
function stopAll(id) {
  for (const run of runs.values()) if (!id || run.conversation.chat.id === id) run.controller.abort(), (run.isUnwanted = true);
}

// MARK: What the buttons of a message do

const actions = {
  branch: (message) => conversation.branch(message),
  isAnswered: (message) => [...conversation.messages.values()].some((other) => other.parent === message.id),
  explain,
  painted: (shown) => {
    if (shown.isRunning) follow();
  },
  turn(message, step) {
    const { all, at } = conversation.branch(message);
    if (running() || !conversation.turn(message, step)) return;
    redraw();
    views.get(all[at + step].id)?.focusTurn(step);
  },
  regenerate(message) {
    if (running() || composer.isHeld()) return;
    conversation.chat.head = message.parent;
    redraw();
    respond();
  },
  retry(message) {
    if (running() || composer.isHeld()) return;
    if (message.text || message.calls?.length) return actions.regenerate(message);
    const { parent } = message;
    conversation.remove(message);
    store.removeMessages(conversation.chat, [message.id]);
    conversation.chat.head = parent;
    redraw();
    respond();
  },
  goOn(message) {
    message.isContinued = true;
    continueAnswer(message);
  },
  canRead, readAloud,
  /// What is done less often.
  more(message, button) {
    const others = models.list.filter((model) => isForChat(model) && model.id !== message.model).slice(0, 6);
    const { all } = conversation.branch(message);
    menu(button, [
      { icon: "chart", text: t("probabilities"), run: () => showTokens(message) },
      ...(all.length > 1 ? [{ icon: "columns", text: t("compareVersions"), run: () => compare(message) }] : []),
      ...others.map((model) => ({ icon: "columns", text: t("compareWith", { model: model.id }), run: () => {
        if (running() || composer.isHeld()) return;
        conversation.chat.head = message.parent;
        redraw();
        compare(message, respond(model.id));
      } })),
    ]);
  },
  /// Another version, which begins with this text.
  goOnFrom(message, text) {
    if (running() || composer.isHeld()) return;
    conversation.chat.head = message.parent;
    const other = conversation.add({ role: "assistant", text, reasoning: message.reasoning, calls: [], model: message.model, state: "stopped", isContinued: true });
    redraw();
    continueAnswer(other);
  },
  async editTo(message, text) {
    if (running() || composer.isHeld()) return;
    conversation.chat.head = message.parent;
    const other = conversation.add({ role: "user", text, files: message.files });
    await saveMessages(conversation.chat, [other]);
    redraw();
    respond();
  },
  remove(message) {
    if (running()) return;
    const head = conversation.chat.head;
    const shown = conversation;
    const gone = conversation.remove(message);
    store.removeMessages(conversation.chat, gone.map((one) => one.id));
    redraw();
    composer.focus();
    toast(t("deletedMessage"), {
      seconds: 8, action: t("undo"), onaction: async () => {
        shown.restore(gone, head);
        await saveMessages(shown.chat, gone.map(stored));
        await saveChat(shown.chat);
        if (shown === conversation) renderChat(), composer.focus();
      },
    });
  },
  /// The reader says whether a call is made; after the last word the answer goes on.
  async decide(message, call, answered) {
    if (running() || composer.isHeld()) return;
    const shown = conversation;
    const { settings } = shown.chat;
    await decide(message, call, answered, settings);
    await Promise.all([saveMessages(shown.chat, [stored(message)]), saveChat(shown.chat)]);
    if (shown !== conversation || running()) return;
    if (openCall(message)) return views.get(message.id)?.update();
    const body = responseBody(conversation.pathTo(message), settings, models.find(message.model)?.id ?? app.model);
    titles.hold();
    beginTools(message);
    Object.assign(message, { state: "streaming", error: null, isContinued: true });
    composer.focus();
    toEnd();
    run(message, (on, signal) => answer(body, on, signal));
  },
  setResult(message, call, value) {
    call.result = value;
    saveMessages(conversation.chat, [stored(message)]);
  },
  sendResults(message) {
    if (running() || composer.isHeld()) return;
    conversation.chat.head = message.id;
    views.get(message.id)?.update();
    respond();
    const shown = views.get(message.id);
    if (shown) shown.callState = null, shown.update();
  },
};

/// Two versions side by side: this one, and another.
async function compare(message, other) {
  const { all, at } = conversation.branch(message);
  const shown = conversation;
  const { openCompare } = await import("./compare.js");
  openCompare(all, [message, other ?? all[at ? at - 1 : 1]], {
    viewOf: (one, name) => view(one, name).node,
    keep: (one) => (shown.chat.head = shown.leaf(one).id),
    onclose: () => shown === conversation && redraw(),
  });
}

async function showTokens(message) {
  const painted = views.get(message.id);
  try {
    const { tokensOf, tokensView } = await import("./probabilities.js");
    const close = toast(t("scoring"), { seconds: 600 });
    const tokens = await tokensOf(conversation.pathTo(message), conversation.chat.settings, models.find(message.model)?.id ?? app.model).finally(close);
    if (!tokens) return refuse(t("noProbabilities"));
    painted.showInstead(tokensView(tokens, { name: message.id, goOn: (text) => actions.goOnFrom(message, text), close: () => painted.showInstead(null) }));
  } catch (error) {
    refuse(explain(error));
  }
}

function redraw() {
  const { scrollTop } = $("scroll");
  renderChat();
  $("scroll").scrollTop = scrollTop;
  saveChat();
}

function editLast() {
  const last = conversation.path.findLast((message) => message.role === "user");
  if (!last || running()) return false;
  views.get(last.id)?.edit();
  return true;
}

/// An error in the reader's language where its cause is known, else the server's own words.
function explain(error) {
  if (!error) return "";
  if (!error.status && !error.code) return t("errorNetwork");
  const known = { invalid_api_key: "errorKey", loading: "errorLoading", model_loading: "errorLoading" }[error.code];
  if (known) return t(known);
  if (error.status === 429) return t("errorBusy");
  if (error.code === "context_length_exceeded") return `${t("errorContext")} ${error.message}`;
  return error.message;
}

// MARK: Scrolling

const scroller = $("scroll");

function follow() {
  if (isFollowing) scroller.scrollTop = scroller.scrollHeight;
  $("to-end").hidden = isFollowing;
}

/// To the end, and again after what is outside the window has got its true height.
function toEnd() {
  isFollowing = true;
  follow();
  for (const wait of [0, 60]) setTimeout(follow, wait);
}

scroller.addEventListener("scroll", () => {
  const distance = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
  isFollowing = distance < nearEnd;
  $("to-end").hidden = distance < 120;
}, { passive: true });
// A reader who turns the wheel up means it, whatever is painted at this moment.
scroller.addEventListener("wheel", (event) => {
  if (event.deltaY < 0 && scroller.scrollHeight > scroller.clientHeight) isFollowing = false;
}, { passive: true });
on("temporary", "click", () => setTemporary(!conversation.chat.isTemporary));
on("to-end", "click", () => (toEnd(), composer.focus()));
new ResizeObserver(() => follow()).observe(scroller);

// MARK: Above and below the conversation

function chooseModel(id) {
  conversation.chat.model = id;
  if (!conversation.isEmpty) saveChat();
  store.setValue("model", id).catch(() => {});
  paintTop();
  composer.paint();
}

function paintTop() {
  const model = models.find(app.model);
  const state = models.state !== "ready" ? models.state : model?.status.value ?? "none";
  const button = $("model");
  button.dataset.state = state;
  $("model-name").textContent = app.model || t(models.state === "ready" ? "noModel" : "model");
  button.title = t(`state_${state}`);
  button.ariaLabel = `${t("model")}: ${app.model} – ${t(`state_${state}`)}`;
  $("hello-more").textContent = { loading: `${t("helloLoading")} ${model ? models.progress(model) : ""}`, unloaded: t("helloUnloaded") }[state] ?? "";
  $("temporary").hidden = !conversation?.isEmpty;
  $("temporary").ariaPressed = String(Boolean(conversation?.chat.isTemporary));
  paintBanner();
  paintContext(model);
}

function paintBanner() {
  const { state, part } = models;
  const [what, amount] = models.words.split(": ");
  const text = { down: t("bannerDown"), loading: what || t("waitLoading"), locked: t("bannerLocked") }[state];
  const banner = $("banner");
  banner.hidden = !text;
  if (!text) return;
  banner.className = `banner ${state}`;
  // What is said aloud is said once; how far it is changes beside it.
  if (banner.firstChild?.textContent !== text) {
    banner.replaceChildren(el("span", text), state === "locked"
      ? el("button.link", { onclick: askForKey }, t("enterKey")) : el("span.row", { "aria-hidden": "true" }));
  }
  if (state === "loading") {
    banner.lastChild.replaceChildren(...(part >= 0 ? [el("progress", { value: part })] : []), amount ?? models.progress());
  }
}

function paintContext(model) {
  const last = conversation?.path.findLast((message) => message.usage);
  const most = model?.context_length;
  const box = $("context");
  box.hidden = !last || !most;
  if (box.hidden) return;
  const used = last.usage.prompt + last.usage.output;
  const part = Math.min(1, used / most);
  box.classList.toggle("amber", part >= 0.8);
  box.firstChild.firstChild.style.width = `${part * 100}%`;
  $("context-text").textContent = `${number(used)} / ${number(most)}`;
  box.title = t("contextTitle");
}

models.onchange = () => {
  paintTop();
  composer.paint();
};

// MARK: The key

onUnauthorized.call = () => {
  models.state = "locked";
  paintTop();
  askForKey();
};

function askForKey() {
  if (document.querySelector("dialog.key")) return;
  const box = el("input", { type: "password", name: "key", autocomplete: "off", spellcheck: "false", required: true, class: "wide-input" });
  const keep = el("input", { type: "checkbox" });
  const form = el("form", {
    method: "dialog", class: "form", onsubmit: (event) => {
      event.preventDefault();
      key.set(box.value.trim(), keep.checked);
      node.close();
      models.refresh();
    },
  }, el("p", key.get() ? t("keyWrong") : t("bannerLocked")), field(t("key"), box),
  el("label.check", keep, el("span", t("keyKeep"))), el("p.muted", t("keyWarning")),
  el("div.row.end", el("button.button.primary", { type: "submit" }, t("useKey"))));
  const node = dialog(t("keyTitle"), form);
  node.classList.add("key");
  box.focus();
}

// MARK: Start

store.onchange = async (change) => {
  history.paint();
  // Another tab has changed the chat that is shown; what runs here is not disturbed.
  if (change.chat !== conversation?.chat.id || running() || document.activeElement?.closest(".edit, .call")) return;
  const found = await Conversation.open(change.chat);
  if (!found) return;
  const head = conversation.messages.has(conversation.chat.head) ? found.leaf(found.messages.get(conversation.chat.head) ?? found.path.at(-1))?.id : null;
  conversation = found;
  if (head) conversation.chat.head = head;
  renderChat();
};

async function begin() {
  for (const [id, name] of [["side-close", "close"], ["side-open", "menu"], ["open-keys", "keyboard"], ["tune", "tune"], ["temporary", "ghost"], ["dictate", "dictate"], ["queue", "send"], ["new-chat-top", "plus"], ["attach", "clip"], ["camera", "camera"], ["microphone", "microphone"], ["to-end", "down"], ["open-notes", "notes"], ["use-notes", "notes"], ["use-tools", "tool"], ["theme", "sun"]]) $(id).append(icon(name));
  document.querySelector("#new-chat .slot").append(icon("plus"));
  document.querySelector(".search .slot").append(icon("search"));
  document.querySelector("#open-settings .slot").append(icon("gear"));
  document.querySelector("#model .slot").append(icon("chevron"));
  const chosen = local.get("language");
  const [words] = await Promise.allSettled([setLanguage(chosen ?? preferred()), store.open()]);
  if (words.status === "rejected") console.warn("The words of the page could not be read.");
  if (!store.isKept) toast(t("notKept"), { seconds: 10 });
  conversation = Conversation.empty(store.value("model", ""), {});
  models.refresh();
  const id = /^#chat=([\w-]{1,64})$/.exec(location.hash)?.[1];
  if (id && store.chats.has(id)) await openChat(id);
  else newChat();
  const question = new URLSearchParams(location.search).get("q");
  // Filled in, never sent: a link of somebody else must not speak for the reader.
  if (question) composer.fill(question.slice(0, 20_000));
  document.addEventListener("visibilitychange", () => !document.hidden && models.refresh());
  addEventListener("online", () => models.refresh());
  addEventListener("hashchange", () => {
    const other = /^#chat=([\w-]{1,64})$/.exec(location.hash)?.[1];
    if (other && other !== conversation.chat.id) openChat(other);
  });
  setInterval(() => models.state !== "ready" && paintBanner(), 1000);
  later(() => Promise.all([store.prepareSearch(), composer.prepare()]).catch(() => {}));
  document.documentElement.dataset.ready = language;
}

begin();
