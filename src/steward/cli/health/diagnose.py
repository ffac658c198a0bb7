"""`steward health diagnose`: is this node well enough to come back?"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Config, Data, Json
from steward.cli.output import plain, print_json, print_lines, print_note, print_table, waiting
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.health.diagnosis import Diagnosis

__all__ = ["diagnose"]

KMSG = Path("/dev/kmsg")

Node = Annotated[
    str,
    typer.Option(
        "--node", metavar="NAME", help="Run it there, as a job of Slurm that has the whole node."
    ),
]
Host = Annotated[bool, typer.Option("--host", help="Test processor and memory alone, no GPU.")]
Gpus = Annotated[
    int, typer.Option("--gpus", metavar="N", min=0, help="How many GPUs there have to be.")
]
Short = Annotated[bool, typer.Option("--short", help="Seconds instead of minutes.")]
Record = Annotated[
    bool,
    typer.Option(
        "--record", help="Write the verdict into the kernel's log, where steward reads it (root)."
    ),
]
Reservation = Annotated[
    str, typer.Option("--reservation", metavar="NAME", help="With --node: the reservation to use.")
]


def diagnose(  # noqa: PLR0913 - what can be typed
    *,
    node: Node = "",
    host: Host = False,
    gpus: Gpus = 0,
    short: Short = False,
    record: Record = False,
    reservation: Reservation = "",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Test the hardware of a node: products, memory, copies between GPUs, sums over all of them.

    Exits 0 if all is well, 1 if something is broken, 2 if it could not be tested.
    """
    if host and record:
        raise StewardError(
            "a test of the host proves nothing about its GPUs",
            where="--host --record",
            hint="leave out one of them",
        )
    if node:
        asked = ["--gpus", str(gpus)] if gpus else []
        asked += [name for name, on in (("--short", short), ("--record", record)) if on]
        _submit(node, asked, reservation, config=config, data=data, as_json=as_json)
        return
    found = _tested(host=host, gpus=gpus, short=short)
    if record:
        _record(found)
    if as_json:
        print_json(_answer(found))
    else:
        _print(found)
    raise typer.Exit(0 if found.well else 1)


def _tested(*, host: bool, gpus: int, short: bool) -> Diagnosis:
    from steward.clients.host import hostname
    from steward.health.diagnosis import Plan
    from steward.health.diagnosis import diagnose as tested

    small = Plan.small(host_only=host, gpus=gpus)
    whole = Plan(host_only=host, gpus=gpus, most_memory_bytes=8 << 30 if host else 1 << 62)
    with waiting("testing"):
        return tested(small if short else whole, node=hostname(), t_s=time.time())


def _record(found: Diagnosis) -> None:
    from steward.health.diagnosis import kernel_line

    try:
        KMSG.write_text(f"<5>{kernel_line(found)}\n", encoding="utf-8")
    except OSError as fault:
        raise StewardError(
            f"the verdict cannot be written: {(fault.strerror or str(fault)).lower()}",
            where=str(KMSG),
            hint="run it as root, or without --record",
        ) from fault


def _submit(
    node: str,
    asked: list[str],
    reservation: str,
    *,
    config: Path | None,
    data: Path | None,
    as_json: bool,
) -> None:
    """Submit the same command as a job of its own, on that node and no other."""
    from steward.cli.jobs.engines import SubmitRequest
    from steward.cli.jobs.slurm_engine import SlurmEngine

    if not node.replace("-", "").replace(".", "").replace("_", "").isalnum():
        raise StewardError(f"'{node}' is no name of a node", where="--node", hint="one, not a list")
    where = [f"--nodelist={node}", "--exclusive", "--nodes=1"]  # with all of its GPUs
    where += [f"--reservation={reservation}"] if reservation else []
    request = SubmitRequest(
        command=[sys.executable, "-m", "steward", "health", "diagnose", "--json", *asked],
        as_command=True,
        given={"job-name": f"steward-diagnose-{node}", "time": "30"},
        sbatch=where,
    )
    done = SlurmEngine(config, data).submit(request, dry_run=False)
    if as_json:
        print_json(done.record)
    else:
        print_lines([str(done.record.get("id", ""))])
        print_note(f"node {node} is tested by this job; it exits 1 if the node is not well")


def _answer(found: Diagnosis) -> dict[str, Any]:
    record = plain(found)
    assert isinstance(record, dict)  # noqa: S101 - a dataclass is a table
    return {"verdict": "well" if found.well else "bad", **record}


def _print(found: Diagnosis) -> None:
    print_table(
        ("check", "device", "result", "measured"),
        [
            (each.check, each.device, each.why or "well", _measured(each.measured))
            for each in found.checks
        ],
        empty="nothing was tested",
    )
    verdict = "well" if found.well else f"not well: {len(found.failed)} checks failed"
    what = "GPUs" if found.tests_gpus else "processor and memory alone, no GPU"
    print_note(f"{found.node} is {verdict} ({what}; {found.backend}; {found.took_s:.0f} s)")


def _measured(values: Any) -> str:  # noqa: ANN401 - a mapping of a dataclass
    units = {"operations_per_s": (1e12, "T op/s"), "bytes_per_s": (1e9, "GB/s")}
    return ", ".join(
        f"{value / units[key][0]:.3g} {units[key][1]}"
        for key, value in values.items()
        if key in units
    )
