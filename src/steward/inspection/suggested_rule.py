"""Draft rules from patterns that were learnt: an expression, evidence, and series as proof.

A pattern's levels become comparisons with the thresholds that they were cut at, over the metrics of
their groups. The draft is kept only if it fires on a recorded run that has the pattern and stays
silent on one that does not.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from steward.errors import StewardError
from steward.inspection.example_tests import run_examples
from steward.inspection.folders import rule_folders
from steward.inspection.series.telemetry import telemetry_frames
from steward.learn.patterns.column_names import read_names
from steward.learn.patterns.inputs import Input, find_inputs
from steward.learn.patterns.table_blocks import Reading, open_table
from steward.learn.patterns.table_series import VALUE, series_of
from steward.model.frame import ENTITY, T_S
from steward.model.metrics import METRICS
from steward.model.rules import Mode

__all__ = ["LearntPattern", "Suggestion", "patterns_in", "suggest_rule"]

_ALTERNATIVES = re.compile(r"\(([\w|]+)\)")
_PLAIN = re.compile(r"[a-z][\w.]*")
_RECORDED = frozenset(each.name for each in METRICS)
_MOST_ROWS = 50_000  # of an example
_MOST_TRIES = 9  # pairs of runs
_OVER = {"median": "quantile by (node) (0.5, {})", "mean": "avg by (node) ({})",
         "sum": "sum by (node) ({})", "max": "max by (node) ({})",
         "min": "min by (node) ({})"}  # fmt: skip
Part = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntPattern:
    """What a rule is made of: one step of items, or several within a time."""

    steps: tuple[tuple[tuple[str, str], ...], ...]  # (group, level)
    within_s: float
    evidence: str
    firing: tuple[Part, ...]
    silent: tuple[Part, ...]

    def __str__(self) -> str:
        return " > ".join(", ".join(f"{g}={lv}" for g, lv in items) for items in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A draft rule that passed its own test, or why none could be made of a pattern."""

    pattern: str
    folder: str = ""
    rule: str = ""
    expressions: tuple[str, ...] = ()
    fires_on: str = ""
    silent_on: str = ""
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """How the levels of groups were made: what `learn ... --json` says under `source`."""

    window_s: float
    metrics: Mapping[str, tuple[str, tuple[tuple[str, ...], ...]]]  # group: combine, metrics
    bounds: Mapping[tuple[str, str], tuple[float, float]]  # group, level
    scopes: Mapping[str, int]


def patterns_in(found: Mapping[str, Any]) -> tuple[LearntPattern, ...]:
    """Return the patterns of `steward learn contrast --json`, or episodes of `sequences`."""
    try:
        contrasts = [
            _of_contrast(contrast, each)
            for contrast in found.get("contrasts", ())
            for each in contrast["patterns"]
            if each["difference"] > 0
        ]
        episodes = [_of_episode(each) for each in found.get("episodes", ()) if each["examples"]]
    except (KeyError, TypeError, AttributeError) as fault:
        raise StewardError(
            f"the patterns cannot be read: {fault!r} is missing or of another kind",
            hint="give what `steward learn contrast --json` or `sequences --json` printed",
        ) from fault
    if not contrasts and not episodes:
        raise StewardError(
            "there is no pattern in it that a rule could be made of",
            hint="a contrast that the target has oftener, or an episode, is needed",
        )
    return (*contrasts, *episodes)


def suggest_rule(
    pattern: LearntPattern, source: Mapping[str, Any], telemetry: Sequence[Path], folder: Path
) -> Suggestion:
    """Write a folder with a draft rule that passes its own test; say so if none does."""
    if folder.exists():
        raise StewardError("it is there already", where=str(folder), hint="choose another name")
    try:
        made = _made(source)
        columns = {
            metric
            for items in pattern.steps
            for group, _ in items
            for several in made.metrics[_group(made, group)][1]
            for metric in several
        }
    except StewardError as fault:
        return Suggestion(pattern=str(pattern), why_not=str(fault))
    why = "no run has the pattern" if not pattern.firing else "every run has the pattern"
    for firing, silent in islice(product(pattern.firing, pattern.silent), _MOST_TRIES):
        proof = {
            file: _series(telemetry, part, frozenset(columns))
            for file, part in (("test.csv", firing), ("test-fp.csv", silent))
        }
        for for_s in (made.window_s, 0.0):
            rule, expressions = _rule(pattern, made, proof["test.csv"], for_s, folder.name)
            why = _try(rule, proof, folder)
            if not why:
                return Suggestion(
                    pattern=str(pattern),
                    folder=str(folder),
                    rule=rule["rules"][0]["cre"]["id"],
                    expressions=expressions,
                    fires_on=str(firing["run"]),
                    silent_on=str(silent["run"]),
                )
    return Suggestion(pattern=str(pattern), why_not=why)


# -- what was learnt ----------------------------------------------------------------------------


