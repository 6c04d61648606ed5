// The images of the documents, made of the pages as they are. CHRONOLITH_SCREENSHOTS=1 makes them.

import path from "node:path";
import { fileURLToPath } from "node:url";

import { DESK, fail } from "./browser.mjs";

const FOLDER = fileURLToPath(new URL("../../../../docs/images/", import.meta.url));
/** Rates and lag need some time to be lines. */
const WATCHED_MS = 45_000;
const COLLECTED = "0x28a87b6059180e46de5fb9ab35eb043e8fe00ab45afcc7789e3934ecbbcde3ea";

/** Simulated blocks are of 2020. Ages of six years tell nothing of the page, so that they begin now. */
function asOfNow(overview) {
  for (const chain of overview.chains) {
    const ahead = overview.now - 2 - (chain.head?.timestamp ?? overview.now);
    for (const block of [chain.head, chain.finalized]) if (block) block.timestamp += ahead;
  }
  return overview;
}

export async function makesImages(page, api) {
  if (process.env.CHRONOLITH_SCREENSHOTS !== "1") return;
  await page.setViewportSize(DESK);
  await page.emulateMedia({ colorScheme: "light" });
  await page.route("**/v1/overview", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: asOfNow(await response.json()) });
  });
  await page.route("**/history", async (route) => {
    const response = await route.fetch();
    const history = await response.json();
    const least = Math.min(...(history.samples ?? []).map(({ lagSeconds }) => lagSeconds ?? Infinity));
    for (const sample of history.samples ?? []) if (sample.lagSeconds !== null) sample.lagSeconds -= least - 2;
    await route.fulfill({ response, json: history });
  });
  const take = async (name, clip) => {
    // Nothing of the pointer and the focus is on an image.
    await page.mouse.move(0, 0);
    await page.evaluate(() => document.activeElement?.blur());
    await page.screenshot({ path: path.join(FOLDER, name), clip });
  };
  await page.goto(api.origin);
  await page.locator("#chains tr").first().waitFor();
  await page.waitForTimeout(WATCHED_MS);
  await take("console.png");
  // Within the page, so that what was observed stays.
  await page.locator(".row-link", { hasText: "harbor" }).click();
  await page.locator(".charts").waitFor();
  await page.waitForTimeout(1_500);
  await take("chain.png");
  await page.goto(`${api.origin}/search?q=${COLLECTED}`);
  const found = page.locator('[data-question="topic"][data-done]');
  await found.waitFor();
  if ((await found.locator("tr[data-log]").count()) === 0) fail("no logs for the image");
  await found.locator("tr[data-log] .disclose").first().click();
  await take("search.png");
  await page.unroute("**/v1/overview");
  await page.unroute("**/history");
  console.log(`ok images in ${FOLDER}`);
}
