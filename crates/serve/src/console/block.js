// One block: its header, its transactions and its logs.

import { ApiError, curl, getJson } from "./api.js";
import { copy, copyButton, el, setAttr, setText } from "./dom.js";
import {
  addressLink,
  blockPath,
  chainPath,
  hashLink,
  isStellar,
  logsPath,
  rpcPath,
  transactionPath,
} from "./links.js";
import { chainNamed, hasAnswered } from "./live.js";
import { logTable } from "./log_table.js";
import { errorBox } from "./refusal.js";
import { setTitle } from "./router.js";
import { NONE, amount, bytes, count, counted, percent, quantity, scaled, setAge, utc } from "./words.js";

/** Transactions and logs that are shown at once; more are a click away. */
const SHOWN_MAX = 50;

/** What is known of a block's place on the chain, in words and with a tone. */
const PLACES = {
  open: ["not final, may roll back", null],
  compared: ["final height, being compared", null],
  final: ["final", "good"],
  replaced: ["replaced by another block", "bad"],
};

/** The top of a page of a chain: where it is, what it is, and its links. */
export function placeHead(chainId, title, ...tools) {
  const chain = chainNamed(chainId);
  const crumbs = el(
    "nav",
    { class: "crumbs", "aria-label": "Breadcrumb" },
    el("a", { href: "/", text: "Chains" }),
    el("span", { "aria-hidden": "true", text: "/" }),
    el("a", { href: chainPath(chainId), text: chain?.name ?? chainId }),
  );
  return el(
    "div",
    {},
    crumbs,
    el("div", { class: "title" }, el("h1", { text: title }), el("div", { class: "tools" }, ...tools)),
  );
}

export function blockPage({ chainId, block }) {
  const head = el("div");
  const body = el("div", { class: "view" });
  const node = el("div", {}, head, body);
  const ended = new AbortController();
  const pill = el("span", { class: "pill", "data-field": "block-state" });
  const other = el("a", { text: "the final block of this height", hidden: true });
  const state = el("span", {}, pill, " ", other);
  let isAsked = false;
  let shown = null;
  let place = "open";

  async function load(id) {
    head.replaceChildren(placeHead(id, `Block ${nameOf(block)}`));
    const path = `/v1/chains/${encodeURIComponent(id)}/blocks/${encodeURIComponent(block)}`;
    const chain = chainNamed(id);
    const network = chain && isStellar(chain) ? chain : null;
    try {
      shown = network
        ? await getJson(`${path}/clock`, { signal: ended.signal })
        : await asMuchAsIsKept(path, ended.signal);
    } catch (error) {
      if (ended.signal.aborted) return;
      body.replaceChildren(errorBox(error));
      return;
    }
    const number = Number(shown.number);
    setTitle(`Block ${count(number)}`);
    setAttr(other, "href", blockPath(id, number));
    const request = shown.transactions ? path : `${path}/clock`;
    head.replaceChildren(placeHead(id, `Block ${count(number)}`, ...steps(id, number, request)));
    if (network) {
      body.replaceChildren(facts(id, shown, state), restOfLedger(network));
      mark();
      return;
    }
    const logs = el("div");
    body.replaceChildren(
      facts(id, shown, state),
      transactions(id, shown),
      el("section", { "aria-labelledby": "logs-title" }, el("h2", { id: "logs-title", text: "Logs" }), logs),
    );
    mark();
    await showLogs(id, number, logs, ended.signal);
  }

  /** A block becomes final, or is replaced, while one looks at it. That its height is final does not say which. */
  function mark() {
    const chain = chainNamed(chainId);
    if (!shown || !chain) return;
    const number = Number(shown.number);
    if (place === "open" && number <= (chain.finalized?.number ?? -1)) compare(chain.chainId, number);
    showPlace();
  }

  function showPlace() {
    const [words, tone] = PLACES[place];
    setText(pill, words);
    setAttr(pill, "data-tone", tone);
    other.hidden = place !== "replaced";
  }

  /** Asks which block is at the height for good. */
  async function compare(id, number) {
    place = "compared";
    const path = `/v1/chains/${encodeURIComponent(id)}/blocks/${number}/clock`;
    try {
      const there = await getJson(path, { signal: ended.signal });
      place = placeOf(shown, there);
      showPlace();
    } catch (error) {
      if (ended.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      // The next overview asks again.
      place = "open";
    }
  }

  return {
    node,
    title: `Block ${block}`,
    update() {
      mark();
      if (isAsked || !hasAnswered()) return;
      isAsked = true;
      load(chainNamed(chainId)?.chainId ?? chainId);
    },
    close: () => ended.abort(),
  };
}

/** The place of a block, by the one that is at its height now. */
function placeOf(block, there) {
  if (!there.finalized) return "open";
  return there.hash === block.hash ? "final" : "replaced";
}

function nameOf(block) {
  return /^\d+$/.test(block) ? count(Number(block)) : block.length > 20 ? `${block.slice(0, 10)}…` : block;
}

/** With whole transactions where they are kept, else with their hashes; without a header its clock alone. */
async function asMuchAsIsKept(path, signal) {
  try {
    return await getJson(`${path}?transactions=full`, { signal });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status === 0 || error.status === 404) throw error;
  }
  try {
    return await getJson(path, { signal });
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "NOT_COVERED") throw error;
  }
  return getJson(`${path}/clock`, { signal });
}

