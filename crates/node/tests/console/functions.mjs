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

await refusals();
rmSync(modules, { recursive: true });
console.log("ok functions");
