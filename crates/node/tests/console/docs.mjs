// The API reference in a real browser, against a node that serves the chains of its examples.
//
//   node docs.mjs BASE_URL '' ARTIFACT_DIR
//
// PLAYWRIGHT_CORE is the folder of the module playwright-core, CHROMIUM the browser, AXE the file of axe-core.
// Every example is sent from the page and compared with its example answer. With CHRONOLITH_SCREENSHOTS=1 it
// makes docs/images/docs.png. The first failure ends it with exit code 1.

import { readFileSync, mkdirSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { fail, fits, open } from "./browser.mjs";
import { difference } from "./docs_examples.mjs";
import { canBeHit } from "./quality.mjs";

const WEIGHT_MAX = 250_000;
const TABS_MAX = 400;
const DESK = { width: 1440, height: 900 };
const PHONE = { width: 390, height: 844 };
/** They need a database, which this node does not have. */
const UNSERVED = ["op-fees", "op-feeTotals"];

const [base, , artifacts] = process.argv.slice(2);
if (!artifacts) fail("usage: node docs.mjs BASE_URL '' ARTIFACT_DIR");
const origin = new URL(base).origin;
const description = await (await fetch(`${origin}/openapi.json`)).json();

/** Every route and every method, as the description has them. */
function described() {
  const operations = Object.entries(description.paths).flatMap(([route, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      id: `op-${operation.operationId}`,
      kind: method,
      name: route,
      isPage: Boolean(operation.responses["200"].content["text/html"]),
    })),
  );
  const calls = Object.values(description.components.requestBodies).flatMap((body) =>
    Object.keys(body.content["application/json"].examples).filter((name) => name !== "batch"),
  );
  return [...operations, ...calls.map((name) => ({ id: name, kind: "rpc", name, isPage: false }))];
}

async function loaded(page, hash = "") {
  await page.goto(`${origin}/docs${hash}`);
  await page.waitForSelector("html[data-ready]");
}

/** Each entry has its place, its link, its request in two languages, and an answer before anything is sent. */
async function showsEveryEntry(page, entries) {
  const shown = await page.locator(".entry").evaluateAll((nodes) =>
    nodes.map((node) => {
      const request = node.querySelector(".card:not(.answer) .code").textContent;
      node.querySelector('[data-language="fetch"]').click();
      const code = node.querySelector(".card:not(.answer) .code").textContent;
      node.querySelector('[data-language="curl"]').click();
      const answer = node.querySelector(".answer");
      return {
        id: node.id,
        kind: node.dataset.kind,
        badge: node.querySelector(".route .badge").textContent,
        request,
        code,
        answer: answer.dataset.shows === "example" ? answer.querySelector(".code").textContent : "",
        link: node.querySelector(".anchor")?.getAttribute("href"),
        inContents: document.querySelectorAll(`#contents a[href="#${node.id}"]`).length,
        parameters: node.querySelectorAll(".params tbody tr").length,
      };
    }),
  );
  const [ids, wanted] = [shown, entries].map((list) => list.map(({ id }) => id).sort());
  if (String(ids) !== String(wanted)) fail(`/docs has entries for ${ids}, expected ${wanted}`);
  for (const entry of shown) {
    const { kind, name, isPage } = entries.find(({ id }) => id === entry.id);
    const place = kind === "rpc" ? `"method":"${name}"` : name.split("{")[0];
    const says = {
      kind: entry.kind === kind && entry.badge === (kind === "rpc" ? "RPC" : kind.toUpperCase()),
      curl: entry.request.startsWith(`curl -s '${origin}/`) && entry.request.replaceAll(": ", ":").includes(place),
      fetch: entry.code.includes(`await fetch("${origin}/`),
      answer: isPage
        ? entry.answer !== ""
        : entry.answer.length > 1 && !entry.answer.includes("undefined") && entry.answer !== "A page.",
      link: entry.link === `#${entry.id}` && entry.inContents === 1,
    };
    const missing = Object.keys(says).filter((what) => !says[what]);
    if (missing.length > 0) fail(`/docs#${entry.id} lacks ${missing}: ${JSON.stringify(entry)}`);
  }
  const colours = await page.evaluate(() =>
    ["get", "post", "rpc"].map(
      (kind) => getComputedStyle(document.querySelector(`.route .badge[data-kind="${kind}"]`)).color,
    ),
  );
  if (new Set(colours).size !== 3) fail(`GET, POST and RPC look alike: ${colours}`);
  console.log(`ok (a) ${shown.length} entries with request and answer`);
}

