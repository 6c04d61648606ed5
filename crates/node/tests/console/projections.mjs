// The page of projections in a real browser, while one is paused and the database goes away.
//
//   node projections.mjs BASE_URL CONTROL_URL ARTIFACT_DIR CHAIN_ID
//
// What the page shows is compared with what the API says; screenshots go to ARTIFACT_DIR.

import { mkdirSync } from "node:fs";
import path from "node:path";

import { Api } from "./api.mjs";
import { DESK, PHONE, fail, fits, open, same, until } from "./browser.mjs";
import { canBeHit, isAccessible } from "./quality.mjs";

const [base, control, artifacts, chainId] = process.argv.slice(2);
if (!chainId) fail("usage: node projections.mjs BASE_URL CONTROL_URL ARTIFACT_DIR CHAIN_ID");
const api = new Api(base, chainId);
const { origin } = api;
const TABS_MAX = 200;
const ROUTE = "**/v1/projections";

/** The numbers of a card in their order, what needs a look first, and what they are called among those that are 0. */
const NUMBERS = [
  ["deadJobs", "jobs given up"],
  ["quarantined", "logs set aside"],
  ["failedJobs", "jobs tried again"],
  ["lagBlocks", "blocks to come"],
  ["eventsAbout", "events"],
  ["pendingRows", "pending events"],
  ["runningJobs", "jobs running"],
  ["waitingJobs", "jobs waiting"],
];

const NATIVE = `0x${"0".repeat(40)}`;
const TOKEN = `0x${"5".repeat(40)}`;
/** A token, an amount of it, and how the page shows it. */
const AMOUNTS = [
  [NATIVE, "1500000000000000000", "1.5"],
  [NATIVE, "1234567890123456789012", "≈ 1,234.567890"],
  [TOKEN, "1000000", "1,000,000 raw units"],
  [TOKEN, "123456789012345678901234567890", "≈ 1.234 × 10²⁹ raw units"],
  [TOKEN, null, "–"],
];

async function change(what) {
  const answer = await fetch(`${control}/${what}`, { method: "POST" });
  if (!answer.ok) fail(`${what} could not be done`);
}

async function told() {
  const response = await fetch(`${origin}/v1/projections`);
  return { status: response.status, text: await response.text() };
}

const chainOf = ({ chains }) => chains.find((chain) => String(chain.chainId) === chainId);

async function chainTold() {
  const { status, text } = await told();
  if (status !== 200) fail(`/v1/projections answers ${status}: ${text}`);
  return chainOf(JSON.parse(text));
}

/** Waits until the page shows what its own poll brought: `expect(chain)` says what that is, `probe` looks for it. */
function untilShown(page, what, expect, probe) {
  return api.untilShown(page, what, (answer) => expect(chainOf(answer)), probe, "/v1/projections");
}

/** Changes what the page is answered, as long as a check runs. */
async function withAnswers(page, change, check) {
  await page.route(ROUTE, async (route) => {
    const response = await route.fetch();
    const answer = await response.json();
    change(answer);
    await route.fulfill({ response, json: answer });
  });
  await check();
  await page.unroute(ROUTE);
  await until(page, "one chain again", () => document.querySelector("#boards").children.length === 1);
}

const card = (name) => `[data-chain="${chainId}"] [data-projection="${name}"]`;

async function untilPill(page, name, word) {
  const probe = ({ at, word }) => document.querySelector(`${at} .pill`)?.textContent === word;
  await until(page, `${name} is said to be “${word}”`, probe, { at: card(name), word });
}

async function showsWhatTheApiSays(page) {
  await untilPill(page, "adfs", "paused");
  const chain = await chainTold();
  for (const one of chain.projections) {
    const shown = await page.locator(`${card(one.projection)} [data-field="complete-through"]`).textContent();
    const expected = one.completeThrough === null ? "" : one.completeThrough.toLocaleString("en-US");
    if (shown !== expected)
      fail(`${one.projection}: the page shows ${shown}, the API says ${one.completeThrough}`);
  }
  const rows = (title) => page.locator(`[data-chain="${chainId}"] [aria-label="${title}"] tbody tr`).count();
  for (const [title, list] of [
    ["Locks", chain.locks],
    ["Versions of the contract", chain.versions],
    ["Newest fee events", chain.recentFees],
    ["Feeds, newest values", chain.latestFeeds],
  ]) {
    const shown = await rows(title);
    if (shown !== list.length || shown === 0) fail(`${title}: ${shown} rows instead of ${list.length}`);
  }
  const writer = chain.locks.find((lock) => lock.type === "writer");
  const holder = await page.locator('[data-lock="writer"] td').nth(1).textContent();
  if (holder !== writer.holder) fail(`the writer's lock is shown as ${holder}'s, not ${writer.holder}'s`);
  for (const { projection } of chain.projections) await showsNumbers(page, projection);
  // What went wrong with a job is for those who may read the database.
  const { text } = await told();
  if (text.includes("secret")) fail("the API tells everybody why a job failed");
  console.log("ok (a) what the API says");
}

