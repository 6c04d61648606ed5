// The console in a real browser, against a node that serves and a simulated chain that it follows.
//
//   node check.mjs BASE_URL RPC_CONTROL_URL ARTIFACT_DIR CHAIN_ID
//
// PLAYWRIGHT_CORE is the folder of the module playwright-core, CHROMIUM the browser. What the page shows
// is compared with what the API says; screenshots go to ARTIFACT_DIR. The first failure ends it with
// exit code 1 and says what was expected.

import { mkdirSync } from "node:fs";
import path from "node:path";

import { DEADLINE_MS, DESK, PHONE, fail, fits, open, until } from "./browser.mjs";
import { saysHowToTurnOn } from "./off.mjs";

const POLL_MS = 1_000;
const TABS_MAX = 500;
/** Small, so that a short chain has a second page. */
const LIMIT = 3;
const NO_ADDRESS = "0x1234";

const [base, control, artifacts, chainId] = process.argv.slice(2);
if (!chainId) fail("usage: node check.mjs BASE_URL RPC_CONTROL_URL ARTIFACT_DIR CHAIN_ID");
const origin = new URL(base).origin;
const row = `[data-chain="${chainId}"]`;

function same(what, shown, expected) {
  const [left, right] = [JSON.stringify(shown), JSON.stringify(expected)];
  if (left !== right) fail(`${what}: the page shows ${left}, expected ${right}`);
}

/** An answer of the API, also where it refuses. */
async function api(route) {
  const response = await fetch(origin + route);
  return { status: response.status, body: await response.json() };
}

const digits = (text) => Number(text.replace(/\D/g, ""));

/** The answer to the page's next poll. */
async function nextPoll(page, what) {
  const answered = page.waitForResponse((response) => response.url().endsWith("/v1/overview"), {
    timeout: DEADLINE_MS,
  });
  return answered.catch(() =>
    fail(`${what}: the page has not asked for the overview for ${DEADLINE_MS / 1000} s`),
  );
}

/**
 * Waits until the page shows what its own poll brought. `expect(chain)` says what that is, or null while
 * the API is not there yet; `probe` looks for it on the page.
 */
async function untilShown(page, what, expect, probe) {
  const ends = Date.now() + DEADLINE_MS;
  let expected = null;
  while (Date.now() < ends) {
    const response = await nextPoll(page, what);
    expected = expect(chainIn(await response.json()));
    if (expected === null) continue;
    // The next poll may bring a newer head: then that one is looked for.
    const shown = page.waitForFunction(probe, { row, chainId, ...expected }, { timeout: POLL_MS });
    if (
      await shown.then(
        () => true,
        () => false,
      )
    )
      return expected;
  }
  return fail(`${what}: not within ${DEADLINE_MS / 1000} s, expected ${JSON.stringify(expected)}`);
}

function chainIn(overview) {
  const chain = overview.chains.find((each) => String(each.chainId) === chainId);
  return chain ?? fail(`the API has no chain ${chainId}`);
}

// The checks.

async function showsHead(page) {
  const expect = (chain) => (chain.head && chain.finalized ? chain.head : null);
  const head = await untilShown(
    page,
    "(a) the chain with the API's head",
    expect,
    ({ row, number, hash }) => {
      const shown = document.querySelector(`${row} [data-field="head-number"]`);
      const shownHash = document.querySelector(`${row} [data-field="head-hash"]`);
      return shown?.textContent.replace(/\D/g, "") === String(number) && shownHash?.title === hash;
    },
  );
  console.log(`ok (a) head ${head.number} ${head.hash}`);
}

async function showsReorg(page) {
  const known = chainIn((await api("/v1/overview")).body).reorgs.map((reorg) => reorg.from.hash);
  await page.evaluate(() => {
    window.sameDocument = true;
  });
  const request = { jsonrpc: "2.0", id: 1, method: "sim_reorg", params: [2] };
  const answer = await fetch(control, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(request),
  });
  const told = await answer.json();
  if (told.error) fail(`(b) the simulated node refused: ${JSON.stringify(told.error)}`);
  const expect = (chain) => {
    const reorg = chain.reorgs.find((each) => !known.includes(each.from.hash));
    return reorg && chain.head.hash !== reorg.from.hash
      ? { dropped: reorg.from.hash, stayed: reorg.to.hash, head: chain.head.hash }
      : null;
  };
  const reorg = await untilShown(
    page,
    "(b) a new reorg in #reorgs and the new head",
    expect,
    ({ row, chainId, dropped, stayed, head }) => {
      const item = document.querySelector(`#reorgs [data-chain-id="${chainId}"][data-dropped="${dropped}"]`);
      const shown = document.querySelector(`${row} [data-field="head-hash"]`);
      return item?.querySelector(`[title="${stayed}"]`) && shown?.title === head;
    },
  );
  if (!(await page.evaluate(() => window.sameDocument))) fail("(b) the page was loaded again");
  console.log(`ok (b) reorg: ${reorg.dropped} dropped, ${reorg.head} is the head`);
}