/** What is sent from an entry's form, as it was answered. */
async function sent(page, id) {
  const entry = page.locator(`[id="${id}"]`);
  await entry.locator("button.send").click();
  await entry.locator('.answer:is([data-shows="answer"], [data-shows="failure"])').waitFor();
  const answer = entry.locator(".answer");
  return {
    status: await answer.locator(".pill").textContent(),
    text: await answer.locator(".code").textContent(),
    why: await answer.locator(".explained").textContent(),
    back: answer.locator(".quiet-button", { hasText: "Show the example" }),
  };
}

/** The example answers are those of the examples. */
async function answersAsItSays(page, entries) {
  const unserved = [];
  for (const { id, isPage } of entries) {
    if (isPage) continue;
    const code = page.locator(`[id="${id}"] .answer .code`);
    const example = await code.textContent();
    const answer = await sent(page, id);
    if (answer.status === "404" && UNSERVED.includes(id)) {
      unserved.push(id);
      continue;
    }
    if (answer.status !== "200") fail(`/docs#${id} was answered with ${answer.status}: ${answer.text}`);
    // The description itself is too long to be shown whole.
    if (id === "op-openapi" && answer.text.endsWith("more characters")) continue;
    const differs = difference(id, example, answer.text);
    if (differs) fail(`/docs#${id}: the example answer is not the answer: ${differs}`);
    await answer.back.click();
    if ((await code.textContent()) !== example) fail(`/docs#${id} does not show the example again`);
  }
  if (String(unserved) !== String(UNSERVED)) fail(`answered with 404: ${unserved}, expected ${UNSERVED}`);
  console.log(`ok (b) ${entries.length} examples are answered as the page says`);
}

/** A refusal is explained, over REST and over JSON-RPC. */
async function explainsRefusals(page) {
  await page.fill('#op-getBlock input[aria-label^="block"]', "99999999");
  const rest = await sent(page, "op-getBlock");
  const problem = JSON.parse(rest.text);
  if (rest.status !== "404" || problem.code !== "BLOCK_NOT_FOUND") fail(`(c) a block above the head: ${rest.text}`);
  if (!rest.why.includes(problem.detail) || !rest.why.includes("What to do:"))
    fail(`(c) it is explained as ${rest.why}`);
  await page.fill(
    "#chronolith_getLogs textarea",
    '{"jsonrpc":"2.0","id":1,"method":"chronolith_getLogs","params":[{"limit":0}]}',
  );
  const call = await sent(page, "chronolith_getLogs");
  const { error } = JSON.parse(call.text);
  if (call.status !== "200" || error.code !== -32602) fail(`(c) a call without logs: ${call.text}`);
  if (!call.why.includes("-32602") || !call.why.includes("What to do:")) fail(`(c) it is explained as ${call.why}`);
  await page.locator("#op-getBlock .explained a").click();
  const focused = await page.evaluate(() => document.activeElement.id);
  if (focused !== "BLOCK_NOT_FOUND") fail(`(c) the link of the code leads to ${focused}`);
  console.log("ok (c) refusals are explained");
}