def _items(found: Sequence[Mapping[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((each["group"], each["level"]) for each in found)


def _of_contrast(contrast: Mapping[str, Any], each: Mapping[str, Any]) -> LearntPattern:
    return LearntPattern(
        steps=(_items(each["items"]),),
        within_s=0.0,
        evidence=f"In {each['share']:.1%} of the windows of '{contrast['target']}' "
        f"({each['runs']} of {contrast['target_runs']} runs), and in "
        f"{each['share_elsewhere']:.1%} of '{contrast['against']}' ({each['runs_elsewhere']} of "
        f"{contrast['other_runs']} runs); q {each['q_value']:.1e} by runs, of "
        f"{contrast['tested']:,} patterns tested.",
        firing=tuple(each["examples"]["firing"]),
        silent=tuple(each["examples"]["silent"]),
    )


def _of_episode(each: Mapping[str, Any]) -> LearntPattern:
    return LearntPattern(
        steps=(_items([each["first"]]), _items([each["then"]])),
        within_s=float(each["within_s"]),
        evidence=f"The second began within {each['within_s']:g} s of the first "
        f"{each['followed']:,} of {each['times']:,} times, in {each['runs']} runs; by chance "
        f"{each['expected']:.1f} times; q {each['q_value']:.1e} by runs.",
        firing=tuple(each["examples"]["firing"]),
        silent=tuple(each["examples"]["silent"]),
    )


def _made(source: Mapping[str, Any]) -> _Made:
    """Read how levels were made; baskets of another maker have no thresholds to compare with."""
    try:
        bounds: dict[tuple[str, str], tuple[float, float]] = {}
        scopes: dict[str, int] = {}
        for cut in source["cuts"]:
            edges = [float("-inf"), *cut["bounds"], float("inf")]
            scopes[cut["group"]] = scopes.get(cut["group"], 0) + 1
            for place, level in enumerate(cut["levels"]):
                bounds[cut["group"], level] = (edges[place], edges[place + 1])
        metrics = {
            each["group"]: (str(each["combine"]), tuple(map(_literal, each["match"])))
            for each in source["groups"]
        }
        window_s = float(source["window_s"])
    except (KeyError, TypeError, ValueError) as fault:
        raise StewardError(f"how the levels were made cannot be read: {fault!r}") from fault
    return _Made(window_s=window_s, metrics=metrics, bounds=bounds, scopes=scopes)


def _literal(expression: str) -> tuple[str, ...]:
    r"""Return the metrics that an expression names, none if these are no fixed names.

    >>> _literal(r"^host\.disk\.read_bytes_per_s$"), _literal(r"^gpu\.(a|b)_x$"), _literal("gpu.*")
    (('host.disk.read_bytes_per_s',), ('gpu.a_x', 'gpu.b_x'), ())
    """
    text = expression.removeprefix("^").removesuffix("$").replace("\\.", ".")
    choice = _ALTERNATIVES.search(text)
    words = choice[1].split("|") if choice else [""]
    names = [_ALTERNATIVES.sub(word, text, count=1) for word in words] if choice else [text]
    return tuple(names) if all(_PLAIN.fullmatch(name) for name in names) else ()


def _group(made: _Made, group: str) -> str:
    """Return the group if a rule can be about it."""
    combine, metrics = made.metrics.get(group, ("", ()))
    if combine not in _OVER or not any(metrics):
        raise StewardError(f"group {group} is of no metrics that have fixed names")
    if made.scopes.get(group, 0) != 1:
        raise StewardError(f"group {group} has {made.scopes.get(group, 0)} sets of thresholds")
    return group


# -- the rule ----------------------------------------------------------------------------------


def _condition(made: _Made, item: tuple[str, str], there: Sequence[str]) -> str:
    """Return a level as PromQL: the window's median of each series, then over those of a node."""
    group, level = item
    combine, choices = made.metrics[group]
    metrics = next((m for m in choices if {*m} & {*there}), choices[0])
    over = [
        _OVER[combine].format(
            f"quantile_over_time(0.5, {_in_promql(name)}[{_duration(made.window_s)}])"
        )
        for name in metrics
        if name in there
    ] or ["vector(0)"]
    low, high = made.bounds[group, level]
    said = f"({' + '.join(over)})" if len(over) > 1 else over[0]
    if low != float("-inf"):
        said = f"{said} >= {low:.6g}"
    if high != float("inf"):
        said = f"({said}) < {high:.6g}" if low != float("-inf") else f"{said} < {high:.6g}"
    return f"({said})"


def _others(table: pl.DataFrame) -> list[str]:
    """Return the metrics of a table that steward does not record itself."""
    return [name for name in table.columns if name not in {T_S, ENTITY, *_RECORDED}]


def _in_promql(metric: str) -> str:
    """Return how an expression calls a metric; one that steward does not record, as it is."""
    plain = metric.replace(".", "_")
    return f"steward_{plain}" if metric in _RECORDED else plain


def _duration(seconds: float) -> str:
    whole = round(seconds * 1000)
    return f"{whole // 1000}s" if whole % 1000 == 0 else f"{whole}ms"


def _rule(
    pattern: LearntPattern, made: _Made, firing: pl.DataFrame, for_s: float, name: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    expressions = tuple(
        " and on (node) ".join(_condition(made, item, firing.columns) for item in items)
        for items in pattern.steps
    )
    terms: list[dict[str, dict[str, Any]]] = [
        {"promql": {"expr": each} | ({"for": _duration(for_s)} if for_s else {})}
        for each in expressions
    ]
    inner: dict[str, Any] = {"set": {"match": terms}}
    if len(terms) > 1:
        terms[0]["promql"]["event"] = {"origin": True}
        within = _duration(pattern.within_s + 2 * made.window_s)
        inner = {"sequence": {"window": within, "correlations": ["host"], "order": terms}}
    words = re.sub(r"[^A-Za-z0-9]+", "-", name).upper()
    others = _others(firing)
    unknown = f" steward does not record {', '.join(others)} itself." if others else ""
    cre = {
        "id": f"LEARNT-{words}",
        "severity": 3,
        "title": f"Learnt: {pattern}",
        "category": "learnt",
        "author": "",
        "tags": ["draft", "learnt"],
        "description": f"{pattern.evidence}{unknown} A draft: what it means is for a "
        "person to say.",
        "cause": "- Not known yet: a pattern is no cause.",
        "impact": "Not known yet.",
        "mitigation": "- Look at the runs that it names.",
        "references": [],
    }
    return {"rules": [{"cre": cre, "rule": inner}]}, expressions


def _try(rule: Mapping[str, Any], proof: Mapping[str, pl.DataFrame], folder: Path) -> str:
    """Test a rule on its series; move it into place if it passes, else return why it does not."""
    with tempfile.TemporaryDirectory(prefix="steward-rule-") as place:
        made = Path(place, folder.name)
        made.mkdir()
        text = yaml.safe_dump(dict(rule), sort_keys=False, allow_unicode=True, width=100)
        (made / "rule.yaml").write_text(f"# Made by `steward rules suggest`: a draft.\n{text}")
        for file, table in proof.items():
            if not len(table):
                return f"the telemetry has no samples for {file}"
            names = {name: _in_promql(name) for name in table.columns if name in _others(table)}
            table.rename(names).write_csv(made / file)
        found = rule_folders(made, lenient=False)
        report = run_examples(found, mode=Mode.STRICT, proof_needed=True)
        if not report.passed:
            return "; ".join(each.why for each in report.failed)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(made, folder)
    return ""


# -- the proof ----------------------------------------------------------------------------------


def _series(telemetry: Sequence[Path], part: Part, columns: frozenset[str]) -> pl.DataFrame:
    """Return the samples of a part of a run, by time."""
    tables = [each for each in _frames(telemetry, part, columns) if len(each)]
    if not tables:
        return pl.DataFrame(schema={T_S: pl.Float64, ENTITY: pl.String})
    table = pl.concat(tables, how="diagonal_relaxed")
    known = [name for name in sorted(columns) if name in table.columns]
    kept = table.select(T_S, ENTITY, *known).filter(pl.any_horizontal(pl.col(known).is_not_null()))
    kept = kept.select(T_S, ENTITY, *(name for name in known if kept[name].count()))
    wide = kept.group_by(T_S, ENTITY).agg(pl.all().drop_nulls().first()).sort(T_S, ENTITY)
    return wide.head(_MOST_ROWS)


def _frames(
    telemetry: Sequence[Path], part: Part, columns: frozenset[str]
) -> Iterator[pl.DataFrame]:
    """Yield the samples of a part, as learning read them: wide files, or a recorded folder."""
    within = pl.col(T_S).is_between(float(part["from_s"]), float(part["to_s"]), closed="left")
    inputs = find_inputs(tuple(map(str, telemetry)))
    files = [each for each in inputs if each.hour < 0]
    named = [each for each in files if each.run == part["run"]]
    for each in named or files:
        yield from (frame.filter(within) for frame in _wide(each, columns))
    for path in dict.fromkeys(each.path for each in inputs if each.hour >= 0):
        for reading in telemetry_frames(Path(path), columns):
            if isinstance(reading, pl.DataFrame):
                known = [name for name in reading.columns if name in columns]
                yield reading.filter(within).select(T_S, ENTITY, *known)


def _wide(each: Input, columns: frozenset[str]) -> Iterator[pl.DataFrame]:
    seen = Reading()
    known = {
        column.generic or column.name: column
        for column in read_names(open_table(each.path, seen).names)
        if column.metric in columns
    }
    for name, frame in series_of(each, seen):
        column = known.get(name)
        if column is None:
            continue
        entity = pl.col(ENTITY).replace("", "unnamed")
        if column.metric.startswith("gpu."):
            entity = entity.str.replace(r"/(\d+)$", "/gpu$1")
        value = pl.col(VALUE)
        if column.per_sample:  # counted since the last sample: by the time between two
            value = value / pl.col(T_S).diff().over(ENTITY).median()
        yield frame.select(T_S, entity, value.alias(column.metric))
