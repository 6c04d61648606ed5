"""Runs the rules and every panel of the dashboard in a real Prometheus, over nodes that export every documented
metric, and checks names, links and annotations."""

import http.server
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import board
import texts

PATIENCE_SECONDS = 90
# Two nodes with the same chains: joins must still be one to one.
NODES = 2

# Values of labels, so that every expression matches a series.
LABELS = {
    "chain": ["1", "8453"],
    "endpoint": ["a.example", "b.example"],
    "method": ["eth_getLogs", "eth_call"],
    "outcome": ["success", "error"],
    "level": ["links", "receipts"],
    "status": ["pending", "confirmed", "dropped"],
    "projection": ["adfs", "fees"],
    "state": ["pending", "processing", "failed", "dead"],
    "reason": ["feedsLength", "calldataSize"],
    "lock": ["backfill", "finality", "writer"],
    "op": ["insert", "confirm"],
}
BUCKETS = ["1", "5", "30", "+Inf"]
SEVERITIES = {"page", "ticket"}
RUNBOOK_PARTS = [f"**{part}**" for part in ("Looks like", "Why", "Look first", "Do", "Over when")]
# Metrics of Prometheus itself.
OWN = {"up", "ALERTS"}


def series(labels):
    """Every combination of values of some labels."""
    sets = [""]
    for label in labels:
        sets = [f'{one}{label}="{value}",' for one in sets for value in LABELS[label]]
    return sets


def shown(metrics, age):
    """The metrics of a node that has counted for some seconds."""
    count = int(age * 10) + 1
    for name, (kind, labels) in metrics.items():
        yield f"# TYPE {name} {kind}"
        for of in series(labels):
            if kind == "histogram":
                for at, le in enumerate(BUCKETS, start=1):
                    yield f'{name}_bucket{{{of}le="{le}"}} {count * at}'
                yield f"{name}_sum{{{of}}} {count * 7}"
                yield f"{name}_count{{{of}}} {count * len(BUCKETS)}"
            else:
                yield f"{name}{{{of}}} {count if kind == 'counter' else 1}"


def serve(metrics):
    """Exports metrics on a free port, and returns its address."""
    began = time.monotonic()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            text = "\n".join(shown(metrics, time.monotonic() - began)) + "\n"
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_address[1]}"


