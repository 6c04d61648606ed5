// Thirty chains, made of a real answer: all of them fit a screen, those that need attention come first, and what the
// API says is text, whatever it looks like.

import { DESK, PHONE, fail, fits, same, until } from "./browser.mjs";

const CHAINS = 30;
/** A reorg is a row of a list. */
const ROW_MAX = 40;
const HOSTILE = '<img src=x onerror="alert(1)">';
/** Without a place where a line ends. */
const LONG = "e".repeat(300);
const hash = (digit) => `0x${String(digit).repeat(64)}`;

/** The answer with thirty chains: three do not do well, one has a hostile name, one a reorg with both branches. */
function multiplied(overview, chainId) {
  const model = overview.chains.find((chain) => String(chain.chainId) === chainId);
  const chains = Array.from({ length: CHAINS }, (_, at) => ({
    ...structuredClone(model),
    chainId: 5_000 + at,
    name: at === 7 ? HOSTILE : `chain-${String(at).padStart(2, "0")}`,
    configuredName: at === 8 ? HOSTILE : `set-${at}`,
    reorgs: [],
  }));
  Object.assign(chains[12], { ready: false, notReadyReason: `halted: ${HOSTILE}` });
  Object.assign(chains[20], { ready: false, notReadyReason: "the source does not answer" });
  Object.assign(chains[25], { error: "rate limited" });
  chains[3].endpoints = [
    { name: "endpoint 1", state: "well", lastError: HOSTILE, requests: 369, failures: 106 },
    { name: "endpoint 2", state: "well", lastError: LONG, requests: 1_234_567, failures: 1 },
  ];
  Object.assign(chains[5], { name: "Display Five", configuredName: "five" });
  // An id that a number of JavaScript does not hold, and a name for people that no path takes.
  Object.assign(chains[28], {
    chainId: "4668226517559895467",
    name: "Large Network",
    configuredName: "large",
  });
  chains[9].reorgs = [
    {
      at: overview.now,
      depth: 3,
      from: { number: 20_269, hash: hash(3) },
      to: { number: 20_266, hash: hash(0) },
      dropped: [1, 2, 3].map((each) => ({ number: 20_266 + each, hash: hash(each) })),
      adopted: [4, 5].map((each) => ({ number: 20_263 + each, hash: hash(each) })),
    },
  ];
  return { ...overview, chains };
}

export async function thirtyFitAScreen(page, api) {
  await page.route("**/v1/overview", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: multiplied(await response.json(), api.chainId) });
  });
  await page.setViewportSize(DESK);
  await page.goto(api.origin);
  await until(page, "thirty rows", (rows) => document.querySelectorAll("#chains tr").length === rows, CHAINS);
  const bottom = await page
    .locator("#chains tr")
    .last()
    .evaluate((row) => row.getBoundingClientRect().bottom);
  if (bottom > DESK.height) fail(`the last of thirty chains ends at ${bottom} px of ${DESK.height}`);
  const height = await page
    .locator("#chains .row-link")
    .first()
    .evaluate((link) => link.closest("tr").getBoundingClientRect().height);
  if (height < 24) fail(`a row is ${height} px high`);
  const first = await page
    .locator("#chains tr")
    .evaluateAll((rows) => rows.slice(0, 4).map((row) => row.querySelector(".state").textContent));
  same("those that need attention come first", first, ["halted", "not ready", "failing", "ready"]);
  const totals = await page.locator("#totals").textContent();
  if (!totals.startsWith("3 need attention"))
    fail(`three chains need attention, and the page says ${totals}`);
  const why = await page.locator("#chains tr").first().locator(".col-state").textContent();
  if (!why.includes(HOSTILE)) fail(`the reason of the first is told as ${why}`);
  same(
    "healthy endpoints, without one that fails often",
    await page.locator('[data-chain="5003"] [data-field="endpoints"]').textContent(),
    "1/2",
  );
  await fits(page, "thirty chains");
  await textStaysText(page);
  await drawsBranches(page);
  await isNamedBothWays(page, api);
  await page.click("#only-attention");
  await until(
    page,
    "only those that need attention",
    () => document.querySelectorAll("#chains tr").length === 3,
  );
  await page.goto(`${api.origin}/chains/5003`);
  const share = page.locator('[data-field="share"]').first();
  await share.waitFor();
  same(
    "the share of failures",
    [await share.textContent(), await share.getAttribute("data-tone")],
    ["28.72 %", "warn"],
  );
  same(
    "the state of an endpoint that fails often",
    await page.locator(".endpoints .state").first().textContent(),
    "failing often",
  );
  await keepsItsColumns(page);
  await page.goto(`${api.origin}/chains/4668226517559895467`);
  await until(
    page,
    "the RPC of a large id, by its name in the settings",
    (wanted) => document.querySelector(".rpc")?.textContent === wanted,
    `${api.origin}/stellar/large`,
  );
  await page.unroute("**/v1/overview");
  console.log(`ok thirty chains end at ${Math.round(bottom)} px of ${DESK.height}`);
}

