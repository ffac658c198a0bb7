"""Writer of catalogues: YAML that reads back as the same values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from steward.model.planning.catalog import (
    Accelerator,
    Catalog,
    CatalogSite,
    Charging,
    Queue,
    Source,
)
from steward.store.catalog.amounts import size_text, tera_text, time_text

__all__ = ["catalog_text"]


class _Number(str):
    """Digits that are written as they are, without quotes."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Write mappings in their order, numbers without rounding, and no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401, ARG002 - of the base class
        return True


def _write_number(dumper: _Dumper, number: _Number) -> yaml.ScalarNode:
    kind = "float" if "." in number else "int"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{kind}", str(number))


_Dumper.add_representer(_Number, _write_number)


def catalog_text(catalog: Catalog, *, heading: str = "") -> str:
    """Return a catalogue as YAML; each line of `heading` becomes a comment."""
    record = _present(
        {
            "sites": [_site(each) for each in catalog.sites],
            "accelerators": [_accelerator(each) for each in catalog.accelerators],
        }
    ) or {"sites": []}
    text: str = yaml.dump(
        record, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100, indent=2
    )
    return "".join(f"# {line}\n" for line in heading.splitlines()) + text


def _site(site: CatalogSite) -> dict[str, Any]:
    plain = CatalogSite(name="", engine=site.engine, queues=())
    return {
        "name": site.name,
        "engine": site.engine.value,
        **_changed(site, plain, ("region", "grams_per_kwh", "power_usage_effectiveness")),
        **_changed(site, plain, ("steward_site",)),
        **_source(site.source, Source(text="", as_of="")),
        **_present({"queues": [_queue(each, site.source) for each in site.queues]}),
    }


def _queue(queue: Queue, of_site: Source) -> dict[str, Any]:
    plain = Queue(name="", cores_per_node=0, memory_bytes_per_node=0)
    return {
        "name": queue.name,
        **_changed(queue, plain, ("submit_as", "cores_per_node")),
        **_sizes({"memory_per_node": queue.memory_bytes_per_node}),
        **_changed(queue, plain, ("gpus_per_node", "gpu_model", "nodes", "min_nodes", "max_nodes")),
        **({"max_time": time_text(queue.max_s)} if queue.max_s is not None else {}),
        **_changed(queue, plain, ("shared_nodes", "interruptible")),
        **_times({"start_time": queue.start_s}),
        **({"charging": _charging(queue.charging)} if queue.charging != plain.charging else {}),
        **_source(queue.source, of_site),
    }


def _charging(rule: Charging) -> dict[str, Any]:
    plain = Charging(unit=rule.unit, usd_per_unit=1.0 if rule.unit == "USD" else None)
    return {
        "basis": rule.basis.value,
        **_changed(rule, plain, ("rate", "gpu_rate")),
        **({"unit": rule.unit} if rule.unit != "USD" else {}),
        **_changed(rule, plain, ("usd_per_unit",)),
        **_sizes(
            {
                "memory_per_core": rule.memory_per_core_bytes,
                "memory_per_gpu": rule.memory_per_gpu_bytes,
            }
        ),
        **_changed(rule, plain, ("cores_per_gpu", "whole_nodes_if_several")),
        **_times({"minimum_time": rule.minimum_s}),
        **_changed(rule, plain, ("minimum_units",)),
    }


def _accelerator(each: Accelerator) -> dict[str, Any]:
    return {
        "name": each.name,
        "memory": size_text(each.memory_bytes),
        "bandwidth": size_text(each.memory_bytes_per_s),
        "watts": each.watts,
        "tflops": {name: _Number(tera_text(rate)) for name, rate in each.flops.items()},
        **_present({"aliases": list(each.aliases)}),
        **_source(each.source, Source(text="", as_of="")),
    }


def _source(source: Source, inherited: Source) -> dict[str, Any]:
    if source == inherited:
        return {}
    return {"source": _present({"text": source.text, "as_of": source.as_of})}


def _changed(value: object, plain: object, names: Iterable[str]) -> dict[str, Any]:
    """Return the fields that are not as they are when nothing is written."""
    found = {name: getattr(value, name) for name in names}
    return {name: each for name, each in found.items() if each != getattr(plain, name)}


def _sizes(sizes: Mapping[str, int]) -> dict[str, str]:
    return {name: size_text(each) for name, each in sizes.items() if each}


def _times(times: Mapping[str, float]) -> dict[str, str]:
    return {name: time_text(each) for name, each in times.items() if each}


def _present(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in record.items() if each}
