"""Runs the rules and every panel of the dashboard in a real Prometheus, over nodes that show every metric of
the documents, and holds names, links and annotations to what is there."""

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
# Of the same chains: what is joined must still be joined one to one.
NODES = 2

# Values of labels, so that every expression has something to choose from.
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
# Prometheus' own.
OWN = {"up", "ALERTS"}


def series(labels):
    """Every combination of values of some labels."""
    sets = [""]
    for label in labels:
        sets = [f'{one}{label}="{value}",' for one in sets for value in LABELS[label]]
    return sets


def shown(metrics, age):
    """What a node shows that has counted for some seconds."""
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
    """Shows metrics on a free port, and tells its address."""
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
    """A server of its own, with the rules as they are and quicker than they will be."""

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
        """Whether it has read its files and answers; before that it refuses everything."""
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
        """Whether all nodes were seen and all rules evaluated. One that cannot be is told at once: waiting mends nothing."""
        rules = self.rules()
        for rule in rules:
            if rule["health"] == "err":
                raise SystemExit(f"check: {rule['name']}: {rule['lastError']}")
        known = self.ask("query", query="min_over_time(up[10s]) == 1")["result"]
        return len(known) == NODES and all(rule["health"] == "ok" for rule in rules)

    def until(self, what, condition):
        """Waits for something to be the case, and says what was not."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := condition()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(self.log.read_text().splitlines()[-5:])
                raise SystemExit(f"check: {what} did not come\n{tail}")
            time.sleep(0.2)
        return found


def of_alert(rule, sections):
    """What is wrong with what an alert tells people."""
    name = rule["name"]
    if rule["labels"].get("severity") not in SEVERITIES:
        yield f"{name}: severity is none of {sorted(SEVERITIES)}"
    notes = rule["annotations"]
    for note in ("summary", "description"):
        if not re.search(r"\$labels\.(chain|instance)\b", notes.get(note, "")):
            yield f"{name}: its {note} names neither chain nor instance"
    path, _, anchor = notes.get("runbook_url", "").partition("#")
    if path != texts.RUNBOOKS or anchor not in sections:
        yield f"{name}: runbook_url leads nowhere: {notes.get('runbook_url')}"
    section = sections.get(anchor, "")
    for part in [f"`{name}`"] + RUNBOOK_PARTS:
        if part not in section:
            yield f"{name}: its runbook has no {part}"
    if f"| `{name}` | [" not in sections.get("alerts", ""):
        yield f"{name}: the list of alerts in the runbooks lacks it"
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(notes.values())))
    for label in sorted(used - LABELS.keys() - {"instance"}):
        yield f"{name}: there is no label {label}"
    for alert in rule["alerts"]:
        for label in sorted(used - alert["labels"].keys()):
            yield f"{name}: it has no label {label}"
        for note, said in alert["annotations"].items():
            # What Prometheus puts where a template went wrong.
            if "<error" in said:
                yield f"{name}: {note} says: {said}"


def names(rules, panels):
    """Metrics that are used and that nothing shows."""
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
            yield f"{where}: asks for no metric"
        for name in sorted(used - plain - parts - recorded - OWN):
            yield f"{where}: there is no metric {name}"


def catalogs():
    """The documents and the catalogs of the exporter name the same metrics, of the same types."""
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
    """Expressions that show nothing; one that cannot be read is told at once."""
    left = []
    for where, expression in panels:
        try:
            if not prometheus.ask("query", query=expression)["result"]:
                left.append((where, expression))
        except ValueError as error:
            raise SystemExit(f"check: {where}: {error}") from None
    return left


def run(panels, metrics):
    """The rules after a good round, and the panels that show nothing."""
    with tempfile.TemporaryDirectory() as work:
        targets = [serve(metrics) for _ in range(NODES)]
        with Prometheus(pathlib.Path(work), targets) as prometheus:
            prometheus.until("the server", prometheus.ready)
            prometheus.until("a round of every rule", prometheus.evaluated)
            deadline = time.monotonic() + PATIENCE_SECONDS
            left = panels
            while (left := empty(prometheus, left)) and time.monotonic() < deadline:
                time.sleep(0.5)
            # Once more: by now every rule has seen all nodes.
            prometheus.until("another round of every rule", prometheus.evaluated)
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
    faults = [f"{where}: shows nothing" for where, _ in left]
    faults += [fault for rule in alerts for fault in of_alert(rule, sections)]
    faults += names(rules, panels)
    faults += catalogs()
    print(
        f"{len(rules)} rules evaluated, {len(alerts)} of them alerts; {len(panels) - len(left)} of "
        f"{len(panels)} expressions of the dashboard show something; {len(metrics)} metrics"
    )
    return faults


found = main()
for fault in found:
    print(f"check: {fault}", file=sys.stderr)
sys.exit(1 if found else 0)
