// Shared by all clients: the comparisons, their counts and the report.

import { readFileSync } from "node:fs";
import { APPROVAL, NOISE, TOKEN, TRANSFER, topic } from "./contracts.mjs";
import { call, headOf, hex } from "./rpc.mjs";

/** Fields of a block that Chronolith may omit, each with the reason. */
const LEFT_OUT = JSON.parse(readFileSync(new URL("left-out.json", import.meta.url), "utf8"));
const DIFFERENCES_SHOWN = 10;

const isObject = (value) => typeof value === "object" && value !== null;

/** Counts comparisons. A run that compared nothing fails, as one with a difference does. */
export class Tally {
  #groups = new Map();
  #leftOut = new Set();
  #differences = 0;

  constructor(client, { same }) {
    this.client = client;
    this.same = same;
  }

  /** Both answers are equal, except for fields that may be omitted. */
  equal(group, what, theirs, ours) {
    this.#count(group, what, this.#difference(theirs, ours, ""));
  }

  /** A rule that only Chronolith follows; the node deviates and is not compared. */
  rule(group, what, holds, found) {
    if (this.same) return;
    this.#count(group, what, holds ? null : `found ${text(found)}`);
  }

  /** Prints the counts and ends the process. */
  finish() {
    let total = 0;
    for (const [group, count] of this.#groups) {
      console.log(`  ${this.client}: ${group}: ${count}`);
      total += count;
    }
    for (const field of this.#leftOut) console.log(`  ${this.client}: left out: ${field}: ${LEFT_OUT[field]}`);
    if (total === 0) console.log(`  ${this.client}: nothing was compared`);
    console.log(`result ${this.client} ${total} ${this.#differences}`);
    process.exit(total === 0 || this.#differences > 0 ? 1 : 0);
  }

  #count(group, what, difference) {
    this.#groups.set(group, (this.#groups.get(group) ?? 0) + 1);
    if (difference === null) return;
    this.#differences += 1;
    if (this.#differences <= DIFFERENCES_SHOWN) console.log(`  ${this.client}: ${group}: ${what}: ${difference}`);
  }

  /** The first difference, or null. */
  #difference(theirs, ours, path) {
    if (Object.is(theirs, ours)) return null;
    if (!isObject(theirs) || !isObject(ours) || Array.isArray(theirs) !== Array.isArray(ours)) {
      return `${path || "all"}: theirs ${text(theirs)}, ours ${text(ours)}`;
    }
    if (Array.isArray(theirs) && theirs.length !== ours.length) {
      return `${path || "all"}: theirs has ${theirs.length} items, ours ${ours.length}`;
    }
    for (const key of new Set([...Object.keys(theirs), ...Object.keys(ours)])) {
      if (key in LEFT_OUT && (ours[key] ?? null) === null) {
        if ((theirs[key] ?? null) !== null) this.#leftOut.add(key);
        continue;
      }
      const found = this.#difference(theirs[key], ours[key], `${path}.${key}`);
      if (found) return found;
    }
    return null;
  }
}

function text(value) {
  const plain = JSON.stringify(value, (_, part) => (typeof part === "bigint" ? `${part}n` : part)) ?? "nothing";
  return plain.length > 200 ? `${plain.slice(0, 200)}…` : plain;
}

/** Both URLs and the flags of a client's command line. */
export function commandLine() {
  const words = process.argv.slice(2);
  const urls = words.filter((word) => !word.startsWith("--"));
  const unknown = words.filter((word) => word.startsWith("--") && word !== "--same");
  if (urls.length !== 2 || unknown.length > 0) {
    console.error("usage: node CLIENT.mjs NODE_URL OURS_URL [--same: both are nodes, rules of Chronolith are not checked]");
    process.exit(2);
  }
  return { node: urls[0], ours: urls[1], same: words.includes("--same") };
}

/** Hashes that no block and no transaction has. */
export const NO_HASH = topic(0xdead);
const NO_ADDRESS = "0x000000000000000000000000000000000000dead";

/** Values for the filters, read from the node only. */
export async function material(node) {
  const head = await headOf(node);
  const logs = await call(node, "eth_getLogs", { fromBlock: "0x0", toBlock: "latest", address: TOKEN });
  if (logs.length === 0) throw new Error("the node has no transfers: feed.mjs makes them");
  const block = await call(node, "eth_getBlockByNumber", "0x5", false);
  const empty = await call(node, "eth_getBlockByNumber", hex(head - 1), false);
  const holders = (await call(node, "eth_accounts")).map(topic);
  return { head, blockHash: block.hash, emptyHash: empty.hash, holders };
}

/** Filters by their purpose. Block numbers are numbers: libraries encode them. */
export function filters({ head, blockHash, emptyHash, holders }) {
  const [a, b, c] = holders;
  const all = { fromBlock: 0, toBlock: head };
  const list = {
    "everything": all,
    "one address": { ...all, address: TOKEN },
    "an address in capitals": { ...all, address: `0x${TOKEN.slice(2).toUpperCase()}` },
    "two addresses": { ...all, address: [TOKEN, NOISE] },
    "an address twice": { ...all, address: [TOKEN, TOKEN] },
    "an address without logs": { ...all, address: NO_ADDRESS },
    "no topics": { ...all, topics: [] },
    "a first topic": { ...all, topics: [TRANSFER] },
    "first topics, either": { ...all, topics: [[TRANSFER, APPROVAL]] },
    "a second topic": { ...all, topics: [null, a] },
    "a third topic of an address": { ...all, address: TOKEN, topics: [TRANSFER, null, b] },
    "third topics, either": { ...all, topics: [TRANSFER, null, [b, c]] },
    "either, anything, either": { ...all, topics: [[TRANSFER, APPROVAL], null, [a, c]] },
    "second and third, either": { ...all, address: TOKEN, topics: [TRANSFER, [a, b], [b, c]] },
    "a fourth topic": { ...all, topics: [null, null, null, topic(305)] },
    "a topic that is nowhere": { ...all, topics: [NO_HASH] },
    "a topic at another place": { ...all, topics: [null, TRANSFER] },
    "one block": { fromBlock: 5, toBlock: 5 },
    "the first block": { fromBlock: 0, toBlock: 0 },
    "the newest block": { fromBlock: head, toBlock: head },
    "a block hash": { blockHash },
    "a block hash and an address": { blockHash, address: NOISE },
    "a block hash and topics": { blockHash, topics: [TRANSFER, [a, b]] },
    "a block hash without logs": { blockHash: emptyHash },
    "tags": { fromBlock: "earliest", toBlock: "latest", address: TOKEN },
    "the newest by default": { topics: [] },
  };
  // Windows of an unrelated size, so that some of them cross from final blocks into newer ones.
  for (let from = 0; from <= head; from += 7) {
    list[`from ${from}`] = { fromBlock: from, toBlock: Math.min(from + 9, head), address: TOKEN };
  }
  return Object.entries(list);
}

/** A filter as it goes over the wire. */
export function wire(filter) {
  const encoded = { ...filter };
  for (const end of ["fromBlock", "toBlock"]) {
    if (typeof filter[end] === "number") encoded[end] = hex(filter[end]);
  }
  return encoded;
}

/** Requests that must fail at Chronolith, with the code that each must have. */
function refusals({ head }) {
  const getLogs = (filter) => ["eth_getLogs", [wire(filter)]];
  return [
    ["a range past the head", ...getLogs({ fromBlock: 0, toBlock: head + 1_000 }), -32602],
    ["a range beyond the head", ...getLogs({ fromBlock: head + 10, toBlock: head + 20 }), -32602],
    ["a range backwards", ...getLogs({ fromBlock: 9, toBlock: 3 }), -32602],
    ["a hash and a range", ...getLogs({ fromBlock: 1, toBlock: 3, blockHash: NO_HASH }), -32602],
    ["an unknown block hash", ...getLogs({ blockHash: NO_HASH }), -32000],
    ["an unknown method", "eth_noSuchMethod", [], -32601],
  ];
}

/** Where Chronolith keeps to the specification and the node does not. `ask` goes through a library to
 * each of both; `codeIn` finds the JSON-RPC code in what the library throws. */
export async function rules(tally, about, [askNode, askOurs], codeIn) {
  for (const [what, method, params, code] of refusals(about)) {
    const met = await askOurs(method, params).then(
      () => "an answer",
      (error) => codeIn(error) ?? `no code: ${error.message}`,
    );
    tally.rule("errors", what, met === code, met);
  }
  // An open position still requires a topic; the node treats it as no condition.
  const everything = { fromBlock: "0x0", toBlock: hex(about.head) };
  const logs = await askNode("eth_getLogs", [everything]);
  for (const count of [2, 4]) {
    const topics = Array(count).fill(null);
    const expected = logs.filter((log) => log.topics.length >= count);
    const met = await askOurs("eth_getLogs", [{ ...everything, topics }]);
    const same = JSON.stringify(expected) === JSON.stringify(met);
    tally.rule("open positions", `${count} topics`, same, `${met.length} logs, not ${expected.length}`);
  }
}
