// The description of the interface as a page: every operation with its parameters, answers and
// schemas, and a form to try it.

import { curl, getJson } from "./api.js";
import { byId, copy, el, setText } from "./dom.js";
import { openTarget, prose, schemaTable, shape, table } from "./schemas.js";

/** Longer answers are cut off on the page: it would stand still over them. */
const SHOWN_MAX = 50_000;
const METHODS = ["get", "post"];

let description;
let chainIds = [];

/** What a `$ref` of the description stands for; other values stand for themselves. */
function follow(value) {
  if (!value?.$ref) return value;
  const steps = value.$ref.slice(2).split("/");
  return steps.reduce((at, step) => at?.[step], description);
}

function operations() {
  return Object.entries(description.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({ path, method, ...item[method] })),
  );
}

function show() {
  setText(byId("version"), description.info.version);
  byId("intro").replaceChildren(...description.info.description.split("\n\n").map((text) => el("p", {}, ...prose(text))));
  const all = operations();
  const groups = description.tags.map((tag) => ({ tag, ops: all.filter((op) => op.tags.includes(tag.name)) }));
  byId("contents").replaceChildren(
    ...groups.map(({ tag, ops }) =>
      el(
        "div",
        {},
        el("h4", { text: tag.name }),
        ...ops.map((op) => el("a", { href: `#op-${op.operationId}`, text: op.summary })),
      ),
    ),
  );
  byId("operations").replaceChildren(
    ...groups.map(({ tag, ops }) =>
      el(
        "section",
        {},
        el("h2", { text: tag.name }),
        el("p", { class: "muted" }, ...prose(tag.description)),
        ...ops.map(operation),
      ),
    ),
  );
  byId("schemas").replaceChildren(
    ...Object.entries(description.components.schemas).map(([name, schema]) =>
      el(
        "details",
        { class: "panel schema", id: `schema-${name}` },
        el("summary", {}, el("code", { text: name })),
        el("div", {}, ...schemaTable(schema)),
      ),
    ),
  );
}

function operation(op) {
  const parameters = (op.parameters ?? []).map(follow);
  const body = follow(op.requestBody)?.content["application/json"];
  return el(
    "details",
    { class: "panel operation", id: `op-${op.operationId}` },
    el(
      "summary",
      {},
      el("span", { class: "pill", text: op.method.toUpperCase() }),
      el("code", { text: op.path }),
      op.summary,
    ),
    el(
      "div",
      {},
      op.description ? el("p", {}, ...prose(op.description)) : null,
      parameters.length > 0 ? parameterTable(parameters) : null,
      body ? el("p", {}, "The body is ", ...shape(body.schema), ".") : null,
      answers(op.responses),
      isPage(op) ? el("p", {}, el("a", { href: op.path, text: `Open ${op.path}` })) : tryForm(op, parameters, body),
    ),
  );
}

function isPage(op) {
  return Boolean(op.responses["200"].content?.["text/html"]);
}

function parameterTable(parameters) {
  const rows = parameters.map((parameter) =>
    el(
      "tr",
      {},
      el("td", {}, el("code", { text: parameter.name })),
      el("td", {}, parameter.required ? `${parameter.in}, required` : parameter.in),
      el("td", {}, ...shape(parameter.schema)),
      el("td", {}, ...prose(parameter.description)),
    ),
  );
  return table(["Parameter", "Where", "Type", "What"], rows);
}

function answers(responses) {
  const rows = Object.entries(responses).map(([status, response]) => {
    const whole = follow(response);
    const kinds = Object.entries(whole.content ?? {}).flatMap(([kind, content]) => [`${kind}: `, ...shape(content.schema), el("br")]);
    return el(
      "tr",
      {},
      el("td", {}, el("code", { text: status })),
      el("td", {}, ...kinds),
      el("td", {}, ...prose(whole.description)),
    );
  });
  return table(["Status", "Content", "When"], rows);
}

/** The first example of a parameter or a body. */
function exampleOf(described) {
  if (described.example !== undefined) return described.example;
  return Object.values(described.examples ?? {})[0]?.value;
}