async function looksUp(page, time, direction, inclusive) {
  await page.selectOption("#lookup-chain", chainId);
  await page.selectOption("#lookup-direction", direction);
  await page.setChecked("#lookup-inclusive", inclusive);
  await page.fill("#lookup-time", time);
  const route = `/v1/chains/${chainId}/block/${direction}/${encodeURIComponent(time)}?inclusive=${inclusive}`;
  // The result of the lookup before may be the same number: what counts is that this one was asked.
  const asked = page.waitForResponse((response) => response.url().endsWith(route), { timeout: DEADLINE_MS });
  await page.click('#lookup-form button[type="submit"]');
  await asked.catch(() => fail(`(c) the form did not ask for ${route}`));
  await expectNumber(page, "(c)", route);
}

/** The lookup's result is the API's. */
async function expectNumber(page, check, route) {
  const { status, body } = await api(route);
  if (status !== 200) fail(`${check} the API refuses ${route}: ${JSON.stringify(body)}`);
  await until(
    page,
    `${check} block ${body.number} as the result of ${route}`,
    (number) => {
      const shown = document.querySelector('#lookup-result [data-field="lookup-number"]');
      return shown?.textContent.replace(/\D/g, "") === String(number);
    },
    body.number,
  );
  console.log(`ok ${check} ${route} is ${body.number}`);
}

async function rowIn(page, what, which) {
  await until(page, what, (selector) => document.querySelector(selector), `#search-results tr${which}`);
}

async function rowsOf(page) {
  const rows = await page.locator("#search-results tr[data-log]").all();
  return Promise.all(
    rows.map(async (each) => [
      digits(await each.locator('[data-field="block"]').textContent()),
      digits(await each.locator('[data-field="index"]').textContent()),
      await each.locator('[data-field="address"] [title]').getAttribute("title"),
    ]),
  );
}

const expectedRows = (logs) =>
  logs.map((log) => [Number(log.blockNumber), Number(log.logIndex), log.address]);

async function searches(page, { from, to }) {
  const query = `/v1/chains/${chainId}/logs?fromBlock=${from}&toBlock=${to}&limit=${LIMIT}&order=asc`;
  const first = (await api(query)).body;
  if (!first.logs?.length || !first.nextCursor)
    fail(`(d) the chain has too few logs to search: ${JSON.stringify(first)}`);
  const second = (await api(`${query}&cursor=${encodeURIComponent(first.nextCursor)}`)).body;
  await page.selectOption("#search-chain", chainId);
  await page.fill("#search-from", String(from));
  await page.fill("#search-to", String(to));
  await page.fill("#search-limit", String(LIMIT));
  await page.press("#search-limit", "Enter");
  await rowIn(page, "(d) logs in #search-results", "[data-log]");
  same("(d) logs", await rowsOf(page), expectedRows(first.logs));

  await page.click("#search-copy-json");
  same("(d) copied logs", JSON.parse(await clipboard(page, "log")), first.logs);
  await page.click("#search-copy-curl");
  const curl = await clipboard(page, "the request");
  if (!curl.includes('"eth_getLogs"') || !curl.includes(`"fromBlock":"0x${from.toString(16)}"`))
    fail(`(d) the copied request asks for something else: ${curl}`);

  await page.click("#search-next");
  const { blockNumber, logIndex } = second.logs[0];
  await rowIn(page, "(d) the next page", `[data-log="${Number(blockNumber)}-${Number(logIndex)}"]`);
  same("(d) logs of the next page", await rowsOf(page), expectedRows(second.logs));
  console.log(`ok (d) ${first.logs.length} and ${second.logs.length} logs, copied as JSON and as curl`);
}

/** What was copied, once the page has said so. */
async function clipboard(page, what) {
  await until(
    page,
    `(d) “Copied … ${what}”`,
    (wanted) => {
      const said = document.querySelector("#toast").textContent;
      return said.startsWith("Copied") && said.includes(wanted);
    },
    what,
  );
  return page.evaluate(() => navigator.clipboard.readText());
}

async function showsRefusal(page, { from, to }) {
  const { status, body } = await api(
    `/v1/chains/${chainId}/logs?fromBlock=${from}&toBlock=${to}&address=${NO_ADDRESS}&limit=${LIMIT}&order=asc`,
  );
  if (status < 400) fail("(e) the API takes an address of two bytes");
  await page.fill("#search-address", NO_ADDRESS);
  await page.press("#search-address", "Enter");
  await until(
    page,
    `(e) “${body.error.message}” in #search-error`,
    (message) => document.querySelector("#search-error").textContent.includes(message),
    body.error.message,
  );
  if ((await rowsOf(page)).length > 0) fail("(e) the page shows logs beside the refusal");
  await page.fill("#search-address", "");
  await page.press("#search-address", "Enter");
  await rowIn(page, "(e) logs again after the refusal", "[data-log]");
  console.log(`ok (e) ${body.error.message}`);
}

