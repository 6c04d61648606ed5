"""Checks besides those of schemathesis: JSON-RPC answers, and that examples work."""

import csv
import json

import jsonschema_rs
import schemathesis


def result_schema(document, method):
    """The schema of a method's result; none for an unknown method."""
    described = document["components"]["schemas"].get(method, {}).get("x-result")
    return described and {**described, "components": document["components"]}


def pairs(calls, replies):
    """Each call with its reply, if they can be matched: all calls of a batch have ids, and all have replies."""
    if isinstance(calls, dict) and isinstance(replies, dict):
        calls, replies = [calls], [replies]
    if not isinstance(calls, list) or not isinstance(replies, list) or len(calls) != len(replies):
        return []
    return zip(calls, replies)


def calls_of(case, response):
    """The answered calls, with their replies."""
    is_rpc = case.operation.definition.raw.get("operationId", "") in ("rpc", "rpcOfChain", "stellar")
    # Methods other than the described one are generated too.
    if not is_rpc or response.request.method != "POST" or response.status_code != 200:
        return []
    return [
        (call["method"], reply)
        for call, reply in pairs(case.body, response.json())
        if isinstance(call, dict) and isinstance(call.get("method"), str)
    ]


@schemathesis.check
def results_are_those_of_their_methods(ctx, response, case):
    for method, reply in calls_of(case, response):
        schema = result_schema(case.operation.schema.raw_schema, method)
        if schema is None or "result" not in reply:
            continue
        for error in jsonschema_rs.validator_for(schema).iter_errors(reply["result"]):
            raise AssertionError(f"{method}: {error.message} at {error.instance_path}")


def has_last_line(case):
    return str((case.query or {}).get("trailer", "true")).lower() != "false"


@schemathesis.check
def lines_are_logs(ctx, response, case):
    kind = response.headers.get("content-type", [""])[0]
    if response.status_code != 200:
        return
    if kind == "application/x-ndjson":
        document = case.operation.schema.raw_schema
        schema = {**document["components"]["schemas"]["Log"], "components": document["components"]}
        lines = [json.loads(line) for line in response.text.splitlines()]
        if has_last_line(case):
            last = lines.pop()
            if last.get("complete") is not True or last.get("count") != len(lines):
                raise AssertionError(f"{len(lines)} logs end with {last}")
        for line in lines:
            jsonschema_rs.validate(schema, line)
    if kind.startswith("text/csv"):
        names, *rows = csv.reader(response.text.splitlines())
        if has_last_line(case):
            last = rows.pop()
            if last[:2] != ["#complete", f"count={len(rows)}"]:
                raise AssertionError(f"{len(rows)} logs end with {last}")
        if any(len(row) != len(names) for row in rows):
            raise AssertionError(f"a row does not have {len(names)} values")


@schemathesis.check
def examples_work(ctx, response, case):
    if case.meta is None or case.meta.phase.name.value != "examples":
        return
    if response.status_code >= 300:
        raise AssertionError(f"an example was answered with {response.status_code}: {response.text}")
    for method, reply in calls_of(case, response):
        # Simulated ledgers closed long ago, and a network with an old newest ledger is not healthy.
        if method == "getHealth" and "is too high" in reply.get("error", {}).get("message", ""):
            continue
        if reply.get("result") is None:
            raise AssertionError(f"the example of {method} was answered with {reply}")
