// The overview: the chains as the API has them, sorted, narrowed, and walked through by keys; and a reorg as it comes.

import { fail, same, until } from "./browser.mjs";

/** Every number of every chain that stands still is the API's; of those that move, that they are there. */
export async function showsChains(page, api) {
  const row = `[data-chain="${api.chainId}"]`;
  const expect = (overview) => {
    const chain = api.chainIn(overview);
    if (!chain.head || !chain.finalized) return null;
    const well = chain.endpoints.filter((each) => each.state === "well").length;
    return {
      row,
      name: chain.name,
      values: {
        "head-number": chain.head.number.toLocaleString("en-US"),
        "finalized-number": chain.finalized.number.toLocaleString("en-US"),
        "lag-blocks": String(chain.lagBlocks),
        endpoints: `${well}/${chain.endpoints.length}`,
        coverage: "100 %",
      },
    };
  };
  const shown = await api.untilShown(
    page,
    "the chain with the API's numbers",
    expect,
    ({ row, name, values }) => {
      const node = document.querySelector(row);
      const text = (field) => node?.querySelector(`[data-field="${field}"]`)?.textContent;
      return (
        node?.querySelector(".row-link").textContent === name &&
        Object.entries(values).every(([field, value]) => text(field) === value)
      );
    },
  );
  const { chains } = await api.must("/v1/overview");
  const ids = await page.locator("#chains tr").evaluateAll((rows) => rows.map((each) => each.dataset.chain));
  same("chains", [...ids].sort(), chains.map((each) => String(each.chainId)).sort());
  console.log(`ok overview: ${JSON.stringify(shown.values)}`);
}

export async function sortsAndNarrows(page, api) {
  const heads = () =>
    page
      .locator('#chains [data-field="head-number"]')
      .evaluateAll((nodes) => nodes.map((node) => Number(node.textContent.replace(/\D/g, ""))));
  await page.getByRole("button", { name: "Head", exact: true }).click();
  await until(page, "the heading that sorts", () =>
    document.querySelector('.col-head[aria-sort="descending"]'),
  );
  const sorted = await heads();
  same(
    "heads, highest first",
    sorted,
    [...sorted].sort((a, b) => b - a),
  );
  if (!page.url().includes("sort=-head")) fail(`the order is not in the address ${page.url()}`);
  const { name } = await api.chain();
  await page.fill("#chain-filter", name);
  await until(page, "one chain", () => document.querySelectorAll("#chains tr").length === 1);
  await page.reload();
  await until(
    page,
    "the same after loading again",
    () => document.querySelectorAll("#chains tr").length === 1,
  );
  same("the filter after loading again", await page.inputValue("#chain-filter"), name);
  await page.goto(api.origin);
  await page.locator("#chains tr").first().waitFor();
  console.log("ok overview: sorted and narrowed, in the address");
}

/** j and k walk through the rows, Enter opens one, and the browser's back comes back. */
export async function isWalkedByKeys(page, api) {
  await page.goto(api.origin);
  await page.locator("#chains tr").nth(1).waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  const focused = () => page.evaluate(() => document.activeElement.closest("tr")?.dataset.chain);
  const rows = await page.locator("#chains tr").evaluateAll((all) => all.map((each) => each.dataset.chain));
  same("the second row after j j", await focused(), rows[1]);
  await page.keyboard.press("ArrowUp");
  same("the first row after up", await focused(), rows[0]);
  // Two polls take the focus from no row.
  for (const _ of [1, 2]) await api.nextPoll(page, "polling continues");
  same("the row with the focus after two polls", await focused(), rows[0]);
  await page.keyboard.press("Enter");
  await page.waitForURL(`${api.origin}/chains/${rows[0]}`);
  same("what has the focus on the new page", await page.evaluate(() => document.activeElement.tagName), "H1");
  await page.goBack();
  await page.locator("#chains tr").first().waitFor();
  console.log("ok overview: walked by keys");
}

/** A reorg is drawn as two branches as soon as it happens, without loading the page again. */
export async function showsReorg(page, api, control) {
  const known = (await api.chain()).reorgs.map((reorg) => reorg.from.hash);
  await page.evaluate(() => {
    window.sameDocument = true;
  });
  const answer = await fetch(`${control}reorg`, { method: "POST" });
  if (!answer.ok) fail(`the simulated node refused: ${answer.status}`);
  const expect = (overview) => {
    const chain = api.chainIn(overview);
    const reorg = chain.reorgs.find((each) => !known.includes(each.from.hash));
    if (!reorg || chain.head.hash === reorg.from.hash) return null;
    const blocks = reorg.depth === 1 ? "1 block" : `${reorg.depth} blocks`;
    return {
      chainId: api.chainId,
      dropped: reorg.from.hash,
      depth: reorg.depth,
      words: `${blocks} replaced above ${reorg.to.number.toLocaleString("en-US")}`,
    };
  };
  const reorg = await api.untilShown(page, "a new reorg", expect, ({ chainId, dropped, depth, words }) => {
    const item = document.querySelector(`#reorgs [data-chain-id="${chainId}"][data-dropped="${dropped}"]`);
    return (
      item?.textContent.includes(words) &&
      item.querySelectorAll(".fork .block.dropped").length === Math.min(4, depth) &&
      item.querySelector(".fork .block.common")
    );
  });
  if (!(await page.evaluate(() => window.sameDocument))) fail("the page was loaded again");
  console.log(`ok reorg: ${reorg.words}`);
}
