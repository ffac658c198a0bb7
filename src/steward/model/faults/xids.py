"""The meaning of the error codes of NVIDIA's driver, which part they are about, and their remedies.

Codes and remedies follow NVIDIA's public Xid catalogue (October 2025); the texts are ours. Tools
disagree about some of them: `OPINIONS` says how, as of the versions that were read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steward.model.faults.remedies import Part, Remedy

__all__ = ["FATAL_XIDS", "NVLINK5", "OPINIONS", "XIDS", "Xid", "meaning_of"]


NVLINK5 = range(144, 151)  # their lines say by themselves whether they are fatal
_HINTS = {
    Remedy.NOTHING: "nothing has to be done",
    Remedy.FOLLOW: "another Xid near it has the cause",
    Remedy.WATCH: "watch whether it comes back",
    Remedy.RESTART_JOB: "the job has to be restarted",
    Remedy.RESET_GPU: "the GPU has to be reset",
    Remedy.REBOOT_NODE: "the node has to be restarted",
    Remedy.DIAGNOSE: "inspect the hardware",
    Remedy.REPLACE: "the GPU has to be replaced",
}


@dataclass(frozen=True, slots=True)
class Xid:
    """What is known of one code."""

    meaning: str
    part: Part
    remedy: Remedy
    hint: str = ""  # where the remedy's own words would mislead

    @property
    def advice(self) -> str:
        """Return what to do about it, in words."""
        return self.hint or _HINTS[self.remedy]


def _engines(meaning: str, *codes: int, remedy: Remedy = Remedy.RESTART_JOB) -> dict[int, Xid]:
    return dict.fromkeys(codes, Xid(meaning, Part.ENGINE, remedy))


XIDS: Mapping[int, Xid] = {
    8: Xid("the GPU stopped working on a channel", Part.BOARD, Remedy.RESTART_JOB),
    11: Xid("the GPU was given commands that make no sense", Part.PROGRAM, Remedy.RESTART_JOB),
    13: Xid("a kernel of the program failed on the GPU", Part.PROGRAM, Remedy.RESTART_JOB),
    25: Xid("the GPU was given commands that make no sense", Part.PROGRAM, Remedy.RESTART_JOB),
    31: Xid(
        "the program touched GPU memory that it does not have", Part.PROGRAM, Remedy.RESTART_JOB
    ),
    32: Xid("the GPU was given commands that are damaged", Part.PROGRAM, Remedy.RESTART_JOB),
    37: Xid("the driver's firmware reports a fault", Part.DRIVER, Remedy.WATCH),
    38: Xid("the driver's firmware did not answer in time", Part.DRIVER, Remedy.WATCH),
    43: Xid("the GPU gave up on the program's work", Part.PROGRAM, Remedy.RESTART_JOB),
    44: Xid("the GPU failed while changing between programs", Part.DRIVER, Remedy.WATCH),
    45: Xid("the program's work was removed after an earlier error", Part.PROGRAM, Remedy.FOLLOW),
    46: Xid("the GPU stopped answering", Part.BOARD, Remedy.RESET_GPU),
    48: Xid("GPU memory had an error that could not be corrected", Part.MEMORY, Remedy.RESET_GPU),
    54: Xid("the GPU board has no auxiliary power", Part.BOARD, Remedy.DIAGNOSE),
    60: Xid("a video processor failed", Part.DRIVER, Remedy.RESTART_JOB),
    61: Xid("a controller inside the GPU stopped", Part.BOARD, Remedy.RESET_GPU),
    62: Xid("a controller inside the GPU halted", Part.BOARD, Remedy.RESET_GPU),
    63: Xid(
        "a bad row of GPU memory will be replaced at the next reset", Part.MEMORY, Remedy.WATCH
    ),
    64: Xid("a bad row of GPU memory could not be replaced", Part.MEMORY, Remedy.RESET_GPU),
    66: Xid("the driver made a forbidden access", Part.DRIVER, Remedy.WATCH),
    67: Xid("the driver made a forbidden access", Part.DRIVER, Remedy.WATCH),
    69: Xid("the program gave the GPU a wrong command", Part.PROGRAM, Remedy.RESTART_JOB),
    74: Xid("an NVLink connection failed", Part.LINK, Remedy.RESET_GPU),
    78: Xid(
        "a virtual GPU could not start", Part.DRIVER, Remedy.WATCH, "driver versions have to match"
    ),
    79: Xid("the GPU has fallen off the bus", Part.LINK, Remedy.REBOOT_NODE),
    80: Xid("the GPU was given commands that are damaged", Part.PROGRAM, Remedy.RESTART_JOB),
    92: Xid("GPU memory has many errors that can be corrected", Part.MEMORY, Remedy.WATCH),
    93: Xid("the GPU's own flash memory is worn", Part.BOARD, Remedy.WATCH),
    94: Xid("a memory error hit one program only", Part.MEMORY, Remedy.RESTART_JOB),
    95: Xid("a memory error may have hit every program on the GPU", Part.MEMORY, Remedy.RESET_GPU),
    106: Xid("a test message of the management bus", Part.NONE, Remedy.NOTHING),
    107: Xid("a test message of the management bus", Part.NONE, Remedy.NOTHING),
    109: Xid("the GPU could not change between programs in time", Part.BOARD, Remedy.RESET_GPU),
    110: Xid("the GPU found a breach of its security", Part.BOARD, Remedy.RESET_GPU),
    119: Xid("the GPU's system processor does not answer", Part.DRIVER, Remedy.RESET_GPU),
    120: Xid("the GPU's system processor failed", Part.DRIVER, Remedy.RESET_GPU),
    121: Xid("the link between GPU and CPU had an error", Part.LINK, Remedy.WATCH),
    122: Xid("the GPU's flash memory could not be read", Part.BOARD, Remedy.WATCH),
    123: Xid("the GPU's flash memory could not be written", Part.BOARD, Remedy.WATCH),
    136: Xid("an NVLink connection could not be set up", Part.LINK, Remedy.RESET_GPU),
    137: Xid("another GPU made a forbidden access over NVLink", Part.LINK, Remedy.WATCH),
    140: Xid("GPU memory had an error that could not be corrected", Part.MEMORY, Remedy.RESET_GPU),
    141: Xid("a fast path of CUDA failed", Part.DRIVER, Remedy.WATCH),
    142: Xid("a video encoder failed", Part.ENGINE, Remedy.DIAGNOSE),
    143: Xid("the GPU could not be set up", Part.BOARD, Remedy.RESET_GPU),
    151: Xid("the key of a protected GPU could not be renewed", Part.DRIVER, Remedy.RESET_GPU),
    152: Xid(
        "the deep-learning accelerator touched memory that it does not have",
        Part.DRIVER,
        Remedy.WATCH,
    ),
    153: Xid("the deep-learning accelerator did not answer in time", Part.DRIVER, Remedy.WATCH),
    154: Xid("what the GPU needs in order to recover has changed", Part.NONE, Remedy.FOLLOW),
    155: Xid("NVLink reports an error of its software", Part.LINK, Remedy.RESET_GPU),
    156: Xid("a worn part of the GPU is taken out of use", Part.BOARD, Remedy.RESET_GPU),
    157: Xid("a worn part of the GPU could not be taken out of use", Part.BOARD, Remedy.WATCH),
    158: Xid("the GPU did not answer in time, for good", Part.BOARD, Remedy.RESET_GPU),
    159: Xid("the link between GPU and CPU reports an error without data", Part.LINK, Remedy.WATCH),
    160: Xid("a channel of GPU memory is taken out of use", Part.MEMORY, Remedy.WATCH),
    161: Xid("a channel of GPU memory could not be taken out of use", Part.MEMORY, Remedy.WATCH),
    162: Xid("power smoothing works again", Part.BOARD, Remedy.NOTHING),
    163: Xid("power smoothing has stopped", Part.BOARD, Remedy.WATCH),
    164: Xid("power smoothing is nearly worn out", Part.BOARD, Remedy.WATCH),
    165: Xid("power smoothing is worn out", Part.BOARD, Remedy.DIAGNOSE),
    166: Xid("NVLink was used before its encryption was set up", Part.LINK, Remedy.RESET_GPU),
    167: Xid("the GPU's PCIe link did not answer in time", Part.LINK, Remedy.RESET_GPU),
    168: Xid("the GPU has lost part of its memory", Part.MEMORY, Remedy.DIAGNOSE),
    169: Xid("a controller inside the GPU halted", Part.BOARD, Remedy.RESET_GPU),
    170: Xid("an interrupt was seen in confidential mode", Part.LINK, Remedy.RESTART_JOB),
    171: Xid("GPU memory had an error that could not be corrected", Part.MEMORY, Remedy.FOLLOW),
    172: Xid(
        "memory inside the GPU had an error that could not be corrected", Part.MEMORY, Remedy.FOLLOW
    ),
    173: Xid("the link between GPU and CPU failed", Part.LINK, Remedy.REBOOT_NODE),
    **_engines("a copy engine failed", 39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)),
    **_engines("a video decoder failed", 68, 83, 84, 88, 89, 96, 97, 98),
    **_engines("an image decoder failed", 82, *range(99, 106)),
    **_engines("an optical flow engine failed", 86, 139),
    **dict.fromkeys(
        NVLINK5,
        Xid("NVLink reports an error", Part.LINK, Remedy.WATCH, "it depends on its details"),
    ),
}

FATAL_XIDS = frozenset(code for code, each in XIDS.items() if each.remedy.takes_gpu)

_TOOLS = ("gpud", "DCGM health", "Meta GCM", "Azure NHC", "Imbue")


def _said(*words: str) -> dict[str, str]:
    return {tool: word for tool, word in zip(_TOOLS, words, strict=True) if word}


OPINIONS: Mapping[int, Mapping[str, str]] = {
    31: _said("warning", "warn (memory)", "non-critical", "not listed", ""),
    38: _said("fatal, reboot", "PCIe bus error", "critical", "not listed", ""),
    45: _said("ignore", "", "non-critical", "not listed", ""),
    62: _said("fatal, reboot", "thermal violation", "critical", "fail", "hardware"),
    63: _said("fatal, reboot", "warn", "non-critical", "fail", "hardware"),
    67: _said("warning", "NVLink error", "critical", "not listed", ""),
    94: _said("fatal, reboot (after 1,000)", "warn", "critical", "not listed", "hardware"),
    95: _said("fatal, reboot", "fail", "critical", "not listed", "hardware"),
    109: _said("warning", "", "non-critical", "not listed", ""),
    119: _said("fatal, reboot", "fail", "critical", "fail", "hardware"),
    120: _said("fatal, reboot", "fail", "critical", "fail", "hardware"),
    **{code: _said("by rule", "", "critical", "not listed", "") for code in NVLINK5},
}


def meaning_of(code: int) -> str:
    """Return the meaning and the remedy of a code, also of an unknown one.

    >>> meaning_of(79)
    'Xid 79: the GPU has fallen off the bus; the node has to be restarted'
    """
    if code not in XIDS:
        return f"Xid {code}: see NVIDIA's Xid catalogue"
    known = XIDS[code]
    return f"Xid {code}: {known.meaning}; {known.advice}"
