// Chains that keep less than everything: what is not kept is told as that, and what is kept is shown all the same.

import { Api } from "./api.mjs";
import { fail, same, until } from "./browser.mjs";

/** The chains of the test that keep logs without headers, clocks alone, and the logs of one contract. */
const LOGS = "41003";
const CLOCKS = "41004";
const SCOPED = "41005";
/** The hash of no transaction. */
const NO_HASH = `0x${"5d".repeat(32)}`;

/** A chain of which blocks are archived, and its newest final block. */
async function archived(page, origin, chainId) {
  const api = new Api(origin, chainId);
  await page.goto(origin);
  const expect = (overview) => api.chainIn(overview).finalized?.number ?? null;
  const final = await api.untilShown(page, `blocks of chain ${chainId} are archived`, expect, () => true);
  return { api, final };
}

async function newestFinalLog(api) {
  const query = "fromBlock=earliest&toBlock=finalized&order=desc&limit=1";
  const { logs } = await api.must(`/v1/chains/${api.chainId}/logs?${query}`);
  return logs[0] ?? fail(`chain ${api.chainId} has no logs`);
}

/** The page of a block without its header: number, hash, parent and time. */
async function showsClock(page, api, number) {
  const clock = await api.must(`/v1/chains/${api.chainId}/blocks/${number}/clock`);
  const refused = await api.get(`/v1/chains/${api.chainId}/blocks/${number}`);
  same("why the whole block is refused", [refused.status, refused.body.dataset], [409, "headers"]);
  await page.goto(`${api.origin}/chains/${api.chainId}/blocks/${number}`);
  const hash = page.locator('[data-field="block-hash"] .whole');
  await hash.waitFor();
  same(`the hash of block ${number}`, await hash.textContent(), clock.hash);
  same("its title", await page.locator("h1").textContent(), `Block ${clock.number.toLocaleString("en-US")}`);
  const facts = await page.locator(".facts").innerText();
  const time = new Date(clock.timestamp * 1000).toISOString().slice(0, 19).replace("T", " ");
  if (!facts.includes(`${time} UTC`)) fail(`the time ${time} of block ${number} is not shown: ${facts}`);
  if (facts.includes("Transactions")) fail(`a number of transactions that is not known: ${facts}`);
  const parent = page.locator(`.facts a[href$="/blocks/${clock.parentHash}"]`);
  same("links to the parent", await parent.count(), 1);
}

/** Blocks of chains without headers have pages; with their logs, where the chain keeps those. */
export async function showsBlocksWithoutHeaders(page, api) {
  const { api: logs } = await archived(page, api.origin, LOGS);
  const number = Number((await newestFinalLog(logs)).blockNumber);
  const wanted = await logs.must(`/v1/chains/${LOGS}/logs?fromBlock=${number}&toBlock=${number}&limit=50`);
  await showsClock(page, logs, number);
  await until(
    page,
    "the logs of a block without its header",
    (count) => document.querySelectorAll("tr[data-log]").length === count,
    wanted.logs.length,
  );
  const { api: clocks, final } = await archived(page, api.origin, CLOCKS);
  await showsClock(page, clocks, final);
  await until(page, "that no logs are kept", () =>
    document.querySelector('[aria-labelledby="logs-title"]')?.textContent.includes("keeps no logs"),
  );
  if ((await page.locator("main .error").count()) > 0) fail("a page of what is kept shows an error");
  console.log(`ok blocks without headers: ${number} with ${wanted.logs.length} logs, ${final}`);
}

/** What a chain keeps of the logs and of the transactions is archived, and the page says which part that is. */
export async function showsCoverageOfItsScope(page, api) {
  const { api: scoped } = await archived(page, api.origin, SCOPED);
  const { scope } = await scoped.chain();
  const answered = page.waitForResponse((response) => new URL(response.url()).pathname === `/${SCOPED}`);
  await page.goto(`${api.origin}/chains/${SCOPED}`);
  // Before the coverage of its datasets is known, the page shows that of its blocks.
  await answered;
  for (const _ of [1, 2]) await scoped.nextPoll(page, "polling continues");
  for (const dataset of ["clock", "logs", "transactions"]) {
    await until(
      page,
      `all that the chain keeps of ${dataset} is archived`,
      (row) => document.querySelector(`${row} [data-field="coverage"]`)?.textContent === "100 %",
      `[data-dataset="${dataset}"]`,
    );
  }
  const words = await page.locator('[data-field="kept-parts"]').innerText();
  for (const part of [`those of ${scope}`, "those that kept logs name"])
    if (!words.includes(part)) fail(`the parts that are kept are told as “${words}”, without “${part}”`);
  await page.goto(`${api.origin}/chains/${api.chainId}`);
  await page.locator('[data-dataset="logs"]').waitFor();
  if (await page.locator('[data-field="kept-parts"]').isVisible()) fail("a part of all logs");
  console.log(`ok coverage: ${words}`);
}

/** Of a transaction that is not kept the page says a block only where a log of that block names the transaction. */
export async function namesABlockByALogAlone(page, api) {
  const { api: logs } = await archived(page, api.origin, LOGS);
  const { transactionHash: hash, blockNumber } = await newestFinalLog(logs);
  const number = Number(blockNumber);
  const named = "A log names it in block";
  const says = (words) => page.locator("main").getByText(words).waitFor();
  const opens = (which, block) =>
    page.goto(`${api.origin}/chains/${LOGS}/transactions/${which}?block=${block}`);
  await opens(hash, number);
  await says(`${named} ${number.toLocaleString("en-US")}.`);
  for (const [which, block] of [
    [hash, number - 1],
    [NO_HASH, number],
  ]) {
    await opens(which, block);
    await says(`No log of block ${block.toLocaleString("en-US")} names it.`);
    const words = await page.locator("main").innerText();
    if (words.includes(named)) fail(`what the address says of ${which} is told as known: ${words}`);
  }
  console.log(`ok transaction: named by a log of block ${number}, and by none of another`);
}