/** Numbers of a card, those that need a look first; those that are 0 are folded into a line. */
async function showsNumbers(page, name) {
  const expect = ({ projections }) => {
    const one = projections.find(({ projection }) => projection === name);
    const known = NUMBERS.filter(([key]) => one[key] !== null);
    const none = known.filter(([key]) => one[key] === 0).map(([, words]) => words);
    return {
      at: card(name),
      numbers: known
        .filter(([key]) => one[key] !== 0)
        .map(([key]) => [key, one[key].toLocaleString("en-US")]),
      zeros: none.length > 0 ? `None: ${none.join(", ")}.` : "",
    };
  };
  const { numbers, zeros } = await untilShown(
    page,
    `the numbers of ${name}`,
    expect,
    ({ at, numbers: wanted, zeros: words }) => {
      const node = document.querySelector(at);
      const shown = [...node.querySelectorAll("[data-number]")].map((each) => [
        each.dataset.number,
        each.querySelector(".figure").textContent,
      ]);
      return (
        JSON.stringify(shown) === JSON.stringify(wanted) &&
        node.querySelector('[data-field="zeros"]').textContent === words
      );
    },
  );
  if (zeros === "") fail(`no number of ${name} is 0: how they are folded was not seen`);
  if (name === "fees") same("what needs a look first", numbers[0], ["deadJobs", "1"]);
}

/** A chain that does well stands below one that does not, whatever the API's order. */
async function showsTheWorstChainFirst(page) {
  const change = (answer) => {
    const well = structuredClone(chainOf(answer));
    well.chainId = 5_000;
    for (const one of well.projections) Object.assign(one, { pausedAt: null, deadJobs: 0, lagBlocks: 0 });
    answer.chains.unshift(well);
  };
  await withAnswers(page, change, () =>
    until(
      page,
      "the chain that needs attention, then the other",
      (wanted) => {
        const shown = [...document.querySelectorAll("#boards > li")].map((node) => node.dataset.chain);
        return JSON.stringify(shown) === JSON.stringify(wanted);
      },
      [chainId, "5000"],
    ),
  );
  console.log("ok (h) the chain that needs attention first");
}

/** Only the native token's decimals are known: amounts of others are not divided, and say so. */
async function showsAmounts(page) {
  const cells = '[aria-label="Newest fee events"] td.amount';
  await untilShown(
    page,
    "the amounts of the API",
    (chain) => ({ cells, amounts: chain.recentFees.map(({ amount }) => amount) }),
    ({ cells: at, amounts }) => {
      const shown = [...document.querySelectorAll(at)].map((cell) => cell.dataset.amount ?? null);
      return JSON.stringify(shown) === JSON.stringify(amounts);
    },
  );
  const change = (answer) => {
    const chain = chainOf(answer);
    const [model] = chain.recentFees;
    // Not the place of a row that is shown already.
    const made = AMOUNTS.map(([token, amount], at) => ({ ...model, token, amount, position: 1_000 + at }));
    chain.recentFees = made;
  };
  await withAnswers(page, change, () =>
    until(
      page,
      "amounts in units of their token where these are known",
      ({ cells: at, expected }) => {
        const shown = [...document.querySelectorAll(at)].map((cell) => cell.textContent);
        return JSON.stringify(shown) === JSON.stringify(expected);
      },
      { cells, expected: AMOUNTS.map(([, , shown]) => shown) },
    ),
  );
  console.log("ok (i) amounts");
}

async function saysWhatMends(page) {
  const chain = await chainTold();
  const { remedy } = chain.projections.find((one) => one.projection === "adfs");
  await page.locator(`#attention-list [data-copy="${remedy}"]`).click();
  await until(page, "the command is copied", () =>
    document.querySelector("#toast")?.textContent.startsWith("Copied"),
  );
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  if (copied !== remedy || !remedy.startsWith("chronolith versions add "))
    fail(`copied ${copied}, not ${remedy}`);
  await untilPill(page, "fees", "jobs failed");
  const explain = page.locator('#attention-list [data-copy^="chronolith jobs explain "]');
  if ((await explain.count()) !== 1) fail("nothing says how to look at the job that failed");
  console.log("ok (b) what mends it");
}

