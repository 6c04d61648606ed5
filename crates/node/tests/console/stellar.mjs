// A Stellar network in the console. Its id is larger than the numbers of JavaScript hold: one digit lost, and the
// page asks for a chain that is not there.
//
//   node stellar.mjs BASE_URL NAME ARTIFACT_DIR CHAIN_ID
//
// The network's lake stands still, and fills more than one range.

import { mkdirSync } from "node:fs";

import { Api, digits } from "./api.mjs";
import { fail, open, same, until } from "./browser.mjs";
import { looksWell } from "./quality.mjs";
import { answered, hit, types } from "./search.mjs";

const [base, name, artifacts, chainId] = process.argv.slice(2);
if (!chainId) fail("usage: node stellar.mjs BASE_URL NAME ARTIFACT_DIR CHAIN_ID");
if (Number.isSafeInteger(Number(chainId))) fail(`${chainId} is an id that a number holds`);
const api = new Api(base, chainId);
/** The other chain begins later than every ledger, and no chain has a block with so high a number as a time. */
function isRefusal(url) {
  const { pathname } = new URL(url);
  const isOther = !pathname.includes(chainId);
  // These may not be there at the start.
  return (
    /\/(history|ranges)$/.test(pathname) ||
    (isOther && /\/blocks?\//.test(pathname)) ||
    /\/blocks\/\d{9,}\/clock$/.test(pathname)
  );
}

async function isListed(page) {
  await page.goto(api.origin);
  const row = page.locator(`#chains [data-chain="${chainId}"]`);
  await row.waitFor();
  same("the id in the list", await row.locator(".id").textContent(), chainId);
  await row.locator(".row-link").click();
  await page.waitForURL(`${api.origin}/chains/${chainId}`);
}

async function showsTheNetwork(page) {
  const expect = (overview) => {
    const chain = api.chainIn(overview);
    if (!chain.head || !chain.finalized) return null;
    return {
      texts: [name, chainId],
      values: {
        "head-number": chain.head.number.toLocaleString("en-US"),
        "finalized-number": chain.finalized.number.toLocaleString("en-US"),
        logs: chain.storage.logs.toLocaleString("en-US"),
      },
    };
  };
  await api.untilShown(page, "the network's numbers", expect, ({ texts, values }) => {
    const title = document.querySelector(".title");
    const shown = [title.querySelector("h1"), title.querySelector(".muted")].map((node) => node.textContent);
    const text = (field) => document.querySelector(`.tiles [data-field="${field}"]`)?.textContent;
    return (
      JSON.stringify(shown) === JSON.stringify(texts) &&
      Object.entries(values).every(([field, value]) => text(field) === value)
    );
  });
  const { pathname } = new URL(await page.locator('[data-field="head-number"] a').evaluate((node) => node.href));
  if (!/\/blocks\/\d+$/.test(pathname)) fail(`the head leads to ${pathname}`);
  const tools = await page.locator(".title .tools a").allTextContents();
  same("what the page of the network offers", tools, ["Newest block", "Block at a time"]);
  console.log("ok (a) the network");
}

/** From its first ledger on, 2, and nothing is missing below it. */
async function showsCoverage(page) {
  const { datasets, coverage } = await api.chain();
  const shown = await page
    .locator("[data-dataset]")
    .evaluateAll((all) =>
      all.map((each) => [each.dataset.dataset, each.querySelector('[data-field="coverage"]').textContent]),
    );
  same(
    "what is archived",
    shown,
    datasets.map((dataset) => [dataset, "100 %"]),
  );
  same("the first ledger of the API", coverage[0].from, 2);
  const intervals = page.locator('section[aria-label="Coverage"] details');
  await intervals.locator("summary").click();
  const rows = intervals.locator("tbody tr");
  await rows.first().waitFor();
  const numbers = await rows.evaluateAll((all) =>
    all.map((row) => [...row.cells].slice(0, 3).map((cell) => Number(cell.textContent.replace(/\D/g, "")))),
  );
  // Below there may be what the lake has and the archive not yet.
  same(
    "intervals",
    numbers.slice(0, coverage.length),
    coverage.map(({ from, to }) => [from, to, to - from + 1]),
  );
  console.log(`ok (b) coverage: ${JSON.stringify(numbers)}`);
}

async function showsRanges(page) {
  const place = page.locator('[data-field="ranges"]');
  await place.locator("summary").click();
  const expect = ({ ranges }) => {
    if (!(ranges?.length > 1)) return null;
    const row = ({ id, from, to, state, blocks }) => [
      String(id),
      `${from} – ${to}`,
      state.toLowerCase(),
      String(blocks),
    ];
    return ranges.map(row);
  };
  const probe = (wanted) => {
    const rows = [...document.querySelectorAll('[data-field="ranges"] tbody tr')];
    const texts = ({ cells }) =>
      [cells[0], cells[1], cells[2].querySelector(".state"), cells[5]].map((node) => node.textContent);
    return JSON.stringify(rows.map(texts)) === JSON.stringify(wanted);
  };
  const shown = await api.untilShown(page, "ranges", expect, probe, `/v1/chains/${chainId}/ranges`);
  same("the heading of what is kept", await place.locator("th").nth(3).textContent(), "Ledgers");
  await place.locator("summary").click();
  console.log(`ok (c) ranges: ${JSON.stringify(shown)}`);
}

/** The address that is shown answers. */
async function showsItsRpc(page) {
  const wanted = `${api.origin}/stellar/${name}`;
  same("the address of the RPC", await page.locator(".endpoint .rpc").textContent(), wanted);
  await page.locator(".endpoint .copy").click();
  await until(page, "the RPC address is copied", () =>
    document.querySelector("#toast")?.textContent.startsWith("Copied"),
  );
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  same("the copied RPC address", copied, wanted);
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "getLatestLedger" });
  const headers = { "content-type": "application/json" };
  const response = await fetch(copied, { method: "POST", headers, body });
  const { result } = await response.json();
  same("the newest ledger of its RPC", result?.sequence, (await api.chain()).head.number);
  console.log("ok (d) its RPC");
}

