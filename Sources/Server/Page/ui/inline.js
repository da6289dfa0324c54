// Inline Markdown: emphasis by CommonMark's delimiter runs, code, links, autolinks, strikethrough, formulas, notes and the few
// elements of HTML that models write in text.

import { el } from "./dom.js";
import { math, pairs } from "./math.js";
import { sourceMark } from "./tools.js";
import { t } from "./words.js";

const entities = pairs(`amp:& lt:< gt:> quot:" apos:' copy:© reg:® trade:™ hellip:… mdash:— ndash:– laquo:« raquo:» times:× divide:÷ deg:°
plusmn:± le:≤ ge:≥ ne:≠ rarr:→ larr:← uarr:↑ darr:↓ hArr:⇔ rArr:⇒ euro:€ pound:£ cent:¢ yen:¥ sect:§ para:¶ middot:·
bull:• infin:∞ sum:∑ alpha:α beta:β gamma:γ delta:δ pi:π micro:µ frac12:½ frac14:¼ frac34:¾ sup2:² sup3:³ auml:ä
ouml:ö uuml:ü Auml:Ä Ouml:Ö Uuml:Ü szlig:ß eacute:é egrave:è agrave:à ccedil:ç ntilde:ñ`).set("nbsp", "\u00a0");
const bidi = /[\u202a-\u202e\u2066-\u2069\u200e\u200f]/;
const punctuation = /[\p{P}\p{S}]/u;
/// Elements of emphasis inside each other, and characters of one run; more is text.
const deepest = 20;
const longestRun = 40;

/// The address if it may be a link: http, https or mail. Nothing else, no relative one either.
export function safeAddress(text) {
  const address = text.trim();
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return null;
  try {
    const url = new URL(address);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url : null;
  } catch {
    return null;
  }
}

