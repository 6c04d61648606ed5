// The search for logs: every field is in the address, pages go on and back, and what is known is decoded.

import { readFileSync } from "node:fs";

import { fail, same, until } from "./browser.mjs";

/** Small, so that a short chain has a second page. */
const LIMIT = 3;
export const NO_ADDRESS = "0x1234";
const KEY = "chr_made-up";
const TABLES = /format=csv/;
const COLLECTED = "0x28a87b6059180e46de5fb9ab35eb043e8fe00ab45afcc7789e3934ecbbcde3ea";

/** Those that the simulator's contracts emit, and the console knows. */
const KNOWN = [
  COLLECTED,
  "0x5e110f8bc8a20b65dcc87f224bdf1cc039346e267118bae2739847f07321ffa8",
  "0xe0ac2a6b74759312758ae3b784411c8e2f3b8bd81fecff40b906d69030af4bfc",
  "0xbc7cd75a20ee27fd9adebab32041f755214dbc6bffa90cc0225b39da2e5c2d3b",
];

const places = (logs) => logs.map((log) => `${Number(log.blockNumber)}-${Number(log.logIndex)}`);
const shown = (page) =>
  page.locator("tr[data-log]").evaluateAll((rows) => rows.map((row) => row.dataset.log));

export async function showsRows(page, what, logs) {
  await until(
    page,
    what,
    (first) => document.querySelector("tr[data-log]")?.dataset.log === first,
    places(logs)[0],
  );
  same(what, await shown(page), places(logs));
}

async function clipboard(page, words) {
  await until(
    page,
    `“Copied … ${words}”`,
    (wanted) => {
      const said = document.querySelector("#toast")?.textContent ?? "";
      return said.startsWith("Copied") && said.includes(wanted);
    },
    words,
  );
  return page.evaluate(() => navigator.clipboard.readText());
}

export async function searchesLogs(page, api) {
  const chain = await api.chain();
  // Inside of what is final nothing changes between the page's question and ours.
  const to = chain.finalized.number;
  const query = `fromBlock=0&toBlock=${to}&order=asc&limit=${LIMIT}`;
  const first = await api.must(`/v1/chains/${api.chainId}/logs?${query}`);
  const second = await api.must(`/v1/chains/${api.chainId}/logs?${query}&cursor=${first.nextCursor}`);
  await page.goto(`${api.origin}/logs`);
  await page.locator("#search-chain option").first().waitFor({ state: "attached" });
  await page.selectOption("#search-chain", api.chainId);
  await page.fill("#search-fromBlock", "0");
  await page.fill("#search-toBlock", String(to));
  await page.selectOption("#search-order", "asc");
  await page.fill("#search-limit", String(LIMIT));
  await page.press("#search-limit", "Enter");
  await showsRows(page, "logs", first.logs);
  await page.click("#search-copy-json");
  same("copied logs", JSON.parse(await clipboard(page, "log")), first.logs);
  await page.click("#search-copy-curl");
  const curl = await clipboard(page, "the request");
  if (!curl.includes(`/v1/chains/${api.chainId}/logs?`) || !curl.includes("fromBlock=0"))
    fail(`the copied request asks for something else: ${curl}`);
  await page.click("#search-next");
  await showsRows(page, "the next page", second.logs);
  await page.reload();
  await showsRows(page, "the next page, loaded again", second.logs);
  same("the field after loading again", await page.inputValue("#search-toBlock"), String(to));
  await page.goBack();
  await showsRows(page, "back on the first page", first.logs);
  await page.goForward();
  await showsRows(page, "forward again", second.logs);
  await byTime(page, api, to);
  await saysWhatIsWrong(page, api, to);
  await decodes(page, api, to);
  await downloadsAll(page, api, to);
  await savesWithAKey(page, api, to);
  console.log(`ok logs: ${first.logs.length} and ${second.logs.length}, decoded`);
}

/** ISO 8601 instead of blocks. */
async function byTime(page, api, to) {
  const block = await api.must(`/v1/chains/${api.chainId}/blocks/${to - 20}`);
  const from = new Date(Number(block.timestamp) * 1000).toISOString();
  const until = new Date((Number(block.timestamp) + 60) * 1000).toISOString();
  const { logs } = await api.must(
    `/v1/chains/${api.chainId}/logs?from=${from}&to=${until}&order=desc&limit=50`,
  );
  await page.goto(`${api.origin}/logs?chain=${api.chainId}&fromBlock=${from}&toBlock=${until}`);
  await showsRows(page, "logs of a minute", logs);
}

async function saysWhatIsWrong(page, api, to) {
  await page.goto(`${api.origin}/logs?chain=${api.chainId}&fromBlock=0&toBlock=${to}&address=${NO_ADDRESS}`);
  const { status, body } = await api.get(
    `/v1/chains/${api.chainId}/logs?fromBlock=0&toBlock=${to}&address=${NO_ADDRESS}`,
  );
  if (status < 400) fail("the API takes an address of two bytes");
  const box = page.locator("#search-results .error");
  await box.waitFor();
  const said = (await box.innerText()).toLowerCase();
  if (!said.includes(body.detail.toLowerCase()) || !said.includes("correct the field"))
    fail(`the refusal “${body.detail}” is told as “${said}”`);
  if ((await shown(page)).length > 0) fail("logs beside the refusal");
}

