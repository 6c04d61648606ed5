"""Parsers of documents, sources and expressions for the checks of ops/."""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("docs/metrics.md", "ops/README.md")
CATALOGS = ("crates/node/src/exporter/catalog.txt",)
RUNBOOKS = "docs/runbooks.md"
DASHBOARD = "ops/grafana/chronolith.json"


def read(path):
    return (ROOT / path).read_text()


def listed():
    """The metrics of the documents: type and labels by name."""
    found = {}
    for page in PAGES:
        row = r"^\| `(\w+)` \| (counter|gauge|histogram) \| ([^|]+) \|"
        for name, kind, labels in re.findall(row, read(page), re.M):
            found[name] = (kind, [] if labels.strip() == "–" else labels.strip().split(", "))
    return found


def described(path):
    """The metrics of a catalog of the exporter: type by name."""
    rows = re.findall(r"^(counter|gauge|histogram) (\w+) ", read(path), re.M)
    return {name: kind for kind, name in rows}


def sections(path):
    """Sections of a document by their anchors, without code fences."""
    text = re.sub(r"^ *```.*?^ *```", "", read(path), flags=re.S | re.M)
    parts = re.split(r"^#+ (.+)$", text, flags=re.M)[1:]
    anchor = lambda title: re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
    return {anchor(title): body for title, body in zip(parts[::2], parts[1::2])}


WORDS = {"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring"}
WORDS |= {"group_left", "group_right", "inf", "nan"}


def metrics_of(expression):
    """The names of metrics in an expression."""
    text = re.sub(r'"[^"]*"', "", expression)
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", text)
    text = re.sub(r"\b(by|without|on|ignoring|group_left|group_right) ?\([^)]*\)", "", text)
    names = re.findall(r"(?<![\w:.])([a-zA-Z_:][\w:]*)\b(?! *\()", text)
    return {name for name in names if name.lower() not in WORDS and not re.fullmatch(r"\d\w*", name)}


def dashboard():
    return json.loads(read(DASHBOARD))