/** Search finds every entry, schema, and error by its name, and the first is the best. */
async function finds(page, entries) {
  const box = page.locator("#search");
  const errors = description["x-errors"].flatMap(({ codes }) => codes);
  const schemas = Object.keys(description.components.schemas).filter((name) => !entries.some(({ id }) => id === name));
  const names = [...entries.map(({ name }) => name), ...errors, ...schemas];
  for (const name of new Set(names)) {
    await box.fill(name);
    const first = await page.locator("#found [role=option]").first().locator(".what").textContent();
    if (first !== name) fail(`(d) the search for ${name} finds ${first} first`);
  }
  for (const [words, title] of [
    ["block time", "/v1/chains/{chainId}/block/{direction}/{time}"],
    ["-32005", "TOO_LARGE"],
    ["batch", "calls in a batch"],
    ["logs pages cursor", "chronolith_getLogs"],
  ]) {
    await box.fill(words);
    const titles = await page.locator("#found .what").allTextContents();
    if (!titles.includes(title)) fail(`(d) the search for “${words}” finds ${titles}`);
  }
  await box.fill("no such thing");
  if ((await page.locator("#found .nothing").count()) !== 1) fail("(d) nothing is found without saying so");
  await box.fill("");
  console.log(`ok (d) search finds ${names.length} names`);
}

/** From the search to an answer without a mouse. */
async function worksByKeyboard(page) {
  await loaded(page);
  await page.keyboard.press("Tab");
  if ((await page.evaluate(() => document.activeElement.className)) !== "skip")
    fail("(e) the first stop is no skip link");
  await page.keyboard.press("/");
  await page.keyboard.type("indexing");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await page.waitForFunction(
    () => location.hash === "#op-indexingStatus" && document.activeElement.id === "op-indexingStatus",
  );
  for (let tabs = 0; ; tabs += 1) {
    if (tabs > TABS_MAX) fail("(e) Tab does not reach Send");
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement.matches("#op-indexingStatus button.send"))) break;
  }
  await page.keyboard.press("Enter");
  await page.waitForSelector('#op-indexingStatus .answer[data-shows="answer"]');
  const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  if (ring === "none") fail("(e) one does not see where the focus is");
  console.log("ok (e) keyboard only");
}

/** What is read is marked at the side, addresses lead to their places, and pages link to each other. */
async function findsItsWay(page) {
  await loaded(page, "#schema-Log");
  await page.waitForSelector("#schema-Log[open] table");
  for (const id of ["errors", "eth_getLogs", "op-health", "limits"]) {
    await page.evaluate((hash) => (location.hash = hash), id);
    await page.waitForFunction((hash) => document.querySelector("#contents [aria-current]")?.hash === `#${hash}`, id);
  }
  const lost = await page.evaluate(() => {
    document.querySelectorAll("details").forEach((part) => (part.open = true));
    const links = [...document.querySelectorAll('#reference a[href^="#"], #contents a')];
    return links.map((link) => link.hash.slice(1)).filter((id) => !document.getElementById(id));
  });
  if (lost.length > 0) fail(`(f) links lead nowhere: ${lost}`);
  const codes = description["x-errors"].flatMap((row) => row.codes);
  const absent = await page.evaluate((all) => all.filter((code) => !document.getElementById(code)), codes);
  if (absent.length > 0) fail(`(f) problem details of these codes lead nowhere: ${absent}`);
  const pages = await page.evaluate(() =>
    [...document.querySelectorAll(".top nav a")].map((link) => [link.pathname, link.ariaCurrent]),
  );
  const current = pages.filter(([, mark]) => mark === "page").map(([place]) => place);
  if (String(current) !== "/docs" || !pages.some(([place]) => place === "/")) fail(`(f) the header has ${pages}`);
  const rows = await page.locator("#limits tbody tr").count();
  if (rows !== description["x-limits"].length) fail(`(f) ${rows} limits`);
  console.log("ok (f) links, marks and addresses");
}

/** The first request, and copying. */
async function triesTheFirst(page) {
  await loaded(page);
  await page.click("#try .send");
  await page.waitForSelector("#try .result:not([hidden])");
  const { result } = JSON.parse(await page.locator("#try .result").textContent());
  if (!/^0x[0-9a-f]+$/.test(result)) fail(`(g) the first request is answered with ${result}`);
  await page.locator("#try .quiet-button").click();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  if (copied !== (await page.locator("#try .code").first().textContent())) fail(`(g) copied: ${copied}`);
  await page.fill("#api-key input", "it's mine");
  const asked = page.waitForRequest((request) => request.url().endsWith("/v1/indexing-status"));
  await sent(page, "op-indexingStatus");
  const key = (await asked).headers()["x-api-key"];
  const code = await page.locator("#op-indexingStatus .card:not(.answer) .code").textContent();
  if (key !== "it's mine" || !code.includes("-H 'x-api-key: it'\\''s mine'"))
    fail(`(g) the key ${key} is sent, and ${code}`);
  console.log("ok (g) the first request, and the key");
}

