"""From the options of `steward jobs submit` and the lines of a script to what a pod is made of."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steward.clients.job_directives import exported, options_body, read_directives
from steward.errors import StewardError

__all__ = ["KubeDraft", "draft_of", "token_digest"]

_WHERE = "steward jobs submit --engine kubernetes"
_NO_WORD = {
    "dependency": "Kubernetes has no dependencies: submit when the other job is over, "
    "`steward jobs wait ID && …`",
    "slots": "Kubernetes counts CPUs, not slots: use --cpus-per-task",
    "min-gpus": "a job goes on with fewer pods, not GPUs: write `elastic` in a TrainingJob",
    "max-gpus": "a job goes on with more pods, not GPUs: write `elastic` in a TrainingJob",
    "gpu-memory": "Kubernetes does not share GPUs by memory: leave it out",
    "max-slowdown": "steward sets no power limits through Kubernetes: leave it out",
    "nice": "Kubernetes has classes of priority: use --priority CLASS",
    "ntasks": "use --nodes for pods, or --array for tasks",
    "signal": "Kubernetes sends TERM alone: use --saves for a job that saves on TERM",
    "qos": "Kubernetes has classes of priority: use --priority CLASS",
}
_IGNORED = ("output", "error", "account")  # its logs are Kubernetes', its account the namespace
_CLASS = re.compile(r"[a-z]([-a-z0-9.]{0,251}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_MOST_SCRIPT_BYTES = 100_000  # it travels as one argument, which Linux limits to 128 KiB
_MOST_PODS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeDraft:
    """One job as its owner wants it. `slug` is the readable part of its name."""

    token: str
    slug: str
    name: str
    image: str
    argv: tuple[str, ...]
    script: str
    folder: str
    environment: tuple[tuple[str, str], ...]
    gpus_per_pod: int
    pods: int
    array: bool
    cpus: int
    memory_bytes: int
    time_limit_s: int | None
    priority_class: str
    queue: str  # of Kueue
    save_s: int | None
    retries: int
    hold: bool
    volumes: tuple[tuple[str, str], ...] = ()  # claim, and where it is mounted
    wait: bool = False
    ignored: tuple[str, ...] = ()

    @property
    def object_name(self) -> str:
        """Return the name of the object: the same token gives the same, whoever asks again."""
        return f"{self.slug}-{token_digest(self.token)[:10]}"


def token_digest(token: str) -> str:
    """Return a token as the value of a label, which allows few characters."""
    return hashlib.sha256(token.encode()).hexdigest()[:32]


def draft_of(
    command: Sequence[str],
    given: Mapping[str, str],
    *,
    script: str,
    image: str,
    volumes: Sequence[str] = (),
) -> KubeDraft:
    """Return what to submit. Without `script`, `command` is a command; else its path and arguments.

    `given` has `token`, and `image` if it was written; `image` is that of the site.
    """
    lines, ignored = read_directives(script, command[0]) if script else ({}, ())
    options = {**lines, **given}
    _check(options, script)
    body = options_body({**options, "priority": ""})
    pods, array = _pods(options, body["indices"])
    gpus, rest = divmod(int(body["gpus"]), 1 if array else pods)
    if rest:
        problem = f"{body['gpus']} GPUs cannot be divided among {pods} pods"
        raise StewardError(problem, where="--gpus", hint="--gpus is for all --nodes together")
    name = options.get("job-name") or Path(command[0]).name
    found_image = options.get("image") or image
    if not found_image:
        hint = "write --image registry.example/train:1, or set jobs.kubernetes_image"
        raise StewardError("no image is named", where="--image", hint=hint)
    return KubeDraft(
        token=given["token"],
        slug=_slug(name),
        name=name,
        image=found_image,
        argv=tuple(command[1:] if script else command),
        script=script,
        folder=options.get("chdir", ""),
        environment=tuple(sorted(_environment(options.get("export", "NONE")).items())),
        gpus_per_pod=gpus,
        pods=pods,
        array=array,
        cpus=body["cpus"],
        memory_bytes=body["memory_bytes"],
        time_limit_s=_whole_seconds(body["time_limit_s"]),
        priority_class=options.get("priority", ""),
        queue=options.get("partition", ""),
        save_s=int(options["saves"]) if "saves" in options else None,
        retries=3 if body["requeue"] else 0,
        hold=body["hold"],
        volumes=tuple(_volume(each) for each in volumes),
        wait="wait" in lines,
        ignored=(*ignored, *(each for each in _IGNORED if each in options)),
    )


def _check(options: Mapping[str, str], script: str) -> None:
    """Refuse what would be lost, all of it at once."""
    faults = [f"--{name}: {why}" for name, why in _NO_WORD.items() if name in options]
    if "priority" in options and _CLASS.fullmatch(options["priority"]) is None:
        faults.append("--priority: name a class, as `kubectl get priorityclasses` lists them")
    if not re.fullmatch(r"[0-9]{1,5}", options.get("saves", "0")):
        faults.append("--saves: write how many seconds it needs to save, as 60")
    if not options.get("chdir", "/").startswith("/"):
        faults.append("--chdir: name a folder of the image by its whole path, as /work")
    if "ALL" in options.get("export", "").split(","):
        faults.append("--export: variables of this machine, as PATH, mean nothing in an image: "
                      "name them, as --export=WANDB_MODE,SEED=3")  # fmt: skip
    if len(script.encode()) > _MOST_SCRIPT_BYTES:
        faults.append("the script is longer than 100,000 bytes: put it into the image")
    if faults:
        raise StewardError("; ".join(faults), where=_WHERE)


def _pods(options: Mapping[str, str], indices: Sequence[int]) -> tuple[int, bool]:
    """Return how many pods there are, and whether each is a task of its own."""
    nodes = options.get("nodes", "1")
    if re.fullmatch(r"[1-9][0-9]{0,3}", nodes) is None or int(nodes) > _MOST_PODS:
        hint = f"write how many pods run together, 1 to {_MOST_PODS}"
        raise StewardError(f"'{nodes}' is no number of pods", where="--nodes", hint=hint)
    if not indices:
        return int(nodes), False
    if list(indices) != [*range(len(indices))] or int(nodes) > 1:
        hint = "Kubernetes counts the tasks of an array from 0: write 0-9, without --nodes"
        raise StewardError("these indices are not possible", where="--array", hint=hint)
    return len(indices), True


def _environment(export: str) -> dict[str, str]:
    found = exported(export, os.environ)
    odd = sorted(repr(name) for name in found if _VARIABLE.fullmatch(name) is None)
    if odd:
        raise StewardError(f"these are no names of variables: {', '.join(odd)}", where="--export")
    return found


def _volume(text: str) -> tuple[str, str]:
    claim, _, path = text.partition(":")
    if _CLASS.fullmatch(claim) is None or not path.startswith("/"):
        hint = "write a PersistentVolumeClaim and where it is mounted, as data:/data"
        raise StewardError(f"'{text}' is no volume", where="--volume", hint=hint)
    return claim, path


def _whole_seconds(limit_s: float | None) -> int | None:
    return None if limit_s is None else max(1, round(limit_s))


def _slug(name: str) -> str:
    """Return the part of a name that Kubernetes accepts.

    >>> _slug("My Train_2.sh"), _slug("...")
    ('my-train-2-sh', 'job')
    """
    kept = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-")
    return kept if kept and kept[0].isalpha() else f"job-{kept}".rstrip("-")
