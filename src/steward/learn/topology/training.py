"""Trains the graph network with torch; what it exports is read without torch.

Four rounds of messages, job to link and back, each a sum and a maximum over neighbours. The target
is log(measured / mean field), in three quantiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.learn.topology.graph_inputs import GraphInputs, joined
from steward.learn.topology.graph_network import LEVELS, ROUNDS, WIDTH, GraphNetwork, Hull

if TYPE_CHECKING:
    import torch

__all__ = ["Example", "Progress", "TrainingPlan", "train"]

Floats = NDArray[np.float64]

_CONTENDED = 1.05  # a slowdown above this counts `_WEIGHT` times
_WEIGHT = 5.0
_HUBER = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Example:
    """A scene and the slowdown of each of its jobs that was measured."""

    inputs: GraphInputs
    measured: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a training is."""

    step: int
    steps: int
    loss: float
    error: float  # mean absolute error of contended jobs on scenes held out
    mean_field_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """How long and how fast it learns."""

    steps: int = 6000
    batch: int = 24
    rate: float = 3e-3
    seed: int = 0
    report_every: int = 250


def train(
    examples: Sequence[Example],
    held_out: Sequence[Example],
    plan: TrainingPlan,
    *,
    resume: Mapping[str, Any] | None = None,
    report: Callable[[Progress, Mapping[str, Any]], None] = lambda *_: None,
) -> GraphNetwork:
    """Return a network that learned from the examples.

    `report` gets the progress and a state that `resume` goes on from: the rest is the same then.
    """
    torch = _torch()
    torch.manual_seed(plan.seed)
    torch.set_num_threads(1)
    scales = _scales(examples)
    weights = {name: torch.tensor(value) for name, value in _fresh(plan.seed).items()}
    start = 0
    if resume is not None:
        weights = {name: torch.tensor(resume[f"weight/{name}"]) for name in weights}
        start = int(resume["step"])
    for each in weights.values():
        each.requires_grad_(True)  # noqa: FBT003 - torch's own
    optimiser = torch.optim.Adam(list(weights.values()), lr=plan.rate)
    if resume is not None:
        _restore(torch, optimiser, weights, resume)
    losses: list[float] = []
    for step, batch in zip(range(start, plan.steps), _batches(examples, plan, start), strict=False):
        for group in optimiser.param_groups:
            group["lr"] = plan.rate * 0.5 * (1.0 + np.cos(np.pi * step / plan.steps)) + 1e-5
        optimiser.zero_grad()
        loss = _loss(torch, weights, scales, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(weights.values()), 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
        if (step + 1) % plan.report_every == 0 or step + 1 == plan.steps:
            network = _exported(weights, scales, examples)
            progress = _progress(network, held_out, step + 1, plan.steps, losses)
            report(progress, _state(optimiser, weights, step + 1))
            losses = []
    network = _exported(weights, scales, examples)
    return network.calibrated([(each.inputs, each.measured) for each in held_out])


def _torch() -> Any:  # noqa: ANN401 - torch has no types where it is optional
    try:
        import torch  # noqa: PLC0415 - an extra
    except ImportError as fault:
        raise StewardError(
            "training a graph network needs torch",
            where="fabric train",
            hint="pip install 'steward[torch]'; what is trained is used without it",
        ) from fault
    return torch


def _scales(examples: Sequence[Example]) -> dict[str, Floats]:
    """Return mean and spread of each feature."""
    scales: dict[str, Floats] = {}
    for name in ("job", "link", "entry"):
        rows = np.concatenate([getattr(each.inputs, name) for each in examples])
        scales[f"{name}_mean"] = rows.mean(axis=0)
        scales[f"{name}_spread"] = np.maximum(rows.std(axis=0), 1e-3)
    return scales


def _fresh(seed: int) -> dict[str, NDArray[np.float32]]:
    """Return weights as they are before training."""
    dice = np.random.default_rng(seed)
    weights: dict[str, NDArray[np.float32]] = {}
    for name, (rows, columns) in GraphNetwork.shapes().items():
        if name.endswith("bias"):
            weights[name] = np.zeros(columns, np.float32)
            continue
        scale = np.sqrt(1.0 / rows)
        weights[name] = (scale * dice.standard_normal((rows, columns))).astype(np.float32)
    weights["out"] *= 0.1
    return weights


def _batches(
    examples: Sequence[Example], plan: TrainingPlan, start: int
) -> Iterator[tuple[GraphInputs, Floats]]:
    """Yield batches; which scenes step `n` sees depends on the seed and `n` alone."""
    for step in range(start, plan.steps):
        dice = np.random.default_rng((plan.seed, step))
        chosen = [examples[int(row)] for row in dice.integers(0, len(examples), plan.batch)]
        measured = np.concatenate([each.measured for each in chosen])
        yield joined([each.inputs for each in chosen]), measured


def _loss(
    torch: Any,  # noqa: ANN401
    weights: Mapping[str, torch.Tensor],
    scales: Mapping[str, Floats],
    batch: tuple[GraphInputs, Floats],
) -> torch.Tensor:
    inputs, measured = batch
    target = torch.tensor(np.log(measured / inputs.mean_field), dtype=torch.float32)
    weight = torch.tensor(np.where(measured > _CONTENDED, _WEIGHT, 1.0), dtype=torch.float32)
    quantiles = forward(torch, weights, scales, inputs)
    middle = torch.nn.functional.huber_loss(quantiles[:, 1], target, delta=_HUBER, reduction="none")
    total = (weight * middle).sum() / weight.sum() / _HUBER
    for column, level in enumerate(LEVELS):
        off = target - quantiles[:, column]
        total = total + 0.3 * (weight * torch.maximum(level * off, (level - 1.0) * off)).sum() / (
            weight.sum()
        )
    return total


def forward(
    torch: Any,  # noqa: ANN401
    weights: Mapping[str, torch.Tensor],
    scales: Mapping[str, Floats],
    inputs: GraphInputs,
) -> torch.Tensor:
    """Return three quantiles of each job's residual: the same as `GraphNetwork.residuals`."""

    def scaled(name: str) -> torch.Tensor:
        rows = (getattr(inputs, name) - scales[f"{name}_mean"]) / scales[f"{name}_spread"]
        return torch.tensor(np.clip(rows, -5.0, 5.0), dtype=torch.float32)

    job_rows, link_rows, entry = scaled("job"), scaled("link"), scaled("entry")
    to_job, to_link = torch.tensor(inputs.entry_job), torch.tensor(inputs.entry_link)
    job = torch.relu(job_rows @ weights["job"] + weights["job bias"])
    link = torch.relu(link_rows @ weights["link"] + weights["link bias"])

    def gathered(messages: torch.Tensor, index: torch.Tensor, rows: int) -> torch.Tensor:
        sums = torch.zeros(rows, WIDTH).index_add_(0, index, messages)
        wide = index[:, None].expand(-1, WIDTH)
        most = torch.zeros(rows, WIDTH).scatter_reduce(0, wide, messages, "amax")
        return torch.cat([torch.log1p(sums), most], dim=1)

    for each in range(ROUNDS):

        def part(name: str, each: int = each) -> torch.Tensor:
            return weights[f"{each} {name}"]

        sent = (job @ part("job to link"))[to_job] + entry @ part("entry to link")
        messages = torch.relu(sent + part("to link bias"))
        met = gathered(messages, to_link, len(link))
        link = link + torch.relu(
            link @ part("link keeps") + met @ part("link hears") + part("link bias")
        )
        sent = (link @ part("link to job"))[to_link] + entry @ part("entry to job")
        messages = torch.relu(sent + part("to job bias"))
        met = gathered(messages, to_job, len(job))
        job = job + torch.relu(job @ part("job keeps") + met @ part("job hears") + part("job bias"))
    hidden = torch.relu(
        job @ weights["read"] + job_rows @ weights["read job"] + weights["read bias"]
    )
    out = hidden @ weights["out"] + weights["out bias"]
    soft = torch.nn.functional.softplus
    return torch.stack(
        [out[:, 1] - soft(out[:, 0] - 3.0), out[:, 1], out[:, 1] + soft(out[:, 2] - 3.0)], dim=1
    )


def _exported(
    weights: Mapping[str, torch.Tensor], scales: Mapping[str, Floats], examples: Sequence[Example]
) -> GraphNetwork:
    plain = {name: each.detach().numpy().copy() for name, each in weights.items()}
    return GraphNetwork(
        weights=plain,
        scales={name: np.asarray(each) for name, each in scales.items()} | {"interval": np.ones(1)},
        hull=Hull.around([each.inputs for each in examples]),
    )


def _progress(
    network: GraphNetwork, held_out: Sequence[Example], step: int, steps: int, losses: list[float]
) -> Progress:
    ours, mean_field = [], []
    for each in held_out:
        contended = each.measured > _CONTENDED
        measured = each.measured[contended]
        predicted = each.inputs.mean_field * np.exp(network.residuals(each.inputs)[:, 1])
        ours.append(np.abs(np.maximum(1.0, predicted)[contended] / measured - 1.0))
        mean_field.append(np.abs(each.inputs.mean_field[contended] / measured - 1.0))
    return Progress(
        step=step,
        steps=steps,
        loss=float(np.mean(losses)),
        error=float(np.concatenate([*ours, np.zeros(0)]).mean()) if ours else float("nan"),
        mean_field_error=float(np.concatenate(mean_field).mean()) if mean_field else float("nan"),
    )


def _state(
    optimiser: torch.optim.Optimizer, weights: Mapping[str, torch.Tensor], step: int
) -> dict[str, Any]:
    state: dict[str, Any] = {"step": step}
    for name, each in weights.items():
        state[f"weight/{name}"] = each.detach().numpy().copy()
        kept = optimiser.state[each]
        for kind in ("exp_avg", "exp_avg_sq"):
            state[f"{kind}/{name}"] = kept[kind].numpy().copy()
    return state


def _restore(
    torch: Any,  # noqa: ANN401
    optimiser: torch.optim.Optimizer,
    weights: Mapping[str, torch.Tensor],
    state: Mapping[str, Any],
) -> None:
    for name, each in weights.items():
        optimiser.state[each] = {
            "step": torch.tensor(float(state["step"])),
            "exp_avg": torch.tensor(state[f"exp_avg/{name}"]),
            "exp_avg_sq": torch.tensor(state[f"exp_avg_sq/{name}"]),
        }
