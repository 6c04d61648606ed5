// Files of logs, read as the documentation says ("The last line" in docs/api.md): a whole file is accepted with all its
// logs, and one whose last line was removed or cut is refused. JavaScript reads them by the rule; then each program of
// the table does, with the words of the table. A program that is not installed is skipped with a message.
//   node files.mjs OURS_URL API_MD DIRECTORY

import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";

const [ours, documentation, directory] = process.argv.slice(2);
const logsUrl = `${new URL(ours).origin}/v1/chains/31337/logs`;
const FORMATS = ["ndjson", "csv"];

let checks = 0;
let failures = 0;

function check(what, holds) {
  checks += 1;
  if (holds) return;
  failures += 1;
  console.log(`  files: ${what}`);
}

/** The lines of a file before the one that says that they are all; an error if none does. */
function linesOf(text, format) {
  const lines = text.split("\n");
  if (lines.pop() !== "") throw new Error("the last line has no end");
  const last = lines.pop() ?? "";
  if (format === "csv") {
    const count = /^#complete,count=(\d+),/.exec(last)?.[1];
    lines.shift(); // the names
    if (count !== String(lines.length)) throw new Error(`not complete: ${last}`);
    return lines;
  }
  const { complete, count } = JSON.parse(last);
  if (complete !== true || count !== lines.length) throw new Error(`not complete: ${last}`);
  return lines;
}

function isAccepted(text, format) {
  try {
    linesOf(text, format);
    return true;
  } catch {
    return false;
  }
}

/** The code in the cells of a row of the table, by the name of the reader. */
function rowOf(name) {
  const row = readFileSync(documentation, "utf8").split("\n").find((line) => line.startsWith(`| ${name} |`));
  if (!row) throw new Error(`the table has no reader ${name}`);
  const cells = row.split(/(?<!\\)\|/).slice(2, 4);
  return cells.map((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code.replaceAll("\\|", "|")));
}

function python() {
  const [[readCsv, readLines, onlyLogs], [isComplete]] = rowOf("pandas");
  const script = (file, lines) => ["from pandas import read_csv, read_json", `f = "${file}"`, ...lines].join("\n");
  const run = (file, ...lines) => ["python3", "-c", script(file, lines)];
  return {
    version: ["python3", "-c", "import pandas"],
    count: {
      csv: run("f.csv", `print(len(${readCsv}))`),
      ndjson: run("f.ndjson", readLines, `print(len(${onlyLogs}))`),
    },
    accepts: { ndjson: run("f.ndjson", readLines, `raise SystemExit(0 if ${isComplete} else 1)`) },
  };
}

function duckdb() {
  const [[readCsv, onlyLogs], [isComplete]] = rowOf("DuckDB");
  const of = (file, code) => code.replaceAll("'f'", `'${file}'`);
  const run = (sql) => ["duckdb", "-csv", "-noheader", "-c", sql];
  return {
    version: ["duckdb", "--version"],
    count: {
      csv: run(`select count(*) from ${of("f.csv", readCsv)}`),
      ndjson: run(`select count(*) from (${of("f.ndjson", onlyLogs)})`),
    },
    // A file without the line has no such column.
    accepts: { ndjson: run(of("f.ndjson", isComplete)) },
  };
}

function jq() {
  const [[onlyLogs], [isComplete]] = rowOf("jq");
  return {
    version: ["jq", "--version"],
    count: { ndjson: ["bash", "-c", `set -o pipefail; ${onlyLogs} f.ndjson | jq -s length`] },
    accepts: { ndjson: ["bash", "-c", `${isComplete} f.ndjson`] },
  };
}

function shell() {
  const [[withoutLast], [isComplete]] = rowOf("shell");
  return {
    version: ["bash", "--version"],
    // Without the names of the columns.
    count: { csv: ["bash", "-c", `${withoutLast} f.csv | tail -n+2 | wc -l`] },
    accepts: { csv: ["bash", "-c", isComplete] },
  };
}

/** Runs a program in a directory; what it prints, or null if it fails. */
function run([program, ...words], cwd) {
  const { status, stdout } = spawnSync(program, words, { cwd, encoding: "utf8" });
  return status === 0 ? stdout.trim() : null;
}

async function download(format) {
  const answer = await fetch(`${logsUrl}/download?format=${format}`);
  if (answer.status !== 200) throw new Error(`status ${answer.status}: ${await answer.text()}`);
  return answer.text();
}

/** Writes a file in each of its states; returns the directory of each. */
function write(format, whole) {
  const end = whole.lastIndexOf("\n", whole.length - 2) + 1;
  const states = { whole, "without its last line": whole.slice(0, end), "with a part of it": whole.slice(0, end + 6) };
  const places = Object.entries(states).map(([state, text], at) => {
    const place = `${directory}/files-${at}`;
    mkdirSync(place, { recursive: true });
    writeFileSync(`${place}/f.${format}`, text);
    check(`JavaScript: ${format} ${state}`, isAccepted(text, format) === (state === "whole"));
    return [state, place];
  });
  return Object.fromEntries(places);
}

async function readByRule() {
  const page = await (await fetch(`${logsUrl}?fromBlock=0&toBlock=finalized&limit=10000`)).json();
  check("too few logs are final", page.logs.length > 100 && page.nextCursor === null);
  const places = {};
  for (const format of FORMATS) {
    const whole = await download(format);
    places[format] = write(format, whole);
    const lines = linesOf(whole, format);
    const isSame = (line, at) => format === "csv" || isDeepStrictEqual(JSON.parse(line), page.logs[at]);
    check(`JavaScript: ${format}: other logs`, lines.length === page.logs.length && lines.every(isSame));
  }
  return { count: page.logs.length, places };
}

function readBy(name, { version, count, accepts }, { count: expected, places }) {
  if (run(version, directory) === null) {
    console.log(`  files: skipped: ${name} is not installed`);
    return;
  }
  for (const [format, command] of Object.entries(count)) {
    const found = run(command, places[format].whole);
    check(`${name}: ${format}: ${found} logs of ${expected}`, found === String(expected));
  }
  for (const [format, command] of Object.entries(accepts)) {
    for (const [state, place] of Object.entries(places[format])) {
      const isTaken = run(command, place) !== null;
      check(`${name}: ${format} ${state}`, isTaken === (state === "whole"));
    }
  }
}

const files = await readByRule();
const programs = { pandas: python(), DuckDB: duckdb(), jq: jq(), shell: shell() };
for (const [name, program] of Object.entries(programs)) readBy(name, program, files);
console.log(`result files ${checks} ${failures}`);
process.exit(failures > 0 ? 1 : 0);
