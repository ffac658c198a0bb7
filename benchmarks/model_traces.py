"""Traces of every measured configuration, and what is fitted on some of them."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from report import progress
from steward.learn.estimators.model_graphs import pool
from steward.learn.estimators.model_graphs.calibration import costs_record
from steward.learn.estimators.model_graphs.gpu_types import gpu_type
from steward.learn.estimators.model_graphs.op_times import (
    StepTime,
    in_seconds,
    step_seconds,
    step_work,
)
from steward.learn.estimators.model_graphs.pool import TraceWorker
from steward.learn.estimators.model_graphs.question import OPTIMIZERS, ModelQuestion
from steward.learn.estimators.model_graphs.scores import question_of, read_truth
from steward.learn.estimators.model_graphs.time_fit import MeasuredStep, Shape, fit_costs
from steward.sim.traces.locate import data_folder

__all__ = [
    "PeerRow",
    "RememberedTraces",
    "Row",
    "calibrate",
    "calibrate_memory",
    "calibrate_time",
    "family_of",
    "fit_time",
    "folds",
    "peer_rows",
    "rows",
    "shared_folder",
    "timed",
    "vendor_offsets",
]

Costs = Sequence[tuple[Any, float]]
_OWN = Path(__file__).parent / "h200" / "models_h200.csv"
_REFERENCE = "h200"
# Three ways to weigh the same rows; the geometric mean of their answers is used.
_SHAPES = (Shape(2.5, 0.05, 0.05), Shape(1.7, 0.04, 0.1), Shape(4.0, 0.1, 0.1))
# The own rows ran on the same type of GPU, on a host of another speed.
_SPREADS = {"own": (0.02, 0.02, 0.3)}
_QUANTILE, _PAD = 0.97, 1.05  # limits of memory; the pad is for models unlike those measured
_HOST_SHARES = (0.35, 0.6, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured configuration with its trace."""

    source: str
    record: dict[str, str]
    trace: dict[str, Any]
    step: MeasuredStep
    trace_s: float

    @property
    def family(self) -> str:
        """Return the family and the mode."""
        return f"{self.record['family']} {self.record['mode']}"

    def measured(self, name: str) -> float:
        """Return one measured column."""
        return float(self.record[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRow:
    """A step that NeuSight's authors measured, and what they predicted."""

    model: str
    device: str
    option: str
    step: MeasuredStep
    trace: dict[str, Any]
    question: ModelQuestion
    predicted_s: float


class RememberedTraces:
    """Traces on disk, under a key of the code that makes them: fits can be run again at once."""

    def __init__(self, worker: TraceWorker) -> None:
        self._worker = worker
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._folder = cache / "steward-benchmarks" / f"traces-{_code()[:16]}"
        self._folder.mkdir(parents=True, exist_ok=True)

    def ask(self, question: ModelQuestion, key: str, **more: object) -> dict[str, Any]:
        """Return a trace; `key` stands for the model where its name does not."""
        record = {**question.record(), **more, "model": key}
        name = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
        path = self._folder / f"{name}.json"
        if path.exists():
            return dict(json.loads(path.read_text(encoding="utf-8")))
        found = self._worker.ask(question, **more)
        path.write_text(json.dumps(found), encoding="utf-8")
        return found


def _code() -> str:
    """Return a checksum of the modules that a trace depends on."""
    folder = Path(pool.__file__).parent
    names = "allocator builders configs cuda_rules op_trace question replay worker workspaces"
    parts = [(folder / f"{name}.py").read_bytes() for name in names.split()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def shared_folder() -> Path:
    """Return the folder of the shared data."""
    return Path(data_folder()).parent


def rows(*, few: bool) -> list[Row]:
    """Trace the shared rows and those of this repository; every sixth of them when `few`."""
    shared = shared_folder() / "h200" / "estimator_truth.csv"
    found = []
    with TraceWorker() as worker:
        asked = RememberedTraces(worker)
        for source, path in (("shared", shared), ("own", _OWN)):
            for record in read_truth(path)[:: 6 if few else 1]:
                question = question_of(record)
                # The own rows freed gradients after the forward pass, as their script did.
                trace = asked.ask(question, question.model, late_zero_grad=source == "own")
                spent = trace["trace_s"] + trace["replay_s"]
                group = _REFERENCE if source == "shared" else source
                step = _step(trace, question, float(record["step_s"]), _REFERENCE, group)
                found.append(
                    Row(source=source, record=record, trace=trace, step=step, trace_s=spent)
                )
            progress(f"{len(found)} configurations traced")
    return found


def _step(
    trace: dict[str, Any], question: ModelQuestion, seconds: float, gpu: str, group: str
) -> MeasuredStep:
    states = OPTIMIZERS[question.opt].states if question.trains else 0
    work = step_work(trace, states=states, trains=question.trains)
    return MeasuredStep(in_seconds(work, gpu_type(gpu).rates), seconds, group)


_PEER_CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2_large": {"model_type": "gpt2", "n_layer": 36, "n_embd": 1280, "n_head": 20},
    "gpt3_xl": {"model_type": "gpt2", "n_layer": 24, "n_embd": 3072, "n_head": 24},
    "gpt3_27": {"model_type": "gpt2", "n_layer": 32, "n_embd": 2560, "n_head": 32},
    "opt_13": {
        "model_type": "opt",
        "num_hidden_layers": 24,
        "hidden_size": 2048,
        "num_attention_heads": 32,
        "ffn_dim": 8192,
        "word_embed_proj_dim": 2048,
    },
    "bert_large": {
        "model_type": "bert",
        "num_hidden_layers": 24,
        "hidden_size": 1024,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
    # Each token goes to one expert: traced as one dense layer, which does the same work.
    "switchxl4": {
        "model_type": "t5",
        "d_model": 2048,
        "d_ff": 5120,
        "d_kv": 64,
        "num_layers": 24,
        "num_heads": 32,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
    },
}


def peer_rows(*, options: bool = False) -> list[PeerRow]:
    """Trace what NeuSight was measured on: one GPU, or several with `options`."""
    path = shared_folder() / "catalog" / "neusight_latency" / "end_to_end.csv"
    traces: dict[ModelQuestion, dict[str, Any]] = {}
    found = []
    with (
        path.open(encoding="utf-8", newline="") as file,
        tempfile.TemporaryDirectory() as folder,
        TraceWorker() as worker,
    ):
        asked = RememberedTraces(worker)
        for record in csv.DictReader(file):
            if (record["option"] not in {"", "fusion"}) != options or record["option"] == "fusion":
                continue
            config = {"n_positions": 2048, **_PEER_CONFIGS[record["model"]]}
            config["attn_implementation"] = "eager"
            named = Path(folder) / f"{record['model']}.json"
            named.write_text(json.dumps(config), encoding="utf-8")
            question = ModelQuestion(
                model=str(named),
                batch=int(record["batch"]),
                seq=int(record["seqlen"]),
                mode="train" if record["mode"] == "train" else "infer",
                opt="sgd",
            )
            if question not in traces:
                # No optimizer ran in these measurements.
                traces[question] = {
                    **asked.ask(question, record["model"]),
                    "parameter_tensors": 0,
                    "stepped_bytes": 0,
                }
            trace = {**traces[question]}
            gpu = gpu_type(record["device"]).name
            timed = {**trace, "parameter_bytes": 0}
            seconds = float(record["measured_ms"]) / 1e3
            found.append(
                PeerRow(
                    model=record["model"],
                    device=gpu,
                    option=record["option"],
                    step=_step(timed, question, seconds, gpu, gpu),
                    trace=trace,
                    question=question,
                    predicted_s=float(record["neusight_ms"]) / 1e3,
                )
            )
    progress(f"{len(found)} rows of NeuSight traced")
    return found


def family_of(model: str) -> str:
    """Return the family of architectures that a model is of.

    >>> family_of("wide_resnet50_2"), family_of("gpt2-medium"), family_of("efficientnet_b4")
    ('resnet', 'gpt', 'efficientnet')
    """
    found = re.match(r"(wide_)?([a-z]+)", model.partition("-")[0])
    return found[2].replace("resnext", "resnet") if found else model


def folds(
    found: Sequence[Row],
    count: int = 12,
    *,
    seed: int = 0,
    key: Callable[[Row], str] = lambda row: row.record["model"],
) -> list[tuple[list[Row], list[Row]]]:
    """Split by model (or another key), so that none is in both parts of a fold."""
    keys = sorted({key(row) for row in found})
    np.random.default_rng(seed).shuffle(keys)
    parts = []
    for number in range(min(count, len(keys))):
        held = set(keys[number::count])
        inside = [row for row in found if key(row) not in held]
        parts.append((inside, [row for row in found if key(row) in held]))
    return parts


def calibrate(found: Sequence[Row], peers: Sequence[PeerRow]) -> dict[str, Any]:
    """Fit everything on the given rows."""
    models = len({row.record["model"] for row in found})
    devices = len({row.device for row in peers})
    text = f"{len(found)} configurations of {models} models on one H200 (torch 2.11)"
    return {
        "version": 2,
        "reference": _REFERENCE,
        **calibrate_time(found, peers),
        **calibrate_memory(found),
        "basis": f"{text}, and {len(peers)} of NeuSight on {devices} other GPUs",
    }


def calibrate_memory(found: Sequence[Row]) -> dict[str, Any]:
    """Return the context's bytes and the limits of truth over prediction."""
    contexts = [
        row.measured("nvml_used_bytes") - row.measured("peak_reserved_bytes") for row in found
    ]
    context = float(np.median(contexts))
    limits: dict[str, dict[str, tuple[float, float]]] = {}
    logs: list[tuple[str, float]] = []
    for quantity in ("reserved", "device"):
        ratios: dict[str, list[float]] = {"any": []}
        for row in found:
            likely = row.trace["reserved_bytes"]
            if quantity == "device":
                ratio = row.measured("nvml_used_bytes") / (likely + context)
            else:
                ratio = row.measured("peak_reserved_bytes") / likely
                logs.append((row.record["model"], float(np.log(ratio))))
            for name in ("any", row.family):
                ratios.setdefault(name, []).append(ratio)
        limits[quantity] = {
            name: (float(np.quantile(each, 0.05)), _upper(each)) for name, each in ratios.items()
        }
    return {"context_bytes": context, "memory_limits": limits, "memory_spread": _spread(logs)}


def _upper(ratios: Sequence[float]) -> float:
    count = len(ratios)
    return float(np.quantile(ratios, min(1.0, _QUANTILE * (count + 1) / count))) * _PAD


def _spread(logs: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Return deviations between models and within one, of residuals."""
    by_model: dict[str, list[float]] = {}
    for name, value in logs:
        by_model.setdefault(name, []).append(value)
    many = [each for each in by_model.values() if len(each) > 1]
    within = float(
        np.sqrt(
            sum(np.var(each) * len(each) for each in many)
            / max(1, sum(len(each) - 1 for each in many))
        )
    )
    means = float(np.var([np.mean(each) for each in by_model.values()]))
    counts = float(np.mean([1 / len(each) for each in by_model.values()]))
    between = max(means - within**2 * counts, (0.3 * within) ** 2) ** 0.5
    return {"between_models": between, "within_model": within}


def fit_time(found: Sequence[Row], peers: Sequence[PeerRow]) -> tuple[Costs, list[Any]]:
    """Return sets of costs, and the offsets of each GPU for each set."""
    steps = [row.step for row in found] + [row.step for row in peers]
    fits = [fit_costs(steps, shape, reference=_REFERENCE, spreads=_SPREADS) for shape in _SHAPES]
    costs = [(each.costs, shape.sharpness) for each, shape in zip(fits, _SHAPES, strict=True)]
    return costs, [each.offsets for each in fits]


def timed(row: Row | PeerRow, costs: Costs, offsets: Sequence[float] = (0.0, 0.0, 0.0)) -> StepTime:
    """Return the time that costs give for a row."""
    return step_seconds(row.step.ways, costs, offsets)


def calibrate_time(
    found: Sequence[Row], peers: Sequence[PeerRow], inner: int = 6
) -> dict[str, Any]:
    """Return the costs, and the limits on models that the costs did not see."""
    costs, offsets = fit_time(found, peers)
    logs, hosts, shared, names = [], [], [], []
    for inside, held in folds(found, inner, seed=1):
        held_costs, held_offsets = fit_time(inside, peers)
        own = np.mean([each.get("own", np.zeros(3)) for each in held_offsets], 0)
        for row in held:
            mine = (0.0, 0.0, 0.0) if row.source == "shared" else tuple(own)
            time = timed(row, held_costs, mine)
            logs.append(float(np.log(row.step.seconds / time.seconds)))
            hosts.append(time.host_share)
            shared.append(row.source == "shared")
            names.append(row.record["model"])
    errors, shares = np.array(logs), np.array(hosts)
    factors = np.exp(np.linspace(-0.1, 0.05, 31))
    bias = float(min(factors, key=lambda each: np.mean(np.abs(each / np.exp(errors[shared]) - 1))))
    limits, before = [], 0.0
    for share in _HOST_SHARES:
        part = errors[(shares > before) & (shares <= share)] - np.log(bias)
        part = part if len(part) > 10 else errors - np.log(bias)
        low, high = np.exp(np.quantile(part, (0.04, 0.96)))
        limits.append((share, float(min(low, 0.97)), float(max(high, 1.03))))
        before = share
    gpus = {
        name: [round(float(each), 4) for each in np.mean([o[name] for o in offsets], 0)]
        for name in sorted({row.device for row in peers})
    }
    watts = np.array([row.measured("mean_power_w") for row in found])
    host = np.array([timed(row, costs).host_share for row in found])
    slope, level = np.polyfit(host, watts / gpu_type(_REFERENCE).power_watts, 1)
    return {
        "costs": costs_record(costs),
        "time_bias": bias,
        "time_limits": limits,
        "time_spread": _spread(list(zip(names, logs, strict=True))),
        "gpu_offsets": gpus,
        "vendor_offsets": vendor_offsets(gpus),
        "gpu_spread": (0.3, 0.12),
        "power_shares": [float(level), float(-slope)],
    }


def vendor_offsets(gpus: dict[str, list[float]]) -> dict[str, list[float]]:
    """Return the mean offsets of each vendor's GPUs, pulled to none where they are few."""
    found: dict[str, list[float]] = {}
    for vendor in sorted({gpu_type(name).vendor for name in gpus}):
        mine = np.array([each for name, each in gpus.items() if gpu_type(name).vendor == vendor])
        found[vendor] = [float(each) for each in mine.sum(0) / (len(mine) + 1)]
    return found
