"""`steward estimate model`: what a model needs, by its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.estimate.gpus import Gpu, Measured, calibrated_site, measured_site
from steward.cli.options import Config, Data, Json, read_settings
from steward.cli.output import print_json, print_note, print_table
from steward.cli.words import number

if TYPE_CHECKING:
    from steward.learn.estimators.model_graphs.answers import EstimatedRange, ModelEstimate

__all__ = ["model"]

_GIGA = 1e9


def model(  # noqa: PLR0913 - options of a command
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|CONFIG|ENTRY",
            help="A model by name (torchvision, timm, gpt2, llama-1b, …), a config.json, "
            "an .onnx file, or an entry pkg.mod:function (jax:pkg.mod:function for JAX).",
        ),
    ],
    *,
    batch: Annotated[
        int, typer.Option("--batch", min=1, help="Items that one GPU takes in one pass.")
    ],
    seq: Annotated[int, typer.Option("--seq", min=1, help="Tokens of one item.")] = 512,
    size: Annotated[int, typer.Option("--size", min=1, help="Side of an image.")] = 224,
    mode: Annotated[str, typer.Option("--mode", help="train or infer.")] = "train",
    amp: Annotated[bool, typer.Option("--amp/--no-amp", help="Autocast to bfloat16.")] = False,
    opt: Annotated[
        str,
        typer.Option(
            "--opt",
            help="sgd, sgd_momentum, adam, adamw, lion, adafactor, rmsprop, adagrad; "
            "also adamw_fused, adamw_single (no foreach), adamw_8bit.",
        ),
    ] = "adamw",
    grad_ckpt: Annotated[
        bool, typer.Option("--grad-ckpt", help="Gradient checkpointing of each layer.")
    ] = False,
    accumulate: Annotated[
        int, typer.Option("--accumulate", min=1, help="Passes before each optimizer step.")
    ] = 1,
    dp: Annotated[int, typer.Option("--dp", min=1, help="Copies of the model.")] = 1,
    shard: Annotated[
        str,
        typer.Option("--shard", help="What copies share: none (ddp), zero1, zero2, zero3 (fsdp)."),
    ] = "none",
    tp: Annotated[int, typer.Option("--tp", min=1, help="GPUs that split each layer.")] = 1,
    pp: Annotated[int, typer.Option("--pp", min=1, help="Stages of a pipeline.")] = 1,
    link_gbs: Annotated[
        float | None,
        typer.Option(
            "--link-gbs", help="GB/s between GPUs, one way, instead of the type's own link."
        ),
    ] = None,
    gpu: Gpu = "h200",
    measured: Measured = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Estimate memory, step time and energy of one step of a model, before it runs.

    Memory is that of each GPU; with several, of the fullest.
    """
    from steward.learn.estimators.model_graphs.answers import estimate_model, new_worker
    from steward.learn.estimators.model_graphs.question import ModelQuestion, ParallelPlan

    plan = ParallelPlan(
        data=dp,
        sharding=shard,
        tensor=tp,
        stages=pp,
        link_bytes_s=None if link_gbs is None else link_gbs * _GIGA,
    )
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
        accumulate=accumulate,
    )
    site = calibrated_site(read_settings(config, data), gpu)
    worker = new_worker()
    try:
        if measured is not None:
            site = measured_site(measured, gpu, worker, site)
        found = estimate_model(question, worker, site=site, plan=plan)
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
    each = f"each of {found.gpus} {found.gpu}" if found.gpus > 1 else found.gpu
    print_note(f"{fits} on {each} by the upper limit; largest batch: {largest} ({found.tier})")
    for note in found.notes:
        print_note(note)


def _row(name: str, value: EstimatedRange | None, unit: float) -> tuple[str, ...]:
    if value is None:
        return (name, "unknown", "unknown", "unknown", "")
    parts = (value.low, value.likely, value.high)
    return (name, *(number(each / unit) for each in parts), value.because)
