// JSON-RPC without a client library, for steps outside the comparisons: feeding a node and waiting.

const PATIENCE_MS = 60_000;
const PAUSE_MS = 50;

/** The result of a call that must succeed. */
export async function call(url, method, ...params) {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  const { result, error } = await answer.json();
  if (error) throw new Error(`${method}: ${error.message} (code=${error.code})`);
  return result;
}

export const hex = (number) => `0x${number.toString(16)}`;
export const headOf = async (url) => Number(await call(url, "eth_blockNumber"));

/** Retries until `probe` returns a value; on a timeout, the error has its last exception. */
export async function until(what, probe, patienceMs = PATIENCE_MS) {
  const deadline = Date.now() + patienceMs;
  let last = "";
  while (Date.now() < deadline) {
    try {
      const found = await probe();
      if (found) return found;
    } catch (error) {
      last = ` (last error: ${error.message})`;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  throw new Error(`gave up after ${patienceMs} ms waiting for ${what}${last}`);
}
