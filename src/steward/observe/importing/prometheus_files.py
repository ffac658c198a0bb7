"""What Prometheus wrote down: text exposition with times, or JSON of its query API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from steward.clients.wire.label_escapes import unescape_label
from steward.errors import StewardError
from steward.model.event import Observation
from steward.model.frame import ENTITY, T_S
from steward.model.label import PREFIX
from steward.model.metrics.columns import TRIED, ColumnNames
from steward.observe.importing.source import FileHead, ImportCounts, ImportSource, opened
from steward.observe.importing.table_reader import TableReader
from steward.observe.translate import map_series

__all__ = ["PrometheusFiles"]

_SAMPLE = re.compile(
    r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>(?:[^\"}]|\"(?:\\.|[^\"\\])*\")*)\})?"
    r"\s+(?P<value>\S+)(?:\s+(?P<time>-?[\d.]+))?(?:\s+#.*)?$"
)
_LABEL = re.compile(r'([a-zA-Z_]\w*)\s*=\s*"((?:\\.|[^"\\])*)"')
_MAX_JSON_BYTES = 512 << 20
_BATCH = 100_000
_NODES = ("Hostname", "hostname", "node", "nodename", "host", "instance")
_DEVICES = (("device", "disk:"), ("interface", "net:"))
_PLACE = {*_NODES, "gpu", "job", "UUID", "device", "interface", "modelName", "pci_bus_id"}
Row = tuple[float, str, str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusFiles:
    """Samples by series; labels give their entity, and the other labels stay in the name."""

    name: str = "prometheus"

    def recognises(self, head: FileHead) -> bool:
        text = head.begins.decode(errors="replace").lstrip()
        if text.startswith("{"):
            return '"resultType"' in text or '"data"' in text[:200]
        lines = [line for line in text.splitlines()[:50] if line.strip()]
        known = [line.startswith("#") or _is_sample(line) for line in lines[:-1] or lines]
        commented = any(line.startswith(("# HELP ", "# TYPE ")) for line in lines)
        return bool(known) and (all(known) or (commented and sum(known) * 2 > len(known)))

    def read(self, source: ImportSource, tally: ImportCounts) -> Iterator[Observation]:
        reader = TableReader(source=source, tally=tally, names=ColumnNames(TRIED, source.columns))
        is_json = FileHead.of(source.path).begins.lstrip().startswith(b"{")
        rows = _json_rows(source, tally) if is_json else _text_rows(source, tally)
        batch: list[Row] = []
        for row in rows:
            batch.append(row)
            if len(batch) >= _BATCH:
                yield from reader.observations(_table(batch))
                batch = []
        if batch:
            yield from reader.observations(_table(batch))


def _table(rows: list[Row]) -> pl.DataFrame:
    schema = {T_S: pl.Float64, ENTITY: pl.String, "metric": pl.String, "value": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _is_sample(line: str) -> bool:
    match = _SAMPLE.match(line)
    return match is not None and _number(match["value"]) is not None


def _text_rows(source: ImportSource, tally: ImportCounts) -> Iterator[Row]:
    places: dict[tuple[str, str], tuple[str, str]] = {}
    changed_s = source.path.stat().st_mtime
    with opened(source.path, source.progress) as stream:
        for number, raw in enumerate(iter(lambda: stream.readline(1 << 20), b""), start=1):
            line = raw.decode(errors="replace").strip()
            if not line or line.startswith("#"):
                continue
            tally.rows += 1
            match = _SAMPLE.match(line)
            value = _number(match["value"]) if match else None
            where = f"{source.path.name}, line {number}"
            if match is None or value is None:
                tally.refuse("no sample in the exposition format", where)
            else:
                if match["time"] is None:  # the usual case: the scraper adds the time
                    tally.note(
                        f"{source.path.name}: samples without a time have that of the file's last "
                        "change"
                    )
                key = (match["name"], match["labels"] or "")
                if key not in places:
                    labels = {k: unescape_label(v) for k, v in _LABEL.findall(key[1])}
                    places[key] = _placed(key[0], labels, source.node)
                metric, entity = places[key]
                t_s = changed_s if match["time"] is None else _in_seconds(float(match["time"]))
                yield t_s, entity, metric, value


def _json_rows(source: ImportSource, tally: ImportCounts) -> Iterator[Row]:
    for number, series in enumerate(_series(source), start=1):
        where = f"{source.path.name}, series {number}"
        try:
            labels = {str(key): str(value) for key, value in series["metric"].items()}
            points = series["values"] if "values" in series else [series["value"]]
            metric, entity = _placed(labels.pop("__name__", "unnamed"), labels, source.node)
        except (AttributeError, KeyError, TypeError):
            tally.refuse("no series of the query API", where)
            continue
        for point in points:
            tally.rows += 1
            value = _number(point[1]) if isinstance(point, list) and len(point) == 2 else None
            t_s = _number(point[0]) if value is not None else None
            if value is None or t_s is None:
                tally.refuse("no point of the query API", where)
            else:
                yield t_s, entity, metric, value


def _series(source: ImportSource) -> list[Any]:
    with opened(source.path, source.progress) as stream:
        content = stream.read(_MAX_JSON_BYTES + 1)
    if len(content) > _MAX_JSON_BYTES:
        raise StewardError(
            f"is larger than {_MAX_JSON_BYTES >> 20} MiB",
            where=str(source.path),
            hint="query Prometheus for less time at once and import several files",
        )
    try:
        answer = json.loads(content)
        data = answer.get("data", answer)
        result = data["result"] if isinstance(data, dict) else data
        if not isinstance(result, list):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise StewardError(
            "is no answer of Prometheus' query API",
            where=str(source.path),
            hint="save what /api/v1/query_range or /api/v1/query returns",
        ) from fault
    return result


def _placed(name: str, labels: dict[str, str], node: str) -> tuple[str, str]:
    """Return the metric's name, with labels that are no place, and the entity."""
    ours = map_series({"node": node, **labels, "__name__": name})
    if name.startswith(PREFIX) and ours.metric is not None:  # what steward itself exported
        return ours.name, ours.entity
    host = next((labels[key] for key in _NODES if labels.get(key)), node)
    host = re.sub(r":\d+$", "", host).replace("/", "_")
    entity = host
    if re.fullmatch(r"\d+", labels.get("gpu", "")):
        entity = f"{host}/gpu{labels['gpu']}"
    elif not name.startswith("DCGM_"):
        device = next(((p, labels[k]) for k, p in _DEVICES if labels.get(k)), None)
        entity = f"{host}/{device[0]}{device[1].replace('/', '_')}" if device else host
    rest = {key: value for key, value in sorted(labels.items()) if key not in _PLACE}
    if name.startswith("DCGM_") or not rest:
        return name, entity
    rest_text = ",".join(f'{key}="{value}"' for key, value in rest.items())
    return f"{name}{{{rest_text}}}", entity


def _number(text: object) -> float | None:
    try:
        return float(str(text))
    except ValueError:
        return None


def _in_seconds(time: float) -> float:
    """Exposition has milliseconds; OpenMetrics has seconds."""
    return time / 1e3 if abs(time) > 1e11 else time