/// A link that says where it goes when its text says something else.
function link(url, content) {
  const node = el("a", {
    href: url.href, target: "_blank", rel: "noopener noreferrer nofollow", title: url.href, dir: "auto",
  }, content);
  const text = node.textContent;
  const looksLikeHost = /^\s*(https?:\/\/)?([\p{L}\d-]+\.)+\p{L}{2,}([/?#:]\S*)?\s*$/u.test(text);
  const host = url.hostname || url.pathname;
  if (bidi.test(text) || (looksLikeHost && !text.toLowerCase().includes(host.toLowerCase()))) {
    node.append(el("span.host", ` (${host})`));
  }
  return node;
}

function decodeEntity(text, at) {
  const found = /^&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([A-Za-z][A-Za-z\d]{1,31}));/.exec(text.slice(at, at + 40));
  if (!found) return null;
  let value = found[3] !== undefined ? entities.get(found[3]) ?? null : null;
  if (found[3] === undefined) {
    const code = found[1] !== undefined ? Number(found[1]) : parseInt(found[2], 16);
    value = code === 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? "\ufffd" : String.fromCodePoint(code);
  }
  return value === null ? null : { value, length: found[0].length };
}

const unescape = (text) => {
  let out = "";
  for (let at = 0; at < text.length; at++) {
    const entity = text[at] === "&" ? decodeEntity(text, at) : null;
    if (text[at] === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) out += text[++at];
    else if (entity) out += entity.value, at += entity.length - 1;
    else out += text[at];
  }
  return out;
};

/// The nodes of a paragraph's text.
export const inline = (text, definitions) => new InlineReader(text, definitions).read();

/// Reads one text from left to right. Delimiters are text nodes until they have found their partners.
class InlineReader {
  constructor(text, definitions) {
    this.text = text;
    this.definitions = definitions;
    this.at = 0;
    this.plain = "";
    this.root = new DocumentFragment();
    this.delimiters = [];
    this.brackets = [];
    /// Backtick runs and elements that have no end further on: looked for once.
    this.lonely = new Set();
  }

  read() {
    while (this.at < this.text.length) {
      if (this.readOne()) continue;
      this.plain += this.text[this.at++];
    }
    this.flush();
    this.emphasise(0);
    return this.root;
  }

  flush() {
    if (this.plain) this.root.append(new Text(this.plain));
    this.plain = "";
  }

  push(node) {
    this.flush();
    this.root.append(node);
    return true;
  }

  readOne() {
    switch (this.text[this.at]) {
      case "\\": return this.readBackslash();
      case "`": return this.readCode();
      case "$": return this.readDollars();
      case "*": case "_": case "~": return this.readRun();
      case "<": return this.readElement() || this.readAutolink();
      case "[": return this.readNote() || this.openBracket(1);
      case "!": return this.text[this.at + 1] === "[" && this.openBracket(2);
      case "]": return this.closeBracket();
      case "&": return this.readEntity();
      case "\n": return this.readBreak();
      case "h": case "w": return this.readBareLink();
      case "\ue200": return this.readSource();
      default: return false;
    }
  }

  readBackslash() {
    const next = this.text[this.at + 1] ?? "";
    if (next === "\n") return this.at += 2, this.push(el("br"));
    if (next === "(" || next === "[") {
      const end = this.text.indexOf(next === "(" ? "\\)" : "\\]", this.at + 2);
      if (end > 0 && end - this.at < 2000) {
        const node = math(this.text.slice(this.at + 2, end), next === "[");
        return this.at = end + 2, this.push(node);
      }
    }
    if (!/[!-/:-@[-`{-~]/.test(next)) return false;
    this.plain += next;
    this.at += 2;
    return true;
  }

  readCode() {
    const run = /^`+/.exec(this.text.slice(this.at, this.at + 100))[0];
    let end = -1;
    if (!this.lonely.has(run.length)) {
      end = this.at + run.length;
      for (;;) {
        end = this.text.indexOf(run, end);
        if (end < 0) break;
        let length = run.length;
        while (this.text[end + length] === "`") length++;
        if (length === run.length) break;
        end += length;
      }
    }
    if (end < 0) {
      this.lonely.add(run.length);
      this.plain += run;
      this.at += run.length;
      return true;
    }
    let code = this.text.slice(this.at + run.length, end).replaceAll("\n", " ");
    if (/^ .*[^ ].* $/.test(code) || /^ [^ ] $/.test(code)) code = code.slice(1, -1);
    this.at = end + run.length;
    return this.push(el("code", code));
  }

  /// `$$…$$`, and `$…$` where it cannot be two prices: no space inside the marks, no digit after them.
  readDollars() {
    if (this.text[this.at + 1] === "$") {
      const end = this.text.indexOf("$$", this.at + 2);
      if (end < 0 || end === this.at + 2 || end - this.at > 4000) return this.plain += "$$", this.at += 2, true;
      const node = math(this.text.slice(this.at + 2, end), true);
      return this.at = end + 2, this.push(node);
    }
    const found = /^\$([^\s$](?:[^$\n]{0,300}?[^\s$\\])?)\$(?![\d\w])/.exec(this.text.slice(this.at, this.at + 320));
    if (!found || /[\w]/.test(this.text[this.at - 1] ?? "")) return false;
    this.at += found[0].length;
    return this.push(math(found[1], false));
  }

  readRun() {
    const char = this.text[this.at];
    let end = this.at;
    while (this.text[end] === char) end++;
    const count = end - this.at;
    const run = this.text.slice(this.at, end);
    const before = [...this.text.slice(Math.max(0, this.at - 2), this.at)].at(-1) ?? " ";
    const after = String.fromCodePoint(this.text.codePointAt(end) ?? 32);
    this.at = end;
    if (count > longestRun || (char === "~" && count > 2)) return this.plain += run, true;
    // Powers, as programs write them.
    const isPower = char === "*" && /\d/.test(before) && /\d/.test(after);
    const isSpace = (text) => /\s/.test(text);
    const left = !isPower && !isSpace(after) && (!punctuation.test(after) || isSpace(before) || punctuation.test(before));
    const right = !isPower && !isSpace(before) && (!punctuation.test(before) || isSpace(after) || punctuation.test(after));
    const node = new Text(run);
    this.push(node);
    this.delimiters.push({
      char, node, count, original: count,
      opens: char === "_" ? left && (!right || punctuation.test(before)) : left,
      closes: char === "_" ? right && (!left || punctuation.test(after)) : right,
    });
    return true;
  }

  /// `<br>`, and `<sub>`, `<sup>` and `<kbd>` with what is in them up to their end. Attributes make them text.
  readElement() {
    const found = /^<(?:(br) ?\/?|(sub|sup|kbd))>/i.exec(this.text.slice(this.at, this.at + 6));
    if (!found) return false;
    const begin = this.at + found[0].length;
    if (found[1]) return this.at = begin, this.push(el("br"));
    const name = found[2].toLowerCase();
    if (this.lonely.has(name)) return false;
    const end = new RegExp(`</${name}>`, "ig");
    end.lastIndex = begin;
    const close = end.exec(this.text);
    if (!close) return this.lonely.add(name), false;
    // What is in it holds no end of its own kind, so this is at most three deep.
    this.at = end.lastIndex;
    return this.push(el(name, inline(this.text.slice(begin, close.index), this.definitions)));
  }

  readSource() {
    const mark = sourceMark(this.text, this.at);
    return Boolean(mark) && (this.at += mark.length, this.push(mark.node));
  }

  /// `[^name]`, where there is such a note: its number, which leads to it.
  readNote() {
    const found = /^\[\^([^\]\s]{1,60})\]/.exec(this.text.slice(this.at, this.at + 64));
    const text = found && this.definitions.get(`^${found[1].toLowerCase()}`);
    if (text === undefined || text === null) return false;
    this.at += found[0].length;
    const show = ({ target }) => {
      const note = [...target.closest(".prose")?.querySelectorAll(".footnote") ?? []].find((one) => one.name === found[1].toLowerCase());
      note?.scrollIntoView({ block: "nearest" });
      note?.focus({ preventScroll: true });
    };
    return this.push(el("sup", el("button.note-mark", { title: text.slice(0, 300), onclick: show }, found[1])));
  }

  readAutolink() {
    const found = /^<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/i.exec(this.text.slice(this.at, this.at + 2020))
      ?? /^<([\w.+-]+@[\w-]+(?:\.[\w-]+)+)>/.exec(this.text.slice(this.at, this.at + 300));
    if (!found) return false;
    const url = safeAddress(found[1].includes(":") ? found[1] : `mailto:${found[1]}`);
    if (!url) return false;
    this.at += found[0].length;
    return this.push(link(url, found[1]));
  }

  readBareLink() {
    if (/[\p{L}\p{N}_/]/u.test(this.text[this.at - 1] ?? "")) return false;
    const found = /^(?:https?:\/\/|www\.)[^\s<>]{2,2000}/i.exec(this.text.slice(this.at, this.at + 2020));
    // Inside the text of a link there is no other link.
    if (!found || this.brackets.some((bracket) => bracket.isActive && this.text.indexOf("](", this.at) > 0)) return false;
    let address = found[0].replace(/[?!.,:;*_~'"]+$/, "");
    while (address.endsWith(")") && address.split(")").length > address.split("(").length) address = address.slice(0, -1);
    const end = /[`|\\\]}]/.exec(address);
    if (end) address = address.slice(0, end.index);
    const url = safeAddress(/^www\./i.test(address) ? `https://${address}` : address);
    if (!url || !url.hostname.includes(".") && url.hostname !== "localhost") return false;
    this.at += address.length;
    return this.push(link(url, address));
  }

  readEntity() {
    const entity = decodeEntity(this.text, this.at);
    if (!entity) return false;
    this.plain += entity.value;
    this.at += entity.length;
    return true;
  }

  readBreak() {
    const isHard = /  +$/.test(this.plain);
    this.plain = this.plain.replace(/ +$/, "");
    this.at++;
    if (isHard) return this.push(el("br"));
    this.plain += "\n";
    return true;
  }

  // Links and images.

  openBracket(length) {
    const node = new Text(this.text.slice(this.at, this.at + length));
    this.at += length;
    this.push(node);
    this.brackets.push({ node, isImage: length === 2, isActive: true, delimiters: this.delimiters.length, begin: this.at });
    return true;
  }

  closeBracket() {
    const bracket = this.brackets.pop();
    if (!bracket) return false;
    if (!bracket.isActive) return false;
    const label = this.text.slice(bracket.begin, this.at);
    const target = this.target() ?? this.reference(label);
    if (!target) return false;
    this.flush();
    this.at = target.end;
    this.emphasise(bracket.delimiters);
    const content = new DocumentFragment();
    while (bracket.node.nextSibling) content.append(bracket.node.nextSibling);
    const url = safeAddress(target.address);
    if (bracket.isImage) {
      // An image would be fetched, and its address may carry data away: it is a link to press.
      const name = content.textContent || target.address;
      bracket.node.replaceWith(url ? link(url, `${t("image")}: ${name}`) : new Text(name));
    } else {
      bracket.node.replaceWith(url ? link(url, content) : content);
      if (!url && target.address) this.root.append(` (${target.address.slice(0, 200)})`);
      for (const outer of this.brackets) if (!outer.isImage) outer.isActive = false;
    }
    return true;
  }

  /// `(address "title")` after a closing bracket.
  target() {
    if (this.text[this.at + 1] !== "(") return null;
    const rest = this.text.slice(this.at + 2, this.at + 4000);
    const found = /^\s*(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*))(?:\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\)/.exec(rest);
    return found ? { address: unescape(found[1] ?? found[2]), end: this.at + 2 + found[0].length } : null;
  }

  reference(label) {
    const found = /^\[([^\]\\]{0,200})\]/.exec(this.text.slice(this.at + 1, this.at + 210));
    const name = (found && found[1] ? found[1] : label).trim().toLowerCase();
    const address = this.definitions.get(name);
    return address ? { address, end: this.at + 1 + (found ? found[0].length : 0) } : null;
  }

  // Emphasis: CommonMark's "process emphasis", with DOM nodes as the list.

  emphasise(bottom) {
    const all = this.delimiters;
    const floors = new Map();
    for (let at = bottom; at < all.length; at++) {
      const closer = all[at];
      while (closer.closes && closer.count > 0) {
        const kind = `${closer.char}${closer.opens}${closer.original % 3}`;
        const floor = floors.get(kind) ?? bottom;
        let from = at - 1;
        while (from >= floor && !this.fits(all[from], closer)) from--;
        if (from < floor) {
          floors.set(kind, at);
          break;
        }
        this.wrap(all[from], closer);
        for (let inner = from + 1; inner < at; inner++) all[inner].count = 0;
      }
    }
    all.length = bottom;
  }

  fits(opener, closer) {
    if (!opener.opens || opener.count === 0 || opener.char !== closer.char) return false;
    if (opener.char === "~") return opener.count === closer.count;
    if (opener.closes || closer.opens) {
      return (opener.original + closer.original) % 3 !== 0 || (opener.original % 3 === 0 && closer.original % 3 === 0);
    }
    return true;
  }

  wrap(opener, closer) {
    const used = opener.char === "~" ? opener.count : opener.count >= 2 && closer.count >= 2 ? 2 : 1;
    const node = el(opener.char === "~" ? "del" : used === 2 ? "strong" : "em");
    let depth = 0;
    for (let child = opener.node.nextSibling; child !== closer.node; child = child.nextSibling) {
      depth = Math.max(depth, child.depth ?? 0);
    }
    opener.count -= used;
    closer.count -= used;
    if (depth >= deepest) return;
    node.depth = depth + 1;
    while (opener.node.nextSibling !== closer.node) node.append(opener.node.nextSibling);
    opener.node.after(node);
    for (const side of [opener, closer]) {
      side.node.data = side.char.repeat(side.count);
    }
  }
}
