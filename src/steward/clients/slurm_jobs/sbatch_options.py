"""From the options of `steward jobs submit` and the lines of a script to those of sbatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from steward.clients.job_directives import sbatch_directives, seconds
from steward.clients.slurm.job_mark import DEFAULT_SAVE_S, JobMark
from steward.clients.slurm.submission import Submission
from steward.clients.slurm_jobs import batch_script
from steward.clients.slurm_jobs.loan_run import unfit_to_keep
from steward.errors import StewardError

__all__ = ["Draft", "draft_of", "time_limit"]

_SAME = (
    "job-name", "gpus", "cpus-per-task", "mem", "array", "dependency", "output", "error", "export",
    "signal", "priority", "nice", "partition", "account", "qos", "nodes", "ntasks",
)  # fmt: skip
_NO_WORD = {
    "slots": "Slurm counts CPUs, not slots: use --cpus-per-task or --ntasks",
    "min-gpus": "Slurm does not change the GPUs of a running job: leave it out",
    "max-gpus": "Slurm does not change the GPUs of a running job: leave it out",
    "gpu-memory": "Slurm does not share GPUs by memory: it is for --inside idle alone",
    "max-slowdown": "steward sets no power limits through Slurm: leave it out",
}
APPEND = "--open-mode=append"  # else a job that is requeued empties its log
_FORBIDDEN = ("--wait", "-W", "--wrap", "--test-only", "--hold", "-H", "--comment", "--parsable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What is handed to sbatch: the text of a script, its name, and everything else."""

    text: str
    file: str
    token: str
    options: tuple[str, ...]
    arguments: tuple[str, ...]
    mark: JobMark
    keep_held: bool
    wait: bool
    wrapped: bool
    folder: Path  # where it works

    def submission(self, folder: Path) -> Submission:
        """Return the submission of the script that lies in a folder."""
        return Submission(
            token=self.token,
            script=str(folder / self.file),
            options=self.options,
            arguments=self.arguments,
            comment=self.mark.rest,
            save_s=self.mark.save_s,
            hold=self.mark.hold and self.keep_held,
            rename=False,
            inside_bytes=self.mark.inside_bytes,
            keep_held=self.keep_held,
        )


def draft_of(
    command: Sequence[str],
    given: Mapping[str, str],
    *,
    script: str,
    more: Sequence[str] = (),
    as_is: bool = False,
    inside: bool = False,
) -> Draft:
    """Return what to submit. Without `script`, `command` is a command; else its path and arguments.

    `more` are options of sbatch as they are. A script that handles USR2 itself stays as it is.
    `inside`: it may run in another job of its owner, whose GPUs idle.
    """
    _check(given, more, inside=inside)
    batch_script.check_script(script, command[0])
    token = given["token"]
    lines = sbatch_directives(script, command[0]) if script else {}
    mark = _mark({**lines, **_named(more)}.get("comment", ""), given)
    save_s = mark.save_s or DEFAULT_SAVE_S
    wrapped = not as_is and not batch_script.has_own_trap(script)
    if not script:
        text = batch_script.wrapped_command(command, token=token, save_s=save_s)
        if as_is:
            raise StewardError("a command has no script to leave as it is", where="--as-is")
    elif wrapped:
        text = batch_script.wrapped_script(script, token=token, save_s=save_s)
    else:
        text = batch_script.without_wait(script)
    if inside:
        options = {**lines, **_named(more), **given}
        mark = _inside(mark, options, why=unfit_to_keep(script, wrapped=wrapped, options=options))
    appends = wrapped or "open-mode" in {**lines, **_named(more)}
    return Draft(
        text=text,
        file=Path(command[0]).name,
        token=token,
        options=(*_options(given), *more, *(() if appends else (APPEND,))),
        arguments=tuple(command[1:]) if script else (),
        mark=mark,
        keep_held="hold" in lines or "hold" in given,
        wait="wait" in lines,
        wrapped=wrapped,
        folder=Path(given.get("chdir", lines.get("chdir", ""))).expanduser().absolute(),
    )


def _inside(mark: JobMark, options: Mapping[str, str], *, why: str) -> JobMark:
    """Return the comment of a job that may run inside another; raise with the reason if not."""
    if why:
        hint = "submit it without --inside, or as a job of its own"
        raise StewardError(why, where="--inside idle", hint=hint)
    gib = options.get("gpu-memory", "").upper().removesuffix("B").removesuffix("G")
    if not (gib.isdecimal() and 0 < int(gib) < 10_000):
        problem = "it has to say how much memory it needs on each GPU, in whole gigabytes"
        raise StewardError(problem, where="--inside idle", hint="add --gpu-memory 24G")
    return replace(mark, inside_bytes=int(gib) * 2**30)


def _check(given: Mapping[str, str], more: Sequence[str], *, inside: bool) -> None:
    no_word = {name: why for name, why in _NO_WORD.items() if not (inside and name == "gpu-memory")}
    faults = [f"--{name}: {why}" for name, why in no_word.items() if name in given]
    faults += [
        f"--sbatch {each}: it is set by the submission itself, or has an option of its own"
        for each in more
        if each.partition("=")[0] in _FORBIDDEN
    ]
    faults += [f"--sbatch {each}: write it as --NAME=VALUE" for each in more if each[:1] != "-"]
    if faults:
        raise StewardError("; ".join(faults), where="steward jobs submit --engine slurm")


def _mark(comment: str, given: Mapping[str, str]) -> JobMark:
    """Return what the comment will say; the owner may promise that the job saves."""
    words = f"{comment} steward:saves={given['saves']}" if "saves" in given else comment
    mark = JobMark.read(words)
    if "saves" in given and (mark.save_s is None or not given["saves"].isdecimal()):
        hint = "write how many seconds it needs to save, as 60"
        raise StewardError(f"'{given['saves']}' is no time", where="--saves", hint=hint)
    return mark


def _options(given: Mapping[str, str]) -> list[str]:
    found = [f"--{name}={given[name]}" for name in _SAME if name in given]
    if "time" in given:
        found.append(f"--time={time_limit(given['time'])}")
    if "chdir" in given:
        found.append(f"--chdir={Path(given['chdir']).expanduser().absolute()}")
    return [*found, "--requeue"] if "requeue" in given else found


def time_limit(text: str) -> str:
    """Return a time limit as Slurm writes it; it has no seconds alone.

    >>> time_limit("90s"), time_limit("2:00:00")
    ('0:90', '2:00:00')
    """
    wanted_s = seconds(text, "--time")
    return f"0:{wanted_s:.0f}" if text.endswith("s") and wanted_s is not None else text


def _named(more: Sequence[str]) -> dict[str, str]:
    pairs = (each.removeprefix("--").partition("=") for each in more)
    return {name: value for name, _, value in pairs}
