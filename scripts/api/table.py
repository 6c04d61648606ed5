"""Prints requests and answers by operation and by JSON-RPC method, from schemathesis' report.

Fails if an operation was never answered with 2xx, or a method never with a result.

    table.py DESCRIPTION REPORT
"""

import base64
import collections
import json
import sys


def interactions(report):
    """The operation of each request, with request and response."""
    with open(report, encoding="utf-8") as lines:
        for line in lines:
            recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
            for name, one in recorder.get("interactions", {}).items():
                case = recorder["cases"][name]["value"]
                yield f"{one['request']['method']} {case['path']}", one


def body(part):
    """A body as JSON; none if it is not JSON."""
    try:
        return json.loads(base64.b64decode(part["$base64"]))
    except (KeyError, TypeError, ValueError):
        return None


def calls(one):
    """The method of each call, and whether it had a result."""
    sent, answered = body(one["request"].get("body")), body((one.get("response") or {}).get("content"))
    if isinstance(sent, dict) and isinstance(answered, dict):
        sent, answered = [sent], [answered]
    if not isinstance(sent, list) or not isinstance(answered, list) or len(sent) != len(answered):
        return
    for call, reply in zip(sent, answered):
        if isinstance(call, dict) and isinstance(reply, dict):
            yield str(call.get("method")), "result" in reply


def main(description, report):
    with open(description, encoding="utf-8") as file:
        document = json.load(file)
    schemas = document["components"]["schemas"]
    described = schemas["Call"]["oneOf"] + schemas["StellarCall"]["oneOf"]
    methods = [one["$ref"].rsplit("/", 1)[-1] for one in described]
    paths = document["paths"]
    statuses = {f"{method.upper()} {path}": collections.Counter() for path, item in paths.items() for method in item}
    results, other = {method: collections.Counter() for method in methods}, collections.Counter()
    for operation, one in interactions(report):
        status = (one.get("response") or {}).get("status_code", "none")
        statuses.get(operation, other)[status] += 1
        for method, has_result in calls(one):
            if method in results:
                results[method][has_result] += 1

    def line(name, counts):
        shown = "  ".join(f"{status} x {count}" for status, count in sorted(counts.items(), key=str))
        print(f"{name:<52} {sum(counts.values()):>8}  {shown}")

    print(f"\n{'operation':<52} {'requests':>8}  statuses")
    for operation, counts in statuses.items():
        line(operation, counts)
    line("methods that are not described", other)
    print(f"\n{'JSON-RPC method':<52} {'calls':>8}  results")
    for method, counts in results.items():
        print(f"{method:<52} {sum(counts.values()):>8}  {counts[True]}")
    never = [name for name, counts in statuses.items() if not any(str(status).startswith("2") for status in counts)]
    # Simulated ledgers closed long ago: their network is never healthy.
    never += [method for method, counts in results.items() if not counts[True] and method != "getHealth"]
    if never:
        sys.exit(f"never answered successfully: {', '.join(never)}")


main(*sys.argv[1:])
