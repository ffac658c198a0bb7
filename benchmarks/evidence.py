"""Collects what was measured into one page: claims, figures, commits, peers, what is not shown.

Kept results are read; with `--run`, programs whose result is missing are run in their short form
first, within `--minutes`. Nothing in `benchmarks/results` is changed.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evidence_claims import SOURCE_CLAIMS, Figure, SourceClaim
from paired_tests import Pairs, holm, paired_test
from report import commit, machine, progress
from run_all import BY_HAND, programs
from steward.documents import document, escaped, table, write_document

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = HERE / "results"


def main() -> None:
    """Write `evidence.html` and `evidence.json`; exit with 1 where nothing could be collected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build", help="the folder of the page")
    parser.add_argument("--run", action="store_true", help="run what has no kept result, briefly")
    parser.add_argument("--minutes", type=float, default=50.0, help="for all that is run")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    there = {name: _first_sentence(HERE / f"{name}.py") for name in programs()}
    results = {**_kept(RESULTS)}
    if chosen.run:
        missing = [name for name in there if name not in results and name not in BY_HAND]
        _run(missing, chosen.out / "evidence", minutes=chosen.minutes)
    results |= {
        name: each for name, each in _kept(chosen.out / "evidence").items() if name not in results
    }
    evidence = _evidence(there, results)
    (chosen.out / "evidence.json").write_text(json.dumps(evidence, indent=1), encoding="utf-8")
    write_document(_page(evidence), chosen.out / "evidence.html")
    print(json.dumps(evidence["summary"], indent=1))
    sys.exit(0 if evidence["claims"] else 1)


# -- collecting ----------------------------------------------------------------------------------


def _first_sentence(file: Path) -> str:
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or file.stem
    return text.partition("\n\n")[0].replace("\n", " ")


