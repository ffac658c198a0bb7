"""One door to all engines: a trace, machines and the name of a policy in, what became of it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from inspect import cleandoc
from typing import Any, cast

from steward.decide.placement import PLACEMENTS
from steward.decide.scheduling import POLICIES
from steward.decide.scheduling.colocation import COLOCATION_POLICIES
from steward.decide.scheduling.elastic import ELASTIC_POLICIES
from steward.decide.scheduling.ordered import ORDERED
from steward.decide.scheduling.tenant_sharing import SHARED
from steward.decide.scheduling.time_shares import TIME_SHARE_POLICIES
from steward.errors import StewardError, unknown_name
from steward.model.machines import Machines
from steward.model.replay import Replay
from steward.model.trace import Trace
from steward.registry import known, resolve
from steward.sim.lab.recorded import AS_RECORDED, replay_as_recorded
from steward.sim.lab.rigid.replay import replay_rigid
from steward.sim.lab.settings import LabSettings

__all__ = [
    "FAMILIES",
    "describe_policy",
    "explained",
    "family_of",
    "known_policies",
    "knows",
    "options_of",
    "replay",
]

FAMILIES: dict[str, Mapping[str, type[Any]]] = {
    "one order": ORDERED,
    "tenants": SHARED,
    "shared GPUs": COLOCATION_POLICIES,
    "time shares": TIME_SHARE_POLICIES,
    "elastic": ELASTIC_POLICIES,
}
INSTALLED = "installed"
_NO_OPTIONS = ("name", "placement")  # the lab has one placement for all policies
_KNOW_DURATIONS = ("sjf", "srtf", "srsf")
_KNOW_SPEEDS = (*TIME_SHARE_POLICIES, *ELASTIC_POLICIES)


def known_policies() -> tuple[str, ...]:
    """Return the names of all policies of the lab, family by family; installed ones come last."""
    return (*(name for family in FAMILIES.values() for name in family), *_installed())


def _installed() -> tuple[str, ...]:
    """Return the names of policies of other packages that decide on views; none is imported."""
    own = {name for family in FAMILIES.values() for name in family} | {*POLICIES}
    return tuple(name for name in known("policy", POLICIES) if name not in own)


def family_of(name: str) -> str:
    """Return the family of a policy, or raise with the names that exist."""
    for family, table in FAMILIES.items():
        if name in table:
            return family
    if name in _installed():
        return INSTALLED
    raise unknown_name("policy", name, known_policies())


def _class_of(name: str) -> type[Any]:
    """Return the class of a policy. One of another package is imported here, and only here."""
    family = family_of(name)
    table = POLICIES if family == INSTALLED else FAMILIES[family]
    return cast("type[Any]", resolve("policy", name, table))


def describe_policy(name: str) -> str:
    """Return what a policy does, in one line, or why it cannot be imported."""
    family_of(name)  # it exists
    try:
        return explained(name).partition("\n")[0]
    except StewardError as fault:
        return str(fault)


def options_of(name: str) -> dict[str, object]:
    """Return the options of a policy and what they are if nothing is said."""
    return _defaults(_class_of(name))


def explained(name: str) -> str:
    """Return all that a policy says about itself."""
    return cleandoc(str(_class_of(name).__doc__ or ""))


def knows(name: str) -> str:
    """Say what a policy must be told beside what anybody can see."""
    if name in _KNOW_DURATIONS:
        return "durations"
    if name in ("easy-backfill", "conservative-backfill"):
        return "time limits"
    if name == "commons-packed":
        return "speeds of pairs"
    return "work left and speeds" if name in _KNOW_SPEEDS else "nothing"


def replay(
    trace: Trace,
    machines: Machines,
    policy: str,
    settings: LabSettings,
    *,
    progress: Callable[[float], None] | None = None,
) -> Replay:
    """Replay a trace under a policy, by the engine of its family."""
    if settings.placement not in PLACEMENTS:
        raise unknown_name("placement", settings.placement, PLACEMENTS)
    if policy == AS_RECORDED:
        return replay_as_recorded(trace, machines, settings)
    family = family_of(policy)
    made = _made(policy, _class_of(policy), settings.policy_options)
    if family in ("one order", "tenants"):
        if made.ranking.goal and settings.placement == "count":
            raise StewardError(
                f"{policy} cannot save {made.ranking.goal} where GPUs are only counted",
                where="--placement count",
                hint="choose where jobs go, such as --placement packed",
            )
        return replay_rigid(trace, machines, made.ranking, settings, name=policy, progress=progress)
    if family == INSTALLED:
        return _on_views(trace, machines, made, settings)
    if family == "shared GPUs":
        return _in_pairs(trace, machines, made, settings)
    if family == "time shares":
        return _by_time_shares(trace, machines, made, settings)
    return _elastic(trace, machines, made, settings)


def _made(name: str, make: type[Any], options: Mapping[str, object]) -> Any:  # noqa: ANN401
    """Build a policy with the options that are meant for it: `FIELD` or `POLICY.FIELD`."""
    defaults = _defaults(make)
    chosen = {}
    for key, value in options.items():
        owner, _, option = key.rpartition(".")
        if owner and owner != name:
            family_of(owner)  # or it is told that there is no such policy
            continue
        if option in defaults:
            chosen[option] = _checked(f"{name}.{option}", value, defaults[option])
        elif owner:
            raise unknown_name(f"option of {name}", option, defaults)
        elif not any(
            option in _defaults(table[each]) for table in FAMILIES.values() for each in table
        ):
            raise unknown_name("option", option, defaults)
    return make(**chosen)


def _defaults(make: type[Any]) -> dict[str, object]:
    if not is_dataclass(make):
        return {}
    return {field.name: field.default for field in fields(make) if field.name not in _NO_OPTIONS}


def _checked(option: str, value: object, default: object) -> object:
    """Return the value of an option if it is of the kind of its default; else say what is."""
    wanted: tuple[type, ...] = (type(default),)
    if isinstance(default, float | int) and not isinstance(default, bool):
        wanted = (float, int)
    number = isinstance(value, float | int) and not isinstance(value, bool)
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        problem = f"{value!r} is not what {option} can be, which is {default!r} if nothing is said"
        raise StewardError(problem, where="--option")
    if number and not value >= 0:  # type: ignore[operator]  # a number; NaN too is caught
        raise StewardError(f"{option} is {value}, but cannot be below 0", where="--option")
    return value


def _throughputs(settings: LabSettings) -> Any:  # noqa: ANN401 - a table or None
    from steward.sim.traces.throughputs import read_throughputs  # noqa: PLC0415 - heavy

    folder = settings.profiles
    there = folder is not None and (folder / "throughputs_solo.csv.gz").exists()
    return read_throughputs(folder) if folder is not None and there else None


def _on_views(trace: Trace, machines: Machines, policy: Any, settings: LabSettings) -> Replay:  # noqa: ANN401
    from steward.learn.estimators.similar_jobs import SimilarJobs  # noqa: PLC0415 - heavy
    from steward.learn.estimators.tenant_use import TenantUse  # noqa: PLC0415 - heavy
    from steward.sim.lab.view_replay import replay_views  # noqa: PLC0415 - heavy

    estimators = (SimilarJobs(), TenantUse())
    return replay_views(trace, machines, policy, settings, estimators=estimators)


def _in_pairs(trace: Trace, machines: Machines, policy: Any, settings: LabSettings) -> Replay:  # noqa: ANN401
    from steward.sim.lab.colocation import replay_colocation  # noqa: PLC0415 - heavy

    return replay_colocation(trace, machines, policy, settings, throughputs=_throughputs(settings))


def _by_time_shares(trace: Trace, machines: Machines, policy: Any, settings: LabSettings) -> Replay:  # noqa: ANN401
    from steward.sim.lab.time_shares import replay_time_shares  # noqa: PLC0415 - heavy

    round_s = 120.0 if policy.name == "shockwave" else 360.0
    return replay_time_shares(
        trace,
        machines,
        policy,
        throughputs=_throughputs(settings),
        round_s=round_s,
        seed=settings.seed,
    )


def _elastic(trace: Trace, machines: Machines, policy: Any, settings: LabSettings) -> Replay:  # noqa: ANN401
    from steward.sim.lab.elastic import replay_elastic  # noqa: PLC0415 - heavy
    from steward.sim.traces.profiles import read_profiles  # noqa: PLC0415 - heavy

    if settings.profiles is None or not (settings.profiles / "profile_placements.csv.gz").exists():
        raise StewardError(
            f"{policy.name} needs to know how fast each application is on how many GPUs",
            where=trace.name,
            hint="it runs on the pollux and sia traces, which have such profiles, or with "
            "--profiles FOLDER",
        )
    restart_s = None if policy.name == "sia" else settings.checkpoint_s or 30.0
    # Sia's folder has speeds of its own, and trains as Pollux' applications do.
    learning = settings.profiles
    if not (learning / "profile_validation.csv.gz").exists():
        learning = learning.parent / "pollux"
    profiles = read_profiles(settings.profiles, learning_from=learning)
    return replay_elastic(trace, machines, policy, profiles=profiles, restart_s=restart_s)
