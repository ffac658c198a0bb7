"""Small rules with their logs, for trying commands on."""

from __future__ import annotations

from pathlib import Path

FULL = """\
rules:
  - cre:
      id: DISK-0001
      severity: {severity}
      title: Checkpoint failed and nobody wrote another
      tags: [disk]
      cause: the disk is full
      impact: work is lost
      mitigation: make room
      references: ['https://example.org/disk']
    rule:
      sequence:
        event: {{source: cre.log.training}}
        window: 10m
        order:
          - regex: 'checkpoint \\d+ begun'
          - value: 'disk full'
        negate:
          - value: 'written elsewhere'
            window: 1m
"""
LOG = """\
2026-03-02 10:00:00 INFO checkpoint 7 begun
2026-03-02 10:00:05 INFO something else
2026-03-02 10:01:00 ERROR disk full <b>&
"""
SILENT = LOG + "2026-03-02 10:01:30 INFO written elsewhere\n"
IDLE = """\
rules:
  - cre:
      id: IDLE-0001
      severity: 3
      title: GPU does nothing
      cause: c
      impact: i
      mitigation: m
    rule:
      set:
        match:
          - promql: {expr: 'gpu_busy_share < 0.1', for: 1m, event: {source: telemetry}}
    steward: {action: tell, advice: 'use it, or give it back'}
"""


def disk_rule(place: Path, *, severity: int = 1) -> Path:
    """Make a folder with one rule, a log on which it fires, and one on which it does not."""
    folder = place / "pack" / "disk-full"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rule.yaml").write_text(FULL.format(severity=severity), encoding="utf-8")
    (folder / "test.log").write_text(LOG, encoding="utf-8")
    (folder / "test-fp.log").write_text(SILENT, encoding="utf-8")
    return folder


def idle_series(place: Path) -> tuple[Path, Path]:
    """Make a rule about series, and a series on which it fires."""
    rule = place / "idle.yaml"
    rule.write_text(IDLE, encoding="utf-8")
    rows = [f"{1_790_000_000 + 10 * i},n01/gpu0,{0.9 if i < 6 else 0.01}" for i in range(30)]
    file = place / "series.csv"
    file.write_text("t_s,entity,gpu.busy_share\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return rule, file
