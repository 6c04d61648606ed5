// The decoder of logs by itself, with the events that it knows: what fits exactly is decoded, nothing else.
//
//   node abi.mjs FOLDER_OF_THE_CONSOLE

import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { fail, same } from "./browser.mjs";

const [folder] = process.argv.slice(2);
if (!folder) fail("usage: node abi.mjs FOLDER_OF_THE_CONSOLE");
// Scripts of pages are modules; Node.js asks for a file that says so.
const modules = mkdtempSync(path.join(tmpdir(), "console-"));
writeFileSync(path.join(modules, "package.json"), '{"type":"module"}');
for (const file of ["abi.js", "events.js"]) copyFileSync(path.join(folder, file), path.join(modules, file));
const load = (file) => import(pathToFileURL(path.join(modules, file)));
const { decode } = await load("abi.js");
const { EVENTS } = await load("events.js");

const word = (value) => BigInt.asUintN(256, BigInt(value)).toString(16).padStart(64, "0");
const text = (value) =>
  Buffer.from(value)
    .toString("hex")
    .padEnd(Math.ceil(value.length / 32) * 64, "0");
const topicOf = (start) => EVENTS.find(([, declaration]) => declaration.startsWith(start))[0];
const topic = (value) => `0x${word(value)}`;
const data = (...words) => `0x${words.join("")}`;

function check(what, log, expected) {
  const found = decode(log);
  const values = found && Object.fromEntries(found.args.map(({ name, value }) => [name, value]));
  const plain = JSON.parse(
    JSON.stringify(values, (_, value) => (typeof value === "bigint" ? `${value}` : value)),
  );
  same(what, plain, expected);
}

const address = (value) => `0x${word(value).slice(24)}`;
const transfer = topicOf("Transfer(");
const ends = [topic(10), topic(11)];
const named = { from: address(10), to: address(11) };

check("a transfer of ERC-20", { topics: [transfer, ...ends], data: data(word(5)) }, { ...named, value: "5" });
check(
  "a transfer of ERC-721",
  { topics: [transfer, ...ends, topic(7)], data: "0x" },
  { ...named, tokenId: "7" },
);
check("a transfer without an amount", { topics: [transfer, ...ends], data: "0x" }, null);
check("a transfer with more data", { topics: [transfer, ...ends], data: data(word(5), word(6)) }, null);
check(
  "an address that is too long",
  { topics: [transfer, topic(2n ** 160n), topic(1)], data: data(word(5)) },
  null,
);
check("no topics", { topics: [], data: "0x" }, null);
check("an unknown topic", { topics: [topic(1)], data: "0x" }, null);

const uri = (...words) => ({ topics: [topicOf("URI("), topic(3)], data: data(...words) });
const long = "a text that is longer than one word of 32 bytes";
check("a text", uri(word(32), word(3), text("abc")), { value: "abc", id: "3" });
check("a long text", uri(word(32), word(long.length), text(long)), { value: long, id: "3" });
check("an empty text", uri(word(32), word(0)), { value: "", id: "3" });
check("a text with a tail", uri(word(32), word(2), text("abc")), null);
check("a text that is none", uri(word(32), word(1), "ff".padEnd(64, "0")), null);
check("a text from elsewhere", uri(word(64), word(3), text("abc")), null);
check("a length of half of everything", uri(word(32), word(2n ** 255n)), null);
check("an offset beyond the data", uri(word(2n ** 64n), word(0)), null);

const batch = (...words) => ({
  topics: [topicOf("TransferBatch("), topic(1), topic(2), topic(3)],
  data: data(...words),
});
const who = { operator: address(1), from: address(2), to: address(3) };
check("two lists", batch(word(64), word(160), word(2), word(8), word(9), word(1), word(4)), {
  ...who,
  ids: ["8", "9"],
  values: ["4"],
});
check("two lists in one place", batch(word(64), word(64), word(1), word(8)), null);
check("a list of more than there is", batch(word(64), word(128), word(2), word(8), word(0)), null);

const swap = EVENTS.find(([, declaration]) => /^Swap\(.*int24 tick\)$/.test(declaration))[0];
const sides = { sender: address(1), recipient: address(2) };
const swapped = (...words) => ({ topics: [swap, topic(1), topic(2)], data: data(...words.map(word)) });
check("numbers below zero", swapped(-5, 6, 7, 8, -9), {
  ...sides,
  amount0: "-5",
  amount1: "6",
  sqrtPriceX96: "7",
  liquidity: "8",
  tick: "-9",
});
check("a number that its type does not hold", swapped(-5, 6, 7, 8, 2 ** 23), null);

const forwarded = topicOf("FeesForwarded(");
const fees = [word(2), word(1), word(20), word(2), word(30)];
check(
  "a list of pairs, the token indexed",
  { topics: [forwarded, topic(9)], data: data(word(32), ...fees) },
  {
    token: address(9),
    fees: [
      [address(1), "20"],
      [address(2), "30"],
    ],
  },
);
check(
  "a list of pairs, the token not indexed",
  { topics: [forwarded], data: data(word(9), word(64), ...fees) },
  {
    token: address(9),
    fees: [
      [address(1), "20"],
      [address(2), "30"],
    ],
  },
);
check("a bool of 2", { topics: [topicOf("ApprovalForAll("), topic(1), topic(2)], data: data(word(2)) }, null);
for (const [first] of EVENTS)
  if (decode({ topics: [first, ...Array(5).fill(topic(1))], data: "0x" })) fail(`${first} has six topics`);
rmSync(modules, { recursive: true });
console.log("ok abi");