function steps(chainId, number, path) {
  const step = (text, to) =>
    to >= 0 ? el("a", { class: "plain", href: blockPath(chainId, to), text }) : null;
  const request = el("button", { type: "button", class: "plain", text: "Copy as curl" });
  request.addEventListener("click", () => copy(curl(path), "the request"));
  return [step("← Previous", number - 1), step("Next →", number + 1), request];
}

/** Names and values; those that the block has not are left out. */
function facts(chainId, block, state) {
  const age = el("time", { class: "muted" });
  const seconds = Number(block.timestamp);
  setAge(age, seconds);
  const plain = (hash) => el("span", {}, el("span", { class: "mono whole", text: hash }), copyButton(hash));
  const used = block.gasUsed === undefined ? null : Number(block.gasUsed);
  const rows = [
    ["State", state],
    ["Time", el("span", {}, `${utc(seconds)} UTC, `, age)],
    ["Hash", el("span", { "data-field": "block-hash" }, plain(block.hash))],
    ["Parent", block.parentHash && hashLink(blockPath(chainId, block.parentHash), block.parentHash)],
    ["Transactions", block.transactions && count(block.transactions.length)],
    [
      "Gas used",
      used !== null &&
        `${quantity(block.gasUsed)}, ${percent(used, Number(block.gasLimit))} of ${quantity(block.gasLimit)}`,
    ],
    ["Base fee", block.baseFeePerGas && `${scaled(BigInt(block.baseFeePerGas), 9)} gwei`],
    ["Beneficiary", block.miner && addressLink(chainId, block.miner)],
    ["Size", block.size && bytes(Number(block.size))],
    ["State root", block.stateRoot && plain(block.stateRoot)],
    ["Receipts root", block.receiptsRoot && plain(block.receiptsRoot)],
    ["Transactions root", block.transactionsRoot && plain(block.transactionsRoot)],
  ];
  const shown = rows.filter(([, value]) => value);
  return el(
    "dl",
    { class: "panel facts" },
    ...shown.map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", {}, value))),
  );
}

/** Where the transactions and events of a ledger are: no route of REST has them. */
function restOfLedger(network) {
  const rpc = new URL(rpcPath(network), location.origin).href;
  return el(
    "section",
    { "aria-labelledby": "ledger-title" },
    el("h2", { id: "ledger-title", text: "Transactions and events" }),
    el(
      "p",
      { "data-field": "ledger-rpc" },
      "The network's RPC has those of each ledger, by ",
      el("code", { text: "getTransactions" }),
      " and ",
      el("code", { text: "getEvents" }),
      " at ",
      el("code", { class: "rpc", text: rpc }),
      copyButton(rpc, "the RPC address"),
    ),
  );
}

function transactions(chainId, block) {
  const all = block.transactions;
  const title = el("h2", { text: "Transactions" });
  if (!all || all.length === 0) {
    const words = all ? "None." : "Not known here: this chain keeps no headers, or no hashes of transactions.";
    return el("section", {}, title, el("p", { class: "muted", text: words }));
  }
  const number = Number(block.number);
  const isWhole = typeof all[0] !== "string";
  const heads = isWhole ? ["Index", "Transaction", "From", "To", "Value"] : ["Index", "Transaction"];
  const row = (transaction, at) => {
    const hash = isWhole ? transaction.hash : transaction;
    const cells = [
      el("td", { class: "right", text: at }),
      el("td", {}, hashLink(transactionPath(chainId, hash, number), hash)),
    ];
    if (isWhole) {
      cells.push(el("td", {}, transaction.from ? addressLink(chainId, transaction.from) : NONE));
      cells.push(
        el(
          "td",
          {},
          transaction.to
            ? addressLink(chainId, transaction.to)
            : el("span", { class: "muted", text: "new contract" }),
        ),
      );
      cells.push(el("td", { class: "right" }, nativeAmount(transaction.value)));
    }
    return el("tr", { "data-transaction": hash }, ...cells);
  };
  const right = new Set(["Index", "Value"]);
  const body = el("tbody", {}, ...all.slice(0, SHOWN_MAX).map(row));
  const table = el(
    "table",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ...heads.map((text) => el("th", { scope: "col", text, class: right.has(text) ? "right" : null })),
      ),
    ),
    body,
  );
  const rest = el("button", { type: "button", class: "plain", text: `Show all ${count(all.length)}` });
  rest.hidden = all.length <= SHOWN_MAX;
  rest.addEventListener("click", () => {
    rest.hidden = true;
    body.append(...all.slice(SHOWN_MAX).map((each, at) => row(each, at + SHOWN_MAX)));
  });
  return el(
    "section",
    {},
    title,
    el(
      "div",
      { class: "panel" },
      el("div", { class: "scroll", role: "region", "aria-label": "Transactions" }, table),
    ),
    rest,
  );
}

/** The native token has 18 decimals on every EVM chain. */
export function nativeAmount(value) {
  if (value === undefined || value === null) return NONE;
  const number = BigInt(value);
  return el("span", { title: `${amount(number).whole} wei`, text: scaled(number, 18) });
}

async function showLogs(chainId, number, place, signal) {
  if (chainNamed(chainId)?.datasets?.includes("logs") === false) {
    place.replaceChildren(el("p", { class: "muted", text: "Not known here: this chain keeps no logs." }));
    return;
  }
  const query = { fromBlock: number, toBlock: number, order: "asc", limit: SHOWN_MAX };
  try {
    const answer = await getJson(
      `/v1/chains/${encodeURIComponent(chainId)}/logs?${new URLSearchParams(query)}`,
      { signal },
    );
    const { logs, nextCursor, level } = answer;
    const words =
      logs.length === 0 ? "No logs" : `${nextCursor ? "The first " : ""}${counted(logs.length, "log")}`;
    const more = nextCursor
      ? el("a", { href: logsPath({ chain: chainId, ...query }), text: "All logs of this block" })
      : null;
    const line = el("p", { class: "hint" }, `${words}${level ? `, level ${level}` : ""}. `, more);
    place.replaceChildren(
      line,
      ...(logs.length > 0 ? [logTable(chainId, logs, { hides: ["Block", "Time, UTC"] })] : []),
    );
  } catch (error) {
    if (!signal.aborted) place.replaceChildren(errorBox(error));
  }
}
