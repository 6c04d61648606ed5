// An entry: a route or a method, with its parameters, what it answers, and how to send it.

import { refName } from "./docs-model.js";
import { answerCard, requestCard, send } from "./docs-request.js";
import { el } from "./dom.js";
import { described, fieldTable, prose, shape } from "./schemas.js";

const BADGES = { get: "GET", post: "POST", rpc: "RPC" };

export function badge(kind) {
  return el("span", { class: "badge", "data-kind": kind, text: BADGES[kind] });
}

/** A heading with a permanent link. */
export function heading(level, id, ...content) {
  const name = content.map((part) => part.textContent ?? part).join(" ");
  return el(
    level,
    {},
    ...content,
    el("a", { class: "anchor", href: `#${id}`, "aria-label": `Link to ${name}`, text: "#" }),
  );
}

/** The page's part for an entry. `shared` has what all of them need. */
export function entrySection(entry, shared) {
  const { follow } = shared;
  const inputs = new Map(entry.parameters.map((parameter) => [parameter, input(parameter, entry, shared)]));
  const area = entry.body ? bodyArea(entry) : null;
  const read = () => ({
    path: pathOf(entry, inputs),
    body: area?.value,
    isText: [...inputs].some(([{ name }, field]) => name === "format" && ["csv", "ndjson"].includes(field.value)),
  });
  const isCall = entry.kind === "rpc";
  const about = [
    el("p", { class: "route" }, badge(entry.kind), el("code", { text: isCall ? `POST ${entry.path}` : entry.path })),
    ...descriptions(entry),
    entry.parameters.length > 0 ? part(isCall ? "Path" : "Parameters", parameterTable(inputs, follow)) : null,
    area ? part(isCall ? "Params" : "Body", ...bodyTable(entry, follow), area) : null,
    part("Answer", ...answer(entry, shared)),
  ];
  const title = isCall ? el("code", { text: entry.name }) : entry.title;
  const left = el("div", { class: "about" }, ...about.filter(Boolean));
  const form = el("form", { class: "entry-form", autocomplete: "off", "aria-label": `Request ${entry.name}` }, left);
  form.append(side({ entry, read, form }, shared));
  form.addEventListener("submit", (event) => event.preventDefault());
  return el(
    "section",
    { class: "entry", id: entry.id, "data-kind": entry.kind, tabindex: "-1" },
    heading("h3", entry.id, title),
    form,
  );
}

/** A description that begins with the summary needs no summary before it. */
function descriptions({ summary, description }) {
  const texts = description?.startsWith(summary) ? [description] : [summary, description];
  return texts.filter(Boolean).map((text) => el("p", {}, ...prose(text)));
}

function side({ entry, read, form }, { explain }) {
  const request = requestCard(entry, read);
  const answers = answerCard(entry);
  if (entry.isPage) {
    const link = el("a", { class: "plain", href: entry.path, text: `Open ${entry.path}` });
    request.node.querySelector(".code-foot").replaceChildren(link);
    return el("div", { class: "tries" }, request.node, answers.node);
  }
  form.addEventListener("input", request.update);
  form.addEventListener("submit", () => {
    const { path, body } = read();
    send({ method: entry.kind === "get" ? "GET" : "POST", path, body }, answers, explain);
  });
  return el("div", { class: "tries" }, request.node, answers.node);
}

function part(title, ...content) {
  return el("div", { class: "part" }, el("h4", { text: title }), ...content);
}

/** The field for a parameter, with the value of the example request. */
function input(parameter, entry, { chains }) {
  const { name, example, required, in: where } = parameter;
  const schema = parameter.schema ?? {};
  const label = { "aria-label": `${name} of ${entry.name}`, spellcheck: "false" };
  if (where === "path" && name === "chainId") return select(chains.ids(entry), { ...label, "data-chain": "" });
  if (where === "path" && name === "network") return select(chains.networks(example), label);
  const choices = schema.enum ?? (schema.type === "boolean" ? [true, false] : null);
  if (choices) return select(required ? choices : ["", ...choices], label);
  const value = isInExample(parameter) ? String(name === "chains" ? chains.first(entry) : example) : "";
  return el("input", { type: "text", value, placeholder: example, ...label });
}

