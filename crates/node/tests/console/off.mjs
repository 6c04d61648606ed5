// The page of projections where there are none.

import { fits, until } from "./browser.mjs";

/** It says how to turn them on, and shows nothing else. */
export async function saysHowToTurnOn(page, origin) {
  await page.goto(`${origin}/projections`);
  await until(page, "(j) how projections are turned on", () => {
    const off = document.querySelector("#off");
    return (
      !off.hidden && off.textContent.includes("chronolith db init") && off.textContent.includes("PG_URL")
    );
  });
  await until(
    page,
    "(j) nothing beside it",
    () =>
      document.querySelector("#boards").children.length === 0 &&
      ["#attention", "#away", "#legend"].every((id) => document.querySelector(id).hidden),
  );
  await fits(page, "(j) the page");
  console.log("ok (j) how to turn projections on");
}
