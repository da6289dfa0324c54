// The chats at the side: by day, pinned ones first, with search, and a menu for each.

import { $, el, icon, iconButton, menu, on, toast } from "./dom.js";
import { local } from "./storage.js";
import { Conversation } from "./conversation.js";
import { store } from "./store.js";
import { conversationMarkdown, download } from "./files.js";
import { day, t } from "./words.js";

/// Rows of the list that are made at once.
const shownAtOnce = 200;

export class History {
  constructor(app) {
    this.app = app;
    this.limit = shownAtOnce;
    on("new-chat", "click", () => app.newChat());
    on("new-chat-top", "click", () => app.newChat());
    on("side-open", "click", () => this.open());
    on("side-close", "click", () => this.hide());
    on("scrim", "click", () => this.close());
    on("search", "focus", () => store.prepareSearch().catch(() => {}));
    on("search", "input", () => this.search());
    on("search", "keydown", (event) => {
      if (event.key === "ArrowDown") event.preventDefault(), $("list").querySelector("a")?.focus();
      if (event.key === "Escape" && $("search").value) event.stopPropagation(), ($("search").value = ""), this.paint();
    });
    on("list", "keydown", (event) => this.move(event));
  }

  get isNarrow() { return matchMedia("(max-width: 800px)").matches; }

  open() {
    delete document.documentElement.dataset.side;
    local.set("side", "open");
    if (!this.isNarrow) return $("search").focus();
    $("side").classList.add("open");
    $("scrim").hidden = false;
    $("side-close").focus();
  }

  /// Puts the panel away on a phone; elsewhere it stays.
  close() {
    $("side").classList.remove("open");
    $("scrim").hidden = true;
  }

  hide() {
    this.close();
    if (!this.isNarrow) {
      document.documentElement.dataset.side = "closed";
      local.set("side", "closed");
    }
    $("side-open").focus();
  }

  async search() {
    await store.prepareSearch().catch(() => store.giveUpSearch());
    await this.paint();
  }

  paint() {
    const query = $("search").value.trim();
    // What was changed since has to be read again.
    if (query && !store.isSearchReady) return this.search();
    const rows = query ? store.search(query) : store.sorted.map((chat) => ({ chat }));
    const nodes = [];
    let group = null;
    let list = null;
    for (const { chat, snippet } of rows.slice(0, this.limit)) {
      const name = query ? t("found") : chat.pinned ? t("pinned") : day(chat.updated);
      if (name !== group) {
        group = name;
        list = el("ul.chats");
        nodes.push(el("h2.group", name), list);
      }
      list.append(this.row(chat, snippet));
    }
    if (!rows.length) nodes.push(el("p.nothing", query ? t("nothingFound") : t("noChats")));
    if (rows.length > this.limit) {
      nodes.push(el("button.link.more", { onclick: () => ((this.limit += shownAtOnce), this.paint()) }, t("showMore")));
    }
    const focused = document.activeElement?.closest?.("#list a")?.hash;
    $("list").replaceChildren(...nodes);
    if (focused) [...$("list").querySelectorAll("a")].find((link) => link.hash === focused)?.focus();
  }

  row(chat, snippet) {
    const isCurrent = chat.id === this.app.conversation?.chat.id;
    const title = chat.title || t("untitled");
    const link = el("a", {
      href: `#chat=${chat.id}`, "aria-current": isCurrent ? "page" : null, title, dir: "auto",
      onclick: (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        this.app.openChat(chat.id);
      },
    }, el("span.chat-title", title), snippet ? el("span.snippet", snippet[0], el("mark", snippet[1]), snippet[2]) : null);
    const more = iconButton("more", t("moreOf", { title }), () => this.menu(chat, more), { "aria-haspopup": "menu", "aria-expanded": "false" });
    return el("li", { class: isCurrent ? "chat current" : "chat" }, link,
      this.app.isBusy(chat.id) ? el("span.busy-dot", { title: t("answering") }) : chat.pinned ? icon("pin") : null, more);
  }

  menu(chat, button) {
    menu(button, [
      { icon: "pin", text: chat.pinned ? t("unpin") : t("pin"), run: () => this.change(chat, { pinned: !chat.pinned }) },
      { icon: "edit", text: t("rename"), run: () => this.rename(chat) },
      { icon: "save", text: t("exportMarkdown"), run: async () => download(`${chat.title || "chat"}.md`, "text/markdown", conversationMarkdown(await Conversation.open(chat.id))) },
      { icon: "save", text: t("exportJSON"), run: async () => download(`${chat.title || "chat"}.json`, "application/json", await store.exported([chat.id])) },
      { icon: "trash", text: t("delete"), isDanger: true, run: () => this.remove(chat) },
    ]);
  }

  async change(chat, members) {
    Object.assign(chat, members);
    await this.app.saveChat(chat);
    await this.paint();
  }

  link(chat) { return $("list").querySelector(`a[href="#chat=${chat.id}"]`); }

  rename(chat) {
    const item = this.link(chat)?.parentElement;
    if (!item) return;
    let isDone = false;
    const finish = async (isKept) => {
      if (isDone) return;
      isDone = true;
      const hadFocus = document.activeElement === box;
      const title = box.value.trim().slice(0, 200);
      if (isKept && title) {
        await this.change(chat, { title, hasOwnTitle: true });
        if (chat.id === this.app.conversation.chat.id) this.app.renderChat();
      } else this.paint();
      if (hadFocus) this.link(chat)?.focus();
    };
    const box = el("input.rename", {
      value: chat.title, "aria-label": t("rename"), dir: "auto", onblur: () => finish(true), onkeydown: (event) => {
        if (event.isComposing) return;
        if (event.key === "Enter") finish(true);
        if (event.key === "Escape") event.stopPropagation(), finish(false);
      },
    });
    item.replaceChildren(box);
    box.focus();
    box.select();
  }

  async remove(chat) {
    this.app.stopAll(chat.id);
    const messages = await store.messages(chat.id);
    await store.removeChat(chat.id);
    if (chat.id === this.app.conversation.chat.id) this.app.newChat();
    this.paint();
    if (document.activeElement === document.body) $("new-chat").focus();
    toast(t("deletedChat", { title: chat.title }), {
      seconds: 8, action: t("undo"), onaction: async () => {
        await store.saveChat(chat);
        await store.saveMessages(chat, messages);
        await this.paint();
        // On a phone the panel may be away, or on its way there: then its links lose the focus again.
        const isAway = this.isNarrow && !$("side").classList.contains("open");
        ((isAway ? null : this.link(chat)) ?? $("box")).focus();
      },
    });
  }

  move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.target.tagName !== "A") return;
    event.preventDefault();
    const links = [...$("list").querySelectorAll("a")];
    const next = links[links.indexOf(event.target) + step];
    if (next) next.focus();
    else if (step < 0) $("search").focus();
  }
}
