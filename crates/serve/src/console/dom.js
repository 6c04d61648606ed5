// The page's hands: nodes made and changed in place, copying, and telling.
//
// What the API says is hostile text. It enters the page as text nodes and attributes alone, never as
// markup. Nodes are changed only where something differs, so that focus, selection and open parts
// survive every poll.

import { shortHash } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

/** A new element. Keys of `props` are attributes; `text` is its text; other arguments are children. */
export function el(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** The same in a drawing. */
export function svg(tag, props = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name === "text") node.textContent = value;
    else setAttr(node, name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** The element with this id; the page is broken without it. */
export function byId(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page has no element "${id}"`);
  return node;
}

export function setText(node, text) {
  const wanted = String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

/** Sets an attribute; `null`, `undefined` and `false` remove it. */
export function setAttr(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
    return;
  }
  const wanted = value === true ? "" : String(value);
  if (node.getAttribute(name) !== wanted) node.setAttribute(name, wanted);
}

const kept = new WeakMap();

/**
 * Makes the children of `parent` follow `items`, keeping the node of every key that stays.
 * `create(item)` gives `{ node, update }`; `update(item)` runs for old and new ones alike.
 */
export function sync(parent, items, keyOf, create) {
  const old = kept.get(parent) ?? new Map();
  const views = new Map();
  for (const item of items) {
    const key = String(keyOf(item));
    if (views.has(key)) continue;
    const view = old.get(key) ?? create(item);
    view.update(item);
    views.set(key, view);
  }
  for (const [key, view] of old) if (!views.has(key)) view.node.remove();
  // A node is moved only where the order differs: moving takes the focus away.
  let at = parent.firstElementChild;
  for (const view of views.values()) {
    if (view.node === at) at = at.nextElementSibling;
    else parent.insertBefore(view.node, at);
  }
  kept.set(parent, views);
  return views;
}

// Copying, and telling.

/** A button that shows a hash shortened and copies it whole. */
export function hashButton(hash = "") {
  const node = el("button", { type: "button", class: "hash" });
  setHash(node, hash);
  return node;
}

export function setHash(node, hash) {
  setText(node, shortHash(hash));
  setAttr(node, "data-copy", hash);
  setAttr(node, "title", hash);
  node.hidden = hash === "";
}

/** A small button that copies a text which stands beside it. */
export function copyButton(text = "", what = text) {
  const node = el("button", { type: "button", class: "copy" });
  setCopy(node, text, what);
  return node;
}

export function setCopy(node, text, what = text) {
  setAttr(node, "data-copy", text);
  setAttr(node, "title", `Copy ${what}`);
  setAttr(node, "aria-label", `Copy ${what}`);
}

/** A part of the page that every page may need, made when it is first used. */
function shared(id, make) {
  const there = document.getElementById(id);
  if (there) return there;
  const made = make();
  document.body.append(made);
  return made;
}

function announcer() {
  return shared("announce", () =>
    el("p", { id: "announce", class: "hidden", role: "status", "aria-live": "polite" }),
  );
}

let toastEnds = 0;

/** Says something to those who see and to those who listen. */
export function tell(words) {
  const toast = shared("toast", () => el("p", { id: "toast", "aria-hidden": "true" }));
  setText(toast, words);
  toast.classList.add("shown");
  clearTimeout(toastEnds);
  toastEnds = setTimeout(() => toast.classList.remove("shown"), 2_000);
  announce(words);
}

export function announce(words) {
  setText(announcer(), words);
}

/** Copies a text; where the browser allows no clipboard, shows it selected instead. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    tell(`Copied ${what}`);
  } catch {
    const dialog = shared("by-hand", byHand);
    const area = byId("by-hand-text");
    area.value = text;
    dialog.showModal();
    area.focus();
    area.select();
  }
}

function byHand() {
  const why =
    "The browser gives this page no clipboard: it wants HTTPS or localhost. The text is selected; press Ctrl+C or ⌘C.";
  const area = el("textarea", { id: "by-hand-text", rows: 8, readonly: true, spellcheck: "false" });
  return el(
    "dialog",
    { id: "by-hand", "aria-labelledby": "by-hand-title" },
    el("h2", { id: "by-hand-title", text: "Copy by hand" }),
    el("p", { class: "muted", text: why }),
    el("label", { class: "field" }, "Text ", area),
    el("form", { method: "dialog" }, el("button", { text: "Close" })),
  );
}

// A live region must be there before it speaks.
announcer();

document.addEventListener("click", (event) => {
  const node = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
  if (node) copy(node.dataset.copy, shortHash(node.dataset.copy));
});
