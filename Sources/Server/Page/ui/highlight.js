// Colours for code: one table of languages, one loop over tokens.

import { el } from "./dom.js";

const words = (...texts) => new Set(texts.join(" ").split(" "));
/// Keywords of all languages that took C's form, and of those that took its types as well.
const common = "break case catch class const continue default do else enum false for if new return static switch this throw true try while";
const typed = `${common} char double float int long override private protected public short void`;
const cLike = { line: "//", block: ["/*", "*/"], strings: "\"'" };

/// Names → comments, quotes and keywords of a language.
const table = {
  "js javascript mjs jsx ts typescript tsx": { ...cLike, strings: "\"'`", keywords: words(common, "async await debugger delete export extends finally from function get implements import in instanceof interface let null of private protected public readonly set super type typeof undefined var void with yield abstract as declare keyof namespace never satisfies unknown any string number boolean") },
  "py python python3": { line: "#", strings: "\"'", triple: true, keywords: words("and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield print len range") },
  "swift": { ...cLike, strings: '"', triple: true, keywords: words("actor any as associatedtype async await break case catch class continue default defer deinit do else enum extension false fallthrough fileprivate final for func guard if import in indirect init inout internal is isolated lazy let mutating nil nonisolated open operator override package private protocol public repeat rethrows return self Self some static struct subscript super switch throw throws true try typealias unowned var weak where while") },
  "c h cpp c++ hpp cc objc objective-c cuda": { ...cLike, preprocessor: true, keywords: words(typed, "alignas auto bool constexpr delete explicit extern friend goto inline mutable namespace noexcept nullptr operator register signed sizeof struct template typedef typename union unsigned using virtual volatile size_t uint8_t int32_t uint32_t int64_t uint64_t std NULL") },
  "java kotlin kt scala groovy": { ...cLike, triple: true, keywords: words(typed, "abstract as boolean byte companion data extends final finally fun implements import in instanceof interface internal is lateinit let native null object open package sealed super suspend synchronized throws typealias val var volatile when def trait") },
  "cs csharp c#": { ...cLike, keywords: words(typed, "abstract as async await base bool byte decimal delegate event explicit extern finally fixed foreach get implicit in interface internal is lock namespace null object operator out params readonly record ref sealed set string struct typeof uint using var virtual yield") },
  "go golang": { ...cLike, strings: "\"'`", keywords: words("any bool break byte case chan const continue default defer else error fallthrough false float64 for func go goto if import int int64 interface iota len make map nil package range return rune select string struct switch true type uint var append") },
  "rust rs": { ...cLike, strings: '"', keywords: words("as async await bool box break const continue crate dyn else enum extern false f32 f64 fn for i32 i64 if impl in let loop match mod move mut pub ref return self Self static str String struct super trait true type u8 u32 u64 union unsafe use usize Vec where while Some None Ok Err Option Result") },
  "php": { ...cLike, line: "//", hash: true, keywords: words(common, "abstract array as clone declare echo elseif empty extends final finally fn foreach function global implements include instanceof interface isset match namespace null private protected public readonly require trait use var yield") },
  "rb ruby": { line: "#", strings: "\"'`", keywords: words("alias and begin break case class def defined? do else elsif end ensure false for if in module next nil not or puts raise redo require rescue retry return self super then true undef unless until when while yield attr_accessor") },
  "sh bash shell zsh console terminal fish": { line: "#", strings: "\"'", keywords: words("case do done elif else esac export fi for function if in local readonly return select set source then time until while cd echo exit sudo test unset eval exec") },
  "sql postgresql mysql sqlite": { line: "--", block: ["/*", "*/"], strings: "'\"`", ignoreCase: true, keywords: words("add all alter and as asc avg begin between by case cast check column commit constraint count create cross database default delete desc distinct drop else end exists foreign from full group having if in index inner insert int integer into is join key left like limit max min not null offset on or order outer primary references right rollback select set sum table text then union unique update using values varchar view when where with") },
  "json json5 jsonc": { line: "//", strings: '"', keys: true, keywords: words("true false null") },
  "yaml yml": { line: "#", strings: "\"'", keys: true, keywords: words("true false null yes no on off") },
  "toml ini cfg conf env properties": { line: "#", semicolon: true, strings: "\"'", keys: true, keywords: words("true false") },
  "html xml svg xhtml vue jinja plist": { markup: true },
  "css scss less": { block: ["/*", "*/"], line: null, strings: "\"'", keys: true, keywords: words("important inherit initial unset none auto solid flex grid block inline absolute relative fixed sticky hidden visible") },
  "lua": { line: "--", strings: "\"'", keywords: words("and break do else elseif end false for function goto if in local nil not or repeat return then true until while") },
  "r": { line: "#", strings: "\"'", keywords: words("if else repeat while function for in next break TRUE FALSE NULL NA Inf NaN library return") },
  "dart": { ...cLike, triple: true, keywords: words(common, "abstract as assert async await bool double dynamic export extends extension factory final finally Future get implements import in int is late List Map mixin null on operator part required rethrow set String super sync typedef var void with yield") },
  "diff patch": { diff: true },
  "dockerfile docker makefile make cmake": { line: "#", strings: "\"'", keywords: words("FROM RUN CMD LABEL EXPOSE ENV ADD COPY ENTRYPOINT VOLUME USER WORKDIR ARG AS ifeq ifneq ifdef else endif include define endef set if foreach function") },
};

