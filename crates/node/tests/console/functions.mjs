// Functions of the console by themselves, without a page.
//
//   node functions.mjs FOLDER_OF_THE_CONSOLE

import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { fail, same } from "./browser.mjs";

const [folder] = process.argv.slice(2);
if (!folder) fail("usage: node functions.mjs FOLDER_OF_THE_CONSOLE");
// Scripts of pages are modules; Node.js asks for a file that says so.
const modules = mkdtempSync(path.join(tmpdir(), "console-"));
writeFileSync(path.join(modules, "package.json"), '{"type":"module"}');
const load = (file) => {
  copyFileSync(path.join(folder, file), path.join(modules, file));
  return import(pathToFileURL(path.join(modules, file)));
};

/** Every form in which the API says why there is no answer. */
async function refusals() {
  const { refusalIn } = await load("api.js");
  const check = (what, body, expected) => same(what, refusalIn(body), expected);
  const object = { code: "NOT_COVERED", message: "missing", indexedUpTo: 7 };
  check(
    "problem details, with the older form beside them",
    { code: "TOO_LARGE", detail: "too many", title: "Too large", requestId: "a", error: object },
    { code: "TOO_LARGE", message: "too many", details: { requestId: "a" } },
  );
  check(
    "an object",
    { error: object },
    { code: "NOT_COVERED", message: "missing", details: { indexedUpTo: 7 } },
  );
  check("a text", { error: "slow down" }, { code: "", message: "slow down", details: {} });
  check("a title alone", { code: "BUSY", title: "Busy" }, { code: "BUSY", message: "Busy", details: {} });
  for (const body of [null, {}, [], 5, "text", { error: null }])
    check(`no refusal of ours: ${JSON.stringify(body)}`, body, { code: "", details: {} });
}

/** Where a line is interrupted: the times before each gap, of samples at these times. */
async function gaps() {
  const { withGaps, rates, joined } = await load("samples.js");
  const now = 100_000;
  const check = (what, times, expected) => {
    const points = withGaps(
      times.map((at) => ({ at, value: 1 })),
      now,
    );
    const between = points.filter(({ value }) => value === null).map(({ at }) => at - 1);
    same(what, between, expected);
    same(
      `${what}: the samples stay`,
      points.filter(({ value }) => value !== null).map(({ at }) => at),
      times,
    );
  };
  const every = (step, from, to) =>
    Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, at) => from + at * step);
  const fine = every(10, now - 3_600, now);
  const coarse = every(300, now - 20_100, now - 3_900);
  check("no samples", [], []);
  check("one sample", [now - 50], []);
  check("the last hour", fine, []);
  check("a day, the last hour of it in small steps", [...coarse, ...fine], []);
  // Such a pause used to be drawn over, since it is shorter than 400 s.
  check("half a minute", [now - 60, now - 50, now - 20, now - 10], []);
  check("a minute without samples", [now - 100, now - 90, now - 30, now - 20], [now - 90]);
  check("the first two far apart", [now - 900, now - 500], [now - 900]);
  const [older] = coarse;
  check("two old samples that are missing", [older, older + 900, older + 1_200], []);
  check("three old samples that are missing", [older, older + 1_200, older + 1_500], [older]);
  check("a restart after hours", [older, now - 20, now - 10], [older]);
  same(
    "blocks a second, and a restart",
    rates([
      { at: 0, blocks: 5 },
      { at: 10, blocks: 25 },
      { at: 20, blocks: 3 },
    ]),
    [
      { at: 10, value: 2 },
      { at: 20, value: null },
    ],
  );
  same(
    "what was seen since the last sample",
    joined([{ at: 10 }, { at: 20 }], [{ at: 18 }, { at: 20 }, { at: 22 }]).map(({ at }) => at),
    [10, 20, 22],
  );
}

/** A chain is named by what people call it, by its name in the settings, or by its id. */
async function names() {
  const { meanings } = await load("query.js");
  const chains = [
    { chainId: 42_161, name: "Arbitrum One", configuredName: "arbitrum" },
    { chainId: 1, name: "Ethereum", configuredName: "ethereum" },
    { chainId: 5, name: "local" },
  ];
  const check = (text, expected) =>
    same(
      text,
      meanings(text, chains).map(({ kind, chain, block }) => [kind, chain?.chainId ?? null, block ?? null]),
      expected,
    );
  for (const name of ["Arbitrum One", "arbitrum one", "ARBITRUM", "42161"])
    check(`${name}  17`, [["block", 42_161, 17]]);
  check("local latest", [["block", 5, "latest"]]);
  check("one 17", []);
  check("arbitrum", [["chain", 42_161, null]]);
  check("1,000", [["block", null, 1_000]]);
}

await refusals();
await gaps();
await names();
rmSync(modules, { recursive: true });
console.log("ok functions");
