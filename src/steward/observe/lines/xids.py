"""The meaning of the well-known error codes of NVIDIA's driver, and their remedies.

Codes and remedies follow NVIDIA's public Xid catalogue (October 2025); the texts are ours.
"""

from __future__ import annotations

__all__ = ["XIDS", "meaning_of"]

_JOB = "the job has to be restarted"
_RESET = "the GPU has to be reset"
_NODE = "the node has to be restarted"
_WATCH = "watch whether it comes back"
_LOOK = "inspect the hardware"
_OTHER = "another Xid near it has the cause"

XIDS: dict[int, tuple[str, str]] = {
    8: ("the GPU stopped working on a channel", _JOB),
    11: ("the GPU was given commands that make no sense", _JOB),
    13: ("a kernel of the program failed on the GPU", _JOB),
    25: ("the GPU was given commands that make no sense", _JOB),
    31: ("the program touched GPU memory that it does not have", _JOB),
    32: ("the GPU was given commands that are damaged", _JOB),
    37: ("the driver's firmware reports a fault", _WATCH),
    38: ("the driver's firmware did not answer in time", _WATCH),
    39: ("a copy engine failed", _JOB),
    40: ("a copy engine failed", _JOB),
    41: ("a copy engine failed", _JOB),
    43: ("the GPU gave up on the program's work", _JOB),
    44: ("the GPU failed while changing between programs", _WATCH),
    45: ("the program's work was removed after an earlier error", _OTHER),
    46: ("the GPU stopped answering", _RESET),
    48: ("GPU memory had an error that could not be corrected", _RESET),
    54: ("the GPU board has no auxiliary power", _LOOK),
    61: ("a controller inside the GPU stopped", _RESET),
    62: ("a controller inside the GPU halted", _RESET),
    63: ("a bad row of GPU memory will be replaced at the next reset", _WATCH),
    64: ("a bad row of GPU memory could not be replaced", _RESET),
    66: ("the driver made a forbidden access", _WATCH),
    67: ("the driver made a forbidden access", _WATCH),
    69: ("the program gave the GPU a wrong command", _JOB),
    74: ("an NVLink connection failed", _RESET),
    78: ("a virtual GPU could not start", "driver versions have to match"),
    79: ("the GPU has fallen off the bus", _NODE),
    80: ("the GPU was given commands that are damaged", _JOB),
    92: ("GPU memory has many errors that can be corrected", _WATCH),
    93: ("the GPU's own flash memory is worn", _WATCH),
    94: ("a memory error hit one program only", _JOB),
    95: ("a memory error may have hit every program on the GPU", _RESET),
    109: ("the GPU could not change between programs in time", _RESET),
    110: ("the GPU found a breach of its security", _RESET),
    119: ("the GPU's system processor does not answer", _RESET),
    120: ("the GPU's system processor failed", _RESET),
    121: ("the link between GPU and CPU had an error", _WATCH),
    122: ("the GPU's flash memory could not be read", _WATCH),
    123: ("the GPU's flash memory could not be written", _WATCH),
    136: ("an NVLink connection could not be set up", _RESET),
    137: ("another GPU made a forbidden access over NVLink", _WATCH),
    140: ("GPU memory had an error that could not be corrected", _RESET),
    141: ("a fast path of CUDA failed", _WATCH),
    143: ("the GPU could not be set up", _RESET),
    **dict.fromkeys(range(144, 151), ("NVLink reports an error", "it depends on its details")),
    154: ("what the GPU needs in order to recover has changed", _OTHER),
    155: ("NVLink reports an error of its software", _RESET),
    156: ("a worn part of the GPU is taken out of use", _RESET),
    157: ("a worn part of the GPU could not be taken out of use", _WATCH),
    158: ("the GPU did not answer in time, for good", _RESET),
    160: ("a channel of GPU memory is taken out of use", _WATCH),
    161: ("a channel of GPU memory could not be taken out of use", _WATCH),
    162: ("power smoothing works again", "nothing has to be done"),
    163: ("power smoothing has stopped", _WATCH),
    164: ("power smoothing is nearly worn out", _WATCH),
    165: ("power smoothing is worn out", _LOOK),
    167: ("the GPU's PCIe link did not answer in time", _RESET),
    168: ("the GPU has lost part of its memory", _LOOK),
    169: ("a controller inside the GPU halted", _RESET),
    171: ("GPU memory had an error that could not be corrected", _OTHER),
    172: ("memory inside the GPU had an error that could not be corrected", _OTHER),
    173: ("the link between GPU and CPU failed", _NODE),
}


def meaning_of(code: int) -> str:
    """Return the meaning and the remedy of a code, also of an unknown one.

    >>> meaning_of(79)
    'Xid 79: the GPU has fallen off the bus; the node has to be restarted'
    """
    if code not in XIDS:
        return f"Xid {code}: see NVIDIA's Xid catalogue"
    return f"Xid {code}: {'; '.join(XIDS[code])}"