/** In both widths and colours: nothing is wider than the window, and axe-core finds nothing that is serious. */
async function looksRight(browser) {
  const axe = readFileSync(process.env.AXE, "utf8");
  for (const [viewport, name] of [
    [DESK, "1440"],
    [PHONE, "390"],
  ]) {
    for (const colorScheme of ["light", "dark"]) {
      // The policy of the page allows no script of others, and axe-core is one.
      const context = await browser.newContext({ viewport, colorScheme, bypassCSP: true });
      const page = await context.newPage();
      await loaded(page);
      await sent(page, "op-getLogs");
      await page.screenshot({ path: path.join(artifacts, `docs-${name}-${colorScheme}.png`) });
      await canBeHit(page, `/docs at ${name} px`);
      await page.evaluate(() => document.querySelectorAll("details").forEach((part) => (part.open = true)));
      await canBeHit(page, `/docs at ${name} px, all unfolded`);
      await fits(page, `/docs at ${name} px`);
      const beyond = await page.evaluate(() => {
        const isCut = (node) =>
          node.getBoundingClientRect().right > innerWidth || node.scrollWidth > node.clientWidth + 1;
        return [...document.querySelectorAll("td, th, .route, h3, li, .code")]
          .filter(isCut)
          .map((node) => node.textContent.slice(0, 60));
      });
      if (beyond.length > 0) fail(`/docs at ${name} px cuts ${JSON.stringify(beyond.slice(0, 5))}`);
      // All schemas are alike: some are enough for axe-core, which looks at each element.
      await page.evaluate(() =>
        document.querySelectorAll(".schema:nth-child(n + 8)").forEach((part) => (part.open = false)),
      );
      await page.addScriptTag({ content: axe });
      const { violations } = await page.evaluate(() => window.axe.run());
      const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
      const told = serious.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html)}`);
      if (serious.length > 0) fail(`axe-core at ${name} px, ${colorScheme}: ${told.join("\n")}`);
      await context.close();
    }
  }
  console.log("ok (h) two widths, two colours, axe-core");
}

/** All that the page loads, as it comes over the network. */
async function isLight(browser) {
  const page = await (await browser.newContext({ viewport: DESK })).newPage();
  const requests = [];
  page.on("requestfinished", (request) => requests.push(request));
  await loaded(page);
  await page.waitForLoadState("networkidle");
  const sizes = await Promise.all(
    requests.map(async (request) => [request.url(), (await request.sizes()).responseBodySize]),
  );
  const weight = sizes.reduce((sum, [, size]) => sum + size, 0);
  if (weight > WEIGHT_MAX || weight < 10_000) fail(`/docs weighs ${weight} bytes: ${JSON.stringify(sizes)}`);
  console.log(`ok (i) ${weight} bytes in ${sizes.length} files`);
}

async function makesScreenshot(browser) {
  if (process.env.CHRONOLITH_SCREENSHOTS !== "1") return;
  const page = await (await browser.newContext({ viewport: DESK, colorScheme: "light" })).newPage();
  await loaded(page, "#op-getLogs");
  const images = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../../../docs/images");
  mkdirSync(images, { recursive: true });
  await page.screenshot({ path: path.join(images, "docs.png") });
}

async function main() {
  mkdirSync(artifacts, { recursive: true });
  // Refusals are part of the checks.
  const { browser, page } = await open(origin, (url) => url.startsWith(origin));
  await page.setViewportSize(DESK);
  const entries = described();
  await loaded(page);
  await showsEveryEntry(page, entries);
  await answersAsItSays(page, entries);
  await explainsRefusals(page);
  await finds(page, entries);
  await worksByKeyboard(page);
  await findsItsWay(page);
  await triesTheFirst(page);
  await looksRight(browser);
  await isLight(browser);
  await makesScreenshot(browser);
  await browser.close();
}

main().catch((error) => fail(error.stack));
