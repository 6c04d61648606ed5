// Requests as code, and JSON in colours.

import { el } from "./dom.js";

/** Longer texts stay without colours: a node for each token takes long. */
const COLOURED_MAX = 60_000;
/** Longer bodies have their lines. */
const LINE_MAX = 90;

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A command for a shell; JSON and what the reader typed may hold quotes. */
export function curl({ url, body, key }) {
  const parts = [`curl -s ${quoted(url)}`];
  if (key) parts.push(`-H ${quoted(`x-api-key: ${key}`)}`);
  if (body !== undefined) parts.push("-H 'content-type: application/json'", `-d ${quoted(short(body))}`);
  return parts.join(" \\\n  ");
}

/** A short body on one line. */
function short(body) {
  try {
    const line = JSON.stringify(JSON.parse(body));
    return line.length <= LINE_MAX ? line : body;
  } catch {
    return body;
  }
}

/** The same for a browser, Node.js, Deno or Bun. */
export function fetchCode({ url, body, key, isText }) {
  const headers = Object.entries(headersOf({ body, key })).map(
    ([name, value]) => `"${name}": ${JSON.stringify(value)}`,
  );
  const options = [];
  if (body !== undefined) options.push(`  method: "POST",`);
  if (headers.length > 0) options.push(`  headers: { ${headers.join(", ")} },`);
  if (body !== undefined) options.push(`  body: JSON.stringify(${literal(body)}),`);
  const more = options.length > 0 ? `, {\n${options.join("\n")}\n}` : "";
  const read = `const data = await response.${isText ? "text" : "json"}();`;
  return `const response = await fetch(${JSON.stringify(url)}${more});\n${read}`;
}

/** The headers of a request. */
export function headersOf({ body, key }) {
  return {
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...(key ? { "x-api-key": key } : {}),
  };
}

/** JSON as JavaScript writes it: names without quotes. */
function literal(body) {
  try {
    const text = JSON.stringify(JSON.parse(body), null, 2);
    return text.replaceAll(/^( *)"([A-Za-z_]\w*)":/gm, "$1$2:").replaceAll("\n", "\n  ");
  } catch {
    return quoted(body);
  }
}

const TOKEN =
  /("(?:[^"\\]|\\.)*")(\s*:)?|('(?:[^'\\]|\\.)*')|(?<![\w:])(-?\d[\d.eE+]*)\b|\b(true|false|null)\b|\b(const|await|curl|method|headers|body)\b|( -[a-zA-Z]) /g;

/** A text with its tokens marked, as nodes. */
export function coloured(text) {
  if (text.length > COLOURED_MAX) return [text];
  const nodes = [];
  let end = 0;
  for (const found of text.matchAll(TOKEN)) {
    const [all, string, colon, single, number, word, keyword] = found;
    nodes.push(text.slice(end, found.index));
    end = found.index + all.length;
    if (string) {
      nodes.push(el("span", { class: colon ? "t-key" : "t-string", text: string }), colon ?? "");
      continue;
    }
    const kind = single ? "t-string" : number ? "t-number" : word ? "t-word" : keyword ? "t-keyword" : "t-flag";
    nodes.push(el("span", { class: kind, text: all }));
  }
  nodes.push(text.slice(end));
  return nodes;
}

/** JSON on several lines; short lists stay on one. */
export function pretty(value) {
  const text = JSON.stringify(value, null, 2) ?? "";
  return text.replaceAll(
    /\[\s+((?:[^[\]{},"\n]+|"[^"\n]{0,24}")(?:,\s+(?:[^[\]{},"\n]+|"[^"\n]{0,24}"))*)\s+\]/g,
    (list, items) => {
      const line = `[${items.replaceAll(/,\s+/g, ", ")}]`;
      return line.length <= 72 ? line : list;
    },
  );
}
