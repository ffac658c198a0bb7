"""Alerts: what somebody should be told about, when, and why at this figure."""

from __future__ import annotations

from dataclasses import dataclass

from deploying.names import gateway, own, series
from steward.model.faults import XIDS
from steward.observe.intake import SILENT_AFTER_S

__all__ = ["ALERTS", "Alert", "rules_file"]

XID_CODES = sorted(code for code, each in XIDS.items() if each.remedy.takes_gpu)
DAY_S = 86_400
GPU, NODE = "{{ $labels.node }}/gpu{{ $labels.gpu }}", "{{ $labels.node }}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One rule. `why` says where its figures come from."""

    name: str
    why: str
    expr: str
    for_: str
    severity: str
    summary: str
    text: str


def _alert(name: str, expr: str, for_: str, severity: str, *said: str) -> Alert:
    why, summary, text = said
    return Alert(
        name=name, why=why, expr=expr, for_=for_, severity=severity, summary=summary, text=text
    )


_XID = series("gpu.xid_code")
_SPEAKS = f"{series('host.cpu.busy_share')} or {series('gpu.temperature_celsius')}"
_TEMPERATURE = series("gpu.temperature_celsius")
_HOST = series("host.cpu.busy_share")
_USED, _LEFT = series("fs.used_bytes"), series("fs.available_bytes")
_FREE = f"{_LEFT} / ({_USED} + {_LEFT})"
_HEARD = own("steward_agent_last_heard_seconds")
FS = "{{ $labels.node }} {{ $labels.fs }}"

_MET, _MISSED = (
    f"increase({gateway(f'requests_{each}_total')}[10m])" for each in ("met", "missed")
)
_WITHIN = f"increase({gateway('predicted_waits_within_bound_total')}[1h])"
_PREDICTED = f"increase({gateway('predicted_waits_total')}[1h])"
CLASS, UPSTREAM = "{{ $labels.class }}", "{{ $labels.upstream }}"

