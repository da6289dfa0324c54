// Markdown to DOM: blocks first, then a reconciliation that leaves finished blocks untouched while an answer grows.
//
// Text of a model is hostile. Nodes are made by createElement and text nodes alone, markup in it is shown as text, and
// nothing it names is fetched.

import { el } from "./dom.js";
import { inline } from "./inline.js";
import { math } from "./math.js";
import { codeBlock } from "./code.js";
import { t } from "./words.js";

/// Blocks inside blocks; deeper marks are text.
const deepest = 12;
const cellLimit = 64;

const fencePattern = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const headingPattern = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const rulePattern = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const quotePattern = /^ {0,3}> ?/;
const itemPattern = /^( {0,3})([-*+]|\d{1,9}[.)])([ \t]+(.*)|$)/;
const setextPattern = /^ {0,3}(=+|-+)[ \t]*$/;
const delimiterRow = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const definitionPattern = /^ {0,3}\[([^\]\\]{1,200})\]:[ \t]*<?([^\s<>]+)>?(?:[ \t]+(?:"[^"]*"|'[^']*'|\([^)]*\)))?[ \t]*$/;

const notePattern = /^ {0,3}\[\^([^\]\s]{1,60})\]:[ \t]*(.*)$/;
const calloutPattern = /^\[!(note|tip|important|warning|caution)\][ \t]*$/i;
/// A cell of more characters gets room for words, and one of still more for a line of them.
const shortCell = 12;
const longCell = 40;

const isBlank = (line) => /^[ \t]*$/.test(line);
const indentOf = (line) => /^ */.exec(line)[0].length;

/// Whether a line ends a paragraph that it follows.
function interrupts(line) {
  const item = itemPattern.exec(line);
  return fencePattern.test(line) || headingPattern.test(line) || rulePattern.test(line) || quotePattern.test(line)
    || notePattern.test(line) || /^ {0,3}(\$\$|\\\[)/.test(line) || (item !== null && item[4] && (/^[-*+]$/.test(item[2]) || /^1[.)]$/.test(item[2])));
}

