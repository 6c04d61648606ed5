"""Mutation tests of the rules: every rule is changed in several ways, one at a time, and a test must fail for
each."""

import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RULES = pathlib.Path("ops/prometheus")

# Replacements in the text of one rule.
WRONGS = [
    ("no delay", r"\n +for: \w+", ""),
    ("half the delay", r"for: (\d+)m", lambda m: f"for: {int(m[1]) * 30}s"),
    ("twice the delay", r"for: (\d+)m", lambda m: f"for: {int(m[1]) * 2}m"),
    ("a threshold of 0", r"(chronolith_alert_\w+)", r"(0 * \1)"),
    ("a huge threshold", r"(chronolith_alert_\w+)", r"(1e9 * \1)"),
    (
        "the threshold of any chain",
        r"(?:ignoring \(lock\) group_left \(\) )?(chronolith_alert_\w+)",
        r"on () group_left () min(\1)",
    ),
    ("the state that is fine", r"== 1\b(?! unless)", "== 0"),
    ("the state that is not", r"== 0\b", "== 1"),
    ("no growth needed", r"> 0\b", ">= 0"),
    ("no exception", r"\bunless\b", "and"),
    ("no exception at all", r"(?<!_total)\n? +unless\b(.|\n)*?(?=\n +(labels|for):)", ""),
    ("only this much of it", r"0\.8 \*", "0.9 *"),
    ("more than this much of it", r"0\.8 \*", "0.7 *"),
    ("whole history too", r"< 1\b", "<= 1"),
    ("any projection", r'\{projection="adfs"\}', ""),
    ("any state", r'\{state="dead"\}', ""),
    ("any job", r'\{job=~?"[^"]+"\}', ""),
    ("no readers", r'=~"chronolith\(-readers\)\?"', '="chronolith"'),
    ("another quantile", r"quantile\(0\.(\d+)", r"quantile(0.1"),
    ("any operation", r'op="confirm"(,?)', r""),
    ("any outcome", r',outcome="success"', ""),
    ("never", r"expr: (?!\|)(.*)", "expr: vector(1) > 2"),
    ("never", r"expr: \|\n( +)((.|\n)*?)(?=\n +(labels|for):|\Z)", r"expr: vector(1) > 2"),
]


def rules(text):
    """The position of each rule in the text, by name."""
    starts = list(re.finditer(r"^ +- (?:alert|record): (\S+)$", text, re.M))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    for start, end in zip(starts, ends):
        # Comments before the next rule belong to it.
        block = re.sub(r"(\n *#.*|\n *- name:.*|\n *rules:|\n *)*$", "", text[start.start() : end])
        yield start[1], start.start(), start.start() + len(block)


def mutants():
    for path in (RULES / "alerts.yml", RULES / "slo.yml"):
        text = path.read_text()
        for name, start, end in rules(text):
            seen = set()
            for what, pattern, wrong in WRONGS:
                changed = re.sub(pattern, wrong, text[start:end])
                if changed != text[start:end] and changed not in seen:
                    seen.add(changed)
                    yield path.name, name, what, text[:start] + changed + text[end:]


def survives(mutant):
    """Whether all tests pass with a mutant; a mutant that does not load does not count."""
    file, name, what, text = mutant
    with tempfile.TemporaryDirectory() as work:
        copy = pathlib.Path(work) / "prometheus"
        shutil.copytree(RULES, copy)
        (copy / file).write_text(text)
        loads = subprocess.run(["promtool", "check", "rules", copy / file], capture_output=True)
        if loads.returncode:
            return f"{name}, {what}: does not load: {loads.stderr.decode().strip()}"
        # Only tests that name the rule: all others would pass.
        tests = [test for test in (copy / "tests").glob("*.yml") if name in test.read_text()]
        if not tests:
            return f"{name}: no test names it"
        ran = subprocess.run(["promtool", "test", "rules", *tests], capture_output=True)
    return None if ran.returncode else f"{name}, {what}: no test fails"


def main():
    everything = list(mutants())
    names = {name for _, name, _, _ in everything}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        faults = [fault for fault in pool.map(survives, everything) if fault]
    for fault in faults:
        print(f"mutants: {fault}", file=sys.stderr)
    print(f"{len(everything)} mutants of {len(names)} rules, {len(faults)} not detected")
    return 1 if faults or not everything else 0


sys.exit(main())
