// The text of a PDF, for common files: Flate streams, simple fonts and fonts with a ToUnicode map.

const latin = new TextDecoder("windows-1252");
/// Objects, and characters of text, that are read at most.
const objectLimit = 100_000;
const textLimit = 1 << 20;

const fault = (name) => new Error(name);

/// The text, page after page as far as the file's order says so.
///
/// Throws an Error whose message is the name of a sentence.
export async function pdfText(bytes) {
  const source = binary(bytes);
  if (!source.startsWith("%PDF-") && !source.slice(0, 1024).includes("%PDF-")) throw fault("fileUnknown");
  if (/\/Encrypt\s+\d+\s+\d+\s+R/.test(source)) throw fault("pdfEncrypted");
  const objects = await readObjects(source);
  const fonts = new Map();
  const out = [];
  let length = 0;
  for (const page of pages(objects)) {
    const resources = inherited(page, "Resources", objects);
    const names = await fontsOf(resources, objects, fonts);
    for (const id of references(member(page.text, "Contents"), objects)) {
      const content = objects.get(id);
      if (!content?.stream) continue;
      const text = shown(content.stream, names);
      length += text.length;
      if (length > textLimit) return out.join("\n");
      out.push(text);
    }
  }
  const text = out.join("\n").replace(/[ \t]+\n/g, "\n").replace(/\n{3,}/g, "\n\n").trim();
  if (!/[\p{L}\p{N}]/u.test(text)) throw fault("pdfNoText");
  return text;
}

/// One character per byte.
function binary(bytes) {
  const parts = [];
  for (let at = 0; at < bytes.length; at += 0x8000) parts.push(String.fromCharCode(...bytes.subarray(at, at + 0x8000)));
  return parts.join("");
}

async function inflate(text) {
  const bytes = Uint8Array.from(text, (char) => char.charCodeAt(0));
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
  const parts = [];
  let size = 0;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      parts.push(binary(value));
      size += value.length;
      if (size > 32 << 20) break;
    }
  } catch {
    // Bytes after the end of a stream, or a damaged one: what came before counts.
  }
  return parts.join("");
}

/// Number of an object → `{text, stream}`; the objects inside of object streams too.
async function readObjects(source) {
  const objects = new Map();
  const packed = [];
  const pattern = /(\d{1,7})\s+\d{1,5}\s+obj\b/g;
  for (let match; (match = pattern.exec(source)) && objects.size < objectLimit;) {
    const begin = pattern.lastIndex;
    const end = source.indexOf("endobj", begin);
    const text = source.slice(begin, end < 0 ? undefined : end);
    const found = /stream\r?\n/.exec(text);
    const object = { text: found ? text.slice(0, found.index) : text };
    if (found) {
      const from = begin + found.index + found[0].length;
      const given = /\/Length\s+(\d+)(?!\s+\d+\s+R)/.exec(object.text);
      let to = given ? from + Number(given[1]) : source.indexOf("endstream", from);
      if (!/^\s*endstream/.test(source.slice(to, to + 20))) to = source.indexOf("endstream", from);
      if (to < 0) to = source.length;
      pattern.lastIndex = to;
      const raw = source.slice(from, to);
      // Images and fonts are not read.
      if (/\/FlateDecode/.test(object.text)) {
        if (!/\/Subtype\s*\/Image|\/FontFile|\/Length1/.test(object.text)) object.stream = await inflate(raw);
      } else if (!/\/Filter/.test(object.text)) object.stream = raw;
      if (/\/Type\s*\/ObjStm/.test(object.text) && object.stream) packed.push(object);
    }
    objects.set(match[1], object);
  }
  for (const { text, stream } of packed) {
    const first = Number(/\/First\s+(\d+)/.exec(text)?.[1] ?? 0);
    const heads = stream.slice(0, first).trim().split(/\s+/);
    for (let at = 0; at + 1 < heads.length && objects.size < objectLimit; at += 2) {
      const begin = first + Number(heads[at + 1]);
      const end = at + 3 < heads.length ? first + Number(heads[at + 3]) : undefined;
      objects.set(heads[at], { text: stream.slice(begin, end) });
    }
  }
  return objects;
}

