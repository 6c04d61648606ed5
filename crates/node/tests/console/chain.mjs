// A chain's page: its numbers, coverage by dataset, axes, endpoints, ranges and the address of its RPC.

import { fail, same, until } from "./browser.mjs";
import { digits } from "./api.mjs";

export async function showsTheChain(page, api) {
  await page.goto(`${api.origin}/chains/${api.chainId}`);
  const expect = (overview) => {
    const chain = api.chainIn(overview);
    return {
      name: chain.name,
      hash: chain.head.hash,
      values: {
        "head-number": chain.head.number.toLocaleString("en-US"),
        "finalized-number": chain.finalized.number.toLocaleString("en-US"),
        "lag-blocks": `${chain.lagBlocks} ${chain.lagBlocks === 1 ? "block" : "blocks"}`,
        logs: chain.storage.logs.toLocaleString("en-US"),
      },
    };
  };
  await api.untilShown(page, "the chain's numbers", expect, ({ name, hash, values }) => {
    const text = (field) => document.querySelector(`.tiles [data-field="${field}"]`)?.textContent;
    return (
      document.querySelector("h1").textContent === name &&
      document.querySelector('[data-field="head-number"]').dataset.hash === hash &&
      Object.entries(values).every(([field, value]) => text(field) === value)
    );
  });
  same("the way back", (await page.locator(".crumbs").textContent()).trim(), "Chains");
  await showsDatasets(page, api);
  await hasAxes(page);
  await showsEndpoints(page, api);
  await showsRanges(page, api);
  await page.locator(".endpoint .copy").click();
  await until(page, "the RPC address is copied", () =>
    document.querySelector("#toast")?.textContent.startsWith("Copied"),
  );
  same(
    "the copied RPC address",
    await page.evaluate(() => navigator.clipboard.readText()),
    `${api.origin}/${api.chainId}`,
  );
  console.log("ok chain");
}

async function showsDatasets(page, api) {
  const { finalized } = await api.call("chronolith_getCoverage", []);
  const { datasets } = await api.chain();
  same(
    "datasets",
    await page.locator("[data-dataset]").evaluateAll((all) => all.map((each) => each.dataset.dataset)),
    datasets,
  );
  for (const dataset of datasets) {
    const [{ level }] = finalized[dataset];
    await until(
      page,
      `${dataset} is proven by ${level}`,
      ([name, kind]) => document.querySelector(`[data-dataset="${name}"] .level-${kind}`),
      [dataset, level],
    );
  }
}

/** Times to the right, round numbers up, and a peak. */
async function hasAxes(page) {
  await until(
    page,
    "axes",
    () =>
      [...document.querySelectorAll("svg.chart")].length === 3 &&
      [...document.querySelectorAll("svg.chart")].every(
        (chart) => chart.querySelectorAll("text").length >= 4,
      ),
  );
  const texts = await page
    .locator("svg.chart")
    .evaluateAll((all) =>
      all.map((chart) => [...chart.querySelectorAll("text")].map((text) => text.textContent)),
    );
  for (const labels of texts) {
    if (!labels.some((text) => /^\d\d:\d\d(:\d\d)?$/.test(text))) fail(`no time on the axis: ${labels}`);
    if (!labels.some((text) => text.startsWith("0"))) fail(`no zero on the axis: ${labels}`);
  }
  await haveUnits(page, texts);
  const words = await page.locator(".charts").textContent();
  if (/\bmost\b/.test(words) || !words.includes("peak")) fail(`the highest value is told as ${words}`);
  const reorgs = texts[2].filter((text) => /^\d+$/.test(text)).map(Number);
  if (reorgs.some((value) => !Number.isInteger(value))) fail(`half a block on the axis of reorgs: ${reorgs}`);
}

const SPAN = "[\\d,]+ (s|min|h|d|y)( [\\d,]+ (s|min|h|d))?";
/** What is above each other in each chart, and the highest value with its unit. */
const VALUES = [SPAN, "[\\d,.]+", "[\\d,]+"];
const PEAKS = [SPAN, "[\\d,.]+ blocks/s", "[\\d,]+ deep"];

/** Spans of time have their unit at each tick; the others beside the peak, so that no number is without one. */
async function haveUnits(page, texts) {
  texts.forEach((labels, at) => {
    const values = labels.filter((text) => !/^\d\d:\d\d/.test(text));
    const wrong = values.filter((text) => !new RegExp(`^${VALUES[at]}$`).test(text));
    if (values.length < 2 || wrong.length > 0) fail(`the axis of chart ${at} has the values ${values}`);
  });
  await until(
    page,
    "the unit of each peak",
    (wanted) => {
      const peaks = [...document.querySelectorAll('.charts [data-field="peak"]')];
      return (
        peaks.length === wanted.length &&
        peaks.every((peak, at) => new RegExp(`^peak ${wanted[at]}$`).test(peak.textContent))
      );
    },
    PEAKS,
  );
}

async function showsEndpoints(page, api) {
  const { endpoints } = await api.chain();
  const names = await page.locator(".endpoints tbody tr td:first-child").allTextContents();
  same(
    "endpoints",
    names,
    endpoints.map(({ name }) => name),
  );
}

/** Folded away; when open, as the API has them, without loud words. */
async function showsRanges(page, api) {
  const place = page.locator('[data-field="ranges"]');
  if (await place.evaluate((node) => node.open)) fail("the ranges are not folded away");
  await place.locator("summary").click();
  const cells = place.locator("tbody tr").first().locator("td");
  await cells.first().waitFor();
  const { ranges } = await api.must(`/v1/chains/${api.chainId}/ranges`);
  const [first] = ranges;
  const texts = await cells.allInnerTexts();
  const expected = [first.id, first.state.toLowerCase(), first.blocks];
  same("the first range", [digits(texts[0]), texts[2].trim(), digits(texts[5])], expected);
  const text = await place.innerText();
  if (text.includes("Ledgers")) fail("an EVM chain has no ledgers");
  if (/\b[A-Z]{5,}\b/.test(text)) fail(`loud words: ${text.match(/\b[A-Z]{5,}\b/)[0]}`);
  await place.locator("summary").click();
}
