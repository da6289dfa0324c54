// Building of DOM nodes. Text becomes text nodes, and nothing else: there is no way from a string to markup.

import { t } from "./words.js";

/// An element, as in `el("p.note.wide", { title: "…" }, "text")`: classes, then properties if there are any, then what is
/// in it. Properties that begin with `on` are listeners; null, undefined and false are left out.
export function el(tag, ...children) {
  const [name, ...classes] = tag.split(".");
  const node = document.createElement(name);
  if (classes.length) node.className = classes.join(" ");
  // In a form it would send that.
  if (name === "button") node.type = "button";
  const properties = children[0]?.constructor === Object ? children.shift() : {};
  for (const [name, value] of Object.entries(properties)) {
    if (isNothing(value)) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || (name in node && typeof value !== "string")) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => !isNothing(child)));
  return node;
}

const isNothing = (value) => value === null || value === undefined || value === false;

export const $ = (id) => document.getElementById(id);
export const on = (id, type, act) => $(id).addEventListener(type, act);

const icons = {
  menu: "M4 7h16M4 12h16M4 17h10",
  plus: "M12 5v14M5 12h14",
  send: "M12 19V6M6 11.5 12 5.5l6 6",
  stop: "M8 8h8v8H8z",
  copy: "M9 9h10v11H9zM5 15V4h10",
  check: "M5 12.5 10 17.5 19 7",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  again: "M20 12a8 8 0 1 1-2.5-5.8M20 4v4.5h-4.5",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5",
  pin: "M9 4h6l-1 6 3 3H7l3-3zM12 13v7",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4",
  tune: "M4 8h9M17 8h3M15 6v4M4 16h3M11 16h9M9 14v4",
  gear: "M12 15.2a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4zM19 12a7 7 0 0 0-.1-1.2l1.9-1.5-1.9-3.3-2.3.9a7 7 0 0 0-2-1.2L14.2 3.3h-4.4l-.4 2.4a7 7 0 0 0-2 1.2l-2.3-.9-1.9 3.3 1.9 1.5a7 7 0 0 0 0 2.4l-1.9 1.5L5.1 18l2.3-.9a7 7 0 0 0 2 1.2l.4 2.4h4.4l.4-2.4a7 7 0 0 0 2-1.2l2.3.9 1.9-3.3-1.9-1.5A7 7 0 0 0 19 12z",
  microphone: "M12 15a3 3 0 0 0 3-3V6a3 3 0 0 0-6 0v6a3 3 0 0 0 3 3zM6 11.5a6 6 0 0 0 12 0M12 17.5V21",
  clip: "M19 11.5 12 18.5a4.5 4.5 0 0 1-6.4-6.4L12.5 5.2a3 3 0 0 1 4.3 4.3l-6.9 6.8a1.5 1.5 0 0 1-2.1-2.1l6.2-6.2",
  camera: "M4 8h4l1.5-2.5h5L16 8h4v11H4zM12 16.5a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4z",
  close: "M6 6l12 12M18 6 6 18",
  down: "M12 5v13M6 12.5l6 6 6-6",
  chevron: "M7 10l5 5 5-5",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  save: "M12 4v11M7 10.5l5 5 5-5M5 20h14",
  open: "M12 16V5M7 9.5l5-5 5 5M5 20h14",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6 7 7M17 17l1.4 1.4M18.4 5.6 17 7M7 17l-1.4 1.4",
  moon: "M19.5 14A8 8 0 0 1 10 4.5a8 8 0 1 0 9.5 9.5z",
  system: "M4 5h16v11H4zM9 20h6M12 16v4",
  keyboard: "M3 6.5h18v11H3zM7 10.5h.01M12 10.5h.01M17 10.5h.01M8 14h8",
  go: "M5 5v6a4 4 0 0 0 4 4h10M15 11l4 4-4 4",
  wrap: "M4 6h16M4 12h13a3 3 0 0 1 0 6h-4M15 15.5 12.5 18l2.5 2.5M4 18h4",
  folder: "M3.5 6.5h6l2 2.5h9v10h-17z",
  chart: "M5 20V11M10 20V5M15 20v-7M20 20V8",
  columns: "M4 5h7v14H4zM13 5h7v14h-7z",
  ghost: "M5.5 20V11a6.5 6.5 0 0 1 13 0v9l-2.2-1.6L14.2 20 12 18.4 9.8 20l-2.1-1.6zM9.5 11h.01M14.5 11h.01",
  dictate: "M4 6.5h16v10h-9l-4 3.5v-3.5H4zM8 10h8M8 13h5",
  speak: "M4 9.5v5h3.5L12 18.5v-13L7.5 9.5zM15.5 9a4 4 0 0 1 0 6M18 6.5a8 8 0 0 1 0 11",
  file: "M6 3.5h8l4 4v13H6zM14 3.5v4h4",
  sound: "M9 18a2.5 2.5 0 1 1-2.5-2.5A2.5 2.5 0 0 1 9 18zM9 18V6l10-2v12M19 16a2.5 2.5 0 1 1-2.5-2.5A2.5 2.5 0 0 1 19 16z",
  tool: "M14.5 6.5a4 4 0 0 1 5-2l-2.7 2.7 1 2 2 1L22 8a4 4 0 0 1-5.3 5L9 20.5A2.1 2.1 0 0 1 6 17.5l7.6-7.6a4 4 0 0 1 .9-3.4z",
  thought: "M9 18h6M10 21h4M12 3a6 6 0 0 0-3.5 10.9V16h7v-2.1A6 6 0 0 0 12 3z",
  notes: "M6 4h12v16H6zM9 8h6M9 12h6M9 16h3",
  eye: "M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12zM12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6z",
  eject: "M6 14l6-7 6 7zM6 18h12",
};