/// What stands after a name in a dictionary, to its end.
function member(text, name) {
  const found = new RegExp(`/${name}(?![A-Za-z0-9])\\s*`).exec(text);
  if (!found) return "";
  const rest = text.slice(found.index + found[0].length);
  const open = rest.startsWith("<<") ? ["<<", ">>"] : rest.startsWith("[") ? ["[", "]"] : null;
  if (!open) return rest.slice(0, 200);
  let depth = 0;
  for (let at = 0; at < rest.length; at++) {
    if (rest.startsWith(open[0], at)) depth++, at += open[0].length - 1;
    else if (rest.startsWith(open[1], at) && --depth === 0) return rest.slice(0, at + open[1].length);
    else if (rest.startsWith(open[1], at)) at += open[1].length - 1;
  }
  return rest;
}

/// The objects that a value refers to: itself, or the members of a list.
function references(value, objects) {
  const single = /^\s*(\d+)\s+\d+\s+R/.exec(value);
  if (single) {
    const target = objects.get(single[1]);
    if (target && !target.stream && /^\s*\[/.test(target.text)) return references(target.text.trim(), objects);
    return [single[1]];
  }
  return value.startsWith("[") ? [...value.matchAll(/(\d+)\s+\d+\s+R/g)].map((match) => match[1]) : [];
}

const resolved = (value, objects) => {
  const found = /^\s*(\d+)\s+\d+\s+R/.exec(value);
  return found ? objects.get(found[1])?.text ?? "" : value;
};

/// Pages in the order of the tree, or of the file where there is none.
function pages(objects) {
  const all = [...objects.values()];
  const isPage = (object) => /\/Type\s*\/Page(?![A-Za-z])/.test(object.text);
  const root = all.find((object) => /\/Type\s*\/Catalog/.test(object.text));
  const out = [];
  const seen = new Set();
  const visit = (id, depth) => {
    const object = objects.get(id);
    if (!object || seen.has(id) || depth > 40) return;
    seen.add(id);
    if (isPage(object)) out.push(object);
    else for (const kid of references(member(object.text, "Kids"), objects)) visit(kid, depth + 1);
  };
  for (const id of references(root ? member(root.text, "Pages") : "", objects)) visit(id, 0);
  return out.length ? out : all.filter(isPage);
}

function inherited(page, name, objects) {
  for (let object = page, depth = 0; object && depth < 40; depth++) {
    const value = member(object.text, name);
    if (value) return resolved(value, objects);
    object = objects.get(references(member(object.text, "Parent"), objects)[0]);
  }
  return "";
}

/// Name of a font on a page → a function from the bytes of a string to text.
async function fontsOf(resources, objects, known) {
  const names = new Map();
  const list = resolved(member(resources, "Font"), objects);
  for (const [, name, id] of list.matchAll(/\/([^\s/<>[\]()]+)\s+(\d+)\s+\d+\s+R/g)) {
    if (!known.has(id)) known.set(id, decoder(objects.get(id)?.text ?? "", objects));
    names.set(name, known.get(id));
  }
  return names;
}

function decoder(font, objects) {
  const isWide = /\/Type0\b|\/Identity-H/.test(font);
  const map = objects.get(references(member(font, "ToUnicode"), objects)[0])?.stream;
  const table = map ? unicodeMap(map) : null;
  if (!table) return isWide ? () => "" : (text) => latin.decode(Uint8Array.from(text, (char) => char.charCodeAt(0)));
  const width = table.width || (isWide ? 2 : 1);
  return (text) => {
    let out = "";
    for (let at = 0; at < text.length; at += width) {
      let code = 0;
      for (let place = 0; place < width; place++) code = code * 256 + (text.charCodeAt(at + place) || 0);
      out += table.get(code) ?? (width === 1 ? String.fromCharCode(code) : "");
    }
    return out;
  };
}

function unicodeMap(stream) {
  const table = new Map();
  const char = (hex) => String.fromCharCode(...(hex.match(/.{4}/g) ?? [hex]).map((unit) => parseInt(unit, 16)));
  const range = /begincodespacerange\s*<([\da-fA-F]+)>/.exec(stream);
  table.width = range ? range[1].length / 2 : 0;
  for (const [, block] of stream.matchAll(/beginbfchar([\s\S]*?)endbfchar/g)) {
    for (const [, from, to] of block.matchAll(/<([\da-fA-F]+)>\s*<([\da-fA-F]+)>/g)) table.set(parseInt(from, 16), char(to));
  }
  for (const [, block] of stream.matchAll(/beginbfrange([\s\S]*?)endbfrange/g)) {
    for (const [, from, to, single, list] of block.matchAll(/<([\da-fA-F]+)>\s*<([\da-fA-F]+)>\s*(?:<([\da-fA-F]+)>|\[([^\]]*)\])/g)) {
      const [first, last] = [parseInt(from, 16), Math.min(parseInt(to, 16), parseInt(from, 16) + 0xffff)];
      const all = list?.match(/[\da-fA-F]+/g) ?? [];
      for (let code = first; code <= last; code++) {
        if (single) table.set(code, String.fromCodePoint(Math.min(0x10ffff, parseInt(single.slice(-4), 16) + code - first)));
        else if (all[code - first]) table.set(code, char(all[code - first]));
      }
    }
  }
  return table;
}

