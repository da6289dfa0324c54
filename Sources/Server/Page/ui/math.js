// A subset of TeX as MathML: fractions, roots, scripts, big operators, matrices, accents, Greek, text.
//
// What it does not know makes it give up: then the source is shown in code font.

import { el } from "./dom.js";

const space = "http://www.w3.org/1998/Math/MathML";

function node(tag, ...children) {
  const out = document.createElementNS(space, tag);
  const attributes = children[0]?.constructor === Object ? children.shift() : {};
  for (const [name, value] of Object.entries(attributes)) out.setAttribute(name, value);
  out.append(...children);
  return out;
}

/// A table of names and what each stands for, written as `name:value`.
export const pairs = (text) => new Map(text.trim().split(/\s+/).map((pair) => {
  const at = pair.indexOf(":");
  return [pair.slice(0, at), pair.slice(at + 1)];
}));

const letters = pairs(`alpha:α beta:β gamma:γ delta:δ epsilon:ϵ varepsilon:ε zeta:ζ eta:η theta:θ vartheta:ϑ iota:ι kappa:κ
lambda:λ mu:μ nu:ν xi:ξ omicron:ο pi:π varpi:ϖ rho:ρ varrho:ϱ sigma:σ varsigma:ς tau:τ upsilon:υ phi:ϕ varphi:φ chi:χ psi:ψ
omega:ω Gamma:Γ Delta:Δ Theta:Θ Lambda:Λ Xi:Ξ Pi:Π Sigma:Σ Upsilon:Υ Phi:Φ Psi:Ψ Omega:Ω infty:∞ partial:∂ nabla:∇ hbar:ℏ
ell:ℓ Re:ℜ Im:ℑ aleph:ℵ emptyset:∅ varnothing:∅ imath:ı jmath:ȷ dots:… ldots:… cdots:⋯ vdots:⋮ ddots:⋱ top:⊤ bot:⊥ degree:°
angle:∠ prime:′ square:□ blacksquare:■ checkmark:✓ dagger:† star:⋆ wp:℘`);

const operators = pairs(`times:× cdot:⋅ div:÷ pm:± mp:∓ ast:∗ circ:∘ bullet:∙ oplus:⊕ ominus:⊖ otimes:⊗ odot:⊙ leq:≤ le:≤ geq:≥
ge:≥ neq:≠ ne:≠ approx:≈ equiv:≡ sim:∼ simeq:≃ cong:≅ propto:∝ ll:≪ gg:≫ subset:⊂ supset:⊃ subseteq:⊆ supseteq:⊇ in:∈ notin:∉
ni:∋ cup:∪ cap:∩ setminus:∖ wedge:∧ land:∧ vee:∨ lor:∨ neg:¬ lnot:¬ forall:∀ exists:∃ nexists:∄ to:→ rightarrow:→
leftarrow:← leftrightarrow:↔ Rightarrow:⇒ Leftarrow:⇐ Leftrightarrow:⇔ iff:⇔ implies:⇒ mapsto:↦ longrightarrow:⟶
longleftarrow:⟵ uparrow:↑ downarrow:↓ rightharpoonup:⇀ mid:∣ parallel:∥ perp:⊥ vdash:⊢ models:⊨ therefore:∴ because:∵
colon:: langle:⟨ rangle:⟩ lfloor:⌊ rfloor:⌋ lceil:⌈ rceil:⌉ lvert:| rvert:| vert:| Vert:‖ lVert:‖ rVert:‖ prec:≺ succ:≻
triangleq:≜ doteq:≐ asymp:≍ lbrace:{ rbrace:}`);

