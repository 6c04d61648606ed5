// Logs as a table: each with its event and values where they are known, and opened with all that came.

import { el } from "./dom.js";
import { decode, valueTable, valuesInLine } from "./decoded.js";
import { nameOf } from "./events.js";
import { addressLink, blockLink, hashLink, logsPath, transactionPath } from "./links.js";
import { ago, count, counted, shortHash, utc } from "./words.js";

// A longer text would make the table hard to read; the row opens to all of it.
const DATA_SHOWN = 22;

const HEAD_CLASSES = { Log: "right", "Time, UTC": "col-time" };
const HEADS = ["Block", "Log", "Time, UTC", "Event", "Contract", "Transaction"];

/** `hides` names columns that say the same in every row: `block`, `transaction`. */
export function logTable(chainId, logs, { hides = [] } = {}) {
  const shown = HEADS.filter((head) => !hides.includes(head));
  const heads = shown.map((text) => el("th", { scope: "col", text, class: HEAD_CLASSES[text] ?? null }));
  const table = el(
    "table",
    { class: "logs-found" },
    el("caption", { class: "hidden", text: "Logs found" }),
    el("thead", {}, el("tr", {}, ...heads)),
    el("tbody", {}, ...logs.flatMap((log) => rows(chainId, log, shown))),
  );
  return el(
    "div",
    { class: "panel" },
    el("div", { class: "scroll", role: "region", "aria-label": "Logs found" }, table),
  );
}

/** The row of a log, and a second one with all of it that is made when it is first opened. */
function rows(chainId, log, shown) {
  const block = Number(log.blockNumber);
  const index = Number(log.logIndex);
  const decoded = decode(log);
  const open = el("button", {
    type: "button",
    class: "disclose",
    "aria-expanded": "false",
    "aria-label": `Log ${index} of block ${block}`,
    text: count(index),
  });
  const cells = {
    Block: () => el("td", { "data-field": "block" }, blockLink(chainId, block)),
    Log: () => el("td", { class: "right", "data-field": "index" }, open),
    "Time, UTC": () =>
      el("td", { class: "muted col-time", text: log.blockTimestamp ? utc(Number(log.blockTimestamp)) : "" }),
    Event: () => el("td", { class: "event-cell" }, ...event(chainId, log, decoded)),
    Contract: () => el("td", { "data-field": "address" }, addressLink(chainId, log.address)),
    Transaction: () =>
      el("td", {}, hashLink(transactionPath(chainId, log.transactionHash, block), log.transactionHash)),
  };
  const whole = el("tr", { class: "whole", hidden: true }, el("td", { colspan: shown.length }));
  open.addEventListener("click", () => {
    whole.hidden = !whole.hidden;
    open.setAttribute("aria-expanded", String(!whole.hidden));
    if (whole.firstChild.firstChild) return;
    whole.firstChild.append(...opened(chainId, log, decoded));
  });
  const row = el(
    "tr",
    { "data-log": `${block}-${index}`, "data-event": decoded?.name },
    ...shown.map((head) => cells[head]()),
  );
  return [row, whole];
}

/** The event in words; what is not known is shown as it came. */
function event(chainId, log, decoded) {
  const topics = log.topics ?? [];
  if (decoded) {
    const link = el("a", {
      class: "event",
      href: logsPath({ chain: chainId, topic0: topics[0], fromBlock: "earliest", order: "desc" }),
      title: decoded.declaration,
      text: decoded.name,
    });
    return [link, " ", valuesInLine(decoded, chainId)];
  }
  if (topics.length === 0)
    return [
      el("span", { class: "muted", text: "no topics " }),
      el("span", { class: "mono", text: dataShown(log.data) }),
    ];
  const name = nameOf(topics[0]);
  const link = el("a", {
    class: "hash",
    href: logsPath({ chain: chainId, topic0: topics[0], fromBlock: "earliest", order: "desc" }),
    title: topics[0],
    text: shortHash(topics[0]),
  });
  const note = name ? el("span", { class: "muted", text: ` topic of ${name}, with other contents ` }) : null;
  const rest = topics.length > 1 ? `+${counted(topics.length - 1, "topic")} ` : "";
  return [link, note, " ", el("span", { class: "muted", text: `${rest}${dataShown(log.data)}` })];
}

function dataShown(data) {
  const size = Math.max(0, data.length - 2) / 2;
  if (size === 0) return "no data";
  return data.length <= DATA_SHOWN ? data : counted(size, "byte");
}

function opened(chainId, log, decoded) {
  const raw = el("pre", {
    tabindex: 0,
    "aria-label": "The log as it came",
    text: JSON.stringify(log, null, 2),
  });
  const words = decoded
    ? [el("p", { class: "mono declaration", text: decoded.declaration }), valueTable(decoded, chainId)]
    : [el("p", { class: "hint", text: "No known event fits this log: it is shown as it came." })];
  const seconds = Number(log.blockTimestamp);
  const time = log.blockTimestamp
    ? el("p", { class: "hint", text: `Block of ${utc(seconds)} UTC, ${ago(seconds)}` })
    : null;
  // The table has all of it: as it came it is for those who need the bytes.
  const whole = decoded ? el("details", { "data-field": "raw" }, el("summary", { text: "Raw" }), raw) : raw;
  return [el("div", { class: "opened" }, ...words, time, whole)];
}
