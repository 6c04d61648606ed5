// The browser of the checks, and what must not happen on any page.
//
// PLAYWRIGHT_CORE is the folder of the module playwright-core, CHROMIUM the browser.

import { createRequire } from "node:module";
import path from "node:path";

export const DEADLINE_MS = 30_000;
export const PHONE = { width: 390, height: 844 };
export const DESK = { width: 1440, height: 900 };
export const SIZES = [
  ["desk", DESK],
  ["phone", PHONE],
];
export const SCHEMES = ["light", "dark"];

/** The first failure ends everything, with exit code 1. */
export function fail(message) {
  console.error(`console: ${message}`);
  process.exit(1);
}

/** A browser and a page of it that may use the clipboard. `isRefusal(url)`: a refusal that a check wants. */
export async function open(origin, isRefusal) {
  const { PLAYWRIGHT_CORE, CHROMIUM } = process.env;
  if (!PLAYWRIGHT_CORE || !CHROMIUM) fail("PLAYWRIGHT_CORE and CHROMIUM must be set");
  const { chromium } = createRequire(import.meta.url)(path.resolve(PLAYWRIGHT_CORE));
  // It runs in containers: without a sandbox of its own, little shared memory, no GPU.
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
  });
  const context = await browser.newContext({ viewport: DESK, colorScheme: "light" });
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin });
  const page = await context.newPage();
  page.setDefaultTimeout(DEADLINE_MS);
  watch(page, origin, isRefusal);
  return { browser, context, page };
}

export function watch(page, origin, isRefusal) {
  page.on("pageerror", (error) => fail(`an error on the page: ${error.stack}`));
  page.on("dialog", (dialog) => fail(`a dialog: ${dialog.message()}`));
  page.on("console", (message) => {
    // A browser notes every refused request; some are refused on purpose.
    const { url } = message.location();
    if (message.type() === "error" && !isRefusal(url))
      fail(`an error in the browser's console: ${message.text()} (${url})`);
  });
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== origin) fail(`a request to another origin: ${request.url()}`);
  });
}

/** Waits until a function of the page gives something true. */
export async function until(page, what, probe, argument) {
  try {
    await page.waitForFunction(probe, argument, { timeout: DEADLINE_MS });
  } catch (error) {
    fail(`${what}: not within ${DEADLINE_MS / 1000} s (${error.message.split("\n")[0]})`);
  }
}

/** Whether a page is no wider than its window, whatever it shows. */
export async function fits(page, what) {
  const widths = await page.evaluate(() => [
    document.documentElement.scrollWidth,
    document.documentElement.clientWidth,
  ]);
  if (widths[0] > widths[1]) fail(`${what} is ${widths[0]} px wide in a window of ${widths[1]} px`);
  return widths;
}

export function same(what, shown, expected) {
  const [left, right] = [JSON.stringify(shown), JSON.stringify(expected)];
  if (left !== right) fail(`${what}: the page shows ${left}, expected ${right}`);
}