const big = pairs("sum:∑ prod:∏ coprod:∐ int:∫ iint:∬ iiint:∭ oint:∮ bigcup:⋃ bigcap:⋂ bigoplus:⨁ bigotimes:⨂ bigvee:⋁ bigwedge:⋀");
const functions = new Set("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp det dim ker hom arg deg gcd Pr min max sup inf lim limsup liminf argmin argmax".split(" "));
const limits = new Set("lim limsup liminf min max sup inf det gcd Pr argmin argmax".split(" "));
const accents = pairs("hat:^ widehat:^ bar:¯ overline:‾ vec:→ dot:˙ ddot:¨ tilde:~ widetilde:~ overrightarrow:→ check:ˇ breve:˘");
const spaces = new Map([[",", "0.17em"], [":", "0.22em"], [";", "0.28em"], ["!", "-0.17em"], [" ", "0.25em"], ["quad", "1em"], ["qquad", "2em"], ["enspace", "0.5em"], ["thinspace", "0.17em"]]);
const fonts = pairs(`mathbb:double-struck mathcal:script mathscr:script mathfrak:fraktur mathbf:bold boldsymbol:bold bm:bold bf:bold
mathrm:normal operatorname:normal mathit:italic mathsf:sans-serif mathtt:monospace`);
const fences = pairs(`pmatrix:() bmatrix:[] Bmatrix:{} vmatrix:|| Vmatrix:‖‖ matrix: smallmatrix: cases:{ aligned: align: align*: array:
gathered: gather: gather*: split: equation: equation*:`);

/// Where the alphabets of `mathvariant` begin: browsers show characters, not the attribute.
const alphabets = { "double-struck": [0x1d538, 0x1d552, 0x1d7d8], script: [0x1d49c, 0x1d4b6], fraktur: [0x1d504, 0x1d51e], bold: [0x1d400, 0x1d41a, 0x1d7ce], "sans-serif": [0x1d5a0, 0x1d5ba, 0x1d7e2], monospace: [0x1d670, 0x1d68a, 0x1d7f6], italic: [0x1d434, 0x1d44e] };
const holes = pairs("double-struckC:ℂ double-struckH:ℍ double-struckN:ℕ double-struckP:ℙ double-struckQ:ℚ double-struckR:ℝ double-struckZ:ℤ scriptB:ℬ scriptE:ℰ scriptF:ℱ scriptH:ℋ scriptI:ℐ scriptL:ℒ scriptM:ℳ scriptR:ℛ scripte:ℯ scriptg:ℊ scripto:ℴ frakturC:ℭ frakturH:ℌ frakturI:ℑ frakturR:ℜ frakturZ:ℨ italich:ℎ");

function styled(text, font) {
  const starts = alphabets[font];
  if (!starts) return text;
  return [...text].map((char) => {
    const hole = holes.get(font + char);
    if (hole) return hole;
    const [upper, lower, digit] = starts;
    if (/[A-Z]/.test(char)) return String.fromCodePoint(upper + char.charCodeAt(0) - 65);
    if (/[a-z]/.test(char)) return String.fromCodePoint(lower + char.charCodeAt(0) - 97);
    if (/\d/.test(char) && digit) return String.fromCodePoint(digit + Number(char));
    return char;
  }).join("");
}

/// An operator. Brackets grow with what is between them only where `\left` and `\right` say so.
const sign = (text) => node("mo", /^[()[\]{}|‖⟨⟩⌊⌋⌈⌉∣/]$/.test(text) ? { stretchy: "false" } : {}, text);

function giveUp() {
  throw new Error("This formula is not known.");
}

/// A bracket that grows with what it holds.
const edge = (text) => node("mo", { fence: "true", stretchy: "true" }, text);

/// What names of functions stand apart from, as TeX sets them.
const wantsSpace = new Set(["mi", "mn", "msub", "msup", "msubsup", "mfrac", "msqrt"]);
const thinSpace = () => node("mspace", { width: spaces.get(",") });

class Reader {
  constructor(text) {
    this.tokens = text.match(/\\(?:[A-Za-z]+\*?|[\s\S])|[\s\S]/gu) ?? [];
    if (this.tokens.length > 4000) giveUp();
    this.at = 0;
    this.depth = 0;
  }

  get next() { return this.tokens[this.at]; }

  skip() {
    while (this.next !== undefined && /^\s+$/.test(this.next)) this.at++;
  }

  take(token) {
    this.skip();
    if (this.next !== token) giveUp();
    this.at++;
  }

  /// Everything up to one of these tokens, which is not taken.
  row(ends = []) {
    const out = node("mrow");
    if (++this.depth > 40) giveUp();
    for (;;) {
      this.skip();
      const token = this.next;
      if (token === undefined) {
        if (ends.length) giveUp();
        break;
      }
      if (ends.includes(token)) break;
      if (token === "}" || token === "&" || token === "\\\\" || token === "\\end" || token === "\\right") giveUp();
      const part = this.scripted();
      if (!part) continue;
      if (part.isName && wantsSpace.has(out.lastChild?.localName)) out.append(thinSpace());
      out.append(part);
      this.skip();
      if (part.isName && this.beginsOperand()) out.append(thinSpace());
    }
    this.depth--;
    return out.childNodes.length === 1 ? out.firstChild : out;
  }

