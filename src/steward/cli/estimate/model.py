"""`steward estimate model`: what a model needs, by its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_note, print_table
from steward.cli.words import number

if TYPE_CHECKING:
    from steward.learn.estimators.model_graphs.answers import ModelEstimate, Range

__all__ = ["model"]


def model(  # noqa: PLR0913 - options of a command
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|CONFIG|ENTRY",
            help="A model by name (torchvision, timm, gpt2, llama-1b, …), a config.json, "
            "or an entry pkg.mod:function.",
        ),
    ],
    *,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Items of one step.")],
    seq: Annotated[int, typer.Option("--seq", min=1, help="Tokens of one item.")] = 512,
    size: Annotated[int, typer.Option("--size", min=1, help="Side of an image.")] = 224,
    mode: Annotated[str, typer.Option("--mode", help="train or infer.")] = "train",
    amp: Annotated[bool, typer.Option("--amp/--no-amp", help="Autocast to bfloat16.")] = False,
    opt: Annotated[
        str,
        typer.Option("--opt", help="sgd, sgd_momentum, adam, adamw or adamw_fused."),
    ] = "adamw",
    grad_ckpt: Annotated[
        bool, typer.Option("--grad-ckpt", help="Gradient checkpointing of each layer.")
    ] = False,
    gpu: Annotated[str, typer.Option("--gpu", help="The GPU's type.")] = "h200",
    as_json: Json = False,
) -> None:
    """Estimate memory, step time and energy of one step of a model, before it runs."""
    from steward.learn.estimators.model_graphs.answers import estimate_model, new_worker
    from steward.learn.estimators.model_graphs.question import ModelQuestion

    question = ModelQuestion(
        model=name,
        batch=batch,
        mode=mode,
        size=size,
        seq=seq,
        amp=amp,
        opt=opt,
        grad_ckpt=grad_ckpt,
        gpu=gpu,
    )
    worker = new_worker()
    try:
        found = estimate_model(question, worker)
    finally:
        if worker is not None:
            worker.close()
    if as_json:
        print_json(found)
        return
    _print(found)


def _print(found: ModelEstimate) -> None:
    print_table(
        ("quantity", "low", "likely", "high", "because"),
        [
            _row("allocated, GiB", found.allocated_bytes, 2**30),
            _row("reserved, GiB", found.reserved_bytes, 2**30),
            _row("device, GiB", found.device_bytes, 2**30),
            _row("step, ms", found.step_s, 1e-3),
            _row("energy, J", found.energy_j_per_step, 1.0),
        ],
        empty="",
    )
    fits = "fits" if found.fits else "does not fit"
    largest = "unknown" if found.largest_batch is None else str(found.largest_batch)
    print_note(f"{fits} on {found.gpu} by the upper limit; largest batch: {largest} ({found.tier})")
    for note in found.notes:
        print_note(note)


def _row(name: str, value: Range | None, unit: float) -> tuple[str, ...]:
    if value is None:
        return (name, "unknown", "unknown", "unknown", "")
    parts = (value.low, value.likely, value.high)
    return (name, *(number(each / unit) for each in parts), value.because)
