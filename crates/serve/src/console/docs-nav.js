// The navigation at the side: chapters and entries, and which of them is being read.

import { badge } from "./docs-entry.js";
import { byId, el } from "./dom.js";

/** Fills the navigation. */
export function navigation({ groups, schemas }) {
  const chapter = (id, text) => el("li", {}, el("a", { href: `#${id}`, text }));
  const begin = el(
    "ul",
    {},
    chapter("introduction", "Introduction"),
    chapter("errors", "Errors"),
    chapter("limits", "Limits"),
    chapter("schemas", "Schemas"),
  );
  const parts = groups.map((group) =>
    el(
      "div",
      { class: "nav-group" },
      el("h2", {}, el("a", { href: `#${group.id}`, text: group.title })),
      el("ul", {}, ...group.entries.map(link)),
    ),
  );
  const named = el(
    "details",
    { class: "nav-group" },
    el("summary", { text: `All ${schemas.length} schemas` }),
    el(
      "ul",
      {},
      ...schemas.map(([name]) => el("li", {}, el("a", { href: `#schema-${name}` }, el("code", { text: name })))),
    ),
  );
  byId("contents").replaceChildren(el("div", { class: "nav-group" }, begin), ...parts, named);
}

function link(entry) {
  const name = entry.kind === "rpc" ? el("code", { text: entry.name }) : el("span", { text: entry.title });
  return el("li", {}, el("a", { href: `#${entry.id}` }, name, entry.kind === "rpc" ? null : badge(entry.kind)));
}

/** Marks what is being read, and keeps the mark in sight. */
export function followReading() {
  const links = new Map([...document.querySelectorAll("#contents a")].map((node) => [node.hash.slice(1), node]));
  const parts = [...document.querySelectorAll("#reference :is(.entry, .chapter)[id]")];
  let current = null;
  const mark = () => {
    // The last part that begins above the upper quarter of the window.
    const line = innerHeight / 4;
    const begun = parts.filter((part) => part.getBoundingClientRect().top <= line);
    const atEnd = Math.ceil(scrollY + innerHeight) >= document.documentElement.scrollHeight;
    const part = atEnd ? parts.at(-1) : (begun.at(-1) ?? parts[0]);
    const node = links.get(part?.id);
    if (!node || node === current) return;
    current?.removeAttribute("aria-current");
    node.setAttribute("aria-current", "location");
    current = node;
    keepInSight(node);
  };
  let isDue = false;
  addEventListener(
    "scroll",
    () => {
      if (isDue) return;
      isDue = true;
      requestAnimationFrame(() => {
        isDue = false;
        mark();
      });
    },
    { passive: true },
  );
  mark();
}

/** Scrolls the navigation alone: the page must stay where it is. */
function keepInSight(node) {
  const side = byId("side");
  const [at, frame] = [node.getBoundingClientRect(), side.getBoundingClientRect()];
  if (at.top < frame.top + 24) side.scrollTop -= frame.top + 24 - at.top;
  if (at.bottom > frame.bottom - 24) side.scrollTop += at.bottom - frame.bottom + 24;
}

/** The button that opens the navigation where it has no place beside the page. */
export function contentsButton() {
  const [button, side] = [byId("contents-button"), byId("side")];
  const set = (isOpen) => {
    button.setAttribute("aria-expanded", String(isOpen));
    side.classList.toggle("open", isOpen);
    const top = document.querySelector(".top").getBoundingClientRect().bottom;
    document.documentElement.style.setProperty("--top", `${top}px`);
  };
  button.addEventListener("click", () => set(button.getAttribute("aria-expanded") !== "true"));
  side.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("a")) set(false);
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || button.getAttribute("aria-expanded") !== "true") return;
    set(false);
    button.focus();
  });
}
