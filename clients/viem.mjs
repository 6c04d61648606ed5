// The same queries to a node and to Chronolith, through viem.
//   node viem.mjs NODE_URL OURS_URL [--same]

import { createPublicClient, http, parseAbi } from "viem";
import { NO_HASH, Tally, commandLine, filters, material, rules, wire } from "./compare.mjs";
import { TOKEN } from "./contracts.mjs";

const { node, ours, same } = commandLine();
const tally = new Tally("viem", { same });
const clients = [node, ours].map((url) => createPublicClient({ transport: http(url) }));
const about = await material(node);
const head = BigInt(about.head);
const abi = parseAbi([
  "event Transfer(address indexed from, address indexed to, uint256 value)",
  "event Approval(address indexed owner, address indexed spender, uint256 value)",
]);

/** The result of a client. If it throws because there is none, the error is the result. */
async function found(client, question) {
  try {
    return await question(client);
  } catch (error) {
    if (/NotFoundError$/.test(error.name)) return error.name;
    throw error;
  }
}

async function both(group, what, question) {
  const [theirs, mine] = await Promise.all(clients.map((client) => found(client, question)));
  tally.equal(group, what, theirs, mine);
  return theirs;
}

async function chain() {
  await both("chain", "chain id", (client) => client.getChainId());
  await both("chain", "block number", (client) => client.getBlockNumber());
  await both("chain", "network version", (client) => client.request({ method: "net_version" }));
}

async function blocks() {
  const hashes = [];
  for (let blockNumber = 0n; blockNumber <= head; blockNumber++) {
    const block = await both("blocks", `${blockNumber}`, (client) => client.getBlock({ blockNumber }));
    const blockHash = block.hash;
    const full = { includeTransactions: true };
    await both("blocks", `${blockNumber} in full`, (client) => client.getBlock({ blockNumber, ...full }));
    await both("blocks", `${blockNumber} by hash`, (client) => client.getBlock({ blockHash }));
    await both("blocks", `${blockNumber} by hash in full`, (client) => client.getBlock({ blockHash, ...full }));
    await both("counts", `${blockNumber}`, (client) => client.getBlockTransactionCount({ blockNumber }));
    await both("counts", `${blockNumber} by hash`, (client) => client.getBlockTransactionCount({ blockHash }));
    hashes.push(...block.transactions);
  }
  for (const blockTag of ["earliest", "latest"]) {
    await both("blocks", blockTag, (client) => client.getBlock({ blockTag }));
  }
  await both("nothing", "a block past the head", (client) => client.getBlock({ blockNumber: head + 1_000n }));
  await both("nothing", "a block with another hash", (client) => client.getBlock({ blockHash: NO_HASH }));
  return hashes;
}

async function transactions(hashes) {
  for (const hash of hashes) {
    await both("transactions", hash, (client) => client.getTransaction({ hash }));
    await both("transactions as sent", hash, (client) =>
      client.request({ method: "eth_getTransactionByHash", params: [hash] }));
  }
  await both("nothing", "an unknown transaction", (client) => client.getTransaction({ hash: NO_HASH }));
}

/** Filters as this library's users write them: events with arguments, in lists or left open. */
function events() {
  const [transfer, approval] = abi;
  const [a, b, c] = about.holders.map((holder) => `0x${holder.slice(26)}`);
  const all = { fromBlock: 0n, toBlock: head };
  return {
    "everything": all,
    "an address": { ...all, address: TOKEN },
    "an event": { ...all, event: transfer },
    "an event, strict": { ...all, event: transfer, strict: true },
    "events": { ...all, events: [transfer, approval] },
    "an argument": { ...all, address: TOKEN, event: transfer, args: { from: a } },
    "the second argument": { ...all, address: TOKEN, event: transfer, args: { to: b } },
    "arguments in lists": { ...all, event: transfer, args: { from: [a, b], to: [b, c] } },
    "a block hash": { blockHash: about.blockHash, event: transfer },
    "tags": { fromBlock: "earliest", toBlock: "latest", address: TOKEN },
    "the newest by default": {},
    "nothing there": { ...all, event: transfer, args: { from: `0x${"de".repeat(20)}` } },
  };
}

async function logs() {
  for (const [what, filter] of Object.entries(events())) {
    await both("logs", what, (client) => client.getLogs(filter));
  }
  const contract = { address: TOKEN, abi, eventName: "Transfer", fromBlock: 0n };
  await both("logs", "a contract's events", (client) => client.getContractEvents(contract));
  for (const [what, filter] of filters(about)) {
    await both("logs as sent", what, (client) => client.request({ method: "eth_getLogs", params: [wire(filter)] }));
  }
}

/** Each side has its own idea of what is final: ours must be a block of the chain. */
async function finality() {
  for (const blockTag of ["finalized", "safe"]) {
    const block = await clients[1].getBlock({ blockTag });
    const expected = await clients[0].getBlock({ blockNumber: block.number });
    tally.equal("tags of ours", blockTag, expected, block);
  }
}

const ask = clients.map((client) => (method, params) => client.request({ method, params }));
const codeIn = (error) => error.walk?.((cause) => typeof cause.code === "number")?.code;

await chain();
await transactions(await blocks());
await logs();
await finality();
await rules(tally, about, ask, codeIn);
tally.finish();
