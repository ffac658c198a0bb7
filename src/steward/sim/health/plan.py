"""How a simulated fleet fails: rates of published studies, and what each kind of fault needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["FAULTS", "FaultForm", "FleetPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultForm:
    """One kind of fault: how common, the lines that it writes, and how often it needs what.

    `needs` are shares of: a new start of the job, a reset, a restart of the node, another part.
    """

    weight: float
    lines: tuple[str, ...]
    needs: tuple[float, float, float, float]


# Weights follow the hardware part of Llama 3's interruptions (faulty GPU 148, HBM3 72, SRAM 19,
# GSP 17, cables and switches 35) and Delta's episodes; needs follow Delta's outcomes (remapping
# works in half of the cases, all mitigations in 71 %; GSP errors end in a state that needs a
# restart; links recur on the same GPU in 66 %) and Crusoe's recovered and replaced hosts.
FAULTS: tuple[FaultForm, ...] = (
    FaultForm(
        weight=30.0,
        lines=("79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",),
        needs=(0.02, 0.03, 0.70, 0.25),
    ),
    FaultForm(
        weight=17.0,
        lines=(
            "48, pid=77, An uncorrectable double bit error (DBE) has been detected on GPU",
            "63, pid=77, Row Remapper: New row marked for remapping, reset gpu to activate",
        ),
        needs=(0.10, 0.72, 0.08, 0.10),
    ),
    FaultForm(
        weight=4.0,
        lines=(
            "48, pid=77, An uncorrectable double bit error (DBE) has been detected on GPU",
            "64, pid=77, Row Remapper Error: (0x0) - All reserved rows for bank are remapped",
        ),
        needs=(0.0, 0.05, 0.05, 0.90),
    ),
    FaultForm(
        weight=12.0, lines=("94, pid=77, name=python, Ch 00000008",), needs=(0.80, 0.14, 0.01, 0.05)
    ),
    FaultForm(
        weight=6.0,
        lines=("95, pid=77, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",),
        needs=(0.05, 0.65, 0.10, 0.20),
    ),
    FaultForm(
        weight=15.0,
        lines=("119, pid=77, Timeout after 6s of waiting for RPC response from GPU0 GSP!",),
        needs=(0.02, 0.25, 0.68, 0.05),
    ),
    FaultForm(
        weight=12.0,
        lines=("74, pid=77, NVLink: fatal error detected on link 6(0x0, 0x0, 0x10000, 0x0)",),
        needs=(0.25, 0.45, 0.10, 0.20),
    ),
    FaultForm(
        weight=4.0,
        lines=("62, pid=77, 2028 8e8e 2028 8e8e",),
        needs=(0.05, 0.50, 0.30, 0.15),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """A fleet. Rates are faults a node and day unless they say otherwise.

    `fault_rate` is that of the normal nodes of a fleet with 3 to 7 failures in 1,000 node-days
    in all (Llama 3: 3.8; Meta's research clusters: 6.5 and 2.3), of which lemons have a part.
    """

    nodes: int = 128
    gpus: int = 8
    rack: int = 8  # nodes
    days: float = 60.0
    fault_rate: float = 0.003
    lemon_share: float = 0.02
    lemon_rate: tuple[float, float] = (0.1, 0.4)
    young_share: float = 0.25  # of nodes that are new at the start
    young_excess: float = 4.0  # times the rate of an old one, more, on its first day
    young_days: float = 14.0
    outage_rate: float = 1 / 60  # of a rack, a day
    outage_h: float = 0.5
    program_rate: float = 0.1  # faults of programs, a node and day: lines alone
    storm_rate: float = 0.002  # hours of Xid 45 without a cause
    relapse_h: tuple[float, float] = (0.5, 12.0)  # until a node fails again: wedged, bad part
    checkpoint_h: float = 1.0
    start_h: float = 1 / 6
    reset_h: float = 0.2
    reboot_h: float = 0.5
    test_h: float = 0.25
    replace_h: float = 72.0
    finds_share: float = 0.8
    finds_lemon_share: float = 0.3
    alarm_share: float = 0.01
    job_nodes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    job_weights: tuple[float, ...] = (0.50, 0.20, 0.14, 0.09, 0.05, 0.02)
    job_h: float = 18.0  # median

    def needs(self, rng: np.random.Generator) -> list[tuple[float, ...]]:
        """Draw what the faults of one fleet need: sites differ from what is published."""
        return [
            tuple(rng.dirichlet(np.maximum(25.0 * np.array(each.needs), 1e-3)).tolist())
            for each in FAULTS
        ]