/// Lines to a tree of blocks: `{type, key, …}`. Equal keys are equal blocks.
export function parseBlocks(lines, depth = 0, definitions = new Map()) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const start = at;
    const block = readBlock();
    if (block) {
      block.key = `${block.type}\n${lines.slice(start, at).join("\n")}`;
      block.end = at;
      blocks.push(block);
    }
  }
  return blocks;

  function readBlock() {
    const line = lines[at];
    if (isBlank(line)) return void at++;
    if (/^( {4}|\t)/.test(line)) return indentedCode();
    const fence = fencePattern.exec(line);
    if (fence) return fenced(fence);
    const heading = headingPattern.exec(line);
    if (heading) return at++, { type: "heading", level: heading[1].length, text: heading[2] ?? "" };
    if (rulePattern.test(line)) return at++, { type: "rule" };
    const formula = /^ {0,3}(\$\$|\\\[)/.exec(line);
    if (formula) {
      const block = displayMath(formula[1] === "$$" ? "$$" : "\\]");
      if (block) return block;
    }
    if (depth < deepest) {
      if (quotePattern.test(line)) return quote();
      if (itemPattern.test(line)) return list();
    }
    if (line.includes("|") && at + 1 < lines.length && delimiterRow.test(lines[at + 1])) {
      const block = table();
      if (block) return block;
    }
    const note = notePattern.exec(line);
    if (note && depth < deepest) return footnote(note);
    const definition = definitionPattern.exec(line);
    if (definition) {
      const name = definition[1].trim().toLowerCase();
      if (!definitions.has(name) && definitions.size < 1000) definitions.set(name, definition[2]);
      return at++, { type: "definition", name, address: definition[2] };
    }
    return paragraph();
  }

  function indentedCode() {
    const code = [];
    while (at < lines.length && (isBlank(lines[at]) || /^( {4}|\t)/.test(lines[at]))) {
      code.push(lines[at++].replace(/^( {1,4}|\t)/, ""));
    }
    while (code.length && isBlank(code[code.length - 1])) code.pop();
    return { type: "code", language: "", text: code.join("\n"), isOpen: false };
  }

  function fenced([, mark, info]) {
    const indent = indentOf(lines[at]);
    const close = new RegExp(`^ {0,3}\\${mark[0]}{${mark.length},}[ \\t]*$`);
    const code = [];
    at++;
    while (at < lines.length && !close.test(lines[at])) {
      const line = lines[at++];
      code.push(line.slice(Math.min(indent, indentOf(line))));
    }
    const isOpen = at >= lines.length;
    at++;
    return { type: "code", language: info.trim().split(/\s+/)[0] ?? "", text: code.join("\n"), isOpen };
  }

  function displayMath(close) {
    const opening = lines[at].replace(/^ {0,3}(\$\$|\\\[)/, "");
    const text = [];
    for (let next = at, line = opening; next < lines.length && next - at < 200; line = lines[++next] ?? "") {
      const end = line.indexOf(close);
      if (end >= 0) {
        if (!isBlank(line.slice(end + 2))) return null;
        text.push(line.slice(0, end));
        at = next + 1;
        return { type: "math", text: text.join("\n") };
      }
      if (next > at && isBlank(line)) return null;
      text.push(line);
    }
    return null;
  }

  function quote() {
    const inner = [];
    let isLazy = false;
    while (at < lines.length) {
      const line = lines[at];
      if (quotePattern.test(line)) inner.push(line.replace(quotePattern, ""));
      else if (isLazy && !isBlank(line) && !interrupts(line)) inner.push(line);
      else break;
      const last = inner[inner.length - 1];
      isLazy = !isBlank(last) && !fencePattern.test(last);
      at++;
    }
    const callout = calloutPattern.exec(inner[0]);
    if (callout) inner.shift();
    return { type: "quote", callout: callout?.[1].toLowerCase() ?? "", children: parseBlocks(inner, depth + 1, definitions) };
  }

  /// `[^name]: text`, and the indented lines below it.
  function footnote([, label, first]) {
    const inner = [first];
    at++;
    while (at < lines.length && (isBlank(lines[at]) ? /^ {2,}\S/.test(lines[at + 1] ?? "") : indentOf(lines[at]) >= 2 || !interrupts(lines[at]) && !isBlank(lines[at - 1]))) {
      inner.push(lines[at++].replace(/^ {1,4}/, ""));
    }
    const name = label.toLowerCase();
    if (!definitions.has(`^${name}`) && definitions.size < 1000) definitions.set(`^${name}`, inner.join(" ").trim());
    return { type: "footnote", label, name: `^${name}`, address: inner.join(" ").trim(), children: parseBlocks(inner, depth + 1, definitions) };
  }

  function list() {
    const first = itemPattern.exec(lines[at]);
    const isOrdered = /\d/.test(first[2]);
    const kind = first[2].at(-1);
    const block = { type: "list", isOrdered, start: isOrdered ? parseInt(first[2], 10) : 1, isLoose: false, children: [] };
    while (at < lines.length) {
      const item = itemPattern.exec(lines[at]);
      if (!item || item[2].at(-1) !== kind || /\d/.test(item[2]) !== isOrdered || rulePattern.test(lines[at])) break;
      const begin = at;
      const marker = item[1].length + item[2].length;
      const spaces = /^[ \t]*/.exec(item[3] ?? "")[0].length;
      const indent = item[4] && spaces <= 4 ? marker + spaces : marker + 1;
      const inner = [lines[at].slice(indent)];
      at++;
      let wasBlank = !item[4];
      while (at < lines.length) {
        const line = lines[at];
        if (isBlank(line)) {
          if (wasBlank && inner.length === 1 && !item[4]) break;
          wasBlank = true;
          inner.push("");
        } else if (indentOf(line) >= indent) {
          if (wasBlank && item[4]) block.isLoose ||= inner.length > 0 && !isInFence(inner);
          wasBlank = false;
          inner.push(line.slice(indent));
        } else if (!wasBlank && !interrupts(line) && !itemPattern.test(line)) {
          inner.push(line.trimStart());
        } else break;
        at++;
      }
      let trailing = 0;
      while (inner.length > 1 && isBlank(inner[inner.length - 1])) inner.pop(), trailing++;
      const next = lines[at] !== undefined ? itemPattern.exec(lines[at]) : null;
      if (trailing && next && next[2].at(-1) === kind) block.isLoose = true;
      const task = /^\[([ xX])\][ \t]+/.exec(inner[0]);
      if (task) inner[0] = inner[0].slice(task[0].length);
      block.children.push({
        type: "item", task: task ? task[1] !== " " : null, key: `item\n${lines.slice(begin, at).join("\n")}`,
        children: parseBlocks(inner, depth + 1, definitions),
      });
    }
    for (const item of block.children) item.isLoose = block.isLoose;
    return block;
  }

  function table() {
    const head = cells(lines[at]);
    const aligns = cells(lines[at + 1]).map((cell) =>
      cell.startsWith(":") ? (cell.endsWith(":") ? "center" : "left") : cell.endsWith(":") ? "right" : "");
    if (head.length !== aligns.length || head.length > cellLimit) return null;
    const rows = [];
    at += 2;
    while (at < lines.length && !isBlank(lines[at]) && !interrupts(lines[at])) {
      rows.push({ type: "row", key: `row\n${lines[at]}`, cells: cells(lines[at]).slice(0, head.length), aligns });
      at++;
    }
    return { type: "table", head, aligns, children: rows };
  }

  function paragraph() {
    const text = [lines[at++].trimStart()];
    while (at < lines.length && !isBlank(lines[at])) {
      const setext = setextPattern.exec(lines[at]);
      if (setext) return at++, { type: "heading", level: setext[1][0] === "=" ? 1 : 2, text: text.join("\n") };
      if (interrupts(lines[at])) break;
      if (lines[at].includes("|") && at + 1 < lines.length && delimiterRow.test(lines[at + 1])) break;
      text.push(lines[at++].trimStart());
    }
    return { type: "paragraph", text: text.join("\n") };
  }
}

function isInFence(lines) {
  return lines.filter((line) => fencePattern.test(line)).length % 2 === 1;
}

/// The cells of a table's row: `|` splits, unless it is escaped or inside a code span.
function cells(line) {
  const out = [];
  let cell = "";
  let ticks = 0;
  const text = line.trim().replace(/^\|/, "");
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "\\" && text[at + 1] === "|") cell += "|", at++;
    else if (text[at] === "|" && !ticks) out.push(cell.trim()), cell = "";
    else {
      if (text[at] === "`") ticks = ticks ? 0 : text.indexOf("`", at + 1) >= 0 ? 1 : 0;
      cell += text[at];
    }
  }
  if (cell.trim() || out.length === 0) out.push(cell.trim());
  return out;
}

