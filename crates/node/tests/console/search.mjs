// The one search box: each kind of thing leads to an address that can be shared, and every chain says for itself what
// it knows.

import { Api } from "./api.mjs";
import { fail, same, until } from "./browser.mjs";

const COLLECTED = "0x28a87b6059180e46de5fb9ab35eb043e8fe00ab45afcc7789e3934ecbbcde3ea";

/** Types a text into the box from wherever the focus is, and goes to the first suggestion. */
export async function types(page, text) {
  await page.locator("h1").first().click();
  await page.keyboard.press("/");
  same("the focus after /", await page.evaluate(() => document.activeElement.id), "search-box");
  await page.keyboard.type(text);
  await page.locator("#suggestions [role=option]").first().waitFor();
  await page.keyboard.press("Enter");
}

/** The part of the results with the answers of all chains. */
export async function answered(page, kind) {
  const part = page.locator(`[data-question="${kind}"][data-done]`);
  await part.waitFor();
  return part;
}

export const hit = (part, chainId) => part.locator(`.hits [data-chain="${chainId}"]`);

export async function findsEverything(page, api) {
  await page.goto(api.origin);
  const chain = await api.chain();
  const number = chain.finalized.number - 3;
  const block = await api.must(`/v1/chains/${api.chainId}/blocks/${number}`);
  const query = `fromBlock=0&toBlock=${number}&topic0=${COLLECTED}&order=desc&limit=1`;
  const { logs } = await api.must(`/v1/chains/${api.chainId}/logs?${query}`);
  await findsNumber(page, api, block);
  await findsBlock(page, api, block);
  await findsTransaction(page, api, logs[0]);
  await findsTopicAndAddress(page, api, logs[0]);
  await saysFromWhereItSearched(page, api);
  await findsTime(page, api, Number(block.timestamp));
  await saysWhyThereIsNoBlockAtATime(page, api);
  await findsChain(page, api, chain);
  await saysWhatItTakes(page, api);
  console.log("ok search");
}

async function findsNumber(page, api, block) {
  const number = Number(block.number);
  await types(page, String(number));
  await page.waitForURL(`${api.origin}/search?q=${number}`);
  const part = await answered(page, "block");
  const { chains } = await api.must("/v1/overview");
  for (const chain of chains) {
    const { status, body } = await api.get(`/v1/chains/${chain.chainId}/blocks/${number}`);
    const there = (await hit(part, chain.chainId).count()) === 1;
    if (there !== (status === 200))
      fail(
        `block ${number} of ${chain.name}: the API says ${status}, the page ${there ? "has" : "lacks"} it`,
      );
    if (there && !(await hit(part, chain.chainId).innerHTML()).includes(body.hash))
      fail(`another block ${number} of ${chain.name}`);
  }
  // What does not hold it whole cannot say that there is none.
  const unsure = part.locator(".unsure [data-chain]");
  let missing = 0;
  for (const id of await unsure.evaluateAll((all) => all.map((each) => each.dataset.chain))) {
    const { status, body } = await api.get(`/v1/chains/${id}/blocks/${number}`);
    if (status === 404) fail(`chain ${id} certainly has no block ${number}, and the page is not sure`);
    if (body.code !== "NOT_COVERED") continue;
    missing += 1;
    const said = await part.locator(`.unsure [data-chain="${id}"]`).innerText();
    // What is there beside it grows. Nothing was pruned: the chain begins above it.
    const [lacking] = body.detail.toLowerCase().split(";");
    if (!said.toLowerCase().includes(lacking) || /pruned/i.test(said))
      fail(`the refusal “${body.detail}” of chain ${id} is told as “${said}”`);
  }
  if (missing === 0) fail(`every chain has block ${number}: how a missing one is told was not seen`);
}

