"""Every key of catalogue files, in the tables that the reader checks them by."""

from __future__ import annotations

from collections.abc import Mapping

from steward.model.planning.catalog import Basis, Engine
from steward.store.rules.language.fields import FieldKind, FieldSpec, MappingSpec

__all__ = ["BASES", "ENGINES", "FORMATS", "SHAPES"]

ENGINES = tuple(each.value for each in Engine)
BASES = tuple(each.value for each in Basis)
FORMATS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8")
_SIZE = "with its unit: 160 GB (10^9) or 256 GiB (2^30)"
_TIME = "with its unit: 90 s, 30 m, 48 h or 7 d"


def _shape(name: str, path: str, doc: str, *fields: FieldSpec) -> MappingSpec:
    return MappingSpec(name=name, path=path, doc=doc, fields={each.name: each for each in fields})


def _text(
    name: str, doc: str, *, required: bool = False, instead: tuple[str, ...] = ()
) -> FieldSpec:
    return FieldSpec(name=name, kind=FieldKind.TEXT, doc=doc, required=required, instead=instead)


def _whole(
    name: str, doc: str, *, required: bool = False, instead: tuple[str, ...] = ()
) -> FieldSpec:
    return FieldSpec(name=name, kind=FieldKind.WHOLE, doc=doc, required=required, instead=instead)


def _number(
    name: str, doc: str, *, required: bool = False, instead: tuple[str, ...] = ()
) -> FieldSpec:
    return FieldSpec(name=name, kind=FieldKind.NUMBER, doc=doc, required=required, instead=instead)


def _flag(name: str, doc: str) -> FieldSpec:
    return FieldSpec(name=name, kind=FieldKind.FLAG, doc=doc)


def _choice(name: str, doc: str, choices: tuple[str, ...]) -> FieldSpec:
    return FieldSpec(name=name, kind=FieldKind.CHOICE, doc=doc, required=True, choices=choices)


def _one(name: str, doc: str, *, required: bool = False) -> FieldSpec:
    return FieldSpec(name=name, kind=FieldKind.ONE, doc=doc, shape=name, required=required)


def _many(name: str, doc: str, shape: str) -> FieldSpec:
    return FieldSpec(name=name, kind=FieldKind.MANY, doc=doc, shape=shape)


_SOURCE_DOC = "Where the facts are from, and as of which day."
_CATALOGUE = _shape(
    "catalogue",
    "(top)",
    "A file of a catalogue: sites, accelerators, or both.",
    _many("sites", "Places where jobs can run.", "site"),
    _many("accelerators", "GPUs and the like, as queues name them.", "accelerator"),
)
_SOURCE = _shape(
    "source",
    "source",
    _SOURCE_DOC,
    _text("text", "A page, a file with its commit, a person.", instead=("url", "from")),
    _text("as_of", "The day on which it was true: 2026-08-12.", instead=("date", "day")),
)
_SITE = _shape(
    "site",
    "sites[]",
    "A place where jobs can run.",
    _text("name", "Its name, unique in the catalogue.", required=True),
    _choice("engine", "Who runs jobs there.", ENGINES),
    _many("queues", "Its queues, partitions or instance types.", "queue"),
    _text("region", "Key of carbon and prices by the hour."),
    _number(
        "grams_per_kwh", "Carbon of its grid, mean of the year.", instead=("carbon", "intensity")
    ),
    _number(
        "power_usage_effectiveness", "What the building draws for each watt.", instead=("pue",)
    ),
    _text("steward_site", "`[sites.NAME]` of the configuration that can submit there."),
    _one("source", _SOURCE_DOC),
)
_QUEUE = _shape(
    "queue",
    "sites[].queues[]",
    "A queue, partition or instance type.",
    _text("name", "Its name, unique at the site.", required=True),
    _text("submit_as", "Partition or instance type, where it is not the name."),
    _whole("cores_per_node", "Cores of one node; left out: unknown.", instead=("cores", "cpus")),
    _text("memory_per_node", f"Memory of one node, {_SIZE}.", instead=("memory", "mem")),
    _whole("gpus_per_node", "GPUs of one node.", instead=("gpus",)),
    _text("gpu_model", "Their model, as an accelerator is called.", instead=("gpu",)),
    _whole("nodes", "Nodes that exist; left out: unknown, or as many as one pays for."),
    _whole("min_nodes", "Nodes that a job has at least."),
    _whole("max_nodes", "Nodes that a job has at most."),
    _text(
        "max_time",
        f"Run time after which a job is ended, {_TIME}.",
        instead=("max_hours", "max_s", "limit", "walltime"),
    ),
    _flag("shared_nodes", "Jobs may take a part of a node."),
    _flag("interruptible", "Jobs may be stopped by others: spot, preemptible partitions."),
    _text("start_time", f"Until a node can compute, {_TIME}.", instead=("start_s",)),
    _one("charging", "What it costs; left out: nothing."),
    _one("source", f"{_SOURCE_DOC} Left out: that of the site."),
)
_CHARGING = _shape(
    "charging",
    "sites[].queues[].charging",
    "What an hour costs.",
    _choice("basis", "What is counted.", BASES),
    _number("rate", "Units for an hour of each of them.", instead=("price", "cost")),
    _number("gpu_rate", "Units for an hour of each GPU, beside `rate`."),
    _text("unit", "USD, or the site's own service unit."),
    _number("usd_per_unit", "Price of the site's own unit; left out: it has none."),
    _text("memory_per_core", f"Memory asked for counts as so many cores, {_SIZE}."),
    _text("memory_per_gpu", f"Memory asked for counts as so many GPUs, {_SIZE}."),
    _whole("cores_per_gpu", "Cores asked for count as so many GPUs."),
    _flag("whole_nodes_if_several", "Jobs of two or more nodes are charged whole nodes."),
    _text("minimum_time", f"A shorter job is charged as long as this, {_TIME}."),
    _number("minimum_units", "No job is charged less."),
)
_ACCELERATOR = _shape(
    "accelerator",
    "accelerators[]",
    "A kind of GPU.",
    _text("name", "Its name, unique in the catalogue.", required=True),
    _text("memory", f"Its memory, {_SIZE}.", required=True),
    _text("bandwidth", "Of its memory, per second: 3350 GB.", required=True),
    _number("watts", "Most that its board draws.", required=True, instead=("tdp", "power")),
    _one("tflops", "Peak rates by number format, dense.", required=True),
    FieldSpec(name="aliases", kind=FieldKind.TEXTS, doc="As clouds and drivers write it."),
    _one("source", _SOURCE_DOC),
)
_TFLOPS = _shape(
    "tflops",
    "accelerators[].tflops",
    "Peak rates by number format, in 10^12 per second, without sparsity.",
    *(_text(name, f"Rate of {name}.") for name in FORMATS),
)
SHAPES: Mapping[str, MappingSpec] = {
    each.name: each
    for each in (_CATALOGUE, _SITE, _QUEUE, _CHARGING, _SOURCE, _ACCELERATOR, _TFLOPS)
}
