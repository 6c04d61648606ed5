// The console in a real browser, against a node that serves and simulated chains that it follows.
//
//   node check.mjs BASE_URL CONTROL_URL ARTIFACT_DIR CHAIN_ID
//
// PLAYWRIGHT_CORE is the folder of the module playwright-core, CHROMIUM the browser, AXE the file of axe-core. What the
// pages show is compared with what the API says; screenshots go to ARTIFACT_DIR, and with CHRONOLITH_SCREENSHOTS=1 those
// of the documents to docs/images. The first failure ends it with exit code 1 and says what was expected.

import { mkdirSync } from "node:fs";

import { Api } from "./api.mjs";
import { fail, open, watch } from "./browser.mjs";
import { showsTheChain } from "./chain.mjs";
import { makesImages } from "./images.mjs";
import { NO_ADDRESS, searchesLogs } from "./logs.mjs";
import { thirtyFitAScreen } from "./many.mjs";
import { saysWhatBecameOfABlock, staysWithItsBlocks } from "./moving.mjs";
import { saysHowToTurnOn } from "./off.mjs";
import { isWalkedByKeys, showsChains, showsReorg, sortsAndNarrows } from "./overview.mjs";
import { asksForAKey, looksWell, saysWhenStale, weighsLittle, worksByKeys } from "./quality.mjs";
import { findsEverything } from "./search.mjs";
import { namesABlockByALogAlone, showsBlocksWithoutHeaders, showsCoverageOfItsScope } from "./sparse.mjs";

const [base, control, artifacts, chainId] = process.argv.slice(2);
if (!chainId) fail("usage: node check.mjs BASE_URL CONTROL_URL ARTIFACT_DIR CHAIN_ID");
const api = new Api(base, chainId);

/** What is asked of every chain is refused by some; the overview is refused on purpose for a while. */
function isRefusal(url) {
  const { pathname, search } = new URL(url);
  return (
    /\/(blocks|transactions|history|logs|block|ranges)(\/|$)/.test(pathname) ||
    search.includes(NO_ADDRESS) ||
    pathname === "/v1/overview" ||
    /^\/\d+$/.test(pathname)
  );
}

/** Each page, with what it shows last. */
async function pages() {
  const chain = await api.chain();
  const block = chain.finalized.number - 3;
  const { logs } = await api.must(
    `/v1/chains/${chainId}/logs?fromBlock=0&toBlock=${block}&order=desc&limit=1`,
  );
  return [
    ["overview", "/", "#chains tr"],
    ["chain", `/chains/${chainId}`, "svg.chart text"],
    ["block", `/chains/${chainId}/blocks/${Number(logs[0].blockNumber)}`, "tr[data-log]"],
    ["transaction", `/chains/${chainId}/transactions/${logs[0].transactionHash}`, "tr[data-log]"],
    ["search", `/search?q=${logs[0].address}`, "[data-done]"],
    ["time", `/search?q=${chain.finalized.timestamp}`, "[data-done]"],
    ["logs", `/logs?chain=${chainId}&fromBlock=0&toBlock=${block}`, "tr[data-log]"],
    ["nothing", "/search?q=nothing", "#found dl"],
    ["projections", "/projections", "#off:not([hidden])"],
  ];
}

async function main() {
  mkdirSync(artifacts, { recursive: true });
  const { browser, context, page } = await open(api.origin, isRefusal);
  await page.goto(api.origin);
  await showsChains(page, api);
  await showsReorg(page, api, control);
  await sortsAndNarrows(page, api);
  await isWalkedByKeys(page, api);
  await showsTheChain(page, api);
  await findsEverything(page, api);
  await searchesLogs(page, api);
  await staysWithItsBlocks(page, api, control);
  await saysWhatBecameOfABlock(page, api, control);
  await showsBlocksWithoutHeaders(page, api);
  await showsCoverageOfItsScope(page, api);
  await namesABlockByALogAlone(page, api);
  await thirtyFitAScreen(page, api);
  await worksByKeys(page, api);
  await saysWhenStale(page, api);
  await asksForAKey(page, api);
  await looksWell(page, api, await pages(), artifacts);
  await weighsLittle(context, api);
  const second = await context.newPage();
  watch(second, api.origin, isRefusal);
  await saysHowToTurnOn(second, api.origin);
  await makesImages(page, api);
  console.log("ok no error in the browser's console, no request to another origin");
  await browser.close();
}

main().catch((error) => fail(error.stack));