/** The page of a block, also after it was loaded again, and back to the results. */
async function findsBlock(page, api, block) {
  await types(page, block.hash);
  await page.waitForURL(`${api.origin}/search?q=${block.hash}`);
  const part = await answered(page, "hash-block");
  await hit(part, api.chainId).locator("a.hash").first().click();
  const number = Number(block.number);
  await page.waitForURL(`${api.origin}/chains/${api.chainId}/blocks/${number}`);
  const shown = async () => {
    const hash = page.locator('[data-field="block-hash"] .whole');
    await hash.waitFor();
    return hash.textContent();
  };
  same("the hash of the block", await shown(), block.hash);
  const { name } = await api.chain();
  same("the way back", (await page.locator(".crumbs").textContent()).trim(), `Chains/${name}`);
  await page.reload();
  same("the same after loading again", await shown(), block.hash);
  const transactions = await page
    .locator("[data-transaction]")
    .evaluateAll((rows) => rows.map((row) => row.dataset.transaction));
  same("its transactions", transactions, block.transactions.slice(0, 50));
  const { logs } = await api.must(
    `/v1/chains/${api.chainId}/logs?fromBlock=${number}&toBlock=${number}&limit=50`,
  );
  await until(
    page,
    "its logs",
    (count) => document.querySelectorAll("tr[data-log]").length === count,
    logs.length,
  );
  await page.goBack();
  await answered(page, "hash-block");
  await page.goForward();
  same("the block after back and forward", await shown(), block.hash);
}

async function findsTransaction(page, api, log) {
  await types(page, log.transactionHash);
  const part = await answered(page, "hash-transaction");
  await hit(part, api.chainId).locator("a.hash").first().click();
  const hash = page.locator('[data-field="transaction-hash"] .whole');
  await hash.waitFor();
  same("the hash of the transaction", await hash.textContent(), log.transactionHash);
  const found = await api.must(`/v1/chains/${api.chainId}/transactions/${log.transactionHash}`);
  const facts = await page.locator(".facts").innerText();
  if (!facts.includes(BigInt(found.nonce).toLocaleString("en-US")))
    fail(`the nonce ${BigInt(found.nonce)} is not shown: ${facts}`);
  const at = `${Number(log.blockNumber)}-${Number(log.logIndex)}`;
  await until(
    page,
    "the log of the transaction",
    (wanted) => document.querySelector(`tr[data-log="${wanted}"]`),
    at,
  );
}

/** A known topic shows its logs decoded; an address its newest logs. */
async function findsTopicAndAddress(page, api, log) {
  await types(page, COLLECTED);
  const topic = await answered(page, "topic");
  const events = await hit(topic, api.chainId)
    .locator("tr[data-log]")
    .evaluateAll((rows) => rows.map((row) => row.dataset.event));
  if (events.length === 0 || events.some((event) => event !== "FeesCollected"))
    fail(`logs of FeesCollected are shown as ${events}`);
  // By its name too.
  await types(page, "FeesColl");
  await page.waitForURL(`${api.origin}/search?q=${COLLECTED}`);
  await types(page, log.address);
  const address = await answered(page, "address");
  const rows = await hit(address, api.chainId).locator("tr[data-log]").count();
  const head = (await api.chain()).head.number;
  const { logs } = await api.must(
    `/v1/chains/${api.chainId}/logs?fromBlock=0&toBlock=${head}&address=${log.address}&order=desc&limit=5`,
  );
  same("logs of the contract", rows, logs.length);
}

/** The chain of the test that begins at a later block than the first. */
const LATE = "41003";
/** The first topic of no log. */
const NO_TOPIC = `0x${"3c".repeat(32)}`;

/** That no log is found is that there is none only where every block was searched. */
async function saysFromWhereItSearched(page, api) {
  const chain = new Api(api.origin, LATE);
  const { startBlock } = await chain.chain();
  await page.goto(api.origin);
  // Until it has archived blocks it refuses, which says nothing of its start.
  const expect = (overview) => chain.chainIn(overview).finalized?.number ?? null;
  await chain.untilShown(page, "the chain that begins later is archived", expect, () => true);
  await page.goto(`${api.origin}/search?q=${NO_TOPIC}`);
  const part = await answered(page, "topic");
  const without = (chainId) => part.locator(`.not [data-chain="${chainId}"]`).count();
  same("a chain that was searched from block 0 on has no such log", await without(api.chainId), 1);
  same(`chain ${LATE} among those that have no such log`, await without(LATE), 0);
  const words = await part.locator(`.unsure [data-chain="${LATE}"]`).textContent();
  if (!words.includes(`none from block ${startBlock} on`))
    fail(`a search from block ${startBlock} on is told as ${words}`);
}

