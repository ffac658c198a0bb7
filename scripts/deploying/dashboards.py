"""Grafana dashboards: a few chosen panels first, then every metric of the table, folded away."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from deploying.names import KEPT, OWN, UNITS, gateway, grafana_unit, own, series
from steward.model.metric import Metric

__all__ = ["dashboards"]

Json = dict[str, Any]
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
HEIGHT, WIDTH = 8, 12
# Which labels tell entities of a kind apart, and which of them one chooses.
LABELS = {
    "gpu": (("node", "gpu"), ("node", "gpu")),
    "share": (("node", "gpu", "job_id"), ("job_id",)),
    "node": (("node",), ("node",)),
    "cpu": (("node", "cpu"), ("node",)),
    "numa": (("node", "numa"), ("node",)),
    "disk": (("node", "disk"), ("node",)),
    "net": (("node", "net"), ("node",)),
    "ib": (("node", "ib"), ("node",)),
    "mount": (("node", "mount"), ("node",)),
    "fs": (("node", "fs"), ("node",)),
    "job": (("job_id", "node"), ("job_id",)),
}
NODES = f'{{__name__=~"{series("host.cpu.busy_share")}|{series("gpu.busy_share")}"}}'
JOBS = f'{{__name__=~"{series("gpu.busy_share")}|steward_job_.*",job_id!=""}}'
NODE = ("node", f"label_values({NODES}, node)")
GPU = ("gpu", f'label_values({series("gpu.busy_share")}{{node=~"$node"}}, gpu)')
GATEWAY_NAME = ("instance", f"label_values({gateway('queued')}, instance)")
CLASS = ("class", f"label_values({gateway('queued')}, class)")
JOB = ("job_id", f"label_values({JOBS}, job_id)")


def dashboards() -> dict[str, str]:
    """Return every dashboard by the name of its file."""
    made = {
        "cluster": _dashboard("cluster", "Cluster", _cluster(), ()),
        "node": _dashboard("node", "Nodes", _node(), (NODE,)),
        "gpu": _dashboard("gpu", "GPUs", _gpu(), (NODE, GPU)),
        "jobs": _dashboard("jobs", "Jobs", _jobs(), (JOB,)),
        "serving": _dashboard("serving", "Serving", _serving(), (GATEWAY_NAME, CLASS)),
    }
    return {f"{name}.json": json.dumps(each, indent=1) + "\n" for name, each in made.items()}


# -- what stands on each -----------------------------------------------------------------------


def _cluster() -> Iterator[Json]:
    busy, watts = series("gpu.busy_share"), series("gpu.power_watts")
    idle = f'avg_over_time({busy}{{job_id!=""}}[5m]) < 0.05'
    yield _panel("GPUs by what they do", [(own("steward_gpus"), "{{state}}")], stacked=True)
    yield _panel("Jobs that wait", [(own("steward_queue_jobs"), "waiting")])
    yield _panel("GPUs held but idle", [(f"count({idle}) or vector(0)", "held but idle")])
    hours = f"{own('steward_saved_gpu_seconds')} / 3600"
    yield _panel("GPU-hours saved (95 % interval)", [(hours, "{{bound}}")])
    mean = f"avg by (node) ({busy})"
    yield _panel("GPUs busy, by node", [(mean, "{{node}}")], unit="percentunit")
    yield _panel("GPU power, by node", [(f"sum by (node) ({watts})", "{{node}}")], unit="watt")
    hottest = f"topk(10, {series('gpu.temperature_celsius')})"
    yield _panel("Hottest GPUs", [(hottest, "{{node}}/gpu{{gpu}}")], unit="celsius")
    yield _panel(
        "Processors busy", [(series("host.cpu.busy_share"), "{{node}}")], unit="percentunit"
    )
    yield _panel("Decisions", [(own("steward_decisions"), "{{state}}")])
    yield _panel(
        "The loop",
        [
            (own("steward_turn_last_seconds"), "last turn"),
            (own("steward_turn_decided_seconds"), "until decided"),
            (own("steward_behind_seconds"), "behind"),
        ],
        unit=UNITS[OWN["steward_behind_seconds"]],
    )
    turns = f"rate({own('steward_turns_total')}[5m])"
    faults = f"increase({own('steward_faults_total')}[5m])"
    yield _panel("Turns per second", [(turns, "turns")], unit="cps")
    trouble = [(faults, "faults in 5 min"), (own("steward_breaker_open"), "breaker open")]
    yield _panel("Faults", trouble)


def _node() -> Iterator[Json]:
    yield from _chosen(
        "host.cpu.busy_share",
        "host.memory.used_bytes",
        "host.pressure.cpu.some_share",
        "host.pressure.memory.some_share",
        "host.pressure.io.some_share",
        "disk.busy_share",
        "net.receive_bytes_per_s",
        "net.transmit_bytes_per_s",
    )
    of_node = '{node=~"$node"}'
    used, left = (f"{series(f'fs.{word}_bytes')}{of_node}" for word in ("used", "available"))
    full = [(f"{used} / ({used} + {left})", "{{node}} {{fs}}")]
    yield _panel("How full file systems are", full, unit="percentunit", about="as df has it")
    heard = [(f"{own('steward_agent_last_heard_seconds')}{of_node}", "{{node}}")]
    yield _panel("Agents: last heard", heard, unit=UNITS["s"], about="how long ago")
    waits = [(f"{own('steward_agent_waiting_bytes')}{of_node}", "{{node}}")]
    yield _panel("Agents: not sent yet", waits, unit=UNITS["By"])
    lost = [(f"increase({own('steward_agent_lost_parcels_total')}{of_node}[5m])", "{{node}}")]
    yield _panel("Agents: parcels lost in 5 min", lost)
    yield from _rest(("node", "cpu", "numa", "disk", "net", "ib", "mount", "fs"))


def _gpu() -> Iterator[Json]:
    yield from _chosen(
        "gpu.busy_share",
        "gpu.sm.active_share",
        "gpu.tensor.active_share",
        "gpu.dram.active_share",
        "gpu.memory.used_bytes",
        "gpu.power_watts",
        "gpu.temperature_celsius",
        "gpu.clock.sm_hz",
    )
    yield from _rest(("gpu",))


def _jobs() -> Iterator[Json]:
    busy = f'avg by (job_id) ({series("gpu.busy_share")}{{job_id=~"$job_id"}})'
    held = f'count by (job_id) ({series("gpu.busy_share")}{{job_id=~"$job_id"}})'
    yield _panel("GPUs busy, by who holds them", [(busy, "{{job_id}}")], unit="percentunit")
    yield _panel("GPUs held", [(held, "{{job_id}}")])
    yield from _chosen("job.cpu.busy_cores", "job.memory.used_bytes", "job.step.mean_seconds")
    yield from _rest(("job", "share"))


def _serving() -> Iterator[Json]:
    every = '{instance=~"$instance"}'
    mine = '{instance=~"$instance",class=~"$class"}'
    by = "{{instance}} {{class}}"
    upstream = "{{instance}} {{upstream}}"

    def of(name: str, chosen: str = mine) -> str:
        return f"{gateway(name)}{chosen}"

    def rate(name: str, chosen: str = mine) -> str:
        return f"rate({gateway(name)}{chosen}[5m])"

    kept, missed = rate("requests_met_total"), rate("requests_missed_total")
    yield _panel(
        "Promises kept",
        [(f"{kept} / ({kept} + {missed})", by)],
        unit="percentunit",
        about="of the requests that ended in the last 5 minutes",
    )
    yield _panel("Requests that ended", [(rate("requests_done_total"), by)], unit="reqps")
    yield _panel("Requests that wait", [(of("queued"), by)], stacked=True)
    yield _panel("Requests in flight", [(of("in_flight"), by)], stacked=True)
    waits = [(of("oldest_wait_seconds"), f"{by}: oldest")]
    waits.append((of("expected_wait_seconds"), f"{by}: expected for the last"))
    waits.append((of("bound_wait_seconds"), f"{by}: 90 % bound"))
    yield _panel("How long they wait", waits, unit="s")
    for title, name in (
        ("Wait in the queue (99th percentile)", "queue_wait_seconds_bucket"),
        ("Time to the first token (99th percentile)", "first_token_seconds_bucket"),
    ):
        quantile = f"histogram_quantile(0.99, sum by (instance, class, le) ({rate(name)}))"
        yield _panel(title, [(quantile, by)], unit="s")
    within = rate("predicted_waits_within_bound_total", every)
    yield _panel(
        "How well waits are predicted",
        [
            (of("wait_error_median_share", every), "{{instance}}: median error"),
            (f"{within} / {rate('predicted_waits_total', every)}", "{{instance}}: within bound"),
        ],
        unit="percentunit",
        about="90 % of waits should stay within their bound",
    )
    yield _panel(
        "Tokens per second", [(of("upstream_tokens_per_second", every), upstream)], stacked=True
    )
    flight = f"{of('upstream_running', every)} + {of('upstream_waiting', every)}"
    yield _panel(
        "In flight, and limits",
        [(flight, upstream), (of("upstream_limit", every), f"{upstream}: limit")],
    )
    yield _panel("KV caches", [(of("upstream_kv_share", every), upstream)], unit="percentunit")
    yield _panel("Instances that serve", [(of("upstream_up", every), upstream)], stacked=True)
    errors = f"increase({of('upstream_errors_total', every)}[5m])"
    faults = f"increase({of('faults_total', every)}[5m])"
    yield _panel("Errors of instances in 5 min", [(errors, upstream)])
    yield _panel("Errors answered in 5 min", [(faults, "{{instance}} {{code}}")])
    answers = f"sum by (instance, status) ({rate('answers_total', every)})"
    yield _panel("Answers by status", [(answers, "{{instance}} {{status}}")], unit="reqps")
    again = [
        (f"increase({of(f'{name}_total', every)}[5m])", f"{{{{instance}}}}: {name}")
        for name in ("retries", "evictions", "disconnects")
    ]
    yield _panel("Sent again, put back, hung up, in 5 min", again)


def _chosen(*names: str) -> Iterator[Json]:
    for name in names:
        yield _of_metric(KEPT[name])


def _rest(kinds: Sequence[str]) -> Iterator[Json]:
    """Give a folded row per kind and family of metrics, with a panel for each of them."""
    for kind in kinds:
        families: dict[str, list[Metric]] = {}
        for metric in KEPT.values():
            if metric.of == kind:
                families.setdefault(_family(metric.name), []).append(metric)
        for family, metrics in families.items():
            yield _row(f"All of {kind}: {family}", [_of_metric(each) for each in metrics])


def _family(name: str) -> str:
    parts = name.split(".")
    return ".".join(parts[:2]) if len(parts) > 2 else parts[0]


# -- parts -------------------------------------------------------------------------------------


def _of_metric(metric: Metric) -> Json:
    labels, chosen = LABELS[metric.of]
    wanted = ",".join(f'{label}=~"${label}"' for label in chosen)
    legend = " ".join(f"{{{{{label}}}}}" for label in labels)
    query = f"{series(metric.name)}{{{wanted}}}"
    return _panel(metric.name, [(query, legend)], unit=grafana_unit(metric), about=metric.meaning)


def _panel(
    title: str,
    queries: Sequence[tuple[str, str]],
    *,
    unit: str = "short",
    about: str = "",
    stacked: bool = False,
) -> Json:
    custom: Json = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "spanNulls": False}
    custom["stacking"] = {"mode": "normal" if stacked else "none", "group": "A"}
    defaults: Json = {"unit": unit, "custom": custom}
    if unit == "percentunit":
        defaults |= {"min": 0, "max": 1}
    return {
        "type": "timeseries",
        "title": title,
        "description": about,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": SOURCE,
                "editorMode": "code",
                "expr": query,
                "legendFormat": legend,
                "range": True,
            }
            for at, (query, legend) in enumerate(queries)
        ],
    }


def _row(title: str, panels: list[Json]) -> Json:
    return {"type": "row", "title": title, "collapsed": True, "panels": panels}


def _placed(panels: Sequence[Json]) -> list[Json]:
    """Give every panel an id and a place, two beside one another; folded ones lie below."""
    placed: list[Json] = []
    x = y = 0
    for number, panel in enumerate(panels, start=1):
        if panel["type"] == "row":
            y, x = (y + HEIGHT, 0) if x else (y, 0)
            inside = []
            for at, each in enumerate(panel["panels"]):
                place = _place(WIDTH * (at % 2), y + 1 + HEIGHT * (at // 2))
                inside.append({**each, "id": 1000 * number + at, "gridPos": place})
            place = {"h": 1, "w": 2 * WIDTH, "x": 0, "y": y}
            placed.append({**panel, "id": number, "gridPos": place, "panels": inside})
            y += 1
        else:
            placed.append({**panel, "id": number, "gridPos": _place(x, y)})
            x, y = (0, y + HEIGHT) if x else (WIDTH, y)
    return placed


def _place(x: int, y: int) -> Json:
    return {"h": HEIGHT, "w": WIDTH, "x": x, "y": y}


def _dashboard(
    name: str, title: str, panels: Iterator[Json], variables: Sequence[tuple[str, str]]
) -> Json:
    source: Json = {
        "type": "datasource",
        "name": "datasource",
        "label": "Prometheus",
        "query": "prometheus",
        "refresh": 1,
    }
    return {
        "__inputs": [],
        "__requires": [
            {"type": "grafana", "id": "grafana", "name": "Grafana", "version": "10.4.0"},
            {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
            {"type": "panel", "id": "timeseries", "name": "Time series", "version": ""},
        ],
        "annotations": {"list": []},
        "editable": True,
        "graphTooltip": 1,
        "id": None,
        "links": [
            {
                "title": "steward",
                "type": "dashboards",
                "tags": ["steward"],
                "asDropdown": True,
                "keepTime": True,
                "includeVars": True,
            }
        ],
        "panels": _placed(list(panels)),
        "refresh": "30s",
        "schemaVersion": 39,
        "tags": ["steward"],
        "templating": {"list": [source, *(_variable(*each) for each in variables)]},
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "utc",
        "title": f"steward: {title}",
        "uid": f"steward-{name}",
        "version": 1,
    }


def _variable(name: str, query: str) -> Json:
    return {
        "type": "query",
        "name": name,
        "label": name,
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"steward-{name}"},
        "refresh": 2,
        "sort": 7,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }
