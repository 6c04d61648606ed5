// The questions that a text of the search box leads to. A question asks one chain, and makes nodes of its answer:
// null where the chain certainly has no such thing, and words where it cannot say.

import { getJson } from "./api.js";
import { el } from "./dom.js";
import { declarationsOf } from "./events.js";
import {
  addressLink,
  blockLink,
  blockPath,
  chainPath,
  hashLink,
  isStellar,
  logsPath,
  searchPath,
  transactionPath,
} from "./links.js";
import { logTable } from "./log_table.js";
import { ago, count, counted, span, utc } from "./words.js";

/** Logs of each chain that are shown at once. */
const LOGS_SHOWN = 5;
const DIRECTIONS = ["before", "after", "closest"];
/** The first ledger of a Stellar network that any source has. */
const FIRST_LEDGER = 2;

/** The questions of one meaning, `{ kind, title, noun, ask(chain, signal), controls, nodes, chain, isForEvm }`. */
export function questionsOf(meaning, options) {
  const { chain } = meaning;
  switch (meaning.kind) {
    case "chain":
      return [
        {
          kind: "chain",
          title: "Chain",
          noun: "chain",
          chain: undefined,
          nodes: [chainNode(chain)],
          ask: async () => null,
        },
      ];
    case "block":
      return [
        {
          kind: "block",
          title: "Blocks",
          noun: "block",
          chain,
          ask: (of, signal) => askBlock(of, meaning.block, signal),
        },
      ];
    case "time":
      return [
        {
          kind: "time",
          title: `Block at ${utc(meaning.seconds)} UTC`,
          noun: "block",
          chain,
          controls: timeControls,
          ask: (of, signal) => askTime(of, meaning, options, signal),
        },
      ];
    case "address":
      return [logsQuestion("address", "Logs of this contract", { address: meaning.address }, chain)];
    default:
      return hashQuestions(meaning.hash, chain);
  }
}

function chainNode(chain) {
  const head = chain.head ? `, head ${count(chain.head.number)}` : "";
  return el(
    "span",
    {},
    el("a", { href: chainPath(chain.chainId), text: chain.name }),
    el("span", { class: "muted", text: ` ${chain.chainId}${head}` }),
  );
}

/** A known topic is more likely a topic than a hash of something else. */
function hashQuestions(hash, chain) {
  const [declaration] = declarationsOf(hash);
  const title = declaration
    ? `Logs of ${declaration.replace(/ indexed/g, "")}`
    : "Logs with this first topic";
  const block = {
    kind: "hash-block",
    title: "Block",
    noun: "block",
    chain,
    ask: (of, signal) => askBlock(of, hash, signal),
  };
  const transaction = {
    kind: "hash-transaction",
    title: "Transaction",
    noun: "transaction",
    chain,
    isForEvm: true,
    ask: (of, signal) => askTransaction(of, hash, signal),
  };
  const logs = logsQuestion("topic", title, { topic0: hash }, chain);
  return declaration ? [logs, block, transaction] : [block, transaction, logs];
}

const api = (chain, rest) => `/v1/chains/${encodeURIComponent(chain.chainId)}/${rest}`;

async function askBlock(chain, block, signal) {
  // Over REST, of a ledger there are number, hash, parent and time alone.
  const part = isStellar(chain) ? "/clock" : "";
  const found = await getJson(api(chain, `blocks/${encodeURIComponent(block)}${part}`), { signal });
  const number = Number(found.number);
  const seconds = Number(found.timestamp);
  const words = [`${utc(seconds)} UTC`, ago(seconds)];
  if (found.transactions) words.push(counted(found.transactions.length, "transaction"));
  return [
    blockLink(chain.chainId, number),
    hashLink(blockPath(chain.chainId, found.hash), found.hash),
    el("span", { class: "muted", text: words.join(", ") }),
  ];
}

