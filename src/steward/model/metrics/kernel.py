"""What the kernel can be asked about itself and about a job: scheduler, disks, TCP, faults."""

from __future__ import annotations

from steward.model.metric import Metric

__all__ = ["KERNEL_METRICS"]

KERNEL_METRICS: tuple[Metric, ...] = ()
