// The page of projections in a real browser, while one is paused and the database goes away.
//
//   node projections.mjs BASE_URL CONTROL_URL ARTIFACT_DIR CHAIN_ID
//
// What the page shows is compared with what the API says; screenshots go to ARTIFACT_DIR.

import { mkdirSync } from "node:fs";
import path from "node:path";

import { DESK, PHONE, fail, fits, open, until } from "./browser.mjs";
import { isAccessible } from "./quality.mjs";

const [base, control, artifacts, chainId] = process.argv.slice(2);
if (!chainId) fail("usage: node projections.mjs BASE_URL CONTROL_URL ARTIFACT_DIR CHAIN_ID");
const origin = new URL(base).origin;
const TABS_MAX = 200;

async function change(what) {
  const answer = await fetch(`${control}/${what}`, { method: "POST" });
  if (!answer.ok) fail(`${what} could not be done`);
}

async function told() {
  const response = await fetch(`${origin}/v1/projections`);
  return { status: response.status, text: await response.text() };
}

async function chainTold() {
  const { status, text } = await told();
  if (status !== 200) fail(`/v1/projections answers ${status}: ${text}`);
  return JSON.parse(text).chains.find((chain) => String(chain.chainId) === chainId);
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
  // What went wrong with a job is for those who may read the database.
  const { text } = await told();
  if (text.includes("secret")) fail("the API tells everybody why a job failed");
  console.log("ok (a) what the API says");
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

async function goesOn(page) {
  await change("retry");
  await change("name");
  await untilPill(page, "fees", "complete");
  await until(
    page,
    "the second version",
    (chainId) => document.querySelector(`[data-chain="${chainId}"] h2`).textContent.includes("version 2"),
    chainId,
  );
  await untilPill(page, "adfs", "complete");
  await until(page, "nothing needs attention", () => document.querySelector("#attention").hidden);
  console.log("ok (g) it continues");
}

mkdirSync(artifacts, { recursive: true });
const { browser, page } = await open(origin, (url) => url.endsWith("/v1/projections"));
await page.goto(`${origin}/projections`);
await showsWhatTheApiSays(page);
await worksByKeyboard(page);
await saysWhatMends(page);
await looks(page, "paused");
await isToldInTheConsole(page);
await tellsOfAnAbsence(page);
await goesOn(page);
await looks(page, "well");
await browser.close();
