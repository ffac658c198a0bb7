"""Power limits of GPUs: what they are, what they may be, and setting one.

A limit holds until somebody sets another or the driver is unloaded, whoever has set it and whatever
became of that process. So whoever sets one has to remember what was there before.
"""

from __future__ import annotations

from ctypes import byref, c_uint32
from dataclasses import dataclass

from steward.clients.nvml.library import LOST, NOT_FOUND, Library, lost
from steward.errors import PermanentError, TemporaryError

__all__ = ["PowerLimitControl", "PowerLimitRefusedError", "PowerLimits"]

SAME_WATTS = 0.5
MILLI = 1000.0
_WORDS = {
    3: ("this GPU does not let its power limit be set", "there is nothing to do about it"),
    4: (
        "the driver refuses to change the power limit: no permission",
        "run steward as root; in a container also with CAP_SYS_ADMIN",
    ),
    13: ("this driver cannot set power limits", "update the NVIDIA driver"),
}


class PowerLimitRefusedError(PermanentError):
    """The driver does not set this limit, and would not do so if it were asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLimits:
    """The limit of one GPU, and what it may be."""

    watts: float  # as it was set last
    default_watts: float
    least_watts: float
    most_watts: float


class PowerLimitControl:
    """Reads and sets the limits of the GPUs of this machine, by their index."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def read(self, index: int) -> PowerLimits:
        """Return the limits of a GPU, or raise `GpuLostError` or `PowerLimitRefusedError`."""
        handle = self._library.handle(index)
        least, most = c_uint32(), c_uint32()
        call = "nvmlDeviceGetPowerManagementLimitConstraints"
        self._check(index, self._library.call(call, handle, byref(least), byref(most)))
        found = []
        for name in ("Limit", "DefaultLimit"):
            answer = c_uint32()
            call = f"nvmlDeviceGetPowerManagement{name}"
            self._check(index, self._library.call(call, handle, byref(answer)))
            found.append(answer.value / MILLI)
        watts, default_watts = found
        return PowerLimits(
            watts=watts,
            default_watts=default_watts,
            least_watts=least.value / MILLI,
            most_watts=most.value / MILLI,
        )

    def set(self, index: int, watts: float) -> None:
        """Set the limit of a GPU and read it back, or raise with the driver's reason."""
        limits = self.read(index)
        if not limits.least_watts <= watts <= limits.most_watts:
            raise PowerLimitRefusedError(
                f"{watts:.0f} W is outside of what this GPU accepts",
                where=f"GPU {index}",
                hint=f"it accepts {limits.least_watts:.0f} to {limits.most_watts:.0f} W",
            )
        handle, wanted = self._library.handle(index), c_uint32(round(watts * MILLI))
        call = "nvmlDeviceSetPowerManagementLimit"
        self._check(index, self._library.call(call, handle, wanted))
        now_watts = self.read(index).watts
        if abs(now_watts - watts) > SAME_WATTS:
            problem = f"the driver took {watts:.0f} W and holds the GPU to {now_watts:.0f} W"
            raise PowerLimitRefusedError(problem, where=f"GPU {index}")

    def _check(self, index: int, code: int) -> None:
        if not code:
            return
        text = self._library.error_text(code)
        if code in LOST or code == NOT_FOUND:
            raise lost(index, text)
        if code in _WORDS:
            problem, hint = _WORDS[code]
            raise PowerLimitRefusedError(problem, where=f"GPU {index}", hint=hint)
        problem = f"the driver did not change the power limit: {text}"
        raise TemporaryError(problem, where=f"GPU {index}", hint="run nvidia-smi: does it answer?")
