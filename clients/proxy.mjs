// A proxy between a client and a node. It can record calls, and it can alter answers, to test that a comparison
// detects it.
//   node proxy.mjs URL [--spoil data|drop] [--log FILE]
// Prints the URL at which it listens. --spoil alters the last log of the token in each answer to
// eth_getLogs: `data` changes a digit, `drop` removes the log if others remain. An empty answer for a block with logs
// cannot be compared: some clients refuse it by the block's bloom.

import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { parseArgs } from "node:util";
import { TOKEN } from "./contracts.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { spoil: { type: "string" }, log: { type: "string" } },
});
const [target] = positionals;
if (!target || ![undefined, "data", "drop"].includes(values.spoil)) {
  console.error("usage: node proxy.mjs URL [--spoil data|drop] [--log FILE]");
  process.exit(2);
}

const list = (value) => (Array.isArray(value) ? value : [value]);

/** Changes one log of an answer, where there is one of the token. */
function spoil(request, answer) {
  if (request?.method !== "eth_getLogs" || !Array.isArray(answer.result)) return;
  const at = answer.result.findLastIndex((log) => log.address === TOKEN);
  if (at < 0) return;
  if (values.spoil === "drop") {
    if (answer.result.length > 1) answer.result.splice(at, 1);
  } else {
    const log = answer.result[at];
    log.data = log.data.slice(0, -1) + (log.data.endsWith("7") ? "8" : "7");
  }
}

async function answer(body) {
  const asked = JSON.parse(body);
  if (values.log) {
    const lines = list(asked).map(({ method, params }) => JSON.stringify({ batch: Array.isArray(asked), method, params }));
    appendFileSync(values.log, `${lines.join("\n")}\n`);
  }
  const reply = await fetch(target, { method: "POST", headers: { "content-type": "application/json" }, body });
  const said = await reply.json();
  if (values.spoil) {
    const byId = new Map(list(asked).map((request) => [request.id, request]));
    for (const one of list(said)) spoil(byId.get(one.id), one);
  }
  return { status: reply.status, text: JSON.stringify(said) };
}

const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  try {
    const { status, text } = await answer(Buffer.concat(parts).toString());
    response.writeHead(status, { "content-type": "application/json" }).end(text);
  } catch (error) {
    response.writeHead(502).end(String(error));
  }
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
