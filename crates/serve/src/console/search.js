// The log search: a form, a table, and the same question for other programs.

import { curl, getJson } from "./api.js";
import { byId, copy, count, counted, el, hashButton, setText, shortHash, utc } from "./dom.js";
import { errorBox } from "./lookup.js";

// A longer text would make the table hard to read; the row opens to all of it.
const DATA_SHOWN = 34;

const FIELDS = {
  fromBlock: "from",
  toBlock: "to",
  address: "address",
  topic0: "topic0",
  topic1: "topic1",
  topic2: "topic2",
  topic3: "topic3",
  limit: "limit",
  order: "order",
};

let running = null;
/** The page on show: its question, its answer and its number. Null where there is none. */
let shown = null;

export function startSearch() {
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    search(question(), 1);
  });
  byId("search-next").addEventListener("click", () => {
    if (shown?.answer.nextCursor) search({ ...shown.asked, cursor: shown.answer.nextCursor }, shown.page + 1);
  });
  byId("search-copy-json").addEventListener("click", () => {
    if (shown) copy(JSON.stringify(shown.answer.logs, null, 2), counted(shown.answer.logs.length, "log"));
  });
  byId("search-copy-curl").addEventListener("click", () => {
    if (shown) copy(curl(`/v1/chains/${shown.asked.chainId}/rpc`, getLogs(shown)), "the request");
  });
}

/** Asks for the logs of one block. */
export function searchBlock(chainId, number) {
  byId("search-chain").value = chainId;
  for (const name of ["from", "to"]) byId(`search-${name}`).value = String(number);
  byId("search-title").scrollIntoView({ block: "start" });
  byId("search-title").focus({ preventScroll: true });
  search(question(), 1);
}

function question() {
  const asked = { chainId: byId("search-chain").value, params: {} };
  for (const [param, field] of Object.entries(FIELDS)) {
    const value = byId(`search-${field}`).value.trim();
    if (value !== "") asked.params[param] = value;
  }
  return asked;
}

function pathOf({ chainId, params, cursor }, more = {}) {
  const query = new URLSearchParams({ ...params, ...more });
  if (cursor) query.set("cursor", cursor);
  return `/v1/chains/${encodeURIComponent(chainId)}/logs?${query}`;
}

/** The same question to a node: the blocks that the names meant, without limit and cursor. */
function getLogs({ asked, answer }) {
  const list = (text) => {
    const values = (text ?? "")
      .split(",")
      .map((value) => value.trim())
      .filter(Boolean);
    return values.length > 1 ? values : (values[0] ?? null);
  };
  const hex = (block) => `0x${block.number.toString(16)}`;
  const filter = { fromBlock: hex(answer.fromBlock), toBlock: hex(answer.toBlock) };
  const address = list(asked.params.address);
  if (address !== null) filter.address = address;
  const topics = [0, 1, 2, 3].map((at) => list(asked.params[`topic${at}`]));
  while (topics.length > 0 && topics[topics.length - 1] === null) topics.pop();
  if (topics.length > 0) filter.topics = topics;
  return { jsonrpc: "2.0", id: 1, method: "eth_getLogs", params: [filter] };
}

async function search(asked, page) {
  running?.abort();
  const mine = (running = new AbortController());
  const results = byId("search-results");
  results.setAttribute("aria-busy", "true");
  setText(byId("search-status"), "Searching …");
  try {
    const answer = await getJson(pathOf(asked), { signal: mine.signal });
    show({ asked, answer, page });
  } catch (error) {
    if (mine.signal.aborted) return;
    show(null);
    byId("search-error").replaceChildren(errorBox(error));
  } finally {
    if (running === mine) results.setAttribute("aria-busy", "false");
  }
}

function show(found) {
  shown = found;
  byId("search-error").replaceChildren();
  const results = byId("search-results");
  const logs = found?.answer.logs ?? [];
  results.hidden = logs.length === 0;
  results.replaceChildren(...(logs.length === 0 ? [] : [table(logs)]));
  results.scrollTop = 0;
  setText(byId("search-status"), found ? summary(found) : "");
  const next = byId("search-next");
  const wasFocused = document.activeElement === next;
  next.disabled = !found?.answer.nextCursor;
  // A disabled button drops the focus to the top of the page.
  if (wasFocused && next.disabled) byId("search-status").focus();
  byId("search-copy-json").disabled = logs.length === 0;
  byId("search-copy-curl").disabled = !found;
  const csv = byId("search-csv");
  csv.hidden = logs.length === 0;
  if (found) csv.href = pathOf(found.asked, { format: "csv" });
}

function summary({ answer, page }) {
  const { logs, fromBlock, toBlock, level, nextCursor } = answer;
  const where = `in blocks ${count(fromBlock?.number)} to ${count(toBlock?.number)}, level ${level}`;
  if (logs.length === 0) return page > 1 ? `Page ${page}: no more logs ${where}.` : `No logs ${where}.`;
  const which = page > 1 || nextCursor ? `Page ${page}: ` : "";
  return `${which}${counted(logs.length, "log")} ${where}${nextCursor ? "; there are more" : ""}.`;
}

const HEADS = ["Block", "Log", "Time", "Address", "Topic 0", "Data", "Transaction"];

function table(logs) {
  const heads = HEADS.map((text, at) => el("th", { scope: "col", text, class: at < 2 ? "right" : null }));
  return el(
    "table",
    {},
    el("caption", { class: "hidden", text: "Logs found" }),
    el("thead", {}, el("tr", {}, ...heads)),
    el("tbody", {}, ...logs.flatMap(rows)),
  );
}

/** The row of a log, and a second one with all of it that is made when it is first opened. */
function rows(log) {
  const block = Number(log.blockNumber);
  const index = Number(log.logIndex);
  const open = el("button", {
    type: "button",
    class: "disclose",
    "aria-expanded": "false",
    "data-field": "block",
    text: count(block),
  });
  const topics = log.topics ?? [];
  const cells = [
    el("td", { class: "right" }, open),
    el("td", { class: "right", "data-field": "index", text: count(index) }),
    el("td", { class: "steady", text: log.blockTimestamp ? utc(Number(log.blockTimestamp)) : "" }),
    el("td", { "data-field": "address" }, hashButton(log.address)),
    el(
      "td",
      {},
      topics.length > 0 ? hashButton(topics[0]) : "",
      topics.length > 1 ? ` +${topics.length - 1}` : "",
    ),
    el("td", {
      class: "mono",
      title: log.data.length > DATA_SHOWN ? "open the row to see all of it" : null,
      text: dataShown(log.data),
    }),
    el("td", {}, hashButton(log.transactionHash)),
  ];
  const whole = el("tr", { class: "whole", hidden: true }, el("td", { colspan: HEADS.length }));
  open.addEventListener("click", () => {
    whole.hidden = !whole.hidden;
    open.setAttribute("aria-expanded", String(!whole.hidden));
    if (whole.firstChild.firstChild) return;
    whole.firstChild.append(
      el("pre", {
        tabindex: 0,
        "aria-label": `log ${index} of block ${block}`,
        text: JSON.stringify(log, null, 2),
      }),
    );
  });
  return [el("tr", { "data-log": `${block}-${index}` }, ...cells), whole];
}

function dataShown(data) {
  const size = Math.max(0, data.length - 2) / 2;
  return data.length <= DATA_SHOWN ? data : `${shortHash(data)} ${counted(size, "byte")}`;
}
