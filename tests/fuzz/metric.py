"""One case for fuzzers: any text is a condition that can be looked at, or refused with reason."""

from __future__ import annotations

import polars as pl

from decide.rules.metric.made_up import EXPRESSIONS, made_up
from steward.decide.rules.metric import compile_metric
from steward.decide.rules.promql.functions import AGGREGATIONS, ARGUMENTS
from steward.errors import StewardError
from steward.model.rules import MetricTerm

SUFFIXES = (".promql",)
SEEDS = (*(each.encode() for each in EXPRESSIONS), b"absent_over_time(steward_gpu_busy_share[1m])")
PIECES = (
    *(f"{name}(".encode() for name in (*ARGUMENTS, *AGGREGATIONS)),
    *(b"steward_gpu_busy_share", b"gpu_power_watts", b"DCGM_FI_DEV_GPU_UTIL", b"steward_phase"),
    *(b" and ", b" or ", b" unless ", b" on (node) ", b" by (gpu) ", b" group_left ", b" offset "),
    *(b"{", b"}", b"(", b")", b"[5m]", b"[0s]", b"[999999999y]", b"1e999", b"-", b"+", b"^", b"%"),
    *(b"<", b">", b"==", b"!=", b"=~", b"!~", b'"', b"'", b"`", b"\\x", b"\\777", b"(a+)+$", b","),
    *(b" bool ", b"nan", b"inf", b"0x1f", b"1_0", b"@", b"\0", b"\xff", b"#", b"\n"),
)
FRAME = made_up().sort("t_s").head(160)
_MIDDLE_S = FRAME["t_s"][80]
HALVES = FRAME.filter(pl.col("t_s") < _MIDDLE_S), FRAME.filter(pl.col("t_s") >= _MIDDLE_S)


def one_case(data: bytes) -> None:
    """Look at the same samples at once and in two parts: both tell the same."""
    term = MetricTerm(expr=data[:2000].decode("utf-8", "replace"), for_s=30.0)
    try:
        whole = compile_metric(term)
    except StewardError as wrong:
        if not wrong.problem:
            raise AssertionError("refused without a reason") from None
        return
    at_once = whole.add(FRAME) + whole.finish()
    parts = whole.fresh()
    in_parts = [item for half in HALVES for item in parts.add(half)] + parts.finish()
    if whole.counts.failed == parts.counts.failed == 0 and _told(at_once) != _told(in_parts):
        raise AssertionError(f"{len(at_once)} items at once, {len(in_parts)} in two parts")


def _told(items: list[object]) -> list[str]:
    return sorted(map(repr, items))
