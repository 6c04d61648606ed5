// Waits until Chronolith serves the node's newest block.
//   node wait.mjs NODE_URL OURS_URL

import { call, until } from "./rpc.mjs";

const [node, ours] = process.argv.slice(2);
const newest = async (url) => (await call(url, "eth_getBlockByNumber", "latest", false))?.hash;
const head = async (url) => call(url, "eth_blockNumber");

try {
  await until("the node's newest block", async () =>
    (await head(node)) === (await head(ours)) && (await newest(node)) === (await newest(ours)));
} catch (error) {
  console.error(`wait: ${error.message}`);
  process.exit(1);
}