/// Brings the children of `parent` to these blocks. Nodes of equal blocks stay; containers that grew are gone into.
function reconcile(parent, blocks, definitions) {
  const old = parent.blocks ?? [];
  let same = 0;
  while (same < blocks.length && old[same]?.key === blocks[same].key && old[same].isLoose === blocks[same].isLoose) {
    blocks[same].node = old[same].node;
    same++;
  }
  for (let at = same; at < blocks.length; at++) {
    const before = old[at];
    const block = blocks[at];
    if (before?.node && before.type === block.type && grow(before.node, block, before, definitions)) block.node = before.node;
    else {
      block.node = build(block, definitions);
      if (before?.node) before.node.replaceWith(block.node);
      else parent.append(block.node);
    }
  }
  for (const left of old.slice(blocks.length)) left.node.remove();
  parent.blocks = blocks;
}

/// Brings the node of an earlier block of the same type up to this one; false where it has to be built anew.
function grow(node, block, before, definitions) {
  switch (block.type) {
    case "quote":
      if (block.callout !== before.callout) return false;
      return reconcile(node.body ?? node, block.children, definitions), true;
    case "footnote":
      if (block.label !== before.label) return false;
      return reconcile(node.body, block.children, definitions), true;
    case "list":
      if (block.isOrdered !== before.isOrdered || block.start !== before.start) return false;
      return reconcile(node, block.children, definitions), true;
    case "item":
      if (block.task !== before.task || block.isLoose !== before.isLoose) return false;
      return reconcile(node.body ?? node, block.children, definitions), true;
    case "table":
      if (block.head.join("\n") !== before.head.join("\n") || block.aligns.join() !== before.aligns.join()) return false;
      return reconcile(node.rows, block.children, definitions), true;
    case "code": return block.language === before.language && node.update(block);
    default: return false;
  }
}