async function worksByKeyboard(page) {
  await page.keyboard.press("Tab");
  if (!(await page.evaluate(() => document.activeElement?.matches(".skip"))))
    fail("no skip link at the first tab");
  const reached = () => page.evaluate(() => document.activeElement?.matches("#attention-list [data-copy]"));
  for (let tabs = 0; !(await reached()); tabs += 1) {
    if (tabs > TABS_MAX) fail("no tab reaches a command");
    await page.keyboard.press("Tab");
  }
  // Two polls take the focus from no element.
  for (const _ of [1, 2])
    await page.waitForResponse((response) => response.url().endsWith("/v1/projections"));
  if (!(await reached())) fail("a poll took the focus away");
  console.log("ok (c) keyboard");
}

async function looks(page, name) {
  for (const [size, viewport] of [
    ["wide", DESK],
    ["phone", PHONE],
  ]) {
    await page.setViewportSize(viewport);
    const widths = await fits(page, `(d) the page, ${name}`);
    await canBeHit(page, `(d) the page, ${name}, ${size}`);
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await isAccessible(page, `(d) the page, ${name}, ${size}, ${colorScheme}`);
      const file = path.join(artifacts, `projections-${name}-${size}-${colorScheme}.png`);
      await page.screenshot({ path: file, fullPage: true });
    }
    console.log(`ok (d) ${name}: ${widths[0]} px of ${widths[1]}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(DESK);
}

/** The list of chains says where to look. */
async function isToldInTheConsole(page) {
  await page.goto(origin);
  await until(page, "the console tells of the projection", () => {
    const state = document.querySelector("#chains .state");
    return state?.textContent === "projection paused";
  });
  await page.locator('nav a[href="/projections"]').click();
  await untilPill(page, "adfs", "paused");
  console.log("ok (e) the console leads here");
}

async function tellsOfAnAbsence(page) {
  await change("stop-database");
  await until(page, "the absence", () => {
    const away = document.querySelector("#away");
    return !away.hidden && /^Since \d{4}-/.test(document.querySelector("#away-words").textContent);
  });
  const { status, text } = await told();
  const { error } = JSON.parse(text);
  if (status !== 503 || error.code !== "DATABASE_UNAVAILABLE" || !(error.since > 0))
    fail(`${status} ${text}`);
  if ((await page.locator(card("fees")).count()) !== 1) fail("what was known is gone");
  await looks(page, "away");
  await change("start-database");
  await until(page, "its return", () => document.querySelector("#away").hidden);
  console.log("ok (f) an absence");
}

/** The cards of the chain from top to bottom. */
function cards(page) {
  return page
    .locator(`[data-chain="${chainId}"] [data-projection]`)
    .evaluateAll((nodes) => nodes.map((node) => node.dataset.projection));
}

/** One after the other, so that the one that still waits for an operator comes first. */
async function goesOn(page) {
  const order = (await chainTold()).projections.map(({ projection }) => projection);
  if (order[0] === "fees") fail("the API begins with fees: that they come first would show nothing");
  await change("name");
  await untilPill(page, "adfs", "complete");
  same("the projection with a failed job first", await cards(page), ["fees", "adfs"]);
  await change("retry");
  await untilPill(page, "fees", "complete");
  same("the API's order where all do well", await cards(page), order);
  await until(
    page,
    "the second version",
    (chainId) => document.querySelector(`[data-chain="${chainId}"] h2`).textContent.includes("version 2"),
    chainId,
  );
  await until(page, "nothing needs attention", () => document.querySelector("#attention").hidden);
  console.log("ok (g) it continues");
}

mkdirSync(artifacts, { recursive: true });
const { browser, page } = await open(origin, (url) => url.endsWith("/v1/projections"));
await page.goto(`${origin}/projections`);
await showsWhatTheApiSays(page);
await worksByKeyboard(page);
await saysWhatMends(page);
await showsTheWorstChainFirst(page);
await showsAmounts(page);
await looks(page, "paused");
await isToldInTheConsole(page);
await tellsOfAnAbsence(page);
await goesOn(page);
await looks(page, "well");
await browser.close();
