// The right side of an entry: the request as code, the example answer, and the answer of this node.

import { coloured, curl, fetchCode, headersOf, pretty } from "./docs-code.js";
import { copy, el } from "./dom.js";

/** Longer answers are cut on the page. */
const SHOWN_MAX = 50_000;
const TIMEOUT_MS = 40_000;
const LANGUAGES = [
  ["curl", "curl", curl],
  ["fetch", "JavaScript", fetchCode],
];

let language = "curl";
/** The reader's API key; it is kept nowhere. */
let key = "";
const listeners = new Set();

/** All requests have it. */
export function setKey(text) {
  key = text.trim();
  for (const listener of listeners) listener();
}

/** All entries show the same language. */
function setLanguage(name) {
  language = name;
  for (const listener of listeners) listener();
}

/** Code with a title, and a button that copies it. */
export function codeBlock({ title, label }) {
  let text = "";
  const pre = el("pre", { class: "code", tabindex: "0", role: "region", "aria-label": label });
  const button = el("button", { type: "button", class: "quiet-button", "aria-label": `Copy ${label}`, text: "Copy" });
  button.addEventListener("click", () => copy(text, label));
  const head = el("div", { class: "code-head" }, ...title, button);
  const set = (shown, copied = shown) => {
    text = copied;
    pre.replaceChildren(...coloured(shown));
  };
  return { head, pre, button, set };
}

/** Code that is written anew when the key changes. */
export function writtenWithKey(block, write) {
  const update = () => block.set(write(key));
  listeners.add(update);
  update();
}

/** The request as code. `read()` gives `{ path, body, isText }` of what the reader typed. */
export function requestCard(entry, read) {
  const picks = LANGUAGES.map(([name, title]) => {
    const pick = el("button", { type: "button", class: "tab", text: title, "data-language": name });
    pick.addEventListener("click", () => setLanguage(name));
    return pick;
  });
  const tabs = el("div", { class: "tabs", role: "group", "aria-label": "Language" }, ...picks);
  const block = codeBlock({ title: [tabs], label: `request of ${entry.name}` });
  const update = () => {
    const { path, ...rest } = read();
    const write = LANGUAGES.find(([name]) => name === language)[2];
    block.set(write({ url: new URL(path, location.origin).href, key, ...rest }));
    for (const pick of picks) pick.setAttribute("aria-pressed", String(pick.dataset.language === language));
  };
  listeners.add(update);
  update();
  const send = el("button", { type: "submit", class: "send", text: "Send" });
  const foot = el("div", { class: "code-foot" }, el("span", { class: "muted", text: "Asks this node" }), send);
  return { node: el("div", { class: "card" }, block.head, block.pre, foot), update };
}

/** The example answer, in whose place the node's answer comes. */
export function answerCard(entry) {
  const kinds = entry.answers[0].kinds.filter(({ example }) => example !== undefined);
  const title = el("span", { class: "code-title" });
  const status = el("span", { class: "pill" });
  const facts = el("span", { class: "muted facts", role: "status" });
  const back = el("button", { type: "button", class: "quiet-button", text: "Show the example" });
  const picker = kindPicker(kinds);
  const block = codeBlock({
    title: [title, status, facts, picker, back].filter(Boolean),
    label: `answer of ${entry.name}`,
  });
  const explained = el("div", { class: "explained", hidden: true });
  const node = el("div", { class: "card answer" }, block.head, explained, block.pre);
  const present = (shows, words) => {
    node.dataset.shows = shows;
    title.textContent = words;
    back.hidden = shows === "example";
    explained.hidden = true;
    if (picker) picker.hidden = shows !== "example";
  };
  const showExample = () => {
    const { kind, example } = kinds[Number(picker?.value ?? 0)] ?? {};
    present("example", "Example answer");
    setStatus(status, entry.answers[0].status);
    facts.textContent = "";
    block.set(kind?.includes("json") && typeof example !== "string" ? pretty(example) : String(example ?? "A page."));
  };
  const showAnswer = ({ response, text, took, why }) => {
    present("answer", "This node");
    setStatus(status, String(response.status));
    facts.textContent = `${took} ms, ${size(text)}`;
    explained.hidden = why.length === 0;
    explained.replaceChildren(...why);
    block.set(readable(text, response.headers.get("content-type") ?? ""), text);
  };
  const showFailure = (words) => {
    present("failure", "No answer");
    status.hidden = true;
    facts.textContent = "";
    block.set(words);
  };
  back.addEventListener("click", showExample);
  picker?.addEventListener("change", showExample);
  showExample();
  return { node, showAnswer, showFailure };
}

function kindPicker(kinds) {
  if (kinds.length < 2) return null;
  const options = kinds.map(({ kind }, at) =>
    el("option", { value: String(at), text: kind.replace(/^(application|text)\/(x-)?/, "") }),
  );
  return el("select", { class: "kind-picker", "aria-label": "Format of the example" }, ...options);
}

function setStatus(node, status) {
  node.hidden = false;
  node.textContent = status;
  node.dataset.tone = status.startsWith("2") ? "good" : status.startsWith("4") ? "warn" : "bad";
}

function size(text) {
  const { length } = new TextEncoder().encode(text);
  return length < 1_000 ? `${length} B` : `${(length / 1_000).toFixed(1)} kB`;
}

function readable(text, kind) {
  let whole = text === "" ? "No content" : text;
  if (/[/+]json/.test(kind)) {
    try {
      whole = pretty(JSON.parse(text));
    } catch {
      // It says that it is JSON and is not: it is shown as it came.
    }
  }
  if (whole.length <= SHOWN_MAX) return whole;
  return `${whole.slice(0, SHOWN_MAX)}\n… ${(whole.length - SHOWN_MAX).toLocaleString("en-US")} more characters`;
}

/** Sends what the reader typed, and shows the answer. `explain(status, body)` says what a refusal means. */
export async function send({ method, path, body }, card, explain) {
  card.node.setAttribute("aria-busy", "true");
  const began = performance.now();
  try {
    const response = await ask({ method, path, body });
    const text = await response.text();
    const took = Math.round(performance.now() - began);
    card.showAnswer({ response, text, took, why: explain(response.status, parsed(text)) });
  } catch {
    card.showFailure("The node does not answer. Is it running, and is the network there?");
  } finally {
    card.node.setAttribute("aria-busy", "false");
  }
}

/** Asks the node, with the reader's key. */
export function ask({ method, path, body }) {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  return fetch(path, { method, body, headers: headersOf({ body, key }), signal, cache: "no-store" });
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