async function askTransaction(chain, hash, signal) {
  const found = await getJson(api(chain, `transactions/${hash}`), { signal });
  const number = Number(found.blockNumber);
  return [
    hashLink(transactionPath(chain.chainId, hash, number), hash),
    el("span", {}, "in block ", blockLink(chain.chainId, number)),
    el("span", { class: "muted" }, "from ", found.from ? addressLink(chain.chainId, found.from) : "nobody"),
  ];
}

/** The newest logs of what is archived without a gap up to the head. */
function logsQuestion(kind, title, filter, chain) {
  return {
    kind,
    title,
    noun: "log",
    chain,
    ask: async (of, signal) => {
      const from = firstWhole(of);
      const query = new URLSearchParams({
        ...filter,
        fromBlock: from,
        toBlock: "latest",
        order: "desc",
        limit: LOGS_SHOWN,
      });
      const { logs, nextCursor, toBlock } = await getJson(api(of, `logs?${query}`), { signal });
      if (logs.length === 0) {
        // Blocks below the chain's start in the settings exist, and were not looked at.
        const isWhole = from <= (isStellar(of) ? FIRST_LEDGER : 0);
        return isWhole ? null : `none from block ${count(from)} on; older ones are not searched`;
      }
      const all = logsPath({
        chain: of.chainId,
        ...filter,
        fromBlock: from,
        toBlock: "latest",
        order: "desc",
      });
      const words = nextCursor
        ? `The newest ${LOGS_SHOWN} through block ${count(toBlock?.number)}`
        : counted(logs.length, "log");
      return [
        el(
          "p",
          { class: "wide-hit" },
          el("span", { class: "muted", text: `${words}. ` }),
          el("a", { href: all, text: "All of them" }),
        ),
        logTable(of.chainId, logs),
      ];
    },
  };
}

/** The first block from which on nothing is missing up to the head. */
function firstWhole(chain) {
  const covered = [...(chain.coverage ?? [])].sort((a, b) => b.from - a.from);
  let from = covered[0]?.from ?? chain.head?.number ?? 0;
  for (const interval of covered.slice(1)) {
    if (interval.to + 1 < from) break;
    from = interval.from;
  }
  return from;
}

async function askTime(chain, { time, seconds }, { direction, inclusive }, signal) {
  const path = api(
    chain,
    `block/${encodeURIComponent(direction)}/${encodeURIComponent(time)}?inclusive=${inclusive === "true"}`,
  );
  const found = await getJson(path, { signal });
  const away = found.timestamp - seconds;
  const far =
    Math.abs(away) < 1 ? "at that time" : `${span(away, 2)} ${away < 0 ? "before" : "after"} that time`;
  const marks = [
    far,
    found.finalized ? "final" : "not final, may roll back",
    found.settled ? "settled" : "not settled: a later block may be the answer",
  ];
  const number = el(
    "span",
    { "data-field": "time-number", "data-number": found.number },
    blockLink(chain.chainId, found.number),
  );
  return [
    number,
    hashLink(blockPath(chain.chainId, found.hash), found.hash),
    el("span", { text: `${utc(found.timestamp)} UTC` }),
    el("span", { class: "muted", text: marks.join(", ") }),
  ];
}

/** Which block: the last before, the first after, or the nearest. They are links, so that each can be shared. */
function timeControls({ text, scope, options }) {
  const link = (direction, inclusive, words, isChosen) =>
    el("a", {
      class: "plain",
      "aria-current": isChosen ? "true" : null,
      href: searchPath(text, { chain: scope, direction, inclusive }),
      text: words,
    });
  const isInclusive = options.inclusive === "true";
  const choices = DIRECTIONS.map((each) => link(each, options.inclusive, each, each === options.direction));
  const exact = link(options.direction, String(!isInclusive), "that time included", isInclusive);
  return el("div", { class: "tools choices" }, ...choices, options.direction === "closest" ? null : exact);
}
