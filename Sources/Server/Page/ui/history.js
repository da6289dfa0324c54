// The chats at the side: pinned ones first, then folders, then by day; with search, a menu for each, and work on several at once.

import { $, dialog, el, field, icon, iconButton, menu, on, toast } from "./dom.js";
import { local } from "./storage.js";
import { Conversation } from "./conversation.js";
import { store } from "./store.js";
import { conversationMarkdown, download } from "./files.js";
import { day, number, t } from "./words.js";

/// Rows of the list that are made at once.
const shownAtOnce = 200;

export class History {
  constructor(app) {
    this.app = app;
    this.limit = shownAtOnce;
    /// The ids of chosen chats while several are worked on, else null.
    this.chosen = null;
    this.closedFolders = new Set((local.get("closed folders") ?? "").split("\n").filter(Boolean));
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
    const counts = Map.groupBy?.(rows, ({ chat }) => chat.folder ?? "") ?? new Map();
    for (const { chat, snippet } of rows.slice(0, this.limit)) {
      const isInFolder = !query && !chat.pinned && Boolean(chat.folder);
      const name = query ? t("found") : chat.pinned ? t("pinned") : chat.folder || day(chat.updated);
      if (name !== group) {
        group = name;
        list = el("ul.chats", { hidden: isInFolder && this.closedFolders.has(name) });
        nodes.push(isInFolder ? this.folderHead(name, counts.get(name)?.length) : el("h2.group", name), list);
      }
      list.append(this.row(chat, snippet));
    }
    if (!rows.length) nodes.push(el("p.nothing", query ? t("nothingFound") : t("noChats")));
    if (rows.length > this.limit) {
      nodes.push(el("button.link.more", { onclick: () => ((this.limit += shownAtOnce), this.paint()) }, t("showMore")));
    }
    const focused = document.activeElement?.closest?.("#list a")?.hash;
    if (this.chosen) nodes.unshift(this.chosenBar());
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
        if (this.chosen) this.choose(chat, !this.chosen.has(chat.id));
        else this.app.openChat(chat.id);
      },
    }, el("span.chat-title", title), snippet ? el("span.snippet", snippet[0], el("mark", snippet[1]), snippet[2]) : null);
    const more = iconButton("more", t("moreOf", { title }), () => this.menu(chat, more), { "aria-haspopup": "menu", "aria-expanded": "false" });
    const box = this.chosen && el("input.choose", {
      type: "checkbox", checked: this.chosen.has(chat.id), "aria-label": t("chooseChat", { title }), onchange: (event) => this.choose(chat, event.target.checked),
    });
    return el("li", { class: isCurrent ? "chat current" : "chat" }, box, link,
      this.app.isBusy(chat.id) ? el("span.busy-dot", { title: t("answering") }) : chat.pinned ? icon("pin") : null, box ? null : more);
  }

  // MARK: Folders

  /// The name of a folder, which opens and closes it.
  folderHead(name, count) {
    const isClosed = this.closedFolders.has(name);
    const more = iconButton("more", t("moreOf", { title: name }), () => menu(more, [
      { icon: "edit", text: t("rename"), run: () => this.askFolder(t("rename"), name, (wanted) => this.moveAll(this.inFolder(name), wanted)) },
      { icon: "close", text: t("dissolve"), run: () => this.moveAll(this.inFolder(name), "") },
    ]), { "aria-haspopup": "menu", "aria-expanded": "false" });
    return el("div.folder", el("h2.group", el("button", {
      "aria-expanded": String(!isClosed), onclick: () => {
        if (!this.closedFolders.delete(name)) this.closedFolders.add(name);
        local.set("closed folders", [...this.closedFolders].join("\n"));
        this.paint();
      },
    }, icon("folder"), el("span", { dir: "auto" }, name), el("span.folder-count", count === undefined ? "" : number(count)))), more);
  }

  inFolder(name) { return [...store.chats.values()].filter((chat) => chat.folder === name); }

  /// Asks for the name of a folder: one that is there, or a new one.
  askFolder(title, value, done) {
    const names = [...new Set([...store.chats.values()].map((chat) => chat.folder).filter(Boolean))];
    const box = el("input", { type: "text", value, maxlength: 60, list: "folders", dir: "auto", autocomplete: "off", placeholder: t("noFolder") });
    const form = el("form.form", {
      method: "dialog", onsubmit: (event) => (event.preventDefault(), node.close(), done(box.value.trim().slice(0, 60))),
    }, field(t("folder"), box), el("datalist", { id: "folders" }, names.map((name) => el("option", { value: name }))),
    el("div.row.end", el("button.button.primary", { type: "submit" }, title)));
    const node = dialog(title, form);
    box.focus();
    box.select();
  }

  async moveAll(chats, folder) {
    for (const chat of chats) await this.app.saveChat(Object.assign(chat, { folder }));
    this.chosen = null;
    this.paint();
  }

  // MARK: Several at once

  choose(chat, isChosen) {
    if (isChosen) this.chosen.add(chat.id);
    else this.chosen.delete(chat.id);
    this.paint();
  }

  chosenBar() {
    const chats = [...this.chosen].map((id) => store.chats.get(id)).filter(Boolean);
    const end = () => ((this.chosen = null), this.paint());
    const all = $("search").value.trim() ? store.search($("search").value).map(({ chat }) => chat) : [...store.chats.values()];
    return el("div.chosen", { role: "group", "aria-label": t("chosen", { count: chats.length }) },
      el("span.grow", t("chosen", { count: chats.length })),
      iconButton("check", t("chooseAll"), () => ((this.chosen = new Set(all.map((chat) => chat.id))), this.paint())),
      iconButton("folder", t("move"), () => this.askFolder(t("move"), "", (name) => this.moveAll(chats, name)), { disabled: !chats.length }),
      iconButton("trash", t("delete"), () => ((this.chosen = null), this.removeAll(chats)), { disabled: !chats.length }),
      iconButton("close", t("cancel"), end));
  }

  menu(chat, button) {
    menu(button, [
      { icon: "pin", text: chat.pinned ? t("unpin") : t("pin"), run: () => this.change(chat, { pinned: !chat.pinned }) },
      { icon: "edit", text: t("rename"), run: () => this.rename(chat) },
      { icon: "folder", text: t("moveTo"), run: () => this.askFolder(t("move"), chat.folder ?? "", (folder) => this.moveAll([chat], folder)) },
      { icon: "check", text: t("choose"), run: () => ((this.chosen = new Set([chat.id])), this.paint()) },
      { icon: "save", text: t("exportHTML"), run: async () => {
        const { conversationHTML } = await import("./export.js");
        download(`${chat.title || "chat"}.html`, "text/html", conversationHTML(await Conversation.open(chat.id)));
      } },
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

  remove(chat) { return this.removeAll([chat]); }

  /// Deletes chats; all come back while the toast is there.
  async removeAll(chats) {
    const messages = new Map();
    for (const chat of chats) {
      this.app.stopAll(chat.id);
      messages.set(chat, await store.messages(chat.id));
      await store.removeChat(chat.id);
      if (chat.id === this.app.conversation.chat.id) this.app.newChat();
    }
    this.paint();
    if (document.activeElement === document.body) $("new-chat").focus();
    toast(chats.length === 1 ? t("deletedChat", { title: chats[0].title }) : t("deletedChats", { count: chats.length }), {
      seconds: 8, action: t("undo"), onaction: async () => {
        for (const chat of chats) {
          await store.saveChat(chat);
          await store.saveMessages(chat, messages.get(chat));
        }
        await this.paint();
        // On a phone the panel may be away, or on its way there: then its links lose the focus again.
        const isAway = this.isNarrow && !$("side").classList.contains("open");
        ((isAway ? null : this.link(chats[0])) ?? $("box")).focus();
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
