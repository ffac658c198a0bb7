"""What can be done about a fault of hardware, from the mildest to the hardest."""

from __future__ import annotations

from enum import Enum

__all__ = ["Part", "Remedy"]


class Remedy(Enum):
    """The rungs of the ladder, in this order; each has a price in `decide.health`."""

    NOTHING = "nothing"  # informational
    FOLLOW = "follow-other"  # another fault near it has the cause
    WATCH = "watch"
    RESTART_JOB = "restart-job"
    RESET_GPU = "reset-gpu"
    REBOOT_NODE = "reboot-node"
    DIAGNOSE = "diagnose"  # drain, then test before it returns
    REPLACE = "replace"  # drain, and return it to the vendor

    @property
    def rank(self) -> int:
        """Return how hard it is: larger ones disturb more."""
        return _ORDER[self]

    @property
    def takes_gpu(self) -> bool:
        """Return whether jobs lose the GPU over it."""
        return self.rank >= Remedy.RESET_GPU.rank


_ORDER = {each: place for place, each in enumerate(Remedy)}


class Part(Enum):
    """Which part of a machine a fault is in, as far as its code tells."""

    PROGRAM = "program"
    DRIVER = "driver"
    MEMORY = "memory"
    LINK = "link"  # NVLink, PCIe, C2C
    ENGINE = "engine"  # copy, video, image and optical flow engines
    BOARD = "board"  # controllers, power, flash memory
    HOST = "host"
    NETWORK = "network"
    NONE = "none"  # informational