  /// Whether what comes next is something that a function is of, without brackets.
  beginsOperand() {
    const token = this.next ?? "";
    const name = token.slice(1);
    return /^[\p{L}\d]$/u.test(token) || /^\\(?:[dt]?frac|sqrt)$/.test(token) || letters.has(name) || functions.has(name) || fonts.has(name);
  }

  scripted() {
    const token = this.next;
    let base = token === "^" || token === "_" ? node("mrow") : this.atom();
    let below = null;
    let above = null;
    for (;;) {
      this.skip();
      if (this.next === "^" && !above) this.at++, above = this.argument();
      else if (this.next === "_" && !below) this.at++, below = this.argument();
      else if (this.next === "'") {
        let primes = "";
        while (this.next === "'") this.at++, primes += "′";
        above = node("mrow", ...(above ? [above] : []), node("mo", primes));
      } else if (this.next === "\\limits" || this.next === "\\nolimits") this.at++;
      else break;
    }
    if (!base || (!below && !above)) return base;
    const { takesLimits: isUnder, isName } = base;
    if (below && above) base = node(isUnder ? "munderover" : "msubsup", base, below, above);
    else if (below) base = node(isUnder ? "munder" : "msub", base, below);
    else base = node(isUnder ? "mover" : "msup", base, above);
    return Object.assign(base, { isName });
  }

  argument() {
    this.skip();
    if (this.next === undefined) giveUp();
    if (++this.depth > 40) giveUp();
    let out;
    if (this.next === "{") {
      this.at++;
      out = this.row(["}"]);
      this.take("}");
    } else if (/\d/.test(this.next)) out = node("mn", this.tokens[this.at++]);
    else out = this.atom() ?? node("mrow");
    this.depth--;
    return out;
  }