/// A line drawing of 24 units, in the colour of its text.
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", icons[name]);
  svg.append(path);
  return svg;
}

/// A button that is an icon; its name is read aloud and shown as a tooltip.
export function iconButton(name, label, onclick, properties = {}) {
  return el("button.icon-button", { "aria-label": label, title: label, onclick, ...properties }, icon(name));
}

/// Something to fill in, below what it is.
export const field = (text, ...content) => el("label.field", el("span", text), ...content);

export const isTouch = () => matchMedia("(pointer: coarse)").matches;

/// Whether a key press sends what was written: Enter alone, on a touch screen Enter with Ctrl. Enter that ends a composition of
/// an input method sends nothing; 229 is what older browsers say.
export const sends = (event) => event.key === "Enter" && !event.isComposing && event.keyCode !== 229 && !event.shiftKey && !event.altKey
  && (!isTouch() || event.ctrlKey || event.metaKey);

/// A button that copies what `text` gives, and says with a check mark that it has.
export function copyButton(label, text) {
  const button = iconButton("copy", label, async () => {
    if (!(await copyText(text()))) return;
    button.replaceChildren(icon("check"));
    setTimeout(() => button.replaceChildren(icon("copy")), 1500);
  });
  return button;
}

/// Puts text into the clipboard; where pages may not (an address without TLS), by the old way.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea.visually-hidden", { value: text, "aria-hidden": "true", tabindex: -1 });
    const focused = document.activeElement;
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    focused?.focus?.();
    return isDone;
  }
}

/// A short word at the lower edge; `action` is one thing that can be done about it.
export function toast(text, { action, onaction, seconds = 4 } = {}) {
  const note = el("div.toast", el("span", text));
  const close = () => note.remove();
  if (action) note.append(el("button.link", { onclick: () => (close(), onaction()) }, action));
  $("toasts").append(note);
  // Whoever is at it has time.
  let timer = setTimeout(close, seconds * 1000);
  for (const type of ["pointerenter", "focusin"]) note.addEventListener(type, () => clearTimeout(timer));
  for (const type of ["pointerleave", "focusout"]) note.addEventListener(type, () => (timer = setTimeout(close, seconds * 1000)));
  return close;
}

/// A modal dialog with a title. Leaves the document when it is closed.
export function dialog(title, content, { wide = false, onclose } = {}) {
  const node = el(wide ? "dialog.wide" : "dialog", { "aria-label": title },
    el("div.dialog-head", el("h2", title), iconButton("close", t("close"), () => node.close())),
    el("div.dialog-body", content));
  node.addEventListener("close", () => (node.remove(), onclose?.()));
  node.addEventListener("click", (event) => {
    if (event.target === node) node.close();
  });
  document.body.append(node);
  node.showModal();
  return node;
}

/// A small menu below a button.
export function menu(button, items) {
  const node = el("div.menu", { popover: "auto", role: "menu" }, items.map((item) =>
    el(item.isDanger ? "button.menu-item.danger" : "button.menu-item", {
      role: "menuitem", onclick: () => (node.hidePopover(), item.run()),
    }, icon(item.icon), el("span", item.text))));
  node.addEventListener("toggle", (event) => {
    if (event.newState === "closed") {
      node.remove();
      button.ariaExpanded = "false";
      if (document.activeElement === document.body) button.focus();
    }
  });
  node.addEventListener("keydown", (event) => {
    const all = [...node.children];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    all[(all.indexOf(document.activeElement) + step + all.length) % all.length].focus();
  });
  (button.closest("nav, header, section") ?? document.body).append(node);
  node.showPopover();
  const place = button.getBoundingClientRect();
  const size = node.getBoundingClientRect();
  node.style.left = `${Math.max(8, Math.min(place.right - size.width, innerWidth - size.width - 8))}px`;
  node.style.top = `${place.bottom + size.height + 8 > innerHeight ? Math.max(8, place.top - size.height - 4) : place.bottom + 4}px`;
  button.ariaExpanded = "true";
  node.firstChild?.focus();
}