/** The values of a log, read from its words here and from its table there; what fits no event stays as it came. */
async function decodes(page, api, to) {
  const { logs } = await api.must(
    `/v1/chains/${api.chainId}/logs?fromBlock=0&toBlock=${to}&topic0=${COLLECTED}&order=desc&limit=50`,
  );
  await page.goto(`${api.origin}/logs?chain=${api.chainId}&fromBlock=0&toBlock=${to}&topic0=${COLLECTED}`);
  await showsRows(page, "logs of FeesCollected", logs);
  const [log] = logs;
  const row = page.locator(`tr[data-log="${places([log])[0]}"]`);
  same("the event", await row.getAttribute("data-event"), "FeesCollected");
  await row.locator(".disclose").click();
  const words = log.data.slice(2).match(/.{64}/g);
  const expected = {
    _token: `0x${log.topics[1].slice(26)}`,
    _integrator: `0x${log.topics[2].slice(26)}`,
    _integratorFee: BigInt(`0x${words[0]}`).toString(),
    _lifiFee: BigInt(`0x${words[1]}`).toString(),
  };
  for (const [name, value] of Object.entries(expected)) {
    const cell = page.locator(`tr.whole:not([hidden]) [data-arg="${name}"] td`).nth(2);
    same(`${name} of the log`, (await cell.textContent()).trim(), value);
  }
  const raw = page.locator('tr.whole:not([hidden]) [data-field="raw"]');
  same("the log as it came, beside its values", await raw.locator("pre").isVisible(), false);
  await raw.locator("summary").click();
  same("the log as it came", JSON.parse(await raw.locator("pre").innerText()), log);
  const all = await api.must(`/v1/chains/${api.chainId}/logs?fromBlock=0&toBlock=${to}&order=desc&limit=50`);
  await page.goto(`${api.origin}/logs?chain=${api.chainId}&fromBlock=0&toBlock=${to}`);
  await showsRows(page, "logs of any event", all.logs);
  const unknown = all.logs.find((each) => each.topics.length > 0 && !KNOWN.includes(each.topics[0]));
  const other = page.locator(`tr[data-log="${places([unknown])[0]}"]`);
  const event = await other.evaluate((node) => [
    node.dataset.event ?? null,
    node.querySelector(".event-cell a").title,
  ]);
  same("an event that is not known", event, [null, unknown.topics[0]]);
  await other.locator(".disclose").click();
  // There is no table of its values.
  same(
    "the log as it came, where nothing else tells of it",
    JSON.parse(await page.locator("tr.whole:not([hidden]) pre").innerText()),
    unknown,
  );
}

/** The table of a page says that it is one of a page; where all blocks are final, there is a file with all logs. */
async function downloadsAll(page, api, to) {
  const filter = `topic0=${COLLECTED}&order=asc`;
  const route = `/v1/chains/${api.chainId}/logs?fromBlock=0&toBlock=${to}&${filter}`;
  const { logs, nextCursor } = await api.must(`${route}&limit=10000`);
  if (nextCursor || logs.length <= LIMIT) fail(`${logs.length} logs are not more than a page: this shows nothing`);
  const opens = (end) =>
    page.goto(`${api.origin}/logs?chain=${api.chainId}&fromBlock=0&toBlock=${end}&${filter}&limit=${LIMIT}`);
  await opens(to);
  const link = page.locator("#search-download");
  await link.waitFor();
  same("the table of a page", await page.locator("#search-csv").textContent(), "CSV of this page");
  const href = await link.getAttribute("href");
  const answer = await fetch(api.origin + href);
  const table = await answer.text();
  same("the status of the download", answer.status, 200);
  same("how many logs it has", /^#complete,count=(\d+)/m.exec(table)?.[1], String(logs.length));
  const saved = page.waitForEvent("download");
  await link.click();
  const download = await saved;
  same("what is saved", readFileSync(await download.path(), "utf8"), table);
  same("its name", download.suggestedFilename(), `chronolith-${api.chainId}-logs-0-${to}.csv`);
  // A download that the browser makes by itself would be refused where a key is needed.
  await page.evaluate((key) => sessionStorage.setItem("chronolith-api-key", key), KEY);
  await link.click();
  const command = await clipboard(page, "API_KEY");
  if (!command.startsWith("curl ") || !command.includes(href) || command.includes(KEY))
    fail(`the copied command is ${command}`);
  await page.evaluate(() => sessionStorage.clear());
  const { head, finalized } = await api.chain();
  if (head.number <= finalized.number) fail("every block is final: this shows nothing");
  await opens(head.number);
  await page.locator("#search-csv").waitFor();
  same("downloads of blocks that are not final", await link.count(), 0);
}

/** A link that the browser follows by itself sends no key, so that a node which wants one refused the table. */
async function savesWithAKey(page, api, to) {
  await page.goto(`${api.origin}/logs?chain=${api.chainId}&fromBlock=0&toBlock=${to}&limit=${LIMIT}`);
  const link = page.locator("#search-csv");
  await link.waitFor();
  await page.evaluate((key) => sessionStorage.setItem("chronolith-api-key", key), KEY);
  const isAsked = (request) => TABLES.test(request.url()) && request.headers()["x-api-key"] === KEY;
  const asked = page.waitForRequest(isAsked).catch(() => fail("the table is asked for without the key"));
  const saved = page.waitForEvent("download");
  await link.click();
  const table = await (await fetch((await asked).url())).text();
  const download = await saved;
  same("the saved table", readFileSync(await download.path(), "utf8"), table);
  same("its name", download.suggestedFilename(), `logs-${api.chainId}-0-${to}.csv`);
  await page.route(TABLES, (route) =>
    route.fulfill({ status: 401, json: { code: "UNAUTHORIZED", detail: "an API key is needed" } }),
  );
  await link.click();
  await until(page, "why there is no table", () =>
    document.querySelector("#toast")?.textContent.includes("an API key is needed"),
  );
  await page.unroute(TABLES);
  await page.evaluate(() => sessionStorage.clear());
}