  /// The characters of a group, as they stand.
  word() {
    this.skip();
    if (this.next !== "{") return this.tokens[this.at++] ?? "";
    this.at++;
    let out = "";
    for (let depth = 1; ; this.at++) {
      const token = this.next;
      if (token === undefined) giveUp();
      if (token === "{") depth++;
      if (token === "}" && --depth === 0) break;
      out += token === "\\ " ? " " : token.replace(/^\\([%$&#_{} ])$/, "$1");
    }
    this.at++;
    return out;
  }

  atom() {
    const token = this.tokens[this.at++];
    if (token === undefined) giveUp();
    if (token === "{") {
      const out = this.row(["}"]);
      this.take("}");
      return out;
    }
    if (/\d/.test(token)) {
      let number = token;
      while (this.next !== undefined && (/\d/.test(this.next) || (this.next === "." && /\d/.test(this.tokens[this.at + 1] ?? "")))) {
        number += this.tokens[this.at++];
      }
      return node("mn", number);
    }
    if (/^\p{L}$/u.test(token)) return node("mi", token);
    if (token === "~") return node("mspace", { width: "0.25em" });
    if (!token.startsWith("\\")) return sign(token === "-" ? "−" : token === "*" ? "∗" : token);
    return this.command(token.slice(1));
  }

  command(name) {
    if (letters.has(name)) return node("mi", letters.get(name));
    if (operators.has(name)) return sign(operators.get(name));
    if (big.has(name)) {
      return Object.assign(node("mo", { largeop: "true" }, big.get(name)), { takesLimits: !name.includes("int") });
    }
    if (functions.has(name)) {
      return Object.assign(node("mi", name), { takesLimits: limits.has(name), isName: true });
    }
    if (spaces.has(name)) return node("mspace", { width: spaces.get(name) });
    if (accents.has(name)) return node("mover", { accent: "true" }, this.argument(), node("mo", { stretchy: String(/over|wide/.test(name)) }, accents.get(name)));
    if (fonts.has(name)) {
      const font = fonts.get(name);
      const at = this.at;
      try {
        const word = this.word();
        if (!/^[\w\s.-]*$/.test(word)) giveUp();
        const out = node("mi", font === "normal" ? { mathvariant: "normal" } : {}, styled(word.trim(), font));
        return Object.assign(out, { isName: name === "operatorname" });
      } catch {
        this.at = at;
        return this.argument();
      }
    }
    if (/^[{}]$/.test(name)) return sign(name);
    if (/^[%$&#_]$/.test(name)) return node("mi", name);
    if (name === "|") return sign("‖");
    switch (name) {
      case "frac": case "dfrac": case "tfrac": case "cfrac": return node("mfrac", this.argument(), this.argument());
      case "binom": case "dbinom": return node("mrow", node("mo", "("), node("mfrac", { linethickness: "0" }, this.argument(), this.argument()), node("mo", ")"));
      case "sqrt": return this.root();
      case "text": case "textbf": case "textit": case "textrm": case "mbox": case "textsf": case "texttt": return node("mtext", this.word());
      case "left": return this.fenced();
      case "begin": return this.environment();
      case "underbrace": return this.under("munder", "⏟");
      case "overbrace": return this.under("mover", "⏞");
      case "underline": return this.under("munder", "_");
      case "overset": case "stackrel": { const above = this.argument(); return node("mover", this.argument(), above); }
      case "underset": { const below = this.argument(); return node("munder", this.argument(), below); }
      case "not": return node("mo", `${this.argument().textContent}\u0338`);
      case "boxed": return node("mrow", { class: "boxed" }, this.argument());
      case "pmod": return node("mrow", sign("("), node("mi", "mod"), node("mspace", { width: "0.3em" }), this.argument(), sign(")"));
      case "bmod": case "mod": return node("mo", "mod");
      case "tag": return node("mtext", ` (${this.word()})`);
      case "big": case "Big": case "bigg": case "Bigg": case "bigl": case "bigr": case "Bigl": case "Bigr": case "biggl": case "biggr": return this.atom();
      case "displaystyle": case "textstyle": case "scriptstyle": case "limits": case "nolimits": case "nonumber": case "label": return null;
      default: giveUp();
    }
  }

  under(tag, mark) {
    return Object.assign(node(tag, this.argument(), node("mo", { stretchy: "true" }, mark)), { takesLimits: true });
  }

  root() {
    this.skip();
    if (this.next !== "[") return node("msqrt", this.argument());
    this.at++;
    const index = this.row(["]"]);
    this.take("]");
    return node("mroot", this.argument(), index);
  }

  fence() {
    this.skip();
    const token = this.tokens[this.at++];
    if (token === undefined) giveUp();
    if (token === ".") return "";
    const name = token.replace(/^\\/, "");
    return operators.get(name) ?? (name === "|" && token !== "|" ? "‖" : name);
  }

  fenced() {
    const out = node("mrow", edge(this.fence()));
    for (;;) {
      out.append(this.row(["\\right", "\\middle"]));
      const isEnd = this.tokens[this.at++] === "\\right";
      out.append(edge(this.fence()));
      if (isEnd) return out;
    }
  }

  environment() {
    const name = this.word();
    if (!fences.has(name)) giveUp();
    if (name === "array") this.word();
    const table = node("mtable");
    if (/align|split/.test(name)) table.setAttribute("class", "aligned");
    if (name === "cases") table.setAttribute("class", "cases");
    let line = node("mtr");
    for (;;) {
      line.append(node("mtd", this.row(["&", "\\\\", "\\end"])));
      const token = this.tokens[this.at++];
      if (token === "&") continue;
      table.append(line);
      line = node("mtr");
      if (token === "\\end") break;
      this.skip();
      if (this.next === "\\end") {
        this.at++;
        break;
      }
    }
    if (this.word() !== name) giveUp();
    const [open, close] = [...fences.get(name)];
    if (!open) return table;
    const out = node("mrow", edge(open), table);
    if (close) out.append(edge(close));
    return out;
  }
}

/// The formula as MathML, or its source.
export function math(text, isDisplay) {
  try {
    const reader = new Reader(text.trim());
    const row = reader.row();
    if (!text.trim()) giveUp();
    const out = node("math", { display: isDisplay ? "block" : "inline" }, row);
    out.ariaLabel = text.trim();
    return out;
  } catch {
    return el("code.tex", isDisplay ? `$$${text}$$` : `\\(${text}\\)`);
  }
}