function input(parameter) {
  const schema = follow(parameter.schema);
  const example = exampleOf(parameter);
  const chosen = parameter.name === "chainId" ? chainIds : schema.enum ?? (schema.type === "boolean" ? [false, true] : null);
  if (!chosen || chosen.length === 0) {
    const given = parameter.required && example !== undefined ? String(example) : "";
    return el("input", { type: "text", value: given, placeholder: example, spellcheck: "false" });
  }
  const options = parameter.required ? chosen : ["", ...chosen];
  return el("select", {}, ...options.map((value) => el("option", { value: String(value), text: value })));
}

function tryForm(op, parameters, body) {
  const inputs = new Map(parameters.map((parameter) => [parameter, input(parameter)]));
  const fields = parameters.map((parameter) => el("label", { class: "field" }, parameter.name, inputs.get(parameter)));
  const area = body ? el("textarea", { rows: "8", spellcheck: "false" }) : null;
  const result = el("div", { class: "answer wide", role: "status" });
  const copyCurl = el("button", { type: "button", class: "plain", text: "Copy as curl" });
  const form = el(
    "form",
    { class: "form try", autocomplete: "off", "aria-label": `Try ${op.summary}` },
    ...fields,
    body ? examplePicker(body, area) : null,
    area ? el("label", { class: "field wide" }, "Body", area) : null,
    el("div", { class: "actions wide" }, el("button", { type: "submit", text: "Send" }), copyCurl),
    result,
  );
  copyCurl.addEventListener("click", () => {
    try {
      copy(curl(pathOf(op, inputs), area ? JSON.parse(area.value) : undefined), "the request");
    } catch (error) {
      result.replaceChildren(el("p", { class: "error", text: `The body is not JSON: ${error.message}` }));
    }
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(op.method, pathOf(op, inputs), area?.value, result);
  });
  return form;
}

/** Chooses among the examples of a body, and puts the first into the area. */
function examplePicker(body, area) {
  const named = body.examples ?? { example: { value: body.example } };
  const put = (name) => {
    area.value = JSON.stringify(named[name].value, null, 2);
  };
  put(Object.keys(named)[0]);
  if (Object.keys(named).length === 1) return null;
  const picker = el("select", {}, ...Object.keys(named).map((name) => el("option", { value: name, text: name })));
  picker.addEventListener("change", () => put(picker.value));
  return el("label", { class: "field" }, "Example", picker);
}

function pathOf(op, inputs) {
  let path = op.path;
  const query = new URLSearchParams();
  for (const [parameter, field] of inputs) {
    const value = field.value.trim();
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (value !== "") query.set(parameter.name, value);
  }
  return query.size > 0 ? `${path}?${query}` : path;
}

async function send(method, path, body, result) {
  result.setAttribute("aria-busy", "true");
  const began = performance.now();
  try {
    const headers = body === undefined ? {} : { "content-type": "application/json" };
    const response = await fetch(path, { method, body, headers, cache: "no-store" });
    const text = await response.text();
    const took = Math.round(performance.now() - began);
    const kind = response.headers.get("content-type") ?? "no content";
    result.replaceChildren(
      el("p", { "data-field": "status", text: `${response.status}, ${kind}, ${took} ms` }),
      el("pre", { tabindex: "0", text: readable(text, kind) }),
    );
  } catch {
    result.replaceChildren(el("p", { class: "error", text: "The server does not answer. Is it running, and is the network there?" }));
  } finally {
    result.setAttribute("aria-busy", "false");
  }
}

function readable(text, kind) {
  const whole = kind.startsWith("application/json") ? JSON.stringify(JSON.parse(text), null, 2) : text;
  if (whole.length <= SHOWN_MAX) return whole;
  return `${whole.slice(0, SHOWN_MAX)}\n… ${whole.length - SHOWN_MAX} more characters`;
}

async function start() {
  try {
    description = await getJson("/openapi.json");
  } catch (error) {
    byId("intro").replaceChildren(el("p", { class: "error", text: `${error.message} ${error.advice ?? ""}` }));
    return;
  }
  // Without the list of chains, their ids are typed.
  chainIds = await getJson("/v1/chains").then(
    (chains) => chains.map((chain) => chain.chainId),
    () => [],
  );
  show();
  openTarget();
}

start();
