// What pages say of a chain that goes on while they are open.

import { fail, same, until } from "./browser.mjs";
import { showsRows } from "./logs.mjs";

/** Confirmations that make a block final, as the settings of the chain have it. */
const DEPTH = 5;
/** With one more block than that, what was the newest block is final, or replaced. */
const BLOCKS = DEPTH + 1;
/** How many blocks each reorg replaces. */
const REPLACED = 2;

/** Lets the chain go on by some blocks, each with a reorg, and waits until they are served and archived. */
async function goesOn(page, api, control) {
  const { head } = await api.chain();
  for (let block = 0; block < BLOCKS; block += 1) {
    const answer = await fetch(`${control}reorg`, { method: "POST" });
    if (!answer.ok) fail(`the simulated node refused: ${answer.status}`);
  }
  const wanted = head.number + BLOCKS;
  const expect = (overview) => {
    const chain = api.chainIn(overview);
    return chain.head.number === wanted && chain.finalized.number === wanted - DEPTH ? wanted : null;
  };
  await api.untilShown(page, `the chain goes on to block ${wanted}`, expect, () => true);
}

/** The next page and the table are of the blocks that are shown, also where the address names them by a tag. */
export async function staysWithItsBlocks(page, api, control) {
  const route = `/v1/chains/${api.chainId}/logs`;
  const question = "fromBlock=finalized&toBlock=latest&order=asc&limit=1";
  const first = await api.must(`${route}?${question}`);
  const [from, to] = [first.fromBlock.number, first.toBlock.number];
  const [log] = first.logs;
  // A cursor in a block that is replaced is a conflict, whatever the page asks.
  if (!first.nextCursor || Number(log.blockNumber) > to - REPLACED)
    fail(`blocks ${from} to ${to} have too few logs: this check shows nothing`);
  await page.goto(`${api.origin}/logs?chain=${api.chainId}&${question}`);
  await showsRows(page, "the first log of the newest blocks", first.logs);
  await goesOn(page, api, control);
  const href = await page.locator("#search-csv").getAttribute("href");
  const table = await (await fetch(api.origin + href)).text();
  if (!table.includes(log.transactionHash)) fail(`the table is of other blocks than the page: ${href}`);
  const next = await api.must(
    `${route}?fromBlock=${from}&toBlock=${to}&order=asc&limit=1&cursor=${first.nextCursor}`,
  );
  if (next.logs.length === 0) fail("no log after the first: this check shows nothing");
  await page.click("#search-next");
  await showsRows(page, "the next page of a chain that went on", next.logs);
  same("the first block of the next page", await page.inputValue("#search-fromBlock"), String(from));
  console.log(`ok logs: blocks ${from} to ${to} also when they are no longer the newest`);
}

/** Waits until the page of a block says this of its place on the chain. */
async function saysOfItsPlace(page, words) {
  await until(
    page,
    `that the block is “${words}”`,
    (wanted) => document.querySelector('[data-field="block-state"]')?.textContent === wanted,
    words,
  );
}

/** A block whose height becomes final is final only if it is the block there. */
export async function saysWhatBecameOfABlock(page, api, control) {
  const pageOf = (number) => `${api.origin}/chains/${api.chainId}/blocks/${number}`;
  const { head: first } = await api.chain();
  await page.goto(pageOf(first.number - REPLACED));
  await saysOfItsPlace(page, "not final, may roll back");
  await goesOn(page, api, control);
  await saysOfItsPlace(page, "final");
  const { head } = await api.chain();
  await page.goto(pageOf(head.number));
  await saysOfItsPlace(page, "not final, may roll back");
  const hash = page.locator('[data-field="block-hash"] .whole');
  same("the newest block", await hash.textContent(), head.hash);
  await goesOn(page, api, control);
  await saysOfItsPlace(page, "replaced by another block");
  same("the block that was replaced stays on the page", await hash.textContent(), head.hash);
  await page.getByRole("link", { name: "the final block of this height" }).click();
  await saysOfItsPlace(page, "final");
  const there = await api.must(`/v1/chains/${api.chainId}/blocks/${head.number}/clock`);
  same("the block that replaced it", await hash.textContent(), there.hash);
  if (there.hash === head.hash) fail("no block was replaced: this check shows nothing");
  console.log(`ok block: ${first.number - REPLACED} became final, ${head.number} was replaced`);
}
