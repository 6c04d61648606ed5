// The search for logs: everything that is asked for is in the address, so that a result can be shared, reloaded and
// gone back to.

import { ApiError, curl, curlToFile, getBlob, getJson, hasKey } from "./api.js";
import { copy, el, setText, sync, tell } from "./dom.js";
import { nameOf } from "./events.js";
import { isStellar, logsPath } from "./links.js";
import { chainNamed, chains, hasAnswered } from "./live.js";
import { logTable } from "./log_table.js";
import { errorBox } from "./refusal.js";
import { isTime, isoOf } from "./query.js";
import { go } from "./router.js";
import { count, counted } from "./words.js";

const TOPICS = ["topic0", "topic1", "topic2", "topic3"];
const NAMES = ["fromBlock", "toBlock", "address", ...TOPICS, "order", "limit"];
const LIMIT = "50";
/** For how long the browser may read a file that it saves. */
const SAVING_MS = 60_000;

export function logsPage(_params, query) {
  const asked = Object.fromEntries(
    [...NAMES, "chain", "cursor"].map((name) => [name, query.get(name) ?? ""]),
  );
  const { form, fill } = logForm(asked);
  const status = el("p", { id: "search-status", role: "status", class: "muted" });
  const results = el("div", { id: "search-results" });
  const tools = el("div", { class: "actions", hidden: true });
  const ended = new AbortController();
  let isAsked = false;

  async function search() {
    const chain = chainNamed(asked.chain);
    const chainId = chain?.chainId ?? asked.chain;
    const path = apiPath(chainId, asked);
    setText(status, "Searching …");
    results.setAttribute("aria-busy", "true");
    try {
      const answer = await getJson(path, { signal: ended.signal });
      setText(status, summary(answer, asked));
      results.replaceChildren(...(answer.logs.length > 0 ? [logTable(chainId, answer.logs)] : []));
      tools.hidden = false;
      tools.replaceChildren(...actions(chainId, asked, answer, path));
    } catch (error) {
      if (ended.signal.aborted) return;
      setText(status, "");
      const retry = (from, to) => logsPath({ ...asked, fromBlock: from, toBlock: to, cursor: "" });
      results.replaceChildren(errorBox(error, { retry }));
    } finally {
      results.setAttribute("aria-busy", "false");
    }
  }

  const node = el(
    "div",
    {},
    el("h1", { text: "Logs" }),
    form,
    el(
      "section",
      { class: "found", "aria-label": "Results" },
      el("div", { class: "title" }, status, tools),
      results,
    ),
  );
  return {
    node,
    title: asked.chain ? `Logs of ${asked.chain}` : "Logs",
    update() {
      fill(chains());
      if (isAsked || !hasAnswered()) return;
      isAsked = true;
      // Without a question there is nothing to search for.
      if (asked.chain !== "") search();
    },
    close: () => ended.abort(),
  };
}

function logForm(asked) {
  const field = (label, name, props = {}) =>
    el(
      "label",
      { class: `field ${props.class ?? ""}` },
      label,
      el("input", {
        type: "text",
        id: `search-${name}`,
        name,
        value: asked[name],
        spellcheck: "false",
        ...props,
        class: null,
      }),
    );
  const chain = el("select", { id: "search-chain", name: "chain", required: true });
  const order = el(
    "select",
    { id: "search-order", name: "order" },
    el("option", { value: "desc", text: "newest first" }),
    el("option", { value: "asc", text: "oldest first" }),
  );
  order.value = asked.order || "desc";
  const more = el(
    "details",
    { class: "wide" },
    el("summary", { text: "More topics" }),
    el(
      "div",
      { class: "topics" },
      ...TOPICS.slice(1).map((name, at) => field(`Topic ${at + 1}`, name, { placeholder: "any" })),
    ),
  );
  more.open = TOPICS.slice(1).some((name) => asked[name] !== "");
  const form = el(
    "form",
    { id: "search-form", class: "panel form logs", autocomplete: "off" },
    el("label", { class: "field" }, "Chain", chain),
    field("From, block or UTC time", "fromBlock", {
      placeholder: "latest",
      "aria-describedby": "search-hint",
    }),
    field("To, block or UTC time", "toBlock", { placeholder: "latest", "aria-describedby": "search-hint" }),
    el("label", { class: "field" }, "Order", order),
    field("Logs a page", "limit", { inputmode: "numeric", placeholder: LIMIT }),
    field("Contract address", "address", { placeholder: "any; several with commas", class: "half" }),
    field("Topic 0, the event", "topic0", { placeholder: "any; several with commas", class: "half" }),
    more,
    el(
      "div",
      { class: "actions wide" },
      el("button", { type: "submit", text: "Search" }),
      el("p", {
        class: "hint",
        id: "search-hint",
        text: "A block is a number, 0x hex, earliest, finalized or latest; a time is like 2026-11-19 or 2026-11-19T14:00:00Z.",
      }),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const params = Object.fromEntries(new FormData(form));
    for (const name of Object.keys(params)) params[name] = params[name].trim();
    go(logsPath(params));
  });
  return { form, fill: (all) => fillChains(chain, all, asked.chain) };
}

