// Ponder indexes the same token twice, from a node and from Chronolith, and must produce the same rows: first from
// history, then from new blocks, then after a reorg.
//   node ponder.mjs NODE_URL OURS_URL [--same]

import { spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Tally, commandLine } from "./compare.mjs";
import { TOKEN, TRANSFER } from "./contracts.mjs";
import { otherTransfer, thinBlock } from "./feed.mjs";
import { call, headOf, until } from "./rpc.mjs";

const LIVE_BLOCKS = 3;
/** Below the confirmations that Chronolith is told to wait for: nothing final is replaced. */
const REORG_DEPTH = 2;
const LOG_LINES_SHOWN = 15;

const { node, ours, same } = commandLine();
const tally = new Tally("ponder", { same });
const home = mkdtempSync(join(tmpdir(), "chronolith-ponder-"));
const runs = [];

// Clean up at every exit.
process.on("exit", () => {
  for (const { child } of runs) child.kill("SIGKILL");
  rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(130));

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** The package's program, without a shell or npx between it and its signals. */
const PROGRAM = fileURLToPath(new URL("node_modules/.bin/ponder", import.meta.url));

async function start(name, url) {
  const port = await freePort();
  const log = join(home, `${name}.log`);
  const output = openSync(log, "w");
  const root = fileURLToPath(new URL("ponder", import.meta.url));
  const words = ["start", "--root", root, "--schema", "rows", "--hostname", "127.0.0.1", "--port", `${port}`];
  const child = spawn(process.execPath, [PROGRAM, ...words, "--log-format", "json"], {
    stdio: ["ignore", output, output],
    env: {
      ...process.env,
      PONDER_TELEMETRY_DISABLED: "true",
      CLIENTS_RPC_URL: url,
      CLIENTS_TOKEN: TOKEN,
      CLIENTS_DATABASE: join(home, name),
    },
  });
  closeSync(output);
  const run = { name, child, log, url: `http://127.0.0.1:${port}` };
  runs.push(run);
  return run;
}

/** Waits until a run has indexed this block. One that ended never will. */
async function reached({ name, child, log, url }, head) {
  let ended = false;
  const done = await until(`Ponder on ${name} to reach block ${head}`, async () => {
    ended = child.exitCode !== null || child.signalCode !== null;
    if (ended) return true;
    const status = await (await fetch(`${url}/status`)).json();
    return status.local?.block?.number === head;
  }).catch((error) => error);
  if (!ended && done === true) return;
  const said = readFileSync(log, "utf8").trim().split("\n").slice(-LOG_LINES_SHOWN);
  console.error(said.join("\n"));
  throw ended ? new Error(`Ponder on ${name} ended by itself (code=${child.exitCode})`) : done;
}

/** Both runs have reached the node's head: every row of one is a row of the other. */
async function compare(group) {
  const head = await headOf(node);
  await Promise.all(runs.map((run) => reached(run, head)));
  const answers = runs.map(async ({ url }) => (await fetch(`${url}/rows`)).json());
  const [theirs, mine] = await Promise.all(answers);
  for (const table of ["transfers", "holders"]) {
    const rows = Math.max(theirs[table].length, mine[table].length);
    for (let at = 0; at < rows; at++) tally.equal(group, `${table} ${at}`, theirs[table][at], mine[table][at]);
  }
  // Two runs that both lag would be equal too.
  const filter = { fromBlock: "0x0", toBlock: "latest", address: TOKEN, topics: [TRANSFER] };
  const logs = await call(node, "eth_getLogs", filter);
  if (logs.length === 0) throw new Error("there are no transfers to index");
  tally.equal(group, "transfers that the node has", logs.length, theirs.transfers.length);
}

async function live() {
  const before = await headOf(node);
  for (let block = 0; block < LIVE_BLOCKS; block++) await thinBlock(node, 1_000 + before + block);
  await compare("rows of new blocks");
}

/** Blocks are replaced by others with another transfer, and the chain goes on above them. */
async function reorg() {
  const transfer = await otherTransfer(node, 7_000_000);
  await call(node, "anvil_reorg", REORG_DEPTH, [[transfer, 0]]);
  await thinBlock(node, 2_000 + (await headOf(node)));
  await compare("rows after a reorg");
}

try {
  await start("the node", node);
  await start("ours", ours);
  await compare("rows of history");
  await live();
  await reorg();
} catch (error) {
  console.error(`  ponder: ${error.message}`);
  console.log("result ponder 0 1");
  process.exit(1);
}
tally.finish();
