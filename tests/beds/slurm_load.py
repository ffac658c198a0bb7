"""A mixed load of short jobs for a real Slurm: who submits what when, and what each run wrote.

Jobs note their own beginnings, saves and ends in a file each, so that what happened is known
without believing Slurm or steward. Most of a run is one `sleep`: hundreds fit on two cores.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from beds.slurm import SlurmBed

__all__ = ["ACCOUNTS", "GUARANTEES", "LoadJob", "Written", "mixed_load", "submit", "written"]

ACCOUNTS = {"bio": 3, "chem": 2, "vision": 3}  # their shares
GUARANTEES = {"bio": 24, "chem": 16, "vision": 0}
SAVE_S = 2
FAILS_WITH = 3
LONG_RUNS = 12  # that save, of the account that is guaranteed nothing, before all others
SCRIPT = r"""#!/bin/bash
# job.sh FOLDER MILLISECONDS EXIT_CODE
me=$1/$SLURM_JOB_NAME${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}
base=$(cat "$me.at" 2>/dev/null || echo 0)
begun=${EPOCHREALTIME/./}
look() { at=$(( base + (${EPOCHREALTIME/./} - begun) / 1000 )); }
put() { echo "$1 ${SLURM_RESTART_COUNT:-0} $EPOCHREALTIME $at" >> "$me.log"; }
save() { look; echo $at > "$me.new"; mv "$me.new" "$me.at"; put saved; }
trap save USR2
trap 'look; put stopped; kill $!; exit 143' TERM
look
[ -e "$me.done" ] && exit "$(cat "$me.done")"  # as docs/slurm.md advises: over, then requeued
exec 9> "$me.lock"
flock -n 9 || put twice
put begin
while look; (( at < $2 )); do
    left=$(( $2 - at ))
    sleep $(( left / 1000 )).$(printf %03d $(( left % 1000 ))) 9>&- &
    wait $!
done
trap '' TERM USR2
echo "$3" > "$me.done"
put end
exit $3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadJob:
    """One submission: a job, or an array of `tasks` that are alike."""

    name: str
    account: str
    arrive_s: float
    run_s: float
    gpus: int  # on each node
    nodes: int = 1
    saves: bool = False
    fails: bool = False
    tasks: int = 1

    @property
    def all_gpus(self) -> int:
        return self.gpus * self.nodes

    @property
    def names(self) -> tuple[str, ...]:
        """What its tasks call themselves."""
        if self.tasks == 1:
            return (self.name,)
        return tuple(f"{self.name}_{task}" for task in range(self.tasks))


def mixed_load(*, jobs: int = 200, pace: float = 1.0, seed: int = 1) -> list[LoadJob]:
    """Return so many jobs of three accounts, tasks of arrays counted, by arrival.

    They keep 64 GPUs busy for about 100 s; all times are divided by `pace`.
    """
    chance = random.Random(seed)  # noqa: S311
    first = max(1, LONG_RUNS * jobs // 200)
    made = [
        LoadJob(
            name=f"long{number}",
            account="vision",
            arrive_s=0.0,
            run_s=chance.uniform(35.0, 55.0) / pace,
            gpus=4,
            saves=True,
        )
        for number in range(first)
    ]
    left = jobs - first
    while left:
        one = _drawn(chance, f"j{len(made)}", over_s=70.0 * jobs / 200, pace=pace)
        made.append(replace(one, tasks=min(one.tasks, left)))
        left -= made[-1].tasks
    return sorted(made, key=lambda each: each.arrive_s)


def _drawn(chance: random.Random, name: str, *, over_s: float, pace: float) -> LoadJob:
    size = chance.choices((1, 2, 4, 8, 16), (45, 22, 16, 12, 5))[0]
    return LoadJob(
        name=name,
        account=chance.choices(("bio", "chem", "vision"), (45, 30, 25))[0],
        arrive_s=chance.uniform(3.0, over_s) / pace,
        run_s=min(30.0, chance.lognormvariate(1.8, 0.7)) / pace,
        gpus=min(size, 8),
        nodes=max(1, size // 8),
        saves=chance.random() < 0.4,
        fails=chance.random() < 0.06,
        tasks=chance.choices((1, 3, 6), (88, 8, 4))[0] if size < 4 else 1,
    )


def submit(bed: SlurmBed, job: LoadJob, folder: Path, *options: str) -> str:
    """Submit a job to Slurm and return its id; what it writes is in `folder`."""
    script = folder / "job.sh"
    if not script.exists():
        script.write_text(SCRIPT)
    words = ["steward:hold"] if "--hold" in options else []
    words += [f"steward:saves={SAVE_S}"] if job.saves else []
    said = bed.run(
        "sbatch",
        "--parsable",
        f"--job-name={job.name}",
        f"--account={job.account}",
        f"--nodes={job.nodes}",
        f"--gres=gpu:{job.gpus}",
        f"--comment={' '.join(words)}",
        "--requeue" if job.saves else "--no-requeue",
        "--output=/dev/null",
        "--time=3",
        *([f"--array=0-{job.tasks - 1}"] if job.tasks > 1 else []),
        *options,
        str(script),
        str(folder),
        str(int(job.run_s * 1000)),
        str(FAILS_WITH if job.fails else 0),
    )
    return said.partition(";")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One line of a job: `begin`, `saved`, `stopped`, `end`; `twice` if another run was there."""

    what: str
    run: int  # Slurm's count of restarts
    t_s: float
    at_s: float  # how much of the job's work was done


def written(folder: Path, names: Iterable[str] = ()) -> dict[str, Sequence[Written]]:
    """Return what jobs wrote, by their names; without names, of all that wrote something."""
    found: dict[str, Sequence[Written]] = defaultdict(tuple)
    wanted = names or [path.stem for path in folder.glob("*.log")]
    for name in wanted:
        path = folder / f"{name}.log"
        text = path.read_text() if path.exists() else ""
        found[name] = [_line(*line.split(" ")) for line in text.splitlines()]
    return found


def _line(what: str, run: str, t_s: str, at: str) -> Written:
    return Written(what=what, run=int(run), t_s=float(t_s), at_s=int(at) / 1000)
