// One document for all pages of the console: links within it change the page without loading anything again, and
// the address always says what is shown, so that it can be shared, reloaded and gone back to.
//
// A page is a function of its parameters that returns `{ node, title, update(overview), close() }`; the last two are
// optional.

import { byId, el } from "./dom.js";
import { listen } from "./live.js";

let routes = [];
let page = null;
let stopListening = () => {};
let notice = () => {};
/** The path of what is shown, without and with its query. */
let shownPath = null;
let shownAddress = null;

/** `[path with {names}, name of the entry at the top, page]` each; `changed(entry)` is called for every page. */
export function startRouter(table, changed) {
  routes = table.map(([path, entry, view]) => ({ entry, view, ...compiled(path) }));
  notice = changed;
  history.scrollRestoration = "manual";
  addEventListener("popstate", () => {
    // A place within the page is the browser's own matter.
    if (location.pathname + location.search !== shownAddress) show(true);
  });
  document.addEventListener("click", clicked);
  document.addEventListener("navigate-to", (event) => {
    if (!leadsHere(new URL(event.detail, location.href))) return;
    event.preventDefault();
    go(event.detail);
  });
  show(true);
}

function compiled(path) {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  return { names, pattern: new RegExp(`^${path.replace(/\{\w+\}/g, "([^/]+)")}$`) };
}

function matching(pathname) {
  for (const route of routes) {
    const match = route.pattern.exec(pathname);
    if (!match) continue;
    try {
      const values = match.slice(1).map(decodeURIComponent);
      return { route, params: Object.fromEntries(route.names.map((name, at) => [name, values[at]])) };
    } catch {
      return null;
    }
  }
  return null;
}

function leadsHere(url) {
  return url.origin === location.origin && matching(url.pathname) !== null;
}

function clicked(event) {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!link || link.target || link.hasAttribute("download")) return;
  const url = new URL(link.href);
  if (!leadsHere(url)) return;
  if (url.pathname === location.pathname && url.search === location.search && url.hash) return;
  event.preventDefault();
  go(url.pathname + url.search + url.hash);
}

/** Goes to another page; the one before stays in the browser's history. */
export function go(href) {
  history.replaceState({ scroll: scrollY }, "");
  history.pushState({}, "", href);
  show(false);
}

/** Changes the address of the page on show, which shows it already. */
export function rename(href) {
  history.replaceState(history.state, "", href);
  shownAddress = location.pathname + location.search;
}

function show(isReturn) {
  const found = matching(location.pathname);
  const isSamePage = page !== null && shownPath === location.pathname;
  const query = new URLSearchParams(location.search);
  const main = byId("main");
  stopListening();
  page?.close?.();
  page = found ? found.route.view(found.params, query) : lost();
  notice(found?.route.entry ?? "");
  main.replaceChildren(page.node);
  page.node.classList.add("view");
  setTitle(page.title);
  stopListening = page.update ? listen((overview) => page.update(overview)) : () => {};
  shownPath = location.pathname;
  shownAddress = location.pathname + location.search;
  if (isReturn) scrollTo(0, history.state?.scroll ?? 0);
  else if (!isSamePage) {
    scrollTo(0, 0);
    // Who listens to the page hears its title, and the next tab is inside.
    const heading = page.node.querySelector("h1");
    heading?.setAttribute("tabindex", "-1");
    heading?.focus({ preventScroll: true });
  }
}

export function setTitle(title) {
  const wanted = title ? `${title} · Chronolith` : "Chronolith";
  if (document.title !== wanted) document.title = wanted;
}

function lost() {
  const node = el(
    "div",
    {},
    el("h1", { text: "No such page" }),
    el(
      "p",
      {},
      "See ",
      el("a", { href: "/", text: "all chains" }),
      ", or search for a block, a hash or a time.",
    ),
  );
  return { node, title: "No such page" };
}
