// Settings of a chat: the bounds of numbers, what is wrong with a setting, and what is in force.

import { number, t } from "./words.js";

/// Name → least, most, step; the server says the same bounds again if they are passed.
export const numbers = {
  temperature: [0, 2, 0.1], top_p: [0, 1, 0.05], top_k: [0, 1000, 1], min_p: [0, 1, 0.01], max_output_tokens: [1, 1_000_000, 1],
  seed: [0, 2 ** 53 - 1, 1], repetition_penalty: [0.01, 10, 0.05], presence_penalty: [-2, 2, 0.1], frequency_penalty: [-2, 2, 0.1],
};

/// A number as people write it, with a point or a comma; the text itself where it is none, so that it is not lost.
export function readNumber(text) {
  const trimmed = text.trim();
  return /^[-+]?(\d+[.,]?\d*|[.,]\d+)$/.test(trimmed) ? Number(trimmed.replace(",", ".")) : trimmed;
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/// What a JSON setting has to be; each says what is wrong with it, as the name of a sentence.
const shapes = {
  schema: (value) => (isObject(value) ? "" : "bad_schema"),
  tools: (value) => !Array.isArray(value) ? "bad_tools"
    : value.every((tool) => isObject(tool) && typeof (tool.function ?? tool)?.name === "string" && (tool.function ?? tool).name) ? "" : "bad_tool",
};

/// What is wrong with a setting; empty when nothing is.
export function fault(name, value) {
  if (value === undefined || value === "") return "";
  if (numbers[name]) {
    const [min, max, step] = numbers[name];
    if (typeof value !== "number") return t("notANumber");
    if (value < min || value > max) return t("outOfRange", { min, max });
    return Number.isInteger(step) && !Number.isInteger(value) ? t("notWhole") : "";
  }
  if (!shapes[name] || !value.trim()) return "";
  try {
    const found = shapes[name](JSON.parse(value));
    return found && t(found);
  } catch (error) {
    return `${t("badJSON")} ${error.message}`;
  }
}

/// What differs from the defaults, as it is told beside the box: `{names, text, fault}`, with the settings that it stands for.
export function inForce(settings) {
  const parts = [];
  const add = (names, text) => parts.push({ names, text, fault: names.map((name) => fault(name, settings[name])).find(Boolean) ?? "" });
  if (settings.system?.trim()) add(["system"], t("system"));
  if (settings.schema?.trim()) add(["schema"], t("set_schema"));
  if (settings.tools?.trim()) {
    const count = fault("tools", settings.tools) ? 0 : JSON.parse(settings.tools).length;
    add(["tools"], count ? t("toolCount", { count }) : t("set_tools"));
  }
  const servers = Object.keys(settings.servers ?? {});
  if (servers.length) add(["servers", "allowed"], t("toolsOf", { names: servers.join(", ") }));
  if (settings.notes) add(["notes"], t("notesOf", { name: settings.notes.name }));
  const changed = Object.keys(numbers).filter((name) => settings[name] !== undefined);
  // What is wrong stands alone, so that its reason is read.
  const wrong = changed.filter((name) => fault(name, settings[name]));
  const good = changed.filter((name) => !wrong.includes(name));
  for (const name of wrong) add([name], t(`set_${name}`));
  if (good.length) add(good, good.map((name) => `${t(`set_${name}`)} ${number(settings[name], 3)}`).join(" · "));
  if (settings.stop?.trim()) add(["stop"], t("set_stop"));
  return parts;
}

/// The first setting that keeps a message from being sent: `{names, text, fault}`.
export const firstFault = (settings) => inForce(settings).find((part) => part.fault);
