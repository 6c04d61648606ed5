// What holds on every page: rules for accessibility, no sideways scrolling, targets that a finger hits, the whole
// thing by keys, its weight, and that it says when it is stale.

import { readFileSync } from "node:fs";
import path from "node:path";

import { DESK, SCHEMES, SIZES, fail, fits, same, until } from "./browser.mjs";

const TARGET_MIN = 24;
const TABS_MAX = 400;
/** Of everything that a page loads, packed, without what the API answers. */
const WEIGHT_MAX = 250_000;

/** Findings of axe that keep people from using a page. */
export async function isAccessible(page, what) {
  const { AXE } = process.env;
  if (!AXE) fail("AXE must be the file of axe-core");
  // The policy of the page allows no script of others; the driver's own world is not the page's.
  await page.evaluate(readFileSync(AXE, "utf8"));
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, impact, nodes }) => ({
      id,
      impact,
      at: nodes.slice(0, 3).map(({ target, failureSummary }) => `${target}: ${failureSummary}`),
    }));
  });
  const grave = found.filter(({ impact }) => impact === "serious" || impact === "critical");
  if (grave.length > 0) fail(`${what}: ${JSON.stringify(grave, null, 2)}`);
}

/** Everything to press is at least as large as a finger needs, but for words within a text. */
export async function canBeHit(page, what) {
  const small = await page.evaluate((least) => {
    const inText = (node) => {
      if (node.tagName !== "A" || getComputedStyle(node).display !== "inline") return false;
      if (node.closest("p, dd")) return true;
      // An item or a cell that is the link alone is no text.
      const item = node.closest("li, td");
      return item !== null && item.textContent.trim() !== node.textContent.trim();
    };
    return [...document.querySelectorAll("a[href], button, input, select, summary")]
      .filter(
        (node) =>
          node.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }) &&
          !inText(node) &&
          !node.matches(".skip"),
      )
      .map((node) => ({ node, box: node.getBoundingClientRect() }))
      .filter(({ box }) => box.width > 0 && (box.width < least - 0.5 || box.height < least - 0.5))
      .map(
        ({ node, box }) => `${node.outerHTML.slice(0, 120)} ${box.width.toFixed(1)}×${box.height.toFixed(1)}`,
      );
  }, TARGET_MIN);
  if (small.length > 0) fail(`${what}: smaller than ${TARGET_MIN} px: ${small.slice(0, 5).join("\n")}`);
}

