"""One job's run inside another job of the same user: its files, and the srun that runs it.

The borrower waits in Slurm, held, while its script runs as an overlapping step of the owner's
allocation. What its submission has kept lies in the job's folder: the script, its arguments and the
environment of whoever submitted it. The script's own end is noted in `ENDED` by the shell around
it, which then exits at once when Slurm starts the job, with the same status.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steward.clients.local_jobs import cuda_driver
from steward.clients.local_jobs.exchange import read_own, read_reply, write_for_job
from steward.clients.slurm.changes import Command
from steward.clients.slurm.job_mark import DEFAULT_SAVE_S, Borrowed
from steward.clients.slurm.program import SlurmPrograms
from steward.clients.slurm_jobs import holder as holder_program
from steward.clients.slurm_jobs.batch_script import FOLDER
from steward.clients.slurm_jobs.exchange import belongs_to
from steward.clients.slurm_jobs.holder import REFUSAL, RESUMED, SUSPENDED
from steward.clients.slurm_jobs.listed_job import ListedJob
from steward.errors import PermanentError
from steward.training.protocol import ANSWER, REQUEST

__all__ = ["ENDED", "LoanRun", "keep_run", "loan_run", "unfit_to_keep"]

BATCH = "batch"  # what sbatch was given
KEPT = "run.json"  # environment and arguments
ENDED = "inside-status"  # the exit status of a script that ended by itself inside another job
MOST_BYTES = 4 << 20
_SLURMS = ("SLURM", "SBATCH", "SRUN")  # srun would take them for options
_SRUN = re.compile(r"^[^#\n]*\bsrun\b", re.MULTILINE)

# In the background; afterwards Slurm may start the job itself, also while no steward runs: one
# that has ended exits at once, for which the shortest time limit finds room soonest.
_LAUNCH = """folder=$1 job=$2 ended=$3 scontrol=$4; shift 4
( [ ! -e "$folder/suspend.sh" ] || while touch "$folder/alive" && sleep 10; do :; done &
beats=$!
"$@" >"$folder/srun.log" 2>&1 </dev/null
code=$?
[ ! -e "$folder/suspended" ] || sh "$folder/resume.sh"
kill $beats
echo $code >"$folder/status.part" && mv "$folder/status.part" "$folder/status"
[ ! -e "$ended" ] || "$scontrol" update "JobId=$job" TimeLimit=1
"$scontrol" release "$job" ) >/dev/null 2>&1 &"""
# On the node: it takes its GPUs from those of the allocation, and says which step it is.
_BEGIN = """folder=$1 count=$2 places=$3; shift 3
[ "$(echo "$CUDA_VISIBLE_DEVICES" | tr , '\\n' | wc -l)" -eq "$count" ] || exit 124
CUDA_VISIBLE_DEVICES=$(echo "$CUDA_VISIBLE_DEVICES" | cut -d, -f"$places")
export CUDA_VISIBLE_DEVICES STEWARD_LENT_STEP=$SLURM_JOB_ID.$SLURM_STEP_ID
[ ! -e "$folder/suspend.sh" ] || sh "$folder/suspend.sh" || exit 126
echo "$STEWARD_LENT_STEP" >"$folder/step.part" && mv "$folder/step.part" "$folder/step" || exit 125
[ ! -e "$folder/attend.sh" ] || set -- sh "$folder/attend.sh" "$@"
exec "$@" """

# A step of its own, which no end of the borrower's takes with it: a holder must not stay suspended.
_RESUME = """for each in 1 2 3 4 5 6 7 8 9 10; do
  {step} && exit 0
  sleep 2
