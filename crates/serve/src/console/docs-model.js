// The description as the page shows it: groups of entries, where each route and each JSON-RPC method is one.

const METHODS = ["get", "post"];
/** Bodies whose examples are one call each, with the operation that takes them. */
const RPC = [
  {
    operation: "rpc",
    body: "Calls",
    groups: [
      ["Chronolith methods", "chronolith_"],
      ["Ethereum methods", ""],
    ],
  },
  { operation: "stellar", body: "StellarCalls", groups: [["Stellar methods", ""]] },
];
const RPC_GROUPS = {
  "Ethereum methods": "What nodes of Ethereum answer, for chains of the EVM. Every client library works.",
  "Chronolith methods": "For chains of the EVM: logs in pages, coverage, and blocks by time.",
  "Stellar methods": "What Stellar RPC answers, for Stellar networks.",
};

/** What a `$ref` of the description stands for; other values stand for themselves. */
export function follower(description) {
  return (value) => {
    if (!value?.$ref) return value;
    const steps = value.$ref.slice(2).split("/");
    return steps.reduce((at, step) => at?.[step], description);
  };
}

/** The name of the schema that a `$ref` names. */
export function refName(schema) {
  return schema?.$ref?.startsWith("#/components/schemas/") ? schema.$ref.split("/").at(-1) : null;
}

export function idOf(text) {
  return text.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
}

/** All that the page shows. */
export function model(description) {
  const follow = follower(description);
  const operations = Object.entries(description.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) =>
      operationEntry({ path, method, op: item[method] }, follow),
    ),
  );
  const calls = RPC.flatMap((family) => callEntries(description, family, operations, follow));
  const groups = description.tags.flatMap((tag) => {
    const entries = operations.filter((entry) => entry.tags.includes(tag.name));
    const group = { id: idOf(tag.name), title: tag.name, text: tag.description, entries };
    return entries.some((entry) => entry.isRpc) ? [group, ...callGroups(calls)] : [group];
  });
  return { description, follow, groups, entries: [...operations, ...calls], schemas: schemasOf(description, calls) };
}

function operationEntry({ path, method, op }, follow) {
  const body = follow(op.requestBody);
  const content = body?.content["application/json"];
  return {
    id: `op-${op.operationId}`,
    kind: method,
    title: op.summary,
    name: path,
    path,
    tags: op.tags,
    description: op.description,
    parameters: (op.parameters ?? []).map(follow).map((parameter) => ({ ...parameter, example: exampleOf(parameter) })),
    body: content && { schema: content.schema, example: bodyExample(content) },
    answers: answersOf(op.responses, follow),
    isPage: Boolean(op.responses["200"].content?.["text/html"]),
    isRpc: Boolean(op.requestBody?.$ref),
    operationId: op.operationId,
  };
}

/** Of several examples of calls the last is the batch: each call has an entry of its own. */
function bodyExample({ example, examples = {} }) {
  return example ?? Object.values(examples).at(-1)?.value.map(inOrder);
}

function answersOf(responses, follow) {
  return Object.entries(responses).map(([status, response]) => {
    const { description, headers = {}, content = {} } = follow(response);
    const kinds = Object.entries(content).map(([kind, { schema, example }]) => ({ kind, schema, example }));
    return { status, description, headers, kinds };
  });
}

/** The first example of a parameter. */
function exampleOf(described) {
  if (described.example !== undefined) return described.example;
  return Object.values(described.examples ?? {})[0]?.value;
}

function callEntries(description, { operation, body, groups }, operations, follow) {
  const at = operations.find((entry) => entry.operationId === operation);
  const examples = description.components.requestBodies[body].content["application/json"].examples;
  const methods = Object.keys(examples).filter((name) => description.components.schemas[name]);
  return methods.map((name) => {
    const schema = description.components.schemas[name];
    const reply = (result) => ({ jsonrpc: "2.0", id: 1, result });
    const answer = {
      status: "200",
      description: "The answer to the call, with the `result` below or with an `error`.",
      headers: {},
      kinds: [{ kind: "application/json", schema: schema["x-result"], example: reply(schema["x-result-example"]) }],
    };
    return {
      ...at,
      id: name,
      kind: "rpc",
      title: name,
      name,
      summary: examples[name].summary,
      description: schema.description,
      body: { schema: schema.properties.params, example: inOrder(examples[name].value), isCall: true },
      answers: [answer, ...at.answers.filter(({ status }) => status !== "200")],
      group: groups.find(([, start]) => name.startsWith(start))[0],
      operationId: undefined,
    };
  });
}

/** A call as people write it. */
function inOrder({ jsonrpc, id, method, params }) {
  return { jsonrpc, id, method, ...(params === undefined ? {} : { params }) };
}

function callGroups(calls) {
  return Object.entries(RPC_GROUPS).map(([title, text]) => ({
    id: idOf(title),
    title,
    text,
    entries: calls.filter((entry) => entry.group === title),
  }));
}

/** Schemas by name; calls are entries, not schemas. */
function schemasOf(description, calls) {
  const names = new Set(calls.map((entry) => entry.name));
  const all = Object.entries(description.components.schemas).filter(([name]) => !names.has(name));
  return all.sort(([a], [b]) => a.localeCompare(b, "en"));
}