ALERTS = (
    _alert(
        "StewardDown",
        'up{job="steward"} == 0',
        "2m",
        "critical",
        "Two minutes outlast a restart. Nobody acts, and nobody sees, while it is down.",
        "steward does not answer",
        "{{ $labels.instance }} cannot be scraped. Look at `journalctl -u steward`.",
    ),
    _alert(
        "StewardStalled",
        f"increase({own('steward_turns_total')}[5m]) == 0",
        "5m",
        "critical",
        "A turn takes seconds and comes every ten; none in five minutes is no slow disk.",
        "steward's loop does not turn",
        "It answers but decides nothing. `/readyz` says why.",
    ),
    _alert(
        "StewardFaults",
        f"increase({own('steward_faults_total')}[15m]) > 3",
        "0m",
        "warning",
        "A single fault is got over; one that comes back every few minutes hides telemetry.",
        "steward reports faults",
        "{{ $value | humanize }} faults in 15 minutes. `/api/v1/cluster` lists them under status.",
    ),
    _alert(
        "StewardBreakerOpen",
        f"{own('steward_breaker_open')} == 1",
        "0m",
        "warning",
        "The breaker opens when outcomes are worse than promised: somebody should look why.",
        "steward has stopped acting",
        "Its circuit breaker is open. `steward decisions list` shows what went wrong.",
    ),
    _alert(
        "NodeSilent",
        f"group by (node) (last_over_time({_HOST}[30m])) unless group by (node) ({_HOST})",
        "3m",
        "critical",
        "Agents send every few seconds, and values older than observe.stale_after_s are not shown "
        "any more. Three minutes outlast an agent's restart. It ends by itself after 30 minutes.",
        f"{NODE} is silent",
        f"No telemetry of {NODE}: the node, its agent or the way between is down.",
    ),
    _alert(
        "AgentSilent",
        f"{_HEARD} > {SILENT_AFTER_S:.0f} and {_HEARD} < {DAY_S}",
        "1m",
        "critical",
        "Agents send every few seconds, also when nothing happens, and keep what they cannot "
        "send: it is delayed, and lost when the buffer is full. After a day the node was taken "
        "away on purpose. An agent that never came since steward was started is not known here.",
        f"the agent of {NODE} is silent",
        "It was last heard {{ $value | humanizeDuration }} ago. Look at `journalctl -u "
        f"steward-agent` on {NODE}.",
    ),
    _alert(
        "AgentLosesParcels",
        f"increase({own('steward_agent_lost_parcels_total')}[1h]) > 0",
        "0m",
        "warning",
        "One is enough: its buffer was full or broken, and what was in it is gone for good.",
        f"the agent of {NODE} has lost telemetry",
        "{{ $value | humanize }} parcels in an hour. Make its buffer larger, or look why it could "
        "not send.",
    ),
    _alert(
        "GpuLost",
        f"group by (node, gpu) (last_over_time({_TEMPERATURE}[30m]))\n"
        f"unless group by (node, gpu) ({_TEMPERATURE})\n"
        f"and on (node) group by (node) ({_SPEAKS})",
        "3m",
        "critical",
        "Every GPU has a temperature. One that falls silent while its node still speaks has most "
        "likely fallen off the bus.",
        f"{GPU} is gone",
        f"{NODE} is there, but its GPU {{{{ $labels.gpu }}}} says nothing any more. "
        "Drain the node; `dmesg` has the Xid.",
    ),
    _alert(
        "GpuIdleWhileAllocated",
        f'avg_over_time({series("gpu.busy_share")}{{job_id!=""}}[5m]) < 0.05',
        "30m",
        "info",
        "Below 5 % is noise of the driver, not work. Half an hour is longer than loading data or "
        "writing a checkpoint takes.",
        f"{GPU} is held but idle",
        "Job {{ $labels.job_id }} has held it for half an hour without using it.",
    ),
    _alert(
        "GpuXidHardware",
        "\nor ".join(f"{_XID} == {code}" for code in XID_CODES),
        "0m",
        "critical",
        "Codes whose remedy is a reset, a restart or a person; those that are a program's own "
        "fault (13, 31, 43, 45, ...) are not among them.",
        f"{GPU} reports Xid {{{{ $value }}}}",
        "The GPU or its node has to be reset, or looked at. NVIDIA's Xid catalogue says which.",
    ),
    _alert(
        "GpuMemoryUncorrected",
        f"increase({series('gpu.ecc.uncorrected_count')}[1h]) > 0",
        "0m",
        "critical",
        "One is enough: what was read was wrong, and the job that read it is in doubt.",
        f"{GPU} had a memory error that ECC could not correct",
        "Its job should start again from a checkpoint, and the GPU be reset.",
    ),
    _alert(
        "GpuRowRemapFailed",
        f"{series('gpu.rows.remap_failed_code')} > 0",
        "0m",
        "critical",
        "No spare rows are left: NVIDIA takes such a board back.",
        f"{GPU} cannot replace a bad row of memory",
        "Take it out of service; it qualifies for a replacement.",
    ),
    _alert(
        "GpuRowRemapPending",
        f"{series('gpu.rows.remap_pending_code')} > 0",
        "1h",
        "warning",
        "It is done at the next reset. An hour leaves time for whoever drains nodes anyway.",
        f"{GPU} waits for a reset",
        "A bad row of memory is replaced when the GPU is reset. Drain the node and do it.",
    ),
    _alert(
        "GpuThermalThrottle",
        f"avg_over_time({series('gpu.throttle.thermal_share')}[10m]) > 0.1",
        "10m",
        "warning",
        "Short peaks are by design; a tenth of the time for twenty minutes is a fan, dust or the "
        "room.",
        f"{GPU} is slowed down by heat",
        "{{ $value | humanizePercentage }} of the time. Look at fans and the inlet temperature.",
    ),
    _alert(
        "GpuPowerThrottle",
        f"avg_over_time({series('gpu.throttle.power_share')}[30m]) > 0.5",
        "1h",
        "info",
        "Dense matrix work runs into the cap by design. Most of an hour and a half is worth "
        "knowing when jobs are slower than they were.",
        f"{GPU} is slowed down by its power cap",
        "{{ $value | humanizePercentage }} of the time.",
    ),
    _alert(
        "NvlinkErrors",
        f"max_over_time({series('gpu.nvlink.replays_per_s')}[10m]) > 0\n"
        f"or max_over_time({series('gpu.nvlink.recoveries_per_s')}[10m]) > 0\n"
        f"or avg_over_time({series('gpu.nvlink.crc_errors_per_s')}[10m]) > 1",
        "10m",
        "warning",
        "A healthy link has neither replays nor recoveries. Single CRC errors are corrected; one "
        "per second costs bandwidth of every collective.",
        f"{GPU} has errors on NVLink",
        "{{ $value | humanize }} per second. Watch for Xid 74; reseat or reset.",
    ),
    _alert(
        "PcieReplays",
        f"avg_over_time({series('gpu.pcie.replays_per_s')}[15m]) > 0.1",
        "15m",
        "warning",
        "A handful per day is normal. Six per minute is a riser, a connector or the board.",
        f"{GPU} repeats packets on PCIe",
        "{{ $value | humanize }} per second.",
    ),
    _alert(
        "HostMemoryPressure",
        f"avg_over_time({series('host.pressure.memory.full_share')}[5m]) > 0.1",
        "5m",
        "warning",
        "A tenth of the time in which nothing at all gets on: the OOM killer comes next.",
        f"{NODE} runs out of memory",
        "All tasks wait for memory {{ $value | humanizePercentage }} of the time.",
    ),
    _alert(
        "HostOomKill",
        f"max_over_time({series('host.memory.oom_kills_per_s')}[5m]) > 0",
        "0m",
        "warning",
        "One is enough: somebody's process was killed.",
        f"the kernel of {NODE} killed a process for want of memory",
        "`steward observe query` on the node's logs names it.",
    ),
    _alert(
        "HostMemoryUncorrected",
        f"max_over_time({series('host.memory.uncorrected_errors_per_s')}[10m]) > 0",
        "0m",
        "critical",
        "One is enough: the memory module has to be replaced.",
        f"{NODE} had a memory error that ECC could not correct",
        "Drain the node and replace the module.",
    ),
    _alert(
        "DiskFull",
        f"{_FREE} < 0.05\nor {series('fs.inodes_used_share')} > 0.95",
        "5m",
        "critical",
        "As df counts it: what is kept for root is not free. At 5 % checkpoints begin to fail, "
        "and many file systems become slow. Without inodes nothing can be made either.",
        f"{FS} is full",
        "Bytes or inodes run out (`df`, `df -i`). Find out whose with `du -xh --max-depth 1 "
        "{{ $labels.fs }}`.",
    ),
    _alert(
        "DiskFillsUp",
        f"predict_linear({_LEFT}[6h], {DAY_S}) < 0\nand {_FREE} < 0.4\n"
        f"and count_over_time({_LEFT}[6h] offset 3h) > 0",
        "1h",
        "warning",
        "A straight line through six hours that ends within a day. Scratch space that is mostly "
        "empty rises and falls: with 40 % free, and in its first three hours, it is left alone.",
        f"{FS} will be full within a day",
        "At the pace of the last six hours. Clean up, or stop who writes.",
    ),
    _alert(
        "InfinibandErrors",
        f"avg_over_time({series('ib.symbol_errors_per_s')}[15m]) > 0.1\n"
        f"or max_over_time({series('ib.link_failures_per_s')}[15m]) > 0\n"
        f"or max_over_time({series('ib.integrity_errors_per_s')}[15m]) > 0",
        "5m",
        "warning",
        "Symbol errors are rare on a good cable (specified below one per hour or so); a link that "
        "went down at all stalls every job across it.",
        f"{NODE} port {{{{ $labels.ib }}}} has errors",
        "{{ $value | humanize }} per second. Clean or replace the cable.",
    ),
    _alert(
        "ClockOff",
        f"abs({series('host.clock.offset_seconds')}) > 0.5",
        "10m",
        "warning",
        "Half a second is five samples: causes and effects change places.",
        f"the clock of {NODE} is off",
        "By {{ $value | humanizeDuration }}. Look at chrony or ntpd.",
    ),
    _alert(
        "GatewayMissesDeadlines",
        f"{_MISSED} / ({_MET} + {_MISSED}) > 0.05\nand {_MET} + {_MISSED} >= 20",
        "5m",
        "warning",
        "One in a hundred is what plans allow; one in twenty for a quarter of an hour, of at least "
        "twenty requests, is too few instances or a broken one.",
        f"requests of class {CLASS} miss their deadlines",
        "{{ $value | humanizePercentage }} in 10 minutes. `steward serve status` shows the queues, "
        "`steward serve plan` how many instances they need.",
    ),
    _alert(
        "GatewayQueueStuck",
        f"{gateway('queued')} > 0\n"
        f"and on (instance) sum by (instance) (increase({gateway('requests_done_total')}[10m])) "
        "== 0",
        "10m",
        "critical",
        "Requests wait and none has ended in ten minutes, twice over. The longest answers of a "
        "model take less.",
        f"requests of class {CLASS} wait and nothing ends",
        "{{ $value | humanize }} wait. Look at the instances: `steward serve status`.",
    ),
    _alert(
        "GatewayWithoutInstances",
        f"max by (instance) ({gateway('upstream_up')}) == 0",
        "1m",
        "critical",
        "A minute outlasts a restart behind a load balancer. Requests wait, and then fail.",
        "no model server gets requests",
        "All instances of {{ $labels.instance }} are down, starting or draining.",
    ),
    _alert(
        "GatewayInstanceDown",
        f"{gateway('upstream_up')} == 0\nand on (instance, upstream) "
        f"increase({gateway('upstream_errors_total')}[15m]) > 0",
        "5m",
        "warning",
        "One that drains or starts has no errors. Five minutes outlast a restart.",
        f"model server {UPSTREAM} is down",
        "It fails, and gets no requests. Its own log says why.",
    ),
    _alert(
        "GatewayPredictsBadly",
        f"{_WITHIN} / {_PREDICTED} < 0.75\nand {_PREDICTED} >= 100",
        "30m",
        "info",
        "Nine of ten waits should stay within their bound. Fewer than three of four, for an hour "
        "and of at least a hundred, means that the order and scaling rest on wrong times.",
        "waits are longer than predicted",
        "Only {{ $value | humanizePercentage }} stayed within their 90 % bound in an hour. A new "
        "model or other prompts are learnt within some hundred requests.",
    ),
)


def rules_file() -> str:
    """Return the file of rules."""
    lines = ["groups:", "  - name: steward", "    rules:"]
    for each in ALERTS:
        lines += [
            *(f"      # {line}" for line in _wrapped(each.why)),
            f"      - alert: {each.name}",
        ]
        lines += ["        expr: |-", *(f"          {line}" for line in each.expr.splitlines())]
        lines += [f"        for: {each.for_}"] if each.for_ != "0m" else []
        lines += ["        labels:", f"          severity: {each.severity}"]
        lines += ["        annotations:", f"          summary: {_quoted(each.summary)}"]
        lines += [f"          description: {_quoted(each.text)}"]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, width: int = 92) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