class Prometheus:
    """A temporary server with the real rules and short intervals."""

    def __init__(self, work, targets):
        files = [str(texts.ROOT / "ops/prometheus" / name) for name in ("alerts.yml", "slo.yml")]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": files,
            "scrape_configs": [{"job_name": "chronolith", "static_configs": [{"targets": targets}]}],
        }
        # JSON is YAML.
        (work / "prometheus.yml").write_text(json.dumps(config))
        self.log = work / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={work}/prometheus.yml",
                    f"--storage.tsdb.path={work}/data",
                    "--web.listen-address=127.0.0.1:0",
                ],
                stdout=log,
                stderr=log,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def address(self):
        pattern = r'msg="Listening on" address=(127\.0\.0\.1:[1-9]\d*)'
        found = re.search(pattern, self.log.read_text())
        return found and found[1]

    def ask(self, path, **parameters):
        url = f"http://{self.address()}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refused:
            raise ValueError(json.load(refused)["error"]) from None

    def ready(self):
        """Whether it has read its files and answers; until then it refuses every request."""
        if not (address := self.address()):
            return False
        try:
            with urllib.request.urlopen(f"http://{address}/-/ready", timeout=30):
                return True
        except urllib.error.URLError:
            return False

    def rules(self):
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

    def evaluated(self):
        """Whether all nodes were scraped and all rules evaluated. A failing rule is reported at once: waiting does not help."""
        rules = self.rules()
        for rule in rules:
            if rule["health"] == "err":
                raise SystemExit(f"check: {rule['name']}: {rule['lastError']}")
        known = self.ask("query", query="min_over_time(up[10s]) == 1")["result"]
        return len(known) == NODES and all(rule["health"] == "ok" for rule in rules)

    def until(self, what, condition):
        """Waits for a condition; on a timeout, exits with its name."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := condition()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(self.log.read_text().splitlines()[-5:])
                raise SystemExit(f"check: timeout: {what}\n{tail}")
            time.sleep(0.2)
        return found


def of_alert(rule, sections):
    """Faults in the labels and annotations of an alert."""
    name = rule["name"]
    if rule["labels"].get("severity") not in SEVERITIES:
        yield f"{name}: severity is not one of {sorted(SEVERITIES)}"
    notes = rule["annotations"]
    for note in ("summary", "description"):
        if not re.search(r"\$labels\.(chain|instance)\b", notes.get(note, "")):
            yield f"{name}: its {note} names neither chain nor instance"
    path, _, anchor = notes.get("runbook_url", "").partition("#")
    if path != texts.RUNBOOKS or anchor not in sections:
        yield f"{name}: runbook_url does not resolve: {notes.get('runbook_url')}"
    section = sections.get(anchor, "")
    for part in [f"`{name}`"] + RUNBOOK_PARTS:
        if part not in section:
            yield f"{name}: its runbook has no {part}"
    if f"| `{name}` | [" not in sections.get("alerts", ""):
        yield f"{name}: missing in the list of alerts in the runbooks"
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(notes.values())))
    for label in sorted(used - LABELS.keys() - {"instance"}):
        yield f"{name}: there is no label {label}"
    for alert in rule["alerts"]:
        for label in sorted(used - alert["labels"].keys()):
            yield f"{name}: it has no label {label}"
        for note, text in alert["annotations"].items():
            # Prometheus inserts this if a template fails.
            if "<error" in text:
                yield f"{name}: {note}: {text}"


def names(rules, panels):
    """Metrics that are used and not exported."""
    known = {}
    for path in texts.CATALOGS:
        known |= texts.described(path)
    known |= {name: kind for name, (kind, _) in texts.listed().items()}
    parts = {
        f"{name}_{part}" for name, kind in known.items() if kind == "histogram"
        for part in ("bucket", "sum", "count")
    }
    plain = {name for name, kind in known.items() if kind != "histogram"}
    recorded = {rule["name"] for rule in rules if rule["type"] == "recording"}
    for where, expression in [(rule["name"], rule["query"]) for rule in rules] + panels:
        used = texts.metrics_of(expression)
        if not used:
            yield f"{where}: uses no metric"
        for name in sorted(used - plain - parts - recorded - OWN):
            yield f"{where}: there is no metric {name}"


def catalogs():
    """Differences between the documents and the exporter's catalogs: names and types of metrics."""
    listed = {name: kind for name, (kind, _) in texts.listed().items()}
    described = {}
    for path in texts.CATALOGS:
        described |= texts.described(path)
    for name in sorted(listed.keys() ^ described.keys()):
        yield f"{name} is in only one of documents and catalogs"
    for name in sorted(listed.keys() & described.keys()):
        if listed[name] != described[name]:
            yield f"{name} is a {listed[name]} and a {described[name]}"


def empty(prometheus, panels):
    """Expressions without a result; an invalid one is reported at once."""
    left = []
    for where, expression in panels:
        try:
            if not prometheus.ask("query", query=expression)["result"]:
                left.append((where, expression))
        except ValueError as error:
            raise SystemExit(f"check: {where}: {error}") from None
    return left


def run(panels, metrics):
    """The rules after a complete evaluation, and the panels without data."""
    with tempfile.TemporaryDirectory() as work:
        targets = [serve(metrics) for _ in range(NODES)]
        with Prometheus(pathlib.Path(work), targets) as prometheus:
            prometheus.until("the server", prometheus.ready)
            prometheus.until("an evaluation of every rule", prometheus.evaluated)
            deadline = time.monotonic() + PATIENCE_SECONDS
            left = panels
            while (left := empty(prometheus, left)) and time.monotonic() < deadline:
                time.sleep(0.5)
            # Again: by now every rule has data of all nodes.
            prometheus.until("another evaluation of every rule", prometheus.evaluated)
            return prometheus.rules(), left


def main():
    shape = list(board.faults(texts.dashboard()))
    if shape:
        return shape
    panels = list(board.expressions(texts.dashboard()))
    metrics = texts.listed()
    rules, left = run(panels, metrics)
    sections = texts.sections(texts.RUNBOOKS)
    alerts = [rule for rule in rules if rule["type"] == "alerting"]
    faults = [f"{where}: has no data" for where, _ in left]
    faults += [fault for rule in alerts for fault in of_alert(rule, sections)]
    faults += names(rules, panels)
    faults += catalogs()
    print(
        f"{len(rules)} rules evaluated, {len(alerts)} of them alerts; {len(panels) - len(left)} of "
        f"{len(panels)} expressions of the dashboard have data; {len(metrics)} metrics"
    )
    return faults


found = main()
for fault in found:
    print(f"check: {fault}", file=sys.stderr)
sys.exit(1 if found else 0)
