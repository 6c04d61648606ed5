// The top of every page: where one is, the search box, and whether what is shown is live.
//
// A page has `<header class="top" id="top">`; its `data-page` names the entry that is the page itself.

import { useKey } from "./api.js";
import { byId, el } from "./dom.js";
import { startSearchBox } from "./search_box.js";

const PAGES = [
  ["overview", "/", "Overview"],
  ["logs", "/logs", "Logs"],
  ["projections", "/projections", "Projections"],
  ["docs", "/docs", "API"],
];

/** `live` says that the page shows whether it is. */
export function startHeader({ live = false } = {}) {
  const top = byId("top");
  const links = PAGES.map(([page, href, text]) => el("a", { href, text, "data-page": page }));
  const brand = el(
    "a",
    { href: "/", class: "brand", "aria-label": "Chronolith, overview of all chains" },
    el("img", { src: new URL("./console.svg", import.meta.url).href, alt: "" }),
    el("span", { text: "Chronolith" }),
  );
  const search = el("form", { class: "search", role: "search", action: "/search", autocomplete: "off" });
  const words = el("span", { id: "connection-words", text: "Connecting" });
  const connection = el(
    "p",
    { id: "connection", "data-state": "waiting" },
    el("span", { class: "dot", "aria-hidden": "true" }),
    words,
  );
  const nav = el("nav", { "aria-label": "Pages" }, ...links);
  top.replaceChildren(el("div", { class: "wrap" }, brand, nav, search, live ? connection : null));
  const stale = el(
    "div",
    { id: "stale", role: "alert", hidden: true },
    el("div", { class: "wrap" }, el("p", { id: "stale-words" }), keyForm()),
  );
  if (live) top.append(stale);
  setPage(top.dataset.page ?? "");
  startSearchBox(search);
}

/** For nodes that answer only callers with a key. */
function keyForm() {
  const field = el("input", {
    type: "password",
    id: "key-field",
    autocomplete: "off",
    required: true,
    "aria-label": "API key",
    placeholder: "API key",
  });
  const form = el(
    "form",
    { id: "key-form", hidden: true },
    field,
    el("button", { type: "submit", text: "Use this key" }),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    useKey(field.value.trim());
    // Every page asks its questions when it is opened.
    location.reload();
  });
  return form;
}

/** Marks the entry of the page. */
export function setPage(page) {
  for (const link of document.querySelectorAll("#top nav a")) {
    if (link.dataset.page === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}
