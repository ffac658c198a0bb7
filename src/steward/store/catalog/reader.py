"""Reader of one catalogue file: values as far as it is right, and every fault with its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite
from typing import TypeVar

from steward.errors import StewardError
from steward.model.planning.catalog import (
    Accelerator,
    Basis,
    CatalogSite,
    Charging,
    Engine,
    Queue,
    Source,
)
from steward.model.rules import SourceLocation
from steward.store.catalog.amounts import read_size, read_tera, read_time
from steward.store.catalog.fields import FORMATS, SHAPES
from steward.store.rules.faults import Diagnostics
from steward.store.rules.mapping_reader import MappingReader, items_of, shown
from steward.store.rules.tree import Scalar, Tree, TreeError, read_documents

__all__ = ["FileContent", "read_text"]

T = TypeVar("T")
_LONGEST_NAME = 200
_MOST_NODES = 1_000_000  # the price lists of twenty clouds have 300,000
_DAY_HINT = "write it as 2026-08-12"


@dataclass(slots=True, kw_only=True)
class FileContent:
    """What a file holds, without what is wrong; `diagnostics` has the faults."""

    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    sites: list[tuple[CatalogSite, SourceLocation]] = field(default_factory=list)
    accelerators: list[tuple[Accelerator, SourceLocation]] = field(default_factory=list)


def read_text(text: str, *, file: str) -> FileContent:
    """Read the catalogue in a text; faults are collected, not raised."""
    content = FileContent()
    diagnostics = content.diagnostics
    try:
        documents = list(read_documents(text, file=file, most_nodes=_MOST_NODES))
    except TreeError as error:
        diagnostics.fault(error.place, error.problem, error.hint)
        return content
    if all(isinstance(each, Scalar) and each.is_null for each in documents):
        place = SourceLocation(file=file, line=1, column=1)
        hint = "a catalogue begins with `sites:` or `accelerators:`"
        diagnostics.fault(place, "this file is empty", hint)
    for tree in documents:
        if not (isinstance(tree, Scalar) and tree.is_null):
            _read_document(tree, content)
    return content


def _read_document(tree: Tree, content: FileContent) -> None:
    fields = MappingReader(tree, "catalogue", content.diagnostics, shapes=SHAPES)
    for each in fields.many("sites"):
        place = each.at("name")
        if (site := _in_context(each, _site)) is not None:
            content.sites.append((site, place))
    for each in fields.many("accelerators"):
        place = each.at("name")
        if (accelerator := _in_context(each, _accelerator)) is not None:
            content.accelerators.append((accelerator, place))


def _in_context(fields: MappingReader, make: Callable[[MappingReader], T | None]) -> T | None:
    """Make a value; faults in it carry its name."""
    diagnostics = fields.diagnostics
    name = fields.tree("name") if "name" in fields else None
    diagnostics.rule = shown(name.text) if isinstance(name, Scalar) else ""
    try:
        return make(fields)
    finally:
        diagnostics.rule = ""


def _site(fields: MappingReader) -> CatalogSite | None:
    before = fields.diagnostics.raised
    name = _name(fields)
    engine = fields.choice("engine")
    source = _source(fields, Source(text="", as_of=""))
    queues = [
        queue for each in fields.many("queues") if (queue := _queue(each, source)) is not None
    ]
    _refuse_twice(fields)
    region, steward_site = fields.text("region"), fields.text("steward_site")
    grams = _optional_number(fields, "grams_per_kwh")
    effectiveness = _optional_number(fields, "power_usage_effectiveness")
    if not _is_sound(fields, before):
        return None
    return _built(
        fields,
        lambda: CatalogSite(
            name=name,
            engine=Engine(engine),
            queues=tuple(queues),
            region=region,
            grams_per_kwh=grams,
            power_usage_effectiveness=1.4 if effectiveness is None else effectiveness,
            steward_site=steward_site,
            source=source,
        ),
    )


def _refuse_twice(site: MappingReader) -> None:
    """Report queues of one name, at the second."""
    first: dict[str, SourceLocation] = {}
    for tree in items_of(site.tree("queues"), "queues", Diagnostics()):
        names = [each.value for each in getattr(tree, "entries", ()) if each.key.text == "name"]
        for name in names:
            if isinstance(name, Scalar) and name.text in first:
                problem = f"a second queue '{shown(name.text)}'; the first is in {first[name.text]}"
                site.diagnostics.fault(name.place, problem, "rename one of them")
            elif isinstance(name, Scalar):
                first[name.text] = name.place


def _queue(fields: MappingReader, of_site: Source) -> Queue | None:
    before = fields.diagnostics.raised
    name, submit_as, model = _name(fields), fields.text("submit_as"), fields.text("gpu_model")
    cores, gpus = fields.whole("cores_per_node"), fields.whole("gpus_per_node")
    nodes, max_nodes = _optional_whole(fields, "nodes"), _optional_whole(fields, "max_nodes")
    min_nodes = fields.whole("min_nodes", default=1)
    memory_bytes = _bytes(fields, "memory_per_node")
    max_s, start_s = _seconds(fields, "max_time"), _seconds(fields, "start_time")
    shared, interruptible = (
        _flag(fields, "shared_nodes", default=True),
        fields.flag("interruptible"),
    )
    charging = _charging(fields)
    source = _source(fields, of_site)
    if charging is None or not _is_sound(fields, before):
        return None
    return _built(
        fields,
        lambda: Queue(
            name=name,
            submit_as=submit_as,
            cores_per_node=cores,
            memory_bytes_per_node=memory_bytes,
            gpus_per_node=gpus,
            gpu_model=model,
            nodes=nodes,
            min_nodes=min_nodes,
            max_nodes=max_nodes,
            max_s=max_s,
            shared_nodes=shared,
            interruptible=interruptible,
            start_s=start_s or 0.0,
            charging=charging,
            source=source,
        ),
    )


def _charging(queue: MappingReader) -> Charging | None:
    if "charging" not in queue:
        return Charging()
    fields = queue.one("charging")
    before = fields.diagnostics.raised
    basis, unit = fields.choice("basis"), fields.text("unit") or "USD"
    numbers = {
        name: _optional_number(fields, name) or 0.0
        for name in ("rate", "gpu_rate", "minimum_units")
    }
    price = _optional_number(fields, "usd_per_unit")
    if "usd_per_unit" not in fields and unit == "USD":
        price = 1.0
    per_core, per_gpu = _bytes(fields, "memory_per_core"), _bytes(fields, "memory_per_gpu")
    cores_per_gpu = fields.whole("cores_per_gpu")
    several = fields.flag("whole_nodes_if_several")
    minimum_s = _seconds(fields, "minimum_time") or 0.0
    if not _is_sound(fields, before):
        return None
    return _built(
        fields,
        lambda: Charging(
            basis=Basis(basis),
            unit=unit,
            usd_per_unit=price,
            memory_per_core_bytes=per_core,
            memory_per_gpu_bytes=per_gpu,
            cores_per_gpu=cores_per_gpu,
            whole_nodes_if_several=several,
            minimum_s=minimum_s,
            **numbers,
        ),
    )


def _accelerator(fields: MappingReader) -> Accelerator | None:
    before = fields.diagnostics.raised
    name = _name(fields)
    memory_bytes = _bytes(fields, "memory")
    per_s = _amount(fields, "bandwidth", read_size, Fraction(0))
    watts = _optional_number(fields, "watts")
    rates = fields.one("tflops")
    flops = {each: _amount(rates, each, read_tera, 0.0) for each in FORMATS if each in rates}
    aliases = fields.texts("aliases")
    source = _source(fields, Source(text="", as_of=""))
    if not _is_sound(fields, before):
        return None
    return _built(
        fields,
        lambda: Accelerator(
            name=name,
            memory_bytes=memory_bytes,
            memory_bytes_per_s=float(per_s),
            watts=watts or 0.0,
            flops=flops,
            aliases=aliases,
            source=source,
        ),
    )


def _source(fields: MappingReader, missing: Source) -> Source:
    if "source" not in fields:
        return missing
    inner = fields.one("source")
    text, as_of = inner.text("text"), inner.text("as_of")
    try:
        return Source(text=text, as_of=as_of)
    except StewardError as error:
        inner.diagnostics.fault(inner.at("as_of"), f"`as_of`: {error.problem}", _DAY_HINT)
        return missing


def _is_sound(fields: MappingReader, faults_before: int) -> bool:
    """Return True if nothing is missing, and no fault was found since."""
    required = (each.name for each in fields.shape.fields.values() if each.required)
    return fields.diagnostics.raised == faults_before and all(each in fields for each in required)


def _built(fields: MappingReader, make: Callable[[], T]) -> T | None:
    """Build a value; what contradicts itself is a fault of the mapping."""
    try:
        return make()
    except StewardError as error:
        fields.diagnostics.fault(fields.place, f"{error.where}: {error.problem}", error.hint)
        return None


def _name(fields: MappingReader) -> str:
    name = fields.text("name")
    if "name" in fields and not (
        name.strip() and name.isprintable() and len(name) <= _LONGEST_NAME
    ):
        problem = f"'{shown(name)}' cannot be a name"
        fields.diagnostics.fault(
            fields.at("name"), problem, f"use up to {_LONGEST_NAME} characters that can be seen"
        )
    return name


def _is_null(fields: MappingReader, name: str) -> bool:
    value = fields.tree(name)
    return value is None or (isinstance(value, Scalar) and value.is_null)


def _optional_whole(fields: MappingReader, name: str) -> int | None:
    return None if _is_null(fields, name) else fields.whole(name)


def _optional_number(fields: MappingReader, name: str) -> float | None:
    if _is_null(fields, name):
        return None
    number = fields.number(name)
    if number < 0 or not isfinite(number):
        problem = f"`{name}` is {number:g}"
        fields.diagnostics.fault(fields.at(name), problem, "0 or more")
    return number


def _flag(fields: MappingReader, name: str, *, default: bool) -> bool:
    return default if _is_null(fields, name) else fields.flag(name)


def _bytes(fields: MappingReader, name: str) -> int:
    return round(_amount(fields, name, read_size, Fraction(0)))


def _seconds(fields: MappingReader, name: str) -> float | None:
    return None if _is_null(fields, name) else _amount(fields, name, read_time, 0.0)


def _amount(fields: MappingReader, name: str, read: Callable[[str], T], missing: T) -> T:
    text = fields.text(name)
    if not text:
        return missing
    try:
        return read(text)
    except StewardError as error:
        fields.diagnostics.fault(fields.at(name), f"`{name}`: {error.problem}", error.hint)
        return missing