/** A long error takes lines of its own column: heads stay above their values, and nothing scrolls sideways. */
async function keepsItsColumns(page) {
  for (const viewport of [PHONE, DESK]) {
    await page.setViewportSize(viewport);
    await fits(page, `endpoints with a long error at ${viewport.width} px`);
    const { columns, width, room, error } = await page.locator("table.endpoints").evaluate((table) => {
      const edges = (cell) => {
        const { left, right } = cell.getBoundingClientRect();
        return [Math.round(left), Math.round(right), getComputedStyle(cell).textAlign];
      };
      const rows = [...table.rows].map((row) => [...row.cells].map(edges));
      return {
        columns: rows[0].map((_, at) => rows.map((row) => row[at])),
        width: table.scrollWidth,
        room: table.parentElement.clientWidth,
        error: [...table.rows].at(-1).cells[5].textContent,
      };
    });
    same("the long error", error, LONG);
    same("columns of endpoints", columns.length, 6);
    for (const [head, ...cells] of columns) {
      // Words begin at the left by either name.
      const aligned = ([left, right, side]) => [left, right, side === "right"];
      for (const cell of cells) same(`a cell at ${viewport.width} px`, aligned(cell), aligned(head));
    }
    if (viewport === DESK && width > room) fail(`the table is ${width} px wide in ${room} px`);
  }
}

async function textStaysText(page) {
  const shown = await page.evaluate(
    (name) => [...document.querySelectorAll("#chains .row-link")].some((link) => link.textContent === name),
    HOSTILE,
  );
  if (!shown) fail("a name that looks like markup is not shown as it is");
  if ((await page.locator("main img").count()) > 0) fail("a name became an image");
}

/** What is shown is the name for people; both names find the chain. */
async function isNamedBothWays(page, api) {
  const link = page.locator('#chains [data-chain="5005"] .row-link');
  same("the name of a chain", await link.textContent(), "Display Five");
  for (const text of ["five", "display f"]) {
    await page.fill("#chain-filter", text);
    await until(
      page,
      `the chain of “${text}” alone`,
      () =>
        [...document.querySelectorAll("#chains tr")].map(({ dataset }) => dataset.chain).join() === "5005",
    );
  }
  await page.fill("#chain-filter", "");
  for (const text of ["five 17", "Display Five 17"]) {
    await page.fill("#search-box", text);
    const first = page.locator("#suggestions [role=option]").first();
    await first.waitFor();
    same(`what “${text}” offers`, await first.locator(".why").textContent(), "on Display Five");
    await first.hover();
  }
  await page.keyboard.press("Enter");
  await page.waitForURL(`${api.origin}/chains/5005/blocks/17`);
  await page.goto(api.origin);
  await page.locator("#chains tr").first().waitFor();
}

/** Three blocks dropped, two adopted, and the hashes of all of them. */
async function drawsBranches(page) {
  const item = page.locator("#reorgs [data-depth='3']");
  const text = await item.textContent();
  if (!text.includes("3 blocks replaced above 20,266")) fail(`a reorg is told as ${text}`);
  const counted = async (kind) => item.locator(`.fork .block.${kind}`).count();
  same(
    "blocks of the branches",
    [await counted("common"), await counted("adopted"), await counted("dropped")],
    [1, 2, 3],
  );
  const { height } = await item.boundingBox();
  if (height > ROW_MAX) fail(`a reorg takes ${height} px`);
  const age = item.locator("time");
  if (!/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/.test(await age.getAttribute("title")))
    fail(`the time of a reorg is told as ${await age.getAttribute("title")}`);
  same("hashes before they are asked for", await item.locator(".branches").isVisible(), false);
  await item.locator("summary").click();
  same("hashes when they are asked for", await item.locator(".branches").isVisible(), true);
  for (const digit of [1, 2, 3])
    if ((await item.locator(`[data-copy="${hash(digit)}"]`).count()) === 0)
      fail(`no hash of dropped block ${digit}`);
  for (const digit of [4, 5])
    if ((await item.locator(`a[href$="/blocks/${hash(digit)}"]`).count()) === 0)
      fail(`no link to adopted block ${digit}`);
}
