// The chapters that are no entries: the introduction, errors, limits and schemas.

import { ask, codeBlock, setKey, writtenWithKey } from "./docs-request.js";
import { heading } from "./docs-entry.js";
import { errorId } from "./docs-search.js";
import { curl, pretty } from "./docs-code.js";
import { el } from "./dom.js";
import { prose, wholeSchema } from "./schemas.js";

/** What the reader needs first: what it is, where it is, and a first request. */
export function introduction({ description, chains }) {
  const { info } = description;
  const [lead, ...rest] = info.description.split("\n\n");
  const base = codeBlock({ title: [el("span", { class: "code-title", text: "Base URL" })], label: "base URL" });
  base.set(`${location.origin}/`);
  const facts = [
    fact("From any page", "Browsers may send requests from every origin."),
    fact("Complete or an error", "What is missing is an error, never a shorter answer."),
    fact("Chain ids", "Numbers, or strings above 2^53 - 1. Stellar networks have names, too."),
  ];
  const tries = el(
    "div",
    { class: "tries" },
    firstTry(chains),
    el("div", { class: "card" }, base.head, base.pre),
    keyCard(),
  );
  const about = el(
    "div",
    { class: "about" },
    ...[lead, ...rest].map((text) => el("p", {}, ...prose(text))),
    el("div", { class: "facts-list" }, ...facts),
  );
  return el(
    "section",
    { class: "chapter", id: "introduction", tabindex: "-1" },
    el("h1", {}, info.title, " API ", el("span", { class: "pill", text: info.version })),
    el("p", { class: "lead", text: info.summary }),
    el("div", { class: "entry-form" }, about, tries),
  );
}

function fact(title, text) {
  return el("div", {}, el("b", { text: title }), el("span", { class: "muted", text }));
}

/** A field for the reader's API key, which all requests of the page then have. */
function keyCard() {
  const field = el("input", {
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "Only if the node wants one",
  });
  field.addEventListener("input", () => setKey(field.value));
  const label = el(
    "label",
    { class: "key-field", id: "api-key" },
    el("span", { class: "code-title", text: "API key" }),
    field,
  );
  return el("div", { class: "card" }, label);
}

/** A first request, with an answer at once. */
function firstTry(chains) {
  const call = { jsonrpc: "2.0", id: 1, method: "eth_blockNumber" };
  const evm = chains.evm[0];
  const path = evm === undefined ? "/v1/chains" : `/${evm}`;
  const body = evm === undefined ? undefined : JSON.stringify(call);
  const block = codeBlock({ title: [el("h2", { class: "code-title", text: "Try this" })], label: "first request" });
  writtenWithKey(block, (key) => curl({ url: location.origin + path, body, key }));
  const run = el("button", { type: "button", class: "send", text: "Run" });
  const result = el("pre", {
    class: "code result",
    tabindex: "0",
    role: "region",
    "aria-label": "Answer of the first request",
    hidden: true,
  });
  run.addEventListener("click", async () => {
    try {
      const response = await ask({ method: body ? "POST" : "GET", path, body });
      result.textContent = pretty(await response.json());
    } catch {
      result.textContent = "The node does not answer. Is it running, and is the network there?";
    }
    result.hidden = false;
  });
  const words = evm === undefined ? "All chains of this node" : `The newest block of chain ${evm}`;
  const foot = el("div", { class: "code-foot" }, el("span", { class: "muted", text: words }), run);
  return el("div", { class: "card", id: "try" }, block.head, block.pre, foot, result);
}

/** A text of a table as a sentence. */
function sentence(text) {
  return prose(text.charAt(0).toUpperCase() + text.slice(1));
}

/** A cell with its column's name, which a narrow page shows. */
function cell(label, ...content) {
  return el("td", { "data-label": label }, content.length > 0 ? el("div", {}, ...content) : "");
}

/** Codes with what they mean and what to do. */
export function errors({ description }) {
  const names = ["Code", "HTTP", "JSON-RPC", "When", "What to do"];
  const rows = description["x-errors"].map((row) => {
    const codes = row.codes.map((code) =>
      el("code", { class: "code-name", id: errorId(row, code), tabindex: "-1", text: code }),
    );
    const rpc =
      row.rpc === null ? [] : [el("code", { text: String(row.rpc) }), ...prose(row.note.replace(/^,? ?/, " "))];
    const cells = [
      codes,
      [row.status === null ? "200" : String(row.status)],
      rpc,
      sentence(row.when),
      sentence(row.advice),
    ];
    const place = codes.length === 0 ? { id: errorId(row), tabindex: "-1" } : {};
    return el("tr", place, ...cells.map((content, at) => cell(names[at], ...content)));
  });
  return chapter({ id: "errors", title: "Errors" }, [
    el(
      "p",
      {},
      ...prose(
        "REST answers errors as problem details (RFC 9457): `code`, `status`, `title`, `detail` and `requestId`, with fields such as `head`, `missing` or `retryRange` beside them. JSON-RPC answers them with status 200 as `error`, with the same fields in `data`. Answers with status 503 say in `Retry-After` when to ask again.",
      ),
    ),
    stackTable(names, rows, "Errors"),
  ]);
}

/** What requests and answers may cost. */
export function limits({ description }) {
  const names = ["What", "Limit", "Setting"];
  const rows = description["x-limits"].map((row) => {
    const setting = row.setting ? [el("code", { text: row.setting })] : [];
    const cells = [sentence(row.what), sentence(row.limit), setting];
    return el("tr", {}, ...cells.map((content, at) => cell(names[at], ...content)));
  });
  return chapter({ id: "limits", title: "Limits" }, [
    el("p", { text: "As they are by default. The operator of a node can change those with a setting." }),
    stackTable(names, rows, "Limits"),
  ]);
}

/** Schemas by name; each is linked where it is used. */
export function schemas(model) {
  const all = model.schemas.map(([name, schema]) => {
    const node = el(
      "details",
      { class: "schema", id: `schema-${name}` },
      el("summary", {}, el("code", { text: name })),
    );
    node.addEventListener("toggle", () => {
      if (node.open && node.children.length === 1)
        node.append(el("div", { class: "unfolded" }, ...wholeSchema(schema, model.follow)));
    });
    return node;
  });
  return chapter({ id: "schemas", title: "Schemas" }, [
    el("p", { text: "What values look like, by name. Entries link to them where they use them." }),
    el("div", { class: "schema-list" }, ...all),
  ]);
}

function chapter({ id, title }, content) {
  return el("section", { class: "chapter", id, tabindex: "-1" }, heading("h2", id, title), ...content);
}

/** A table whose rows become cards where the page is narrow. */
function stackTable(names, rows, label) {
  const head = el("tr", {}, ...names.map((text) => el("th", { scope: "col", text })));
  return el("table", { class: "stack", "aria-label": label }, el("thead", {}, head), el("tbody", {}, ...rows));
}
