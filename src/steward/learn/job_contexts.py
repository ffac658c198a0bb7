"""What a job has in common with others: the contexts that its run time is learned in."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

from steward.model.job import JobShape

__all__ = ["LIMITED", "SLOTS", "JobFeatures", "job_contexts", "script_bands", "stem"]

Context = tuple[Hashable, ...] | None

# One slot for each kind of context, widest first. Those that are `quick` remember few jobs.
SLOTS = (
    *("all", "all, quick", "size", "size, quick", "shape", "tenant", "tenant and size"),
    *("user", "user, quick", "user and shape", "stem", "name", "name and size", "stem and size"),
    *("user and name", "user, name and shape", "user, stem and shape", "user and name, quick"),
    *("time limit", "user and time limit", "share of limit", "share of limit, user"),
    *("last of user", "last of name", "script", "similar script", "similar script, too"),
)
LIMITED = frozenset({"share of limit", "share of limit, user"})  # count levels from the limit
_WORDS = 2  # of a script that are hashed together
_BANDS, _HASHES = 2, 2
_PRIME = 2_147_483_647


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFeatures:
    """What is known of a job when it is submitted."""

    shape: JobShape
    tenant: str = ""
    user: str = ""
    name: str = ""
    script: str = ""
    time_limit_s: float | None = None

    @property
    def who(self) -> str:
        """Return the user, or the tenant where no user is known."""
        return self.user or self.tenant

    @property
    def kind(self) -> tuple[str, str]:
        """Return what the last run time of the same work is kept under."""
        return self.who, stem(self.name)


def job_contexts(job: JobFeatures, last_of_user: int, last_of_kind: int) -> tuple[Context, ...]:
    """Return the contexts of a job by slot; None where what it takes is not known.

    `last_…` are the levels of run time in which the last job of its user, and the last run of the
    same work, ended; -1 where there was none.
    """
    shape, who, name = job.shape, job.who, job.name
    size = shape.gpus
    form = (size, shape.cpus, shape.memory_bytes, shape.gpu_memory_bytes, shape.gpu_models)
    plain = stem(name)
    numbered = name if name != plain else ""
    limit = None if job.time_limit_s is None else round(job.time_limit_s)
    found: tuple[tuple[bool, tuple[Hashable, ...]], ...] = (
        *((True, ()), (True, ()), (True, (size,)), (True, (size,))),
        (form[1:] != (0, 0, 0, ()), form),
        *((bool(job.tenant), (job.tenant,)), (bool(job.tenant), (job.tenant, size))),
        *((bool(job.user), (job.user,)), (bool(who), (who,)), (bool(job.user), (job.user, *form))),
        *((bool(name), (plain,)), (bool(numbered), (name,)), (bool(numbered), (name, size))),
        (bool(name), (plain, size)),
        (bool(numbered and who), (who, name)),
        (bool(numbered and who), (who, name, *form)),
        (bool(name or who), (who, plain, *form)),
        (bool(name or who), (who, name, *form)),
        *((limit is not None, (limit,)), (limit is not None and bool(who), (who, limit))),
        *((limit is not None, ()), (limit is not None and bool(who), (who,))),
        *((bool(who) or last_of_user >= 0, (who, last_of_user)), (True, (*job.kind, last_of_kind))),
    )
    scripts: list[Context] = [None] * (1 + _BANDS)
    if job.script:
        bands = script_bands(job.script)
        scripts = [(stem(job.script),), *((i, band) for i, band in enumerate(bands))]
        scripts[0] = (crc32(stem(job.script).encode()),)
    every = [key if there else None for there, key in found] + scripts
    return tuple(None if key is None else (i, *key) for i, key in enumerate(every))


@lru_cache(maxsize=4096)
def stem(name: str) -> str:
    """Return a text without the numbers that tell one run from the next.

    >>> stem("bert-large run 17") == stem("bert-large run 18")
    True
    """
    return re.sub(r"\d+", "#", name)


@lru_cache(maxsize=1024)
def script_bands(script: str) -> tuple[int, ...]:
    """Return hashes of which two scripts share one more often the more of their words are alike.

    These are minimal hashes of pairs of words (MinHash), two to a band: of scripts that have nine
    of ten pairs in common, 96 of 100 share a band; of those with one of ten, two of 100.

    >>> one = "python train.py --model bert --lr 0.1 --batch 32 --data /scratch/wiki --epochs 3"
    >>> bool(set(script_bands(one)) & set(script_bands(one.replace("0.1", "0.02"))))
    True
    """
    words = re.findall(r"[a-z_#][\w#.-]*", stem(script.lower()))
    pairs = {" ".join(words[i : i + _WORDS]) for i in range(max(len(words) - _WORDS + 1, 1))}
    hashes = [crc32(pair.encode()) for pair in pairs]
    return tuple(crc32(repr(_least(hashes, band)).encode()) for band in range(_BANDS))


def _least(hashes: Sequence[int], band: int) -> list[int]:
    """Return the smallest hash under each permutation of a band."""
    turns = range(band * _HASHES, (band + 1) * _HASHES)
    return [
        min(((2 * k + 3) * 7919 * h + 104_729 * (k + 1)) % _PRIME for h in hashes) for k in turns
    ]