function build(block, definitions) {
  switch (block.type) {
    case "paragraph": return el("p", { dir: "auto" }, inline(block.text, definitions));
    case "heading":
      // The page has its own first level.
      return el(`h${Math.min(6, block.level + 1)}`, { dir: "auto", class: `h${block.level}` }, inline(block.text.trim(), definitions));
    case "rule": return el("hr");
    case "math": return el("p.formula", math(block.text, true));
    case "code": return codeBlock(block);
    case "definition": return new Text("");
    case "quote": return buildQuote(block, definitions);
    case "footnote": {
      const node = el("div.footnote", { tabindex: -1 }, el("sup", block.label));
      node.name = block.name.slice(1);
      node.body = el("div");
      node.append(node.body);
      return reconcile(node.body, block.children, definitions), node;
    }
    case "list": {
      const node = el(block.isOrdered ? "ol" : "ul", block.isOrdered && block.start !== 1 ? { start: block.start } : {});
      return reconcile(node, block.children, definitions), node;
    }
    case "item": return buildItem(block, definitions);
    case "table": return buildTable(block, definitions);
    case "row":
      return el("tr", block.aligns.map((align, at) =>
        el("td", { class: cellClass(align, block.cells[at] ?? ""), dir: "auto" }, inline(block.cells[at] ?? "", definitions))));
  }
}

const cellClass = (align, text) => [align, text.length > longCell ? "words long" : text.length > shortCell ? "words" : ""].filter(Boolean).join(" ") || null;

/// A quote, or with `[!NOTE]` in its first line a box with a title.
function buildQuote(block, definitions) {
  const node = el("blockquote", { dir: "auto" });
  if (block.callout) {
    node.className = `callout callout-${block.callout}`;
    node.body = el("div");
    node.append(el("p.callout-title", t(`callout_${block.callout}`)), node.body);
  }
  return reconcile(node.body ?? node, block.children, definitions), node;
}

function buildItem(block, definitions) {
  const node = el("li", { class: block.isLoose ? null : "tight" });
  if (block.task !== null) {
    node.classList.add("task");
    node.body = el("div");
    node.append(el("input", { type: "checkbox", checked: block.task, disabled: true, "aria-label": t("task") }), node.body);
  }
  reconcile(node.body ?? node, block.children, definitions);
  return node;
}

/// Says whether more of a table is to come at its end, where it fades then.
const markCut = (node) => node.classList.toggle("cut", node.scrollWidth - node.clientWidth - Math.abs(node.scrollLeft) > 2);
const widths = new ResizeObserver((entries) => {
  for (const { target } of entries) markCut(target);
});

function buildTable(block, definitions) {
  const rows = el("tbody");
  const head = el("thead", el("tr", block.head.map((cell, at) =>
    el("th", { class: cellClass(block.aligns[at], cell), scope: "col", dir: "auto" }, inline(cell, definitions)))));
  const node = el("div.table", { tabindex: 0, role: "group", "aria-label": t("table"), onscroll: () => markCut(node) },
    el("table", head, rows));
  widths.observe(node);
  node.rows = rows;
  reconcile(rows, block.children, definitions);
  return node;
}

/// An element whose text grows. Everything before the last open block is parsed and painted once.
export class MarkdownView {
  constructor(node) {
    this.node = node;
    this.reset();
  }

  reset() {
    this.text = "";
    this.done = [];
    this.doneLength = 0;
    this.definitions = new Map();
    this.node.replaceChildren();
    this.node.blocks = [];
  }

  /// Shows `text`; cheap when it begins with what was shown before.
  update(text, isFinished = false) {
    text = text.replace(/\r\n?/g, "\n").replaceAll("\0", "\ufffd");
    if (!text.startsWith(this.text.slice(0, this.doneLength))) this.reset();
    this.text = text;
    const lines = text.slice(this.doneLength).split("\n");
    const definitions = new Map(this.definitions);
    const blocks = parseBlocks(lines, 0, definitions);
    // A definition may change what stands above it.
    if (isFinished && definitions.size && this.node.blocks.length) {
      this.reset();
      return this.update(text, true);
    }
    reconcile(this.node, [...this.done, ...blocks], definitions);
    if (isFinished) return;
    // The last block is open, and so is the one before: a line may still join it.
    const kept = blocks.slice(0, -2);
    if (!kept.length) return;
    this.done.push(...kept);
    for (const { type, name, address } of kept) if ((type === "definition" || type === "footnote") && !this.definitions.has(name)) this.definitions.set(name, address);
    this.doneLength += lines.slice(0, kept.at(-1).end).join("\n").length + 1;
  }
}