def _kept(folder: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for file in sorted(folder.glob("*.json")):
        try:
            report = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            progress(f"{file}: not JSON, left out")
            continue
        if isinstance(report, dict) and {"commit", "bars", "results"} <= report.keys():
            found[file.stem] = report
    return found


def _run(missing: list[str], folder: Path, *, minutes: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    end_s = time.monotonic() + 60.0 * minutes
    for name in missing:
        left_s = end_s - time.monotonic()
        if left_s < 10.0:
            progress(f"no time is left for {name}")
            continue
        progress(f"== {name} --quick")
        command = [sys.executable, str(HERE / f"{name}.py"), "--quick"]
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, check=False, text=True, timeout=left_s
            )
        except subprocess.TimeoutExpired:
            progress(f"{name} took longer than was left")
            continue
        if done.stdout.strip():
            (folder / f"{name}.json").write_text(done.stdout, encoding="utf-8")


def _evidence(there: Mapping[str, str], results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    claims = [_claim(name, each, there) for name, each in sorted(results.items())]
    measured = set(results) | {name.partition("_h200")[0] for name in results}
    absent = [
        {"program": f"benchmarks/{name}.py", "what": what}
        for name, what in there.items()
        if name not in measured
    ]
    bars = [bar for claim in claims for bar in claim["bars"]]
    paired = holm([paired_test(each) for each in _pairs(results)])
    return {
        "commit": commit(),
        "machine": machine(),
        "summary": {
            "programs": len(there),
            "with a result": len(claims),
            "bars": len(bars),
            "bars that hold": sum(bool(bar["holds"]) for bar in bars),
            "without a result": [each["program"] for each in absent],
        },
        "sources": [_source(each, results) for each in SOURCE_CLAIMS],
        "claims": claims,
        "paired": paired,
        "absent": absent,
    }


def _claim(name: str, report: Mapping[str, Any], there: Mapping[str, str]) -> dict[str, Any]:
    program = name if name in there else str(report.get("benchmark", name))
    measured = str(report["commit"])
    return {
        "name": name,
        "what": there.get(program, ""),
        "command": f"benchmarks/{program}.py",
        "commit": measured,
        "changes_since": _changes_since(measured.removesuffix("-dirty")),
        "machine": report.get("machine", {}),
        "bars": report["bars"],
    }


def _changes_since(measured: str) -> int | None:
    """Return how many commits have changed the code since; None where that is not known."""
    command = ["git", "rev-list", "--count", f"{measured}..HEAD", "--", "src"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdecimal() else None


def _source(claim: SourceClaim, results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    figures = [f"{each.name}: {_written(each, results)}" for each in claim.figures]
    return {
        "source": claim.source,
        "claim": claim.claim,
        "verdict": claim.verdict,
        "ours": figures,
        "why": claim.why,
        "command": claim.command,
    }


def _written(figure: Figure, results: Mapping[str, Mapping[str, Any]]) -> str:
    value: Any = results.get(figure.result, {}).get("results")
    for part in figure.path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return "no kept result"
    return figure.form.format(value)


# -- paired comparisons --------------------------------------------------------------------------


def _pairs(results: Mapping[str, Mapping[str, Any]]) -> Iterator[Pairs]:
    """Yield what was measured on the same cases with and without, or by ours and a rival."""
    yield from _slurm_pairs(results.get("act_slurm", {}).get("results", {}))
    yield from _history_pairs(results.get("history", {}).get("results", {}))
    yield from _lab_pairs(results.get("lab_policies", {}).get("results", {}))


def _slurm_pairs(found: Mapping[str, Any]) -> Iterator[Pairs]:
    each = found.get("each", {})
    ways = (("wait_mean_s", True), ("queue_mean", True), ("utilisation", False))
    for key, lower in (*ways, ("guarantees_kept", False)):
        ours = tuple(float(run[key]) for run in each.get("steward", ()))
        theirs = tuple(float(run[key]) for run in each.get("slurm", ()))
        if ours and len(ours) == len(theirs):
            name = f"a real Slurm with and without steward: {key}"
            yield Pairs(name=name, ours=ours, theirs=theirs, lower_is_better=lower)


def _history_pairs(found: Mapping[str, Any]) -> Iterator[Pairs]:
    unseen = [each for each in found.get("traces", {}).values() if each.get("unseen")]
    for rival in ("last-two", "median-of-similar", "qssf", "boosted"):
        pairs = [
            (float(each["job-history"]["pinball_log"]), float(each[rival]["pinball_log"]))
            for each in unseen
            if rival in each
        ]
        if pairs:
            ours, theirs = zip(*pairs, strict=True)
            name = f"run times from history, unseen traces, pinball loss: ours and {rival}"
            yield Pairs(name=name, ours=ours, theirs=theirs)


def _lab_pairs(found: Mapping[str, Any]) -> Iterator[Pairs]:
    """Yield ratios of means, as logarithms: traces differ by orders of magnitude."""
    from math import log  # noqa: PLC0415 - beside its one use

    traces = [
        each["policies"]
        for name, each in found.get("traces", {}).items()
        if each.get("unseen") and name.endswith("a stop costs 0 s")
    ]
    for rival in ("fifo", "tiresias", "gittins", "las"):
        pairs = [
            (log(each["commons"]["jct_mean_s"]), log(each[rival]["jct_mean_s"]))
            for each in traces
            if rival in each
        ]
        if pairs:
            ours, theirs = zip(*pairs, strict=True)
            name = f"mean completion, unseen traces: commons and {rival}"
            yield Pairs(name=name, ours=ours, theirs=theirs, unit="logarithm of seconds")


# -- the page ------------------------------------------------------------------------------------


def _page(evidence: Mapping[str, Any]) -> str:
    parts = [*_head(evidence), *_sources(evidence), *_comparisons(evidence)]
    parts += [*_measured(evidence), *_not_shown(evidence)]
    return document("What steward has shown", parts)


def _head(evidence: Mapping[str, Any]) -> Iterator[str]:
    summary, where = evidence["summary"], evidence["machine"]
    yield "<h1>What steward has shown, and what not</h1>"
    yield (
        f'<p class="quiet">collected at commit {escaped(evidence["commit"][:12])} on '
        f"{escaped(where['cpu'])}, {where['cores']} cores, {where['memory_gib']} GiB. Each result "
        "names the commit and the machine that it was measured on.</p>"
    )
    yield '<div class="cards">'
    for name in ("programs", "with a result", "bars", "bars that hold"):
        yield f'<div class="card"><b>{summary[name]}</b>{escaped(name)}</div>'
    yield "</div>"


def _sources(evidence: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>What the sources claim, and ours</h2>"
    rows = [
        (
            each["source"],
            each["claim"],
            each["verdict"],
            "; ".join(each["ours"]) or "see the program",
            each["why"],
            each["command"],
        )
        for each in evidence["sources"]
    ]
    yield from table(("source", "claim", "verdict", "ours", "why it differs", "command"), rows)


def _comparisons(evidence: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Paired comparisons</h2>"
    yield (
        "<p>The same cases with and without. 95 % intervals by Student's t; p by changing signs "
        "(exact for up to 14 pairs), corrected for all rows together by Holm. d<sub>z</sub> is the "
        "mean difference in its own standard deviations.</p>"
    )
    columns = ("what", "pairs", "difference", "95 %", "d_z", "p, corrected", "shown")
    rows = [
        (
            each["name"],
            each["pairs"],
            f"{each['difference']['mid']:.3g} {each['unit']}",
            f"{each['difference']['low']:.3g} to {each['difference']['high']:.3g}",
            "-" if each["effect_size_dz"] is None else f"{each['effect_size_dz']:.2f}",
            f"{each['p_holm']:.3f} (least possible {each['least_p_possible']:.3g})",
            "yes" if each["shown"] else "no",
        )
        for each in evidence["paired"]
        if "difference" in each
    ]
    yield from table(columns, rows)


def _measured(evidence: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>What was measured</h2>"
    for claim in evidence["claims"]:
        held = sum(bool(bar["holds"]) for bar in claim["bars"])
        yield f'<h3 id="{escaped(claim["name"])}">{escaped(claim["name"])}</h3>'
        since = claim["changes_since"]
        age = "unknown" if since is None else f"{since} commits to the code since"
        yield (
            f"<p>{escaped(claim['what'])} <code>{escaped(claim['command'])}</code>, "
            f"commit {escaped(claim['commit'][:12])} ({age}), "
            f"{escaped(claim['machine'].get('cpu', 'machine not named'))}; "
            f"{held} of {len(claim['bars'])} bars hold.</p>"
        )
        rows = [
            (
                bar["name"],
                _number(bar["value"]),
                f"{bar['op']} {_number(bar['bar'])}",
                "holds" if bar["holds"] else "MISSED",
            )
            for bar in claim["bars"]
        ]
        yield from table(("figure", "value", "bar", ""), rows)


def _not_shown(evidence: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>What is not shown</h2><ul>"
    for claim in evidence["claims"]:
        for bar in claim["bars"]:
            if not bar["holds"]:
                yield (
                    f"<li>{escaped(claim['name'])}: {escaped(bar['name'])} is "
                    f"{escaped(_number(bar['value']))}, bar {escaped(bar['op'])} "
                    f"{escaped(_number(bar['bar']))}</li>"
                )
    for each in evidence["absent"]:
        program, what = escaped(each["program"]), escaped(each["what"])
        yield f"<li><code>{program}</code> has no kept result: {what}</li>"
    yield "</ul>"


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
