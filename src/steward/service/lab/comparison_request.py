"""Requests for comparisons, and the options of the form."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from steward.errors import StewardError, unknown_name
from steward.service.failures import RefusedError

__all__ = [
    "DEFAULT_POLICIES",
    "EXAMPLE",
    "EXAMPLE_JOBS",
    "MOST_GPUS",
    "MOST_POLICIES",
    "ComparisonRequest",
    "Offer",
    "OfferedPolicy",
    "check_names",
    "offered",
    "shown_name",
]

EXAMPLE = "example"
EXAMPLE_JOBS = 2000
DEFAULT_POLICIES = ("fifo", "tiresias", "static-quota", "commons")
MOST_POLICIES = 12
MOST_GPUS = 100_000
MOST_CHARACTERS = 80

_Name = Annotated[str, StringConstraints(min_length=1, max_length=64)]


def _no_switch(value: object) -> object:
    if isinstance(value, bool):  # pydantic would take true for 1
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


_Whole = Annotated[int, BeforeValidator(_no_switch)]


class ComparisonRequest(BaseModel):
    """A requested comparison, without its trace."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    policies: tuple[_Name, ...] = Field(
        DEFAULT_POLICIES,
        min_length=1,
        max_length=MOST_POLICIES,
        description="names as `steward lab policies` lists them; differences are to the first",
    )
    gpus: _Whole | None = Field(
        None, ge=1, le=MOST_GPUS, description="null: so many that the trace fills 80 % of them"
    )
    gpus_per_node: _Whole = Field(8, ge=1, le=1024, description="GPUs of a node")
    placement: _Name = Field(
        "count", description="how GPUs are chosen; `count` only counts them (packed, spread, …)"
    )
    seed: _Whole = Field(0, ge=0, le=2**31 - 1, description="which dice are thrown")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedPolicy:
    """A policy that runs on any trace."""

    name: str
    family: str
    about: str
    knows: str  # what it needs to know beyond the public columns; "" if nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a form offers. `placements` are names and what they mean."""

    policies: tuple[OfferedPolicy, ...]
    placements: dict[str, str]


@functools.cache
def offered() -> Offer:
    """Return what there is to choose from. The first call imports the engines: seconds."""
    from steward.decide.placement import DESCRIPTIONS, PLACEMENTS  # noqa: PLC0415 - heavy
    from steward.sim.lab import run  # noqa: PLC0415 - heavy

    # Elastic policies need measured speeds of every application, which no uploaded file has.
    names = [name for name in run.known_policies() if run.family_of(name) != "elastic"]
    return Offer(
        policies=tuple(
            OfferedPolicy(
                name=name,
                family=run.family_of(name),
                about=run.describe_policy(name),
                knows="" if run.knows(name) == "nothing" else run.knows(name),
            )
            for name in names
        ),
        placements={name: DESCRIPTIONS[code] for name, code in PLACEMENTS.items()},
    )


def check_names(wanted: ComparisonRequest) -> None:
    """Refuse names that nothing has. The first call imports the engines: seconds."""
    from steward.decide.placement import PLACEMENTS  # noqa: PLC0415 - heavy
    from steward.sim.lab.run import known_policies  # noqa: PLC0415 - heavy

    known = known_policies()
    for name in wanted.policies:
        if name not in known:
            raise _refused(unknown_name("policy", name, known, where="policies"))
    if wanted.placement not in PLACEMENTS:
        raise _refused(unknown_name("placement", wanted.placement, PLACEMENTS, where="placement"))
    twice = sorted({name for name in wanted.policies if wanted.policies.count(name) > 1})
    if twice:
        problem = f"{', '.join(twice)} is named more than once"
        raise RefusedError(422, problem, where="policies", hint="name each policy once")


def _refused(fault: StewardError) -> RefusedError:
    return RefusedError(422, fault.problem, where=fault.where, hint=fault.hint)


def shown_name(given: str) -> str:
    """Return a client's name of a file as it may be shown. It is never used as a path.

    >>> shown_name("logs/may.csv"), shown_name("../../etc/passwd"), shown_name("")
    ('may.csv', 'passwd', 'trace')
    """
    last = given.replace("\\", "/").rstrip("/").rpartition("/")[2]
    kept = "".join(each for each in last if each.isprintable()).strip()
    return kept[:MOST_CHARACTERS] or "trace"
