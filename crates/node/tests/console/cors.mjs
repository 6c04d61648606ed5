// Requests of a page of another origin, in a real browser: a call with a body of JSON, and a GET with an API key. Both
// are asked about with a preflight first.
//
//   node cors.mjs BASE_URL API_KEY ARTIFACT_DIR CHAIN_ID
//
// The node answers only callers with a key.

import { createServer } from "node:http";

import { fail, open, same } from "./browser.mjs";

const [base, key, , chainId] = process.argv.slice(2);
if (!chainId) fail("usage: node cors.mjs BASE_URL API_KEY ARTIFACT_DIR CHAIN_ID");
const { origin } = new URL(base);

/** A server on a port of its own, which is an origin of its own. */
async function listening(handler) {
  const server = createServer(handler);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, url: `http://127.0.0.1:${server.address().port}` };
}

/** What a page gets to see of an answer, or null where the browser keeps it from the page. */
function seen(page, url, options = {}) {
  return page.evaluate(
    async ([at, how]) => {
      try {
        const response = await fetch(at, how);
        const header = (name) => response.headers.get(name);
        return {
          status: response.status,
          body: await response.json(),
          requestId: header("x-request-id"),
          nextCursor: header("x-next-cursor"),
          left: header("ratelimit"),
        };
      } catch (error) {
        // What a script learns of a request that was kept from it.
        if (error instanceof TypeError) return null;
        throw error;
      }
    },
    [url, options],
  );
}

const withKey = { headers: { "x-api-key": key } };

function callOf(method, more = {}) {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: [] });
  return { method: "POST", headers: { "content-type": "application/json", ...more }, body };
}

/** A server that allows no other origin: only preflights reach it, so that the browser asks first. */
async function asksFirst(page) {
  const asked = [];
  const closed = await listening((request, response) => {
    asked.push([request.method, request.headers["access-control-request-headers"]]);
    response.setHeader("content-type", "application/json").end("{}");
  });
  same("a call that nobody allowed", await seen(page, closed.url, callOf("eth_chainId")), null);
  same("a GET with a key that nobody allowed", await seen(page, closed.url, withKey), null);
  same("what reached the server", asked, [
    ["OPTIONS", "content-type"],
    ["OPTIONS", "x-api-key"],
  ]);
  closed.server.close();
  console.log("ok (a) the browser asks first");
}

/** A call of JSON-RPC, with its key and without: the refusal can be read too. */
async function callsAreAnswered(page) {
  const called = await seen(page, `${origin}/${chainId}`, callOf("eth_chainId", withKey.headers));
  same("the call", called?.body.result, `0x${Number(chainId).toString(16)}`);
  const refused = await seen(page, `${origin}/${chainId}`, callOf("eth_chainId"));
  same("the call without a key", [refused?.status, refused?.body.error?.code], [401, -32600]);
  console.log("ok (b) a call from another origin");
}

async function keysAreTaken(page) {
  const logs = `${origin}/v1/chains/${chainId}/logs?fromBlock=0&toBlock=latest&limit=1`;
  const found = await seen(page, logs, withKey);
  same("the logs", [found?.status, found?.body.logs?.length], [200, 1]);
  // Pages of logs go on with these headers, and who has a limit wants to know it.
  same("the cursor", found.nextCursor, found.body.nextCursor);
  if (!found.requestId) fail("the page cannot read the id of its request");
  if (!/r=\d+/.test(found.left ?? "")) fail(`the page cannot read what its key has left: ${found.left}`);
  const refused = await seen(page, logs);
  same("the logs without a key", [refused?.status, refused?.body.code], [401, "UNAUTHORIZED"]);
  console.log("ok (c) a GET with a key from another origin");
}

async function main() {
  const { browser, context } = await open(origin, () => true);
  const site = await listening((_, response) => {
    response.setHeader("content-type", "text/html").end("<!doctype html><title>another origin</title>");
  });
  // Not the page that may ask one origin alone.
  const page = await context.newPage();
  await page.goto(site.url);
  await asksFirst(page);
  await callsAreAnswered(page);
  await keysAreTaken(page);
  await browser.close();
  site.server.close();
}

main().catch((error) => fail(error.stack));