async function isFoundByName(page) {
  for (const text of [name, name.toUpperCase(), chainId]) {
    await page.goto(api.origin);
    await page.locator("#chains tr").first().waitFor();
    await types(page, text);
    await page.waitForURL(`${api.origin}/chains/${chainId}`);
    await until(
      page,
      `the page of ${text}`,
      (wanted) => document.querySelector("h1").textContent === wanted,
      name,
    );
  }
  console.log("ok (e) found by name and by id");
}

/** The time of a ledger, and one a second later: on all chains, and on this one alone. */
async function findsTimes(page) {
  const { finalized } = await api.chain();
  const seconds = finalized.timestamp - 100;
  const iso = (at) => new Date(at * 1000).toISOString().replace(".000Z", "Z");
  for (const [text, time] of [
    [String(seconds), String(seconds)],
    [iso(seconds + 1), iso(seconds + 1)],
    [`${name} ${iso(seconds)}`, iso(seconds)],
  ]) {
    const isAlone = text !== time;
    await types(page, text);
    await page.waitForURL((url) => url.pathname === "/search" && url.searchParams.get("q") === time);
    const scope = new URL(page.url()).searchParams.get("chain");
    same(`the chain that is asked for ${text}`, scope, isAlone ? chainId : null);
    const part = await answered(page, "time");
    const found = await api.must(`/v1/chains/${chainId}/block/before/${time}?inclusive=true`);
    const ledger = hit(part, chainId);
    const number = ledger.locator("[data-field=time-number]");
    same(`the ledger at ${text}`, await number.getAttribute("data-number"), String(found.number));
    same("what is shown of it", digits(await number.textContent()), found.number);
    same("its hash", await ledger.locator(`[data-copy="${found.hash}"]`).count(), 1);
    same("links to its page", await ledger.locator(`a[href$="/blocks/${found.hash}"]`).count(), 1);
    if (isAlone) same("the chain in the field", await page.inputValue("#search-scope"), chainId);
  }
  console.log("ok (f) times");
}

const LEDGER = 17;

/** The page of a ledger: number, hash, parent and time, and where the rest of it is. */
async function showsLedger(page, clock) {
  const hash = page.locator('[data-field="block-hash"] .whole');
  await hash.waitFor();
  same("the hash of the ledger", await hash.textContent(), clock.hash);
  same("its number", digits(await page.locator("h1").textContent()), clock.number);
  const facts = await page.locator(".facts").innerText();
  const time = new Date(clock.timestamp * 1000).toISOString().slice(0, 19).replace("T", " ");
  if (!facts.includes(`${time} UTC`)) fail(`the time ${time} of the ledger is not shown: ${facts}`);
  same(
    "links to its parent",
    await page.locator(`.facts a[href$="/blocks/${clock.parentHash}"]`).count(),
    1,
  );
  same(
    "where its transactions are",
    await page.locator('[data-field="ledger-rpc"] .rpc').textContent(),
    `${api.origin}/stellar/${name}`,
  );
  same("errors beside it", await page.locator("main .error").count(), 0);
}

/** A number on all chains, a number on this one alone, and a hash: each used to be an error or not searched at all. */
async function findsLedgers(page) {
  const clock = await api.must(`/v1/chains/${chainId}/blocks/${LEDGER}/clock`);
  await types(page, String(LEDGER));
  const part = await answered(page, "block");
  await hit(part, chainId).locator(`a[href$="/blocks/${LEDGER}"]`).click();
  await showsLedger(page, clock);
  await page.goto(api.origin);
  await page.locator("#chains tr").first().waitFor();
  await types(page, `${name} ${LEDGER}`);
  await page.waitForURL(`${api.origin}/chains/${chainId}/blocks/${LEDGER}`);
  await showsLedger(page, clock);
  await page.goto(`${api.origin}/search?q=${clock.hash}&chain=${chainId}`);
  const byHash = await answered(page, "hash-block");
  same("the ledger of a hash", await hit(byHash, chainId).count(), 1);
  const transactions = await answered(page, "hash-transaction");
  const said = await transactions.locator(`.unsure [data-chain="${chainId}"]`).innerText();
  if (!said.includes("RPC")) fail(`where transactions are searched is told as “${said}”`);
  console.log("ok (g) ledgers by number and hash");
}

async function main() {
  mkdirSync(artifacts, { recursive: true });
  const { browser, page } = await open(api.origin, isRefusal);
  await isListed(page);
  await showsTheNetwork(page);
  await showsCoverage(page);
  await showsRanges(page);
  await showsItsRpc(page);
  await isFoundByName(page);
  await findsTimes(page);
  await findsLedgers(page);
  const { finalized } = await api.chain();
  const pages = [
    ["stellar", `/chains/${chainId}`, "[data-dataset]"],
    ["stellar-time", `/search?q=${finalized.timestamp}`, "[data-done]"],
    ["stellar-ledger", `/chains/${chainId}/blocks/${LEDGER}`, '[data-field="ledger-rpc"]'],
  ];
  await looksWell(page, api, pages, artifacts);
  await browser.close();
}

main().catch((error) => fail(error.stack));
