"""Detectors: find the conditions in a view that need attention."""

from steward.decide.rules.gpu_idle_while_allocated import GpuIdleWhileAllocated
from steward.model.view import ClusterView
from steward.ports import Detector

__all__ = ["DETECTORS"]

DETECTORS: dict[str, type[Detector[ClusterView]]] = {
    "gpu-idle-while-allocated": GpuIdleWhileAllocated
}
