// One transaction: what it is, and the logs that it made.

import { curl, getJson } from "./api.js";
import { nativeAmount, placeHead } from "./block.js";
import { copy, copyButton, el } from "./dom.js";
import { addressLink, blockLink, blockPath, hashLink } from "./links.js";
import { chainNamed, hasAnswered } from "./live.js";
import { logTable } from "./log_table.js";
import { errorBox } from "./refusal.js";
import { count, counted, quantity, scaled, shortHash } from "./words.js";

/** Logs of a page, and pages of a block that are looked through. */
const LIMIT = 1_000;
const PAGES_MAX = 50;

const TYPES = ["legacy", "access list", "EIP-1559", "blob", "set code"];

export function transactionPage({ chainId, hash }, query) {
  const head = el("div");
  const body = el("div", { class: "view" });
  const node = el("div", {}, head, body);
  const ended = new AbortController();
  let isAsked = false;

  async function load(id) {
    const path = `/v1/chains/${encodeURIComponent(id)}/transactions/${encodeURIComponent(hash)}`;
    const request = el("button", { type: "button", class: "plain", text: "Copy as curl" });
    request.addEventListener("click", () => copy(curl(path), "the request"));
    head.replaceChildren(placeHead(id, `Transaction ${shortHash(hash)}`, request));
    let found = null;
    try {
      found = await getJson(path, { signal: ended.signal });
      body.replaceChildren(facts(id, found));
    } catch (error) {
      if (ended.signal.aborted) return;
      body.replaceChildren(errorBox(error));
    }
    const number = found ? Number(found.blockNumber) : blockOf(query);
    if (number === null || ended.signal.aborted) return;
    const none = found ? "No logs" : `No log of block ${count(number)} names it`;
    const logs = el("div");
    const section = el(
      "section",
      { "aria-labelledby": "logs-title" },
      el("h2", { id: "logs-title", text: "Logs" }),
      logs,
    );
    body.append(section);
    const shown = await showLogs(id, { number, hash, none }, logs, ended.signal);
    // Anybody can write a block into the address: a log of the transaction says that it is there.
    if (!found && shown > 0) section.before(namedIn(id, number));
  }

  return {
    node,
    title: `Transaction ${shortHash(hash)}`,
    update() {
      if (isAsked || !hasAnswered()) return;
      isAsked = true;
      load(chainNamed(chainId)?.chainId ?? chainId);
    },
    close: () => ended.abort(),
  };
}

/** The block that the address names; null where it names none. */
function blockOf(query) {
  const text = query.get("block") ?? "";
  return /^\d{1,15}$/.test(text) ? Number(text) : null;
}

function namedIn(chainId, number) {
  const link = el("a", { href: blockPath(chainId, number), text: count(number) });
  return el("p", {}, "A log names it in block ", link, ".");
}

function facts(chainId, found) {
  const gwei = (value) => `${scaled(BigInt(value), 9)} gwei`;
  const kind = Number(found.type ?? 0);
  const rows = [
    [
      "Hash",
      el(
        "span",
        { "data-field": "transaction-hash" },
        el("span", { class: "mono whole", text: found.hash }),
        copyButton(found.hash),
      ),
    ],
    ["Block", blockLink(chainId, Number(found.blockNumber))],
    ["Block hash", hashLink(blockPath(chainId, found.blockHash), found.blockHash)],
    ["Index in the block", count(Number(found.transactionIndex))],
    ["From", found.from && addressLink(chainId, found.from)],
    ["To", found.to ? addressLink(chainId, found.to) : "a new contract"],
    ["Value", nativeAmount(found.value)],
    ["Nonce", found.nonce !== undefined && quantity(found.nonce)],
    ["Type", found.type !== undefined && `${kind}, ${TYPES[kind] ?? "of this chain"}`],
    ["Gas limit", found.gas !== undefined && quantity(found.gas)],
    ["Gas price", found.gasPrice !== undefined && gwei(found.gasPrice)],
    ["Most a unit of gas may cost", found.maxFeePerGas !== undefined && gwei(found.maxFeePerGas)],
  ];
  const shown = rows.filter(([, value]) => value);
  const data = found.input ?? "0x";
  const size = (data.length - 2) / 2;
  const input = el(
    "details",
    {},
    el("summary", { text: `Input, ${counted(size, "byte")}` }),
    el("pre", { class: "input", tabindex: 0, "aria-label": "Input", text: data }),
    copyButton(data, "the input"),
  );
  return el(
    "section",
    { "aria-label": "Transaction" },
    el(
      "dl",
      { class: "panel facts" },
      ...shown.map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", {}, value))),
    ),
    size > 0 ? input : null,
  );
}

/** Shows them, or `none` in words, and says how many there are. */
async function showLogs(chainId, { number, hash, none }, place, signal) {
  try {
    const { logs, isWhole } = await logsOf(chainId, number, hash, signal);
    const rest = isWhole ? "" : " among the first of the block";
    const words = el("p", {
      class: "hint",
      text: `${logs.length === 0 ? none : counted(logs.length, "log")}${rest}.`,
    });
    place.replaceChildren(
      words,
      ...(logs.length > 0 ? [logTable(chainId, logs, { hides: ["Block", "Time, UTC", "Transaction"] })] : []),
    );
    return logs.length;
  } catch (error) {
    if (!signal.aborted) place.replaceChildren(errorBox(error));
    return 0;
  }
}

/** Those of its block that name it. They lie side by side, so the search ends behind them. */
async function logsOf(chainId, number, hash, signal) {
  const logs = [];
  let cursor = "";
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const query = new URLSearchParams({ fromBlock: number, toBlock: number, order: "asc", limit: LIMIT });
    if (cursor) query.set("cursor", cursor);
    const answer = await getJson(`/v1/chains/${encodeURIComponent(chainId)}/logs?${query}`, { signal });
    const own = answer.logs.filter((log) => log.transactionHash === hash.toLowerCase());
    logs.push(...own);
    const last = answer.logs[answer.logs.length - 1];
    if (!answer.nextCursor || (logs.length > 0 && last.transactionHash !== hash.toLowerCase()))
      return { logs, isWhole: true };
    cursor = answer.nextCursor;
  }
  return { logs, isWhole: false };
}
