"""Checks the dashboard's JSON: the fields that Grafana needs, and our own requirements."""

import re

import texts

# Fields and their types.
BOARD = {
    "uid": str, "title": str, "tags": list, "schemaVersion": int, "panels": list, "refresh": str,
    "time": dict, "templating": dict, "annotations": dict, "links": list, "editable": bool,
}
PANEL = {
    "id": int, "type": str, "title": str, "description": str, "datasource": dict, "gridPos": dict,
    "fieldConfig": dict, "options": dict, "links": list, "targets": list,
}
ROW = {"id": int, "type": str, "title": str, "collapsed": bool, "gridPos": dict, "panels": list}
TARGET = {"refId": str, "datasource": dict, "expr": str, "legendFormat": str}
LINK = {"title": str, "url": str, "targetBlank": bool}
KINDS = {"timeseries", "stat", "table"}
VARIABLES = {"datasource": "datasource", "chain": "query", "docs": "textbox"}
COLUMNS = 24

# Panels that operators need, by the beginning of their titles.
WANTED = [
    "Throughput", "Queue depth", "RPC error budget", "DB latency", "Confirmation lag",
    "Backfill progress", "Jobs", "Paused", "Guard drops", "Reorgs", "Freshness", "Durability",
    "Availability",
]


def typed(value, shape, where):
    for field, kind in shape.items():
        if field not in value:
            yield f"{where}: no {field}"
        elif type(value[field]) is not kind:
            yield f"{where}: {field} is not a {kind.__name__}"


def places(panels):
    """Panels that are outside the grid or overlap."""
    taken = {}
    for panel in panels:
        at = panel["gridPos"]
        if sorted(at) != ["h", "w", "x", "y"] or any(type(part) is not int for part in at.values()):
            yield f"{panel['title']}: gridPos is not h, w, x, y"
            continue
        if at["x"] < 0 or at["w"] < 1 or at["h"] < 1 or at["x"] + at["w"] > COLUMNS:
            yield f"{panel['title']}: is outside the grid"
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                other = taken.setdefault((x, y), panel["title"])
                if other != panel["title"]:
                    yield f"{panel['title']}: overlaps {other}"
                    return


def of_panel(panel, anchors):
    where = f"panel {panel.get('title')}"
    if panel.get("type") == "row":
        yield from typed(panel, ROW, where)
        return
    yield from typed(panel, PANEL, where)
    if panel["type"] not in KINDS:
        yield f"{where}: {panel['type']} is not one of {sorted(KINDS)}"
    if not panel["targets"]:
        yield f"{where}: has no query"
    for target in panel["targets"]:
        yield from typed(target, TARGET, where)
    ids = [target["refId"] for target in panel["targets"]]
    if len(set(ids)) != len(ids):
        yield f"{where}: duplicate refId"
    runbooks = 0
    for link in panel["links"]:
        yield from typed(link, LINK, where)
        path, _, anchor = link["url"].partition("#")
        if path == "${docs}" + texts.RUNBOOKS:
            runbooks += 1
            if anchor not in anchors:
                yield f"{where}: {texts.RUNBOOKS} has no heading #{anchor}"
    if not runbooks:
        yield f"{where}: no link to a runbook"


def faults(board):
    yield from typed(board, BOARD, "dashboard")
    panels = board["panels"]
    anchors = texts.sections(texts.RUNBOOKS)
    for panel in panels:
        yield from of_panel(panel, anchors)
    ids = [panel["id"] for panel in panels]
    if len(set(ids)) != len(ids):
        yield "dashboard: duplicate panel id"
    yield from places(panels)
    titles = [panel["title"] for panel in panels]
    for wanted in WANTED:
        if not any(title.startswith(wanted) for title in titles):
            yield f"dashboard: no panel for {wanted}"
    variables = {one["name"]: one["type"] for one in board["templating"]["list"]}
    if variables != VARIABLES:
        yield f"dashboard: variables are {variables}"
    used = set(re.findall(r"\$\{?(\w+)", str(panels)))
    unknown = {name for name in used if name not in VARIABLES and not name.startswith("__")}
    if unknown:
        yield f"dashboard: unknown variables {sorted(unknown)}"


def expressions(board):
    """Every expression with its location, variables replaced."""
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield f"panel {panel['title']} {target['refId']}", filled(target["expr"])
    for note in board["annotations"]["list"]:
        yield f"annotation {note['name']}", filled(note["expr"])


def filled(expression):
    return expression.replace("$__rate_interval", "1m").replace("$chain", ".*")