/** A time with its zone: UTC where it has none. */
const whole = (text) => new Date(text.endsWith("Z") ? text : `${text.replace(" ", "T")}Z`).toISOString();

async function findsTime(page, api, seconds) {
  const texts = [
    String(seconds),
    String(seconds * 1000),
    new Date((seconds + 1) * 1000).toISOString(),
    new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " "),
  ];
  for (const text of texts) {
    await types(page, text);
    const part = await answered(page, "time");
    const asked = /^\d+$/.test(text) ? text : whole(text);
    const found = await api.must(`/v1/chains/${api.chainId}/block/before/${asked}?inclusive=true`);
    same(
      `the block at ${text}`,
      await hit(part, api.chainId).locator("[data-field=time-number]").getAttribute("data-number"),
      String(found.number),
    );
  }
  await page.getByRole("link", { name: "after", exact: true }).click();
  await page.waitForURL(/direction=after/);
  const part = await answered(page, "time");
  const text = new URL(page.url()).searchParams.get("q");
  const found = await api.must(`/v1/chains/${api.chainId}/block/after/${whole(text)}?inclusive=true`);
  same(
    "the block after",
    await hit(part, api.chainId).locator("[data-field=time-number]").getAttribute("data-number"),
    String(found.number),
  );
}

/** A time at which no chain has a block: as the API takes it, what is asked, and the codes that one chain answers. */
const NO_BLOCK = [
  ["2001-01-01T00:00:00Z", "before", { still: "BLOCK_NOT_FOUND", late: "NOT_COVERED" }],
  ["2200-01-01T00:00:00Z", "after", { still: "BLOCK_NOT_FOUND" }],
  ["1960-01-01T00:00:00Z", "before", { still: "INVALID_TIMESTAMP", late: "INVALID_TIMESTAMP" }],
];

/**
 * These refusals are an object with code and message, not problem details: all of them used to be told as that the
 * server refused.
 */
async function saysWhyThereIsNoBlockAtATime(page, api) {
  for (const [time, direction, codes] of NO_BLOCK) {
    await page.goto(`${api.origin}/search?q=${time}&direction=${direction}`);
    const part = await answered(page, "time");
    const asked = { still: api.chainId, late: LATE };
    for (const [which, code] of Object.entries(codes)) {
      const id = asked[which];
      const { body } = await api.get(
        `/v1/chains/${id}/block/${direction}/${encodeURIComponent(time)}?inclusive=true`,
      );
      const { error } = body;
      same(`the code of chain ${id} ${direction} ${time}`, error?.code, code);
      const place = code === "BLOCK_NOT_FOUND" ? "not" : "unsure";
      const row = part.locator(`.${place} [data-chain="${id}"]`);
      same(`chain ${id} among “${place}” ${direction} ${time}`, await row.count(), 1);
      if (place === "not") continue;
      const said = (await row.textContent()).toLowerCase();
      // What is there beside it grows.
      const [reason] = error.message.toLowerCase().split(";");
      if (!said.includes(reason)) fail(`the refusal “${error.message}” of chain ${id} is told as “${said}”`);
      if (said.includes("..")) fail(`two full stops: “${said}”`);
      const word = code === "NOT_COVERED" ? "not known here" : "refused";
      same(`the word for ${code}`, await row.locator(".state").textContent(), word);
      if (code === "INVALID_TIMESTAMP" && !said.includes("iso 8601")) fail(`no advice: “${said}”`);
    }
  }
}

/** By its name; and a name before a number asks that chain alone. */
async function findsChain(page, api, chain) {
  await types(page, chain.name);
  await page.waitForURL(`${api.origin}/chains/${api.chainId}`);
  await types(page, `${chain.name} 5`);
  await page.waitForURL(`${api.origin}/chains/${api.chainId}/blocks/5`);
  await page.keyboard.press("Control+k");
  same("the focus after Ctrl K", await page.evaluate(() => document.activeElement.id), "search-box");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
}

async function saysWhatItTakes(page, api) {
  await page.goto(`${api.origin}/search?q=${encodeURIComponent("<b>nothing</b>")}`);
  await until(page, "what can be searched for", () =>
    document.querySelector("#found").textContent.includes("64 digits"),
  );
  if ((await page.locator("#found b, h1 b").count()) > 0) fail("a text became markup");
}