/** Whether the example request has it: what is required, and what makes the answer short; no filters. */
function isInExample({ required, example, schema = {} }) {
  if (example === undefined) return false;
  return required || (schema.pattern === undefined && schema.default === undefined && schema.enum === undefined);
}

function select(values, props) {
  return el("select", props, ...values.map((value) => el("option", { value: String(value), text: String(value) })));
}

function parameterTable(inputs, follow) {
  const rows = [...inputs].map(([parameter, field]) => {
    const { name, required, in: where, schema, description } = parameter;
    const whole = { ...(refName(schema) ? { $ref: schema.$ref } : schema), description };
    return el(
      "tr",
      {},
      el(
        "th",
        { scope: "row" },
        el("code", { text: name }),
        el("small", { text: required ? `${where}, required` : where }),
        field,
      ),
      el("td", {}, ...described(whole, follow)),
    );
  });
  return el("table", { class: "fields params", "aria-label": "Parameters" }, el("tbody", {}, ...rows));
}

function bodyArea(entry) {
  const text = JSON.stringify(entry.body.example, null, 2);
  const rows = Math.min(text.split("\n").length, 18);
  const area = el("textarea", { rows: String(rows), spellcheck: "false", "aria-label": `Body of ${entry.name}` });
  area.value = text;
  return area;
}

/** What a body consists of: the parameters of a call, or fields. */
function bodyTable(entry, follow) {
  const { schema } = entry.body;
  if (schema.prefixItems) {
    const rows = schema.prefixItems.map((item, at) =>
      el(
        "tr",
        {},
        el(
          "th",
          { scope: "row" },
          el("code", { text: `params[${at}]` }),
          el("small", { text: at === 0 ? "required" : "optional" }),
        ),
        el("td", {}, ...described(item, follow, { isOpen: true })),
      ),
    );
    return [el("table", { class: "fields", "aria-label": "Params" }, el("tbody", {}, ...rows))];
  }
  if (schema.properties) return [fieldTable(schema, follow, "Params")];
  if (entry.body.isCall) return [el("p", { class: "muted", text: "There are none." })];
  return [el("p", { class: "type" }, ...shape(schema)), ...described(schema, follow).slice(1)];
}

/** What an answer holds, and which refusals there are. */
function answer(entry, { follow, refusals }) {
  const [good, ...others] = entry.answers;
  const nodes = [el("p", {}, el("b", { text: good.status }), " ", ...prose(good.description))];
  for (const { kind, schema } of good.kinds) {
    const title = entry.kind === "rpc" ? "result" : kind;
    nodes.push(el("div", { class: "content" }, el("code", { text: title }), ...described(schema ?? {}, follow)));
  }
  const headers = Object.entries(good.headers);
  if (headers.length > 0) {
    const rows = headers.map(([name, header]) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, el("code", { text: name }), el("small", { text: "header" })),
        el("td", {}, el("p", {}, ...prose(header.description))),
      ),
    );
    nodes.push(el("table", { class: "fields", "aria-label": "Headers" }, el("tbody", {}, ...rows)));
  }
  if (others.length > 0) nodes.push(el("ul", { class: "refusals" }, ...others.map((one) => refusal(one, refusals))));
  return nodes;
}

/** A refusal, with links to its codes: in the text where it names them, else behind it. */
function refusal({ status, description }, refusals) {
  const codes = refusals(status, description);
  const link = ({ code, id }) => el("a", { href: `#${id}` }, el("code", { text: code }));
  const text = prose(description).map((node) => {
    const named = codes.find(({ code }) => code === node.textContent);
    return named ? link(named) : node;
  });
  const others = codes.filter(({ code }) => !description.includes(code));
  return el(
    "li",
    {},
    el("b", { text: status }),
    el("span", {}, ...text, ...others.flatMap((code) => [" ", link(code)])),
  );
}

/** The path with what was typed. */
function pathOf(entry, inputs) {
  let { path } = entry;
  const query = new URLSearchParams();
  for (const [parameter, field] of inputs) {
    const value = field.value.trim();
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (value !== "") query.set(parameter.name, value);
  }
  return query.size > 0 ? `${path}?${query}` : path;
}
