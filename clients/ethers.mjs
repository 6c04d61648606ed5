// The same queries to a node and to Chronolith, through ethers.
//   node ethers.mjs NODE_URL OURS_URL [--same]

import { JsonRpcProvider } from "ethers";
import { NO_HASH, Tally, commandLine, filters, material, rules } from "./compare.mjs";

const { node, ours, same } = commandLine();
const tally = new Tally("ethers", { same });
const providers = [node, ours].map((url) => new JsonRpcProvider(url));
const about = await material(node);

/** Objects of the library as plain data, lists item by item. */
const plain = (value) => (Array.isArray(value) ? value.map(plain) : (value?.toJSON?.() ?? value));

async function both(group, what, question) {
  const [theirs, mine] = await Promise.all(providers.map(async (provider) => plain(await question(provider))));
  tally.equal(group, what, theirs, mine);
  return theirs;
}

async function chain() {
  await both("chain", "network", async (provider) => (await provider.getNetwork()).chainId);
  await both("chain", "chain id", (provider) => provider.send("eth_chainId", []));
  await both("chain", "network version", (provider) => provider.send("net_version", []));
  await both("chain", "block number", (provider) => provider.getBlockNumber());
}

async function blocks() {
  const hashes = [];
  for (let number = 0; number <= about.head; number++) {
    const block = await both("blocks", `${number}`, (provider) => provider.getBlock(number));
    await both("blocks", `${number} in full`, async (provider) => {
      const block = await provider.getBlock(number, true);
      return { block: plain(block), transactions: block.prefetchedTransactions.map(plain) };
    });
    await both("blocks", `${number} by hash`, (provider) => provider.getBlock(block.hash));
    hashes.push(...block.transactions);
    // Fields that the library ignores are compared as received.
    const tag = `0x${number.toString(16)}`;
    await both("blocks as sent", tag, (provider) => provider.send("eth_getBlockByNumber", [tag, true]));
  }
  for (const tag of ["earliest", "latest"]) await both("blocks", tag, (provider) => provider.getBlock(tag));
  await both("nothing", "a block past the head", (provider) => provider.getBlock(about.head + 1_000));
  await both("nothing", "a block with another hash", (provider) => provider.getBlock(NO_HASH));
  return hashes;
}

async function transactions(hashes) {
  // Concurrently: the library sends them in batches.
  await Promise.all(hashes.map((hash) => both("transactions", hash, (provider) => provider.getTransaction(hash))));
  await both("nothing", "an unknown transaction", (provider) => provider.getTransaction(NO_HASH));
}

async function logs() {
  for (const [what, filter] of filters(about)) await both("logs", what, (provider) => provider.getLogs(filter));
}

/** Each side has its own idea of what is final: ours must be a block of the chain. */
async function finality() {
  for (const tag of ["finalized", "safe"]) {
    const block = await providers[1].getBlock(tag);
    const expected = block && (await providers[0].getBlock(block.number));
    tally.equal("tags of ours", tag, plain(expected), plain(block));
    tally.rule("tags of ours", `${tag} is there`, block !== null, block);
  }
}

const ask = providers.map((provider) => (method, params) => provider.send(method, params));
const codeIn = (error) => error.error?.code ?? error.info?.error?.code;

await chain();
await transactions(await blocks());
await logs();
await finality();
await rules(tally, about, ask, codeIn);
tally.finish();