/** Opens whatever is closed, so that all of it is measured. */
async function fitsPhone(page) {
  await page.setViewportSize(PHONE);
  const closed = page.locator('#chains .disclose[aria-expanded="false"]');
  while ((await closed.count()) > 0) await closed.first().click();
  await page.locator("#search-results .disclose").first().click();
  const widths = await fits(page, "(g) the page");
  await page.evaluate(() => window.scrollTo(0, 0));
  await page.screenshot({ path: path.join(artifacts, "console-phone.png") });
  await page.setViewportSize(DESK);
  console.log(`ok (g) ${widths[0]} px of ${widths[1]}`);
}

async function tabTo(page, id) {
  for (let tabs = 0; tabs < TABS_MAX; tabs += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((wanted) => document.activeElement?.id === wanted, id)) return;
  }
  fail(`(h) ${TABS_MAX} tabs do not reach #${id}`);
}

async function worksByKeyboard(page, time) {
  await page.goto(base);
  await page.locator(row).waitFor({ timeout: DEADLINE_MS });
  await page.keyboard.press("Tab");
  if (!(await page.evaluate(() => document.activeElement?.matches(".skip"))))
    fail("(h) the first tab does not reach the skip link");
  await tabTo(page, "lookup-chain");
  const choices = await page.locator("#lookup-chain option").count();
  await page.keyboard.press("Home");
  for (let at = 0; at < choices && (await page.inputValue("#lookup-chain")) !== chainId; at += 1)
    await page.keyboard.press("ArrowDown");
  same("(h) the chain chosen with arrows", await page.inputValue("#lookup-chain"), chainId);
  await tabTo(page, "lookup-time");
  await page.keyboard.type(time);
  // Two polls must take neither the focus nor the text.
  for (const _ of [1, 2]) await nextPoll(page, "(h) polling continues");
  same(
    "(h) the field after two polls",
    await page.evaluate(() => [document.activeElement.id, document.activeElement.value]),
    ["lookup-time", time],
  );
  await page.keyboard.press("Enter");
  await expectNumber(page, "(h)", `/v1/chains/${chainId}/block/before/${time}?inclusive=false`);
}

async function turnsDark(page) {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = (await ground()).match(/\d+/g).map(Number);
  await page.screenshot({ path: path.join(artifacts, "console-light.png") });
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = (await ground()).match(/\d+/g).map(Number);
  await page.screenshot({ path: path.join(artifacts, "console-dark.png") });
  await page.emulateMedia({ colorScheme: "light" });
  if (!(dark[0] < 64 && light[0] > 192)) fail(`(i) the ground is ${light} by day and ${dark} by night`);
  console.log(`ok (i) ground ${light} and ${dark}`);
}

/** Opens the details of the chain: its ranges are those that the API tells of. */
async function showsRanges(page) {
  const toggle = page.locator(`${row} .disclose`);
  if ((await toggle.getAttribute("aria-expanded")) !== "true") await toggle.click();
  const cells = page.locator(`${row} [data-field="ranges"] tbody tr`).first().locator("td");
  const ends = Date.now() + DEADLINE_MS;
  let shown = null;
  let expected = null;
  while (Date.now() < ends) {
    const { body } = await api(`/v1/chains/${chainId}/ranges`);
    const [first] = body.ranges;
    expected = [first.id, first.state, first.ledgerPhase, first.txhashPhase, first.blocks];
    const texts = await cells.allInnerTexts();
    if (texts.length > 5) {
      shown = [digits(texts[0]), texts[2].trim(), texts[3], texts[4], digits(texts[5].split("(")[0])];
      if (JSON.stringify(shown) === JSON.stringify(expected)) {
        const place = page.locator(`${row} [data-field="ranges"]`);
        await place.screenshot({ path: path.join(artifacts, "console-ranges.png") });
        await toggle.click();
        console.log(`ok (r) range ${expected.join(" ")}`);
        return;
      }
    }
    await page.waitForTimeout(POLL_MS / 4);
  }
  fail(`(r) the page shows ${JSON.stringify(shown)}, expected ${JSON.stringify(expected)}`);
}

async function main() {
  mkdirSync(artifacts, { recursive: true });
  const { browser, context, page } = await open(origin, (url) => url.includes(`address=${NO_ADDRESS}`));
  await page.goto(base);

  await showsHead(page);
  await showsReorg(page);
  await showsRanges(page);
  const chain = chainIn((await api("/v1/overview")).body);
  const time = chain.finalized.timestamp;
  await looksUp(page, String(time), "before", false);
  await looksUp(page, String(time * 1000), "before", true);
  await looksUp(page, new Date((time - 1) * 1000).toISOString(), "after", true);
  // Inside one interval of final blocks nothing changes between the page's question and ours.
  const range = chain.coverage[chain.coverage.length - 1];
  await searches(page, range);
  await showsRefusal(page, range);
  await fitsPhone(page);
  await worksByKeyboard(page, String(time));
  await turnsDark(page);
  const second = await context.newPage();
  second.setDefaultTimeout(DEADLINE_MS);
  await saysHowToTurnOn(second, origin);
  console.log("ok (f) no error in the browser's console, no request to another origin");
  await browser.close();
}

main().catch((error) => fail(error.stack));