/** `ready` is a selector of what the page shows last. */
export async function looksWell(page, api, pages, artifacts) {
  for (const [name, address, ready] of pages) {
    for (const [size, viewport] of SIZES) {
      await page.setViewportSize(viewport);
      for (const colorScheme of SCHEMES) {
        await page.emulateMedia({ colorScheme });
        await page.goto(api.origin + address);
        await page.locator(ready).first().waitFor();
        const what = `${name}, ${size}, ${colorScheme}`;
        await fits(page, what);
        await canBeHit(page, what);
        await isAccessible(page, what);
        await saysThatTablesScroll(page, what);
        await page.screenshot({
          path: path.join(artifacts, `${name}-${size}-${colorScheme}.png`),
          fullPage: true,
        });
      }
    }
    console.log(`ok looks: ${name}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(DESK);
}

async function saysThatTablesScroll(page, what) {
  const silent = await page.evaluate(() =>
    [...document.querySelectorAll(".scroll")]
      .filter((node) => node.checkVisibility() && node.scrollWidth > node.clientWidth + 1)
      .filter(
        (node) =>
          !node.dataset.wide ||
          node.tabIndex !== 0 ||
          !getComputedStyle(node, "::before").content.includes("Scroll"),
      )
      .map((node) => node.getAttribute("aria-label")),
  );
  if (silent.length > 0) fail(`${what}: nothing says that it scrolls, or no key reaches it: ${silent}`);
}

/** The skip link, the search box and what the page is about, by keys alone. */
export async function worksByKeys(page, api) {
  await page.goto(api.origin);
  await page.locator("#chains tr").first().waitFor();
  await page.keyboard.press("Tab");
  if (!(await page.evaluate(() => document.activeElement?.matches(".skip"))))
    fail("the first tab does not reach the skip link");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  if (!(await page.evaluate(() => document.activeElement?.closest("main"))))
    fail("the skip link does not lead into the page");
  for (let tabs = 0; !(await page.evaluate(() => document.activeElement?.matches(".row-link"))); tabs += 1) {
    if (tabs > TABS_MAX) fail("no tab reaches a chain");
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("/");
  await page.keyboard.type("5");
  await page.locator("#suggestions [role=option]").nth(1).waitFor();
  const marked = () =>
    page
      .locator('#suggestions [aria-selected="true"]')
      .evaluate((node) => [...node.parentNode.children].indexOf(node));
  same("the first suggestion", await marked(), 0);
  await page.keyboard.press("ArrowDown");
  same("the second suggestion after down", await marked(), 1);
  same(
    "what is read out",
    await page.locator("#search-box").getAttribute("aria-activedescendant"),
    "suggestion-1",
  );
  // Two polls take neither the focus nor the text.
  for (const _ of [1, 2]) await api.nextPoll(page, "polling continues");
  same(
    "the box after two polls",
    await page.evaluate(() => [document.activeElement.id, document.activeElement.value]),
    ["search-box", "5"],
  );
  await page.keyboard.press("Escape");
  if (await page.locator("#suggestions").isVisible()) fail("Escape does not close the suggestions");
  console.log("ok keys");
}

/** What a first visit loads, as it comes over the wire. */
export async function weighsLittle(context, api) {
  const page = await context.newPage();
  const sizes = [];
  page.on("requestfinished", async (request) => {
    if (/\/v1\/|openapi\.json/.test(request.url())) return;
    sizes.push(
      request
        .sizes()
        .then(({ responseBodySize, responseHeadersSize }) => responseBodySize + responseHeadersSize),
    );
  });
  await page.goto(api.origin);
  await page.locator("#chains tr").first().waitFor();
  const all = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
  await page.close();
  if (all > WEIGHT_MAX) fail(`the page weighs ${all} bytes`);
  if (sizes.length < 10) fail(`only ${sizes.length} files were weighed`);
  console.log(`ok weight: ${all} bytes in ${sizes.length} files`);
}

/** Without an answer, what is known stays and is called old; then the page goes on by itself. */
export async function saysWhenStale(page, api) {
  await page.goto(api.origin);
  await page.locator("#chains tr").first().waitFor();
  await page.route("**/v1/overview", (route) =>
    route.fulfill({ status: 503, json: { code: "BUSY", detail: "too many requests at once: retry" } }),
  );
  await until(
    page,
    "that it is stale",
    () =>
      document.body.hasAttribute("data-stale") &&
      /What is shown is \d+ s old/.test(document.querySelector("#stale-words").textContent),
  );
  if ((await page.locator("#chains tr").count()) === 0) fail("what was known is gone");
  await page.unroute("**/v1/overview");
  await until(
    page,
    "that it is live again",
    () =>
      document.querySelector("#connection").dataset.state === "live" &&
      document.querySelector("#stale").hidden,
  );
  console.log("ok stale");
}

/** Where a node answers only callers with a key, the page asks for it, and sends it along. */
export async function asksForAKey(page, api) {
  const key = "chr_made-up";
  await page.route("**/v1/overview", (route) => {
    if (route.request().headers()["x-api-key"] === key) return route.continue();
    return route.fulfill({ status: 401, json: { code: "UNAUTHORIZED", detail: "an API key is needed" } });
  });
  await page.goto(api.origin);
  await page.fill("#key-field", key);
  await fits(page, "the question for a key");
  await isAccessible(page, "the question for a key");
  await page.press("#key-field", "Enter");
  await page.locator("#chains tr").first().waitFor();
  if (await page.locator("#key-form").isVisible()) fail("the page asks for a key that it has");
  await page.unroute("**/v1/overview");
  await page.evaluate(() => sessionStorage.clear());
  console.log("ok key");
}
