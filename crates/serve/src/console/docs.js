// The API description as a page: made from /openapi.json, which the node serves.

import { getJson } from "./api.js";
import { entrySection, heading } from "./docs-entry.js";
import { model } from "./docs-model.js";
import { contentsButton, followReading, navigation } from "./docs-nav.js";
import { errors, introduction, limits, schemas } from "./docs-pages.js";
import { errorId, index, searchBox } from "./docs-search.js";
import { announce, byId, el } from "./dom.js";
import { prose } from "./schemas.js";

/** The chains of this node, for the paths of examples; the list may name others that it only knows. */
function chainsOf(list) {
  const served = list.filter((chain) => chain.followed !== false);
  const ids = served.map((chain) => chain.chainId);
  // The ids of Stellar chains are derived, and far above 2^53: they are strings.
  const stellar = served
    .filter((chain) => typeof chain.chainId === "string")
    .map((chain) => chain.configuredName ?? chain.name);
  const evm = ids.filter((id) => typeof id === "number");
  const of = (entry) => {
    const known = entry.isRpc && evm.length > 0 ? evm : ids;
    return known.length > 0 ? known : [entry.parameters.find(({ name }) => name === "chainId")?.example ?? 1];
  };
  return {
    evm,
    ids: of,
    first: (entry) => of(entry)[0],
    networks: (example) => (stellar.length > 0 ? stellar : [example]),
  };
}

/** What a refusal means, by its code, for the table of errors. */
function explainer(rows) {
  return (status, body) => {
    const rpc = body?.error?.code;
    const code = body?.code ?? (typeof rpc === "string" ? rpc : undefined);
    const row = rows.find((row) =>
      code ? row.codes.includes(code) && row.status === status : status === 200 && row.rpc === rpc,
    );
    if (!row || (status === 200 && rpc === undefined)) return [];
    const id = errorId(row, code);
    return [
      el(
        "p",
        {},
        el("a", { href: `#${id}` }, el("code", { text: code ?? rpc })),
        " ",
        body.detail ?? body.error.message ?? "",
      ),
      el("p", { class: "muted" }, "What to do: ", ...prose(row.advice), "."),
    ];
  };
}

/** The codes of a status that its description names, with their places on the page. */
function refusalsOf(rows) {
  return (status, description) => {
    const same = rows.filter((row) => String(row.status) === status);
    const all = same.flatMap((row) => row.codes.map((code) => ({ code, id: errorId(row, code) })));
    // One that is named in the text is linked there.
    const named = all.filter(({ code }) => description.includes(`\`${code}\``));
    return named.length > 0 || all.length === 1 ? (named.length > 0 ? named : all) : [];
  };
}

function show(description, chains) {
  const known = model(description);
  const rows = description["x-errors"];
  const shared = { follow: known.follow, chains, explain: explainer(rows), refusals: refusalsOf(rows) };
  const groups = known.groups.map((group) =>
    el(
      "div",
      { class: "docs-group" },
      el(
        "section",
        { class: "chapter", id: group.id, tabindex: "-1" },
        heading("h2", group.id, group.title),
        el("p", {}, ...prose(group.text)),
      ),
      ...group.entries.map((entry) => entrySection(entry, shared)),
    ),
  );
  navigation(known);
  byId("reference").replaceChildren(
    introduction({ description, chains }),
    ...groups,
    errors(known),
    limits(known),
    schemas(known),
  );
  const box = byId("search");
  searchBox({ box, list: byId("found"), announce }, index(known));
  contentsButton();
  followReading();
}

/** Opens what the address names, and what it is in: a closed part cannot be scrolled to. */
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target instanceof HTMLDetailsElement) target.open = true;
  target.scrollIntoView();
  target.focus({ preventScroll: true });
}

async function start() {
  let description;
  try {
    description = await getJson("/openapi.json");
  } catch (error) {
    byId("reference").replaceChildren(el("p", { class: "error", text: `${error.message} ${error.advice ?? ""}` }));
    return;
  }
  // Without the list of chains, examples name that of the description.
  const chains = await getJson("/v1/chains").catch(() => []);
  show(description, chainsOf(chains));
  openTarget();
  addEventListener("hashchange", openTarget);
  document.documentElement.dataset.ready = "";
}

start();
