"""What steward and a job's owner write into the comment of a job, beside anything else in it.

Slurm has no other field that the owner and an operator may both write, that outlives a requeue and
that is still there after steward was restarted. Words that are not ours are kept.

| word | written by | meaning |
| --- | --- | --- |
| `steward:saves=60` | owner | it saves within 60 s of USR2 to its batch shell, and goes on |
| `steward:hold` | owner | it was submitted held for steward, which may release it once |
| `steward:job=TOKEN` | steward | the token that it was submitted with |
| `steward:did=ID@RUN~T` | steward | the last decision about it, the run it was about, and when |
| `steward:inside=24G` | owner | it may run in a job of the same user, with so much GPU memory |
| `steward:gpus=1-4` | owner | it goes on with any number of GPUs from 1 to 4 after a save |
| `steward:suspend` | owner | the driver may suspend it for its user's jobs while its GPU idles |
| `steward:lent=ID@J~T+N/0` | steward | it runs, or begins to, on GPU 0 of node N of job J |

The owner may write any of these words, also those of steward: nothing here is proof of anything,
except for the seal after a `did` (`own_notes.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

__all__ = ["DEFAULT_SAVE_S", "MOST_BYTES", "MOST_NICE", "Borrowed", "JobMark", "LastDecision"]

DEFAULT_SAVE_S = 60.0
MOST_SAVE_S = 3600.0  # who says more keeps others waiting for a day
MOST_NICE = 2_147_483_645  # what Slurm takes, also below 0
MOST_BYTES = 1024  # of a comment: Slurm refuses more, also from an operator
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")  # it names a folder
_WORD = re.compile(r"steward:\S+")
_DID = re.compile(
    r"did=(?P<id>[\w.-]{1,128})@(?P<run>\d{1,12})~(?P<t>\d{1,12}(\.\d)?)(?P<held>\+held)?"
    r"(\+nice(?P<nice>-?\d{1,10}))?(\+save(?P<save>\d{1,4}))?(\.(?P<seal>[A-Za-z0-9_-]{22}))?",
    re.ASCII,
)
_LENT = re.compile(
    r"(?P<id>[\w.-]{1,128})@(?P<owner>\d{1,18})~(?P<t>\d{1,12}(\.\d)?)"
    r"\+(?P<node>[A-Za-z0-9][\w.-]{0,63})/(?P<gpus>\d{1,4}(,\d{1,4}){0,63})",
    re.ASCII,
)
_GPUS = re.compile(r"([1-9][0-9]{0,3})-([1-9][0-9]{0,3})")
_INSIDE = re.compile(r"[0-9]{1,4}G")
_GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class LastDecision:
    """The last decision that steward began about a job."""

    id: str
    run: int  # submit time of the run that it was about: Slurm sets it anew at each requeue
    t_s: float  # when it was begun; written in tenths of a second
    held: bool = False  # it left the job held
    nice: int | None = None  # before that decision, if it was changed
    save_s: float | None = None  # that it was given to save
    seal: str = ""  # by which steward knows its own note again

    @property
    def word(self) -> str:
        nice = "" if self.nice is None else f"+nice{self.nice}"
        at = f"{self.t_s:.1f}".removesuffix(".0")
        save = "" if self.save_s is None else f"+save{self.save_s:.0f}"
        seal = f".{self.seal}" if self.seal else ""
        return f"did={self.id}@{self.run}~{at}{'+held' if self.held else ''}{nice}{save}{seal}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Borrowed:
    """GPUs of another job of the same user that a job was given by a decision."""

    id: str  # the decision
    owner: str
    t_s: float
    node: str
    gpus: tuple[int, ...]

    @property
    def word(self) -> str:
        at = f"{self.t_s:.1f}".removesuffix(".0")
        return f"lent={self.id}@{self.owner}~{at}+{self.node}/{','.join(map(str, self.gpus))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMark:
    """The words about steward in a comment, and the rest of it."""

    rest: str = ""
    save_s: float | None = None  # None: it has not said that it can save
    hold: bool = False
    token: str = ""
    did: LastDecision | None = None
    inside_bytes: int | None = None  # on each GPU; None: it runs in no other job
    suspend: bool = False
    gpu_range: tuple[int, int] | None = None  # None: as many as it asks for
    lent: Borrowed | None = None

    @classmethod
    def read(cls, comment: str) -> JobMark:
        """Read a comment; words that are not understood stay in the rest.

        Of a long one only the beginning counts: a note at its end would not be found again.

        >>> JobMark.read("night run steward:saves=90 steward:hold").save_s
        90.0
        >>> JobMark.read("steward:saves=90s please").comment
        'steward:saves=90s please'
        """
        mark, rest = cls(), list[str]()
        for word in _cut(comment or "", MOST_BYTES).split(" "):
            read = mark._with(word) if _WORD.fullmatch(word) else None
            if read is None:
                rest.append(word)
            else:
                mark = read
        return replace(mark, rest=" ".join(rest).strip())

    def _with(self, word: str) -> JobMark | None:
        name, _, value = word.removeprefix("steward:").partition("=")
        if name == "hold" and not value:
            return replace(self, hold=True)
        if name == "suspend" and not value:
            return replace(self, suspend=True)
        if name == "saves" and (not value or re.fullmatch("[0-9]{1,8}", value)):
            save_s = float(value) if value else DEFAULT_SAVE_S
            return replace(self, save_s=min(save_s, MOST_SAVE_S))
        if name == "job" and _TOKEN.fullmatch(value):
            return replace(self, token=value)
        return self._with_place(name, value)

    def _with_place(self, name: str, value: str) -> JobMark | None:
        if name == "gpus" and (found := _GPUS.fullmatch(value)) and int(found[1]) <= int(found[2]):
            return replace(self, gpu_range=(int(found[1]), int(found[2])))
        if name == "inside" and _INSIDE.fullmatch(value) and int(value[:-1]):
            return replace(self, inside_bytes=int(value[:-1]) * _GIB)
        if name == "lent" and (lent := _LENT.fullmatch(value)):
            return replace(self, lent=_borrowed(lent))
        did = _DID.fullmatch(f"did={value}") if name == "did" else None
        if did is None or abs(int(did["nice"] or 0)) > MOST_NICE:
            return None
        return replace(self, did=_last(did))

    def is_raised(self, nice: int) -> bool:
        """Return whether steward has lowered the nice value that a job has now.

        Only below 0, which no owner can set: the comment alone would let anybody stay before those
        that steward puts first.
        """
        return self.did is not None and self.did.nice is not None and nice < min(0, self.did.nice)

    @property
    def comment(self) -> str:
        """The whole comment, the words about steward last; a rest without room is cut."""
        words = [f"steward:job={self.token}"] if self.token else []
        words += [f"steward:saves={self.save_s:.0f}"] if self.save_s is not None else []
        words += ["steward:hold"] if self.hold else []
        words += ["steward:suspend"] if self.suspend else []
        words += ["steward:gpus={}-{}".format(*self.gpu_range)] if self.gpu_range else []
        gib = 0 if self.inside_bytes is None else self.inside_bytes // _GIB
        words += [f"steward:inside={gib}G"] if gib else []
        words += [f"steward:{each.word}" for each in (self.lent, self.did) if each is not None]
        ours = " ".join(words)
        rest = _cut(self.rest, max(0, MOST_BYTES - len(ours.encode()) - 1)).strip()
        return " ".join(each for each in (rest, ours) if each)


def _cut(text: str, most_bytes: int) -> str:
    """Return the beginning of a text, without a half character at its end."""
    if len(text) * 4 <= most_bytes:
        return text
    return text.encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore")


def _last(found: re.Match[str]) -> LastDecision:
    return LastDecision(
        id=found["id"],
        run=int(found["run"]),
        t_s=float(found["t"]),
        held=bool(found["held"]),
        nice=int(found["nice"]) if found["nice"] else None,
        save_s=float(found["save"]) if found["save"] else None,
        seal=found["seal"] or "",
    )


def _borrowed(found: re.Match[str]) -> Borrowed:
    return Borrowed(
        id=found["id"],
        owner=found["owner"],
        t_s=float(found["t"]),
        node=found["node"],
        gpus=tuple(map(int, found["gpus"].split(","))),
    )
