"""A line of syslog names its host; other lines name none."""

from __future__ import annotations

import pytest

from steward.model.rules import syslog_host


@pytest.mark.parametrize(
    ("line", "host"),
    [
        (b"Jun  1 00:00:01 gpu-7 kernel: NVRM: Xid", "gpu-7"),
        (b"Jun 11 00:00:01.123456 gpu-7 slurmd[12]: error", "gpu-7"),
        (b"<14>Jun  1 00:00:01 gpu-7.site.example kernel: x", "gpu-7.site.example"),
        (b"<14>1 2025-06-01T00:00:01+00:00 10.0.0.7 sshd[12]: x", "10.0.0.7"),
        (b"2025-06-01T00:00:01+00:00 gpu-7 sshd[12]: x", "gpu-7"),
        (b"Jun  1 00:00:01 gpu-7 last message repeated 3 times", "gpu-7"),
        (b"2025-06-01T00:00:01Z INFO starting", ""),
        (b"2025-06-01T00:00:01Z ERROR worker[3]: x", ""),
        (b"gpu-7 kernel: x", ""),
        (b"\xff\xfe", ""),
        (b"", ""),
    ],
)
def test_only_syslog_names_a_host(line: bytes, host: str) -> None:
    assert syslog_host(line) == host


@pytest.mark.parametrize(
    ("rest", "host"),
    [
        (b"gpu-7 kernel: x", "gpu-7"),
        (b"gpu-7 sshd[12]: x", "gpu-7"),
        (b"ERROR worker[3]: x", ""),
        (b"engine core: x", ""),
    ],
)
def test_after_its_time_only_a_tag_that_syslog_writes_is_believed(rest: bytes, host: str) -> None:
    assert syslog_host(rest, time_removed=True) == host