done
exit 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanRun:
    """The files of one loan. `top` is the folder of the borrower."""

    borrower: ListedJob
    top: Path
    folder: Path
    lent: Borrowed

    @property
    def launched_s(self) -> float | None:
        """When it was launched; None: not yet."""
        try:
            return self.folder.stat().st_mtime
        except OSError:
            return None

    @property
    def step(self) -> str:
        """The number of the step; empty until it has begun."""
        text = _text(self.folder / "step")
        return text if re.fullmatch(r"\d{1,18}\.\d{1,9}", text) else ""

    @property
    def status(self) -> str:
        """The exit status of its srun; empty while that runs."""
        return _text(self.folder / "status")

    @property
    def ended(self) -> bool:
        """Whether the script has ended by itself."""
        return bool(_text(self.top / ENDED))

    @property
    def is_held_up(self) -> bool:
        """Whether the driver has suspended the holder, and not resumed it yet."""
        return bool(_text(self.folder / SUSPENDED)) and not _text(self.folder / RESUMED)

    @property
    def refusal(self) -> str:
        """Why the holder was not suspended or resumed; empty if nothing was refused."""
        return str(read_reply(self.folder / REFUSAL).get("why", ""))

    @property
    def failure(self) -> str:
        """What srun said when it did not begin."""
        if self.refusal:
            return f"the driver did not suspend its holder: {self.refusal}"
        lines = _text(self.folder / "srun.log").splitlines()
        return re.sub(r"^srun: (error: )?", "", lines[0]) if lines else "srun failed"

    # -- giving back ---------------------------------------------------------------------------

    def asked_s(self, request: str) -> float | None:
        """Return when the job was asked to save by this request; None: it was not."""
        path = self.top / REQUEST
        if read_reply(path).get("id") != request:
            return None
        try:
            return path.stat().st_mtime
        except OSError:
            return None

    def ask(self, request: str, why: str) -> None:
        """Ask the job to save and go on: it is ended afterwards."""
        write_for_job(self.top / REQUEST, {"id": request, "do": "save", "reason": why})

    def answer(self, request: str) -> str:
        """Return `saved`, `failed` or `cannot`; empty until the job has answered."""
        found = read_reply(self.top / ANSWER)
        return str(found.get("result", "")) if found.get("id") == request else ""

    # -- running -------------------------------------------------------------------------------

    def command(self, owner: ListedJob, gpus: Sequence[str], *, launch: bool = True) -> Command:
        """Return the srun of the step. `gpus` are all that the owner holds."""
        there = sorted((each for each in gpus if each.startswith(f"{self.lent.node}/")), key=_index)
        places = [there.index(f"{self.lent.node}/gpu{each}") + 1 for each in self.lent.gpus]
        share = max(1, owner.cpus // max(1, len(owner.nodes)))
        return (
            "srun",
            f"--jobid={owner.id}",
            "--overlap",
            "--nodes=1",
            "--ntasks=1",
            f"--nodelist={self.lent.node}",
            f"--gres=gpu:{len(there)}",
            f"--cpus-per-task={min(max(1, self.borrower.cpus), share)}",
            f"--job-name=steward-lent-{self.borrower.id}",
            f"--chdir={self.borrower.folder}",
            f"--output={self.folder}/output.log",
            "sh",
            "-c",
            _BEGIN if launch else "...",
            "sh",
            str(self.folder),
            str(len(there)),
            ",".join(map(str, places)),
            "bash",
            str(self.top / BATCH),
            *self._kept()[1],
        )

    def holder_files(self, owner: ListedJob, library: str, srun: str) -> dict[str, str]:
        """Return what suspends the holder before the step, attends it, and resumes the holder."""
        known_s = self.borrower.mark.save_s  # it says so only once it runs
        save_s = f"{DEFAULT_SAVE_S if known_s is None else known_s:.0f}"
        rest = (str(self.folder), owner.id, str(self.top), save_s, library)
        holder = {
            each: _holder_line(self.folder, each, rest) for each in ("suspend", "attend", "resume")
        }
        step = (
            "--overlap",
            "--nodes=1",
            "--ntasks=1",
            f"--nodelist={self.lent.node}",
            "--gres=none",
        )
        again = shlex.join((srun, f"--jobid={owner.id}", *step, "--job-name=steward-resume"))
        return {
            "holder.py": Path(holder_program.__file__).read_text(),
            "cuda_driver.py": Path(cuda_driver.__file__).read_text(),
            "suspend.sh": f"exec {holder['suspend']}\n",
            "attend.sh": f'exec {holder["attend"]} -- "$@"\n',
            "resume.sh": _RESUME.format(step=f"{again} {holder['resume']}"),
        }

    def launch(
        self, programs: SlurmPrograms, command: Command, files: Mapping[str, str] | None = None
    ) -> None:
        """Run it in the background, once: whoever makes the folder runs it."""
        try:
            self.folder.mkdir(mode=0o700)
        except FileExistsError:
            return
        for name, text in (files or {}).items():
            (self.folder / name).write_text(text)
        run = ("sh", "-c", _LAUNCH, "sh", str(self.folder), self.borrower.id)
        paths = (str(self.top / ENDED), programs.path("scontrol"), programs.path("srun"))
        subprocess.run(  # noqa: S603 - a fixed script; what the job's owner wrote are arguments
            ["/bin/sh", *run[1:], *paths, *command[1:]],
            env=self._environment(programs),
            start_new_session=True,
            check=True,
        )

    def resume_holder(self, programs: SlurmPrograms) -> None:
        """Resume the holder in the background, where the shell beside its step did not."""
        subprocess.Popen(  # noqa: S603 - a file of our own
            ["/bin/sh", str(self.folder / "resume.sh")],
            env=self._environment(programs),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _environment(self, programs: SlurmPrograms) -> dict[str, str]:
        kept = {n: v for n, v in self._kept()[0].items() if not n.startswith(_SLURMS)}
        conf = programs.own_env.get("SLURM_CONF")
        return {
            **kept,
            **({"SLURM_CONF": conf} if conf else {}),
            "STEWARD_LENT_TO": self.borrower.id,
            "STEWARD_LENT_LOG": f"{self.folder}/output.log",
        }

    def _kept(self) -> tuple[dict[str, str], list[str]]:
        try:
            kept = json.loads(read_own(self.top / KEPT, most_bytes=MOST_BYTES))
            found = {str(name): str(value) for name, value in kept["environment"].items()}
            return found, [str(each) for each in kept["arguments"]]
        except (ValueError, TypeError, KeyError, AttributeError) as fault:
            problem = "what its submission kept is not there, or cannot be read"
            hint = "submit it with `steward jobs submit --inside idle`"
            raise PermanentError(problem, where=f"job {self.borrower.id}", hint=hint) from fault


def _holder_line(folder: Path, do: str, rest: tuple[str, ...]) -> str:
    return shlex.join(("python3", "-I", "-S", str(folder / "holder.py"), do, *rest))


def loan_run(borrower: ListedJob, lent: Borrowed) -> LoanRun:
    """Return the files of a loan; raise where they are not the borrower's own."""
    user_top = Path(borrower.folder) / FOLDER.format(user=borrower.user)
    top = user_top / borrower.mark.token
    if not borrower.mark.token or not belongs_to(user_top, borrower.user) or not top.is_dir():
        problem = "it has no folder that keeps how it is run"
        hint = "submit it with `steward jobs submit --inside idle`"
        raise PermanentError(problem, where=f"job {borrower.id}", hint=hint)
    return LoanRun(borrower=borrower, top=top, folder=top / f"inside-{lent.id}", lent=lent)


def unfit_to_keep(script: str, *, wrapped: bool, options: Mapping[str, str]) -> str:
    """Return why a script cannot run inside another job, or an empty text."""
    if not wrapped:
        return "it handles USR2 itself or is to stay as it is: it needs steward's shell around it"
    if _SRUN.search(script):
        return "it calls srun, which would give it other GPUs of that job"
    strange = sorted({"array", "dependency", "export", "nodes", "ntasks"} & {*options})
    alone = [name for name in strange if options[name] not in ("1", "ALL")]
    return f"it has --{', --'.join(alone)}" if alone else ""


def keep_run(folder: Path, *, user: str, token: str, text: str, arguments: Sequence[str]) -> None:
    """Keep in a job's folder how it is run: `folder` is where it works."""
    top = folder / FOLDER.format(user=user) / token
    for each in (top.parent, top):
        each.mkdir(mode=0o700, exist_ok=True)
    if not belongs_to(top.parent, user):
        hint = "remove it: somebody else could forge what is written there"
        raise PermanentError(f"it does not belong to {user}", where=str(top.parent), hint=hint)
    (top / BATCH).write_text(text)
    kept = {"environment": dict(os.environ), "arguments": list(arguments)}
    draft = top / f".{KEPT}.{secrets.token_hex(8)}"  # whole or not at all, and for nobody else
    with open(draft, "x", opener=_private) as opened:
        json.dump(kept, opened)
    draft.rename(top / KEPT)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _index(gpu: str) -> int:
    return int(gpu.rpartition("/gpu")[2])


def _text(path: Path) -> str:
    return read_own(path, most_bytes=65_536).decode("utf-8", "replace").strip()