/** The chains to choose from; what is chosen stays. */
function fillChains(select, all, asked) {
  const isFirst = select.options.length === 0;
  const option = ({ chainId, name }) => ({
    node: el("option", { value: chainId, text: `${name} (${chainId})` }),
    update: () => {},
  });
  sync(
    select,
    all.filter((chain) => !isStellar(chain)),
    ({ chainId }) => chainId,
    option,
  );
  if (isFirst && asked !== "") select.value = String(chainNamed(asked)?.chainId ?? asked);
}

/** The question as the API takes it: an end of the range is a block or a time. */
function apiPath(chainId, asked, more = {}) {
  const query = new URLSearchParams();
  const ends = { fromBlock: "from", toBlock: "to" };
  for (const name of NAMES) {
    const value = asked[name];
    if (value === "") continue;
    if (ends[name] && isTime(value)) query.set(ends[name], isoOf(value));
    else query.set(name, value.replace(/\s+/g, ""));
  }
  if (!query.has("order")) query.set("order", "desc");
  if (!query.has("limit")) query.set("limit", LIMIT);
  if (asked.cursor) query.set("cursor", asked.cursor);
  for (const [name, value] of Object.entries(more)) query.set(name, value);
  return `/v1/chains/${encodeURIComponent(chainId)}/logs?${query}`;
}

function summary({ logs, fromBlock, toBlock, level, nextCursor }, asked) {
  const where =
    fromBlock && toBlock ? ` in blocks ${count(fromBlock.number)} to ${count(toBlock.number)}` : "";
  const proof = level ? `, level ${level}` : "";
  const page = asked.cursor ? "on this page" : "";
  if (logs.length === 0) return `No ${page ? "more " : ""}logs${where}${proof}.`;
  const name = nameOf(asked.topic0);
  return `${counted(logs.length, name ? `${name} log` : "log")} ${page}${where}${proof}${nextCursor ? "; there are more" : ""}.`.replace(
    "  ",
    " ",
  );
}

/** The same question in the blocks that were answered: by the next one, a tag or a time may mean others. */
function inBlocksOf({ fromBlock, toBlock }, asked) {
  if (!fromBlock || !toBlock) return asked;
  return { ...asked, fromBlock: String(fromBlock.number), toBlock: String(toBlock.number) };
}

function actions(chainId, asked, answer, path) {
  const button = (text, id, act) => {
    const node = el("button", { type: "button", class: "plain", id, text });
    node.addEventListener("click", act);
    return node;
  };
  const { logs, nextCursor } = answer;
  const shown = inBlocksOf(answer, asked);
  const next = nextCursor
    ? el("a", {
        class: "plain",
        id: "search-next",
        href: logsPath({ ...shown, cursor: nextCursor }),
        text: "Next page",
      })
    : null;
  const first = asked.cursor
    ? el("a", { class: "plain", href: logsPath({ ...asked, cursor: "" }), text: "First page" })
    : null;
  const json =
    logs.length > 0
      ? button("Copy as JSON", "search-copy-json", () =>
          copy(JSON.stringify(logs, null, 2), counted(logs.length, "log")),
        )
      : null;
  const request = button("Copy as curl", "search-copy-curl", () => copy(curl(path), "the request"));
  const csv =
    logs.length > 0 ? csvLink(apiPath(chainId, shown, { format: "csv" }), fileName(chainId, answer)) : null;
  const all = logs.length > 0 ? downloadLink(chainId, shown, answer) : null;
  return [first, next, json, csv, all, request].filter(Boolean);
}

/** All logs of the question as a file; null where a block of it may still be replaced, because a download is refused. */
function downloadLink(chainId, shown, answer) {
  const final = chainNamed(chainId)?.finalized?.number ?? -1;
  if (!answer.fromBlock || !answer.toBlock || answer.toBlock.number > final) return null;
  const [path, query] = apiPath(chainId, { ...shown, cursor: "" }, { format: "csv" }).split("?");
  const params = new URLSearchParams(query);
  params.delete("limit");
  const href = `${path}/download?${params}`;
  // As the server names it.
  const name = `chronolith-${chainId}-logs-${answer.fromBlock.number}-${answer.toBlock.number}.csv`;
  const link = el("a", {
    class: "plain",
    id: "search-download",
    href,
    download: name,
    title: "All logs of these blocks, as CSV",
    text: "Download all",
  });
  link.addEventListener("click", (event) => {
    if (!hasKey()) return;
    // The browser would not send the key, and a page cannot hold a file of any size.
    event.preventDefault();
    copy(curlToFile(href, name), "the command that downloads all; set API_KEY to your key");
  });
  return link;
}

function fileName(chainId, { fromBlock, toBlock }) {
  return `logs-${chainId}-${fromBlock.number}-${toBlock.number}.csv`;
}

/** The browser follows it by itself, unless the node wants a key that only this page can send. */
function csvLink(path, name) {
  const link = el("a", { class: "plain", id: "search-csv", href: path, download: name, text: "CSV of this page" });
  link.addEventListener("click", (event) => {
    if (!hasKey()) return;
    event.preventDefault();
    save(path, name);
  });
  return link;
}

async function save(path, name) {
  try {
    const url = URL.createObjectURL(await getBlob(path));
    el("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), SAVING_MS);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    tell(`No CSV: ${error.message}`);
  }
}