const languages = new Map(Object.entries(table).flatMap(([names, rules]) => names.split(" ").map((name) => [name, rules])));

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/// Alternatives of one regular expression; the name of the group that matched is the class.
function compile(rules) {
  if (rules.pattern) return rules.pattern;
  const parts = [];
  if (rules.diff) parts.push("(?<add>^\\+.*$)", "(?<cut>^-.*$)", "(?<keyword>^@@.*$)");
  else if (rules.markup) parts.push("(?<comment><!--[\\s\\S]*?(?:-->|$(?![\\s\\S])))", "(?<tag></?[A-Za-z][\\w:.-]*|/?>)", "(?<key>\\b[\\w:@.-]+(?==))", "(?<string>\"[^\"<]*\"|'[^'<]*')", "(?<number>&[#\\w]+;)");
  else {
    const comments = [];
    if (rules.block) comments.push(`${escaped(rules.block[0])}[\\s\\S]*?(?:${escaped(rules.block[1])}|$(?![\\s\\S]))`);
    if (rules.line) comments.push(`${rules.line === "#" ? "(?<![\\w$&])#" : escaped(rules.line)}.*`);
    if (rules.hash) comments.push("#.*");
    if (rules.semicolon) comments.push("^;.*");
    if (comments.length) parts.push(`(?<comment>${comments.join("|")})`);
    if (rules.preprocessor) parts.push("(?<tag>^[ \\t]*#[ \\t]*\\w+)");
    if (rules.keys) parts.push("(?<key>\"(?:[^\"\\\\\\n]|\\\\.)*\"(?=\\s*:)|[\\w.-]+(?=\\s*[:=](?!:)))");
    const strings = [];
    if (rules.triple) strings.push('"""[\\s\\S]*?(?:"""|$(?![\\s\\S]))', "'''[\\s\\S]*?(?:'''|$(?![\\s\\S]))");
    for (const quote of rules.strings ?? "") {
      strings.push(`${quote}(?:[^${quote}\\\\${quote === "`" ? "" : "\\n"}]|\\\\[\\s\\S])*${quote}?`);
    }
    if (strings.length) parts.push(`(?<string>${strings.join("|")})`);
    parts.push("(?<number>\\b(?:0[xX][\\da-fA-F_]+|0[bB][01_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)\\w*\\b)", "(?<tag>[@$][A-Za-z_]\\w*)", "(?<word>[A-Za-z_][\\w?]*)");
  }
  return rules.pattern = new RegExp(parts.join("|"), "gm");
}

/// The code in spans; null for a language that is not known.
export function highlight(text, language) {
  const rules = languages.get(language.toLowerCase());
  if (!rules) return null;
  const out = new DocumentFragment();
  let last = 0;
  for (const match of text.matchAll(compile(rules))) {
    let kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    if (kind === "word") {
      const word = rules.ignoreCase ? match[0].toLowerCase() : match[0];
      kind = rules.keywords.has(word) ? "keyword" : text[match.index + match[0].length] === "(" ? "call" : /^[A-Z]\w*[a-z]/.test(match[0]) ? "type" : null;
    }
    if (!kind) continue;
    if (match.index > last) out.append(text.slice(last, match.index));
    out.append(el(`span.hl-${kind}`, match[0]));
    last = match.index + match[0].length;
  }
  if (last < text.length) out.append(text.slice(last));
  return out;
}