/// The text that a content stream shows; a new line where the next piece stands lower.
function shown(stream, fonts) {
  let out = "";
  let decode = (text) => text;
  let stack = [];
  let line = null;
  const tokens = /\((?:[^\\()]|\\[\s\S]|\((?:[^\\()]|\\[\s\S]|\([^()]*\))*\))*\)|<<|>>|<[\da-fA-F\s]*>|\[|\]|\/[^\s/<>[\]()]*|-?\d*\.?\d+|[A-Za-z'"*]+/g;
  const put = (text) => out += text;
  const breakLine = () => {
    if (out && !out.endsWith("\n")) put("\n");
  };
  for (const [token] of stream.matchAll(tokens)) {
    const first = token[0];
    if (first === "(") stack.push({ text: decode(literal(token.slice(1, -1))) });
    else if (first === "<" && token !== "<<") stack.push({ text: decode(hexadecimal(token)) });
    else if (/[\d.-]/.test(first)) stack.push(Number(token));
    else if (first === "/") stack.push(token.slice(1));
    else if (first === "[" || first === "]" || token === "<<" || token === ">>") continue;
    else {
      switch (token) {
        case "Tf": decode = fonts.get(stack.at(-2)) ?? decode; break;
        case "Td": case "TD": if (stack.at(-1) !== 0) breakLine(); else if (stack.at(-2) > 0 && !/\s$/.test(out)) put(" "); break;
        case "T*": breakLine(); break;
        case "Tm": if (line !== null && Math.abs(line - stack.at(-1)) > 1) breakLine(); line = stack.at(-1); break;
        case "Tj": for (const one of stack) if (one.text) put(one.text); break;
        case "'": case '"': breakLine(); for (const one of stack) if (one.text) put(one.text); break;
        // A wide step to the left of a number is a space between words.
        case "TJ": for (const one of stack) if (one.text !== undefined) put(one.text); else if (one < -180 && !/\s$/.test(out)) put(" "); break;
        case "ET": breakLine(); break;
      }
      stack = [];
    }
    if (stack.length > 10_000) stack = [];
  }
  return out;
}

const escapes = { n: "\n", r: "\r", t: "\t", b: "\b", f: "\f" };
const literal = (text) => text.replace(/\\(?:([0-7]{1,3})|(\r?\n)|([\s\S]))/g, (_, octal, newline, char) =>
  octal ? String.fromCharCode(parseInt(octal, 8) & 255) : newline ? "" : escapes[char] ?? char);
const hexadecimal = (token) => (token.replace(/[^\da-fA-F]/g, "").match(/.{1,2}/g) ?? []).map((pair) => String.fromCharCode(parseInt(pair.padEnd(2, "0"), 16))).join("");
