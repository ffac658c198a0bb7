"""What every command of the lab takes: a workload, machines for it, and what a replay assumes."""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from steward.errors import StewardError, unknown_name

if TYPE_CHECKING:
    from steward.model.machines import Machines
    from steward.model.trace import Trace
    from steward.sim.lab.settings import LabSettings

__all__ = ["LabOptions", "named_values", "policies_of", "spoken", "takes_world"]

DEFAULT_GPUS_PER_NODE = 8
COUNTED = "count"  # GPUs are counted, not placed
LOCALITIES = 4  # node, rack, switch, beyond
ENDINGS = (".csv", ".csv.gz", ".parquet", ".swf", ".swf.gz", ".txt", ".txt.gz")
PROFILES = ("profile_placements.csv.gz", "throughputs_solo.csv.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOptions:
    """The options that describe a world, as they were typed."""

    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="A file or folder with jobs, or a name in the data folder, such as philly or "
            "philly/103959. The end of `steward lab compare --help` says what it may look like.",
        ),
    ]
    gpus: Annotated[
        int | None,
        typer.Option(
            "--gpus",
            min=1,
            max=10_000_000,
            metavar="N",
            help="How many GPUs there are. Without it: so many that the trace fills 80 % of them "
            "on average.",
        ),
    ] = None
    gpus_per_node: Annotated[
        int, typer.Option("--gpus-per-node", min=1, max=1024, metavar="N", help="GPUs of a node.")
    ] = DEFAULT_GPUS_PER_NODE
    cluster: Annotated[
        Path | None,
        typer.Option(
            "--cluster",
            metavar="FILE",
            help="Machines of several kinds from a TOML file, instead of --gpus: a table "
            "[[nodes]] per kind with count, gpus and type, and if wanted cpus, memory_bytes, "
            "price_per_gpu_h, idle_watts, busy_watts, gram_co2_per_kwh, cluster, spot, on_demand, "
            "boot_s; [[changes]] with t_s, node, up and warning_s.",
        ),
    ] = None
    placement: Annotated[
        str,
        typer.Option(
            "--placement",
            metavar="NAME",
            help="How GPUs are chosen: count does not (it only counts them); packed, spread, "
            "topology, fgd, …",
        ),
    ] = COUNTED
    checkpoint_s: Annotated[
        float,
        typer.Option(
            "--checkpoint-s",
            min=0,
            metavar="SECONDS",
            help="What one preemption costs (save and restore), where the trace says nothing.",
        ),
    ] = 0.0
    tenant_quota: Annotated[
        list[str] | None,
        typer.Option(
            "--tenant-quota",
            metavar="TENANT=GPUS",
            help="GPUs guaranteed to a tenant; repeat it. Without any: half of the GPUs, in "
            "proportion to each tenant's GPU-time in the trace.",
        ),
    ] = None
    locality: Annotated[
        str,
        typer.Option(
            "--locality",
            metavar="A,B,C,D",
            help="How many times as long a job takes within one node, within one rack, below one "
            "switch, and beyond; for placements that place.",
        ),
    ] = ""
    profiles: Annotated[
        Path | None,
        typer.Option(
            "--profiles",
            metavar="DIR",
            help="Measured speeds of models, for policies that use them. Without it: the trace's "
            "own folder, if they are there.",
        ),
    ] = None
    forecast_error: Annotated[
        float,
        typer.Option(
            "--forecast-error",
            min=0,
            max=10,
            metavar="SIGMA",
            help="How wrong known durations are: spread of a log-normal factor.",
        ),
    ] = 0.0
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="An option of the policies, such as lead=4 or commons.goal=cost; repeat it. "
            "`steward lab policies NAME` lists those of one.",
        ),
    ] = None
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which dice are thrown.")] = 0
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="JOBS", help="Only the first rows of the trace."),
    ] = None
    trace_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="The format of the trace, where it is not told from its columns.",
        ),
    ] = None

    def read_trace(self) -> Trace:
        """Read the workload."""
        from steward.sim.traces import read_trace

        return read_trace(self.trace, format=self.trace_format, limit=self.limit)

    def machines(self, trace: Trace) -> tuple[Machines, str]:
        """Return the machines, and what to say where nobody said how many."""
        from steward.model.machines import machines_of
        from steward.sim.lab.trials.variants import natural_gpus

        if self.cluster is not None:
            return self._cluster_file(self.cluster), ""
        gpus, said = self.gpus, ""
        if gpus is None:
            gpus = natural_gpus(trace, gpus_per_node=self.gpus_per_node)
            said = f"--gpus is not given: {gpus} GPUs, which this trace fills to 80 % on average"
        return machines_of(gpus, gpus_per_node=self.gpus_per_node), said

    def _cluster_file(self, file: Path) -> Machines:
        from steward.sim.lab.cluster_file import read_cluster

        if self.gpus is not None:
            raise StewardError(
                "--gpus and --cluster both say what machines there are",
                hint="give one of them",
            )
        return read_cluster(file)

    def settings(self) -> LabSettings:
        """Return what the replay assumes; names are checked before anything runs."""
        from steward.decide.placement import PLACEMENTS
        from steward.sim.lab.settings import LabSettings

        if self.placement not in (COUNTED, *PLACEMENTS):
            raise unknown_name(
                "placement", self.placement, (COUNTED, *PLACEMENTS), where="--placement"
            )
        _check_file(self.trace)
        quota = named_values(self.tenant_quota or (), where="--tenant-quota")
        return LabSettings(
            placement=self.placement,
            seed=self.seed,
            checkpoint_s=self.checkpoint_s,
            quota=_quota(quota) if quota else None,
            forecast_error=self.forecast_error,
            locality_slowdown=_locality(self.locality),
            profiles=self.profiles or _profiles_beside(self.trace),
            policy_options=named_values(self.option or (), where="--option"),
        )


def takes_world(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take the options of `LabOptions`; it gets them as its first argument."""
    shared = inspect.signature(LabOptions).parameters
    own = list(inspect.signature(command).parameters.values())[1:]
    hints = {
        **get_type_hints(LabOptions, include_extras=True),
        **get_type_hints(command, include_extras=True),
    }

    @wraps(command)
    def run(**values: Any) -> None:  # noqa: ANN401 - typer has checked them
        asked = LabOptions(**{name: values.pop(name) for name in shared})
        command(asked, **values)

    both = [*shared.values(), *own]
    together = [each.replace(annotation=hints[each.name]) for each in both]
    run.__signature__ = inspect.Signature(together)  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {each.name: hints[each.name] for each in both}
    return run


def policies_of(names: str) -> list[str]:
    """Return the policies of a list with commas; `all` is every one."""
    from steward.sim.lab.run import known_policies

    known = known_policies()
    if names.strip() == "all":
        return list(known)
    asked = list(dict.fromkeys(each.strip() for each in names.split(",") if each.strip()))
    if not asked:
        raise StewardError(
            "no policy is named", where="--policies", hint="`steward lab policies` lists them"
        )
    for name in asked:
        if name not in known:
            raise unknown_name("policy", name, known)
    return asked


def named_values(pairs: Sequence[str], *, where: str) -> dict[str, Any]:
    """Read NAME=VALUE; values are numbers, true, false, or else text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name.strip():
            hint = f"such as `{where} name=1`"
            raise StewardError(f"'{pair}' is not NAME=VALUE", where=where, hint=hint)
        found[name.strip()] = value_of(value.strip())
    return found


def value_of(text: str) -> Any:  # noqa: ANN401 - whatever it reads as
    """Read a value as JSON where it is that, else as text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def spoken(command: str, asked: LabOptions, **own: object) -> str:
    """Return the command that gives this result again."""
    parts = ["steward", "lab", command, asked.trace]
    for each in fields(LabOptions):
        value = getattr(asked, each.name)
        if each.name == "trace" or value == each.default or value is None:
            continue
        name = "format" if each.name == "trace_format" else each.name
        for one in value if isinstance(value, list) else [value]:
            parts += [f"--{name.replace('_', '-')}", str(one)]
    for name, value in own.items():
        if value not in (None, "", False):
            parts += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(parts)


def _locality(text: str) -> tuple[float, ...]:
    values = [value_of(part) for part in text.split(",")] if text else [1.0] * LOCALITIES
    fine = all(isinstance(value, int | float) and 1 <= value <= 1000 for value in values)
    if len(values) != LOCALITIES or not fine:
        raise StewardError(
            f"'{text}' is not four numbers of 1 or more",
            where="--locality",
            hint="such as `--locality 1,1.05,1.1,1.3`",
        )
    return tuple(float(value) for value in values)


def _check_file(trace: str) -> None:
    """Refuse a file that is not there by its own name; other names may be parts of a trace."""
    from steward.sim.traces.locate import data_folder

    plain = trace.partition("#")[0]
    if plain.endswith(ENDINGS) and not any(
        (root / plain).exists() for root in (Path(), data_folder())
    ):
        raise StewardError(
            "there is no such file",
            where=plain,
            hint="check the name; `steward lab compare --help` says what a trace may be",
        )


def _profiles_beside(trace: str) -> Path | None:
    from steward.sim.traces.locate import find

    place = find(trace).path
    folder = place if place.is_dir() else place.parent
    return folder if any((folder / name).exists() for name in PROFILES) else None


def _quota(given: Mapping[str, Any]) -> dict[str, float]:
    for tenant, gpus in given.items():
        if isinstance(gpus, bool) or not isinstance(gpus, int | float) or not 0 <= gpus < 1e9:
            raise StewardError(
                f"the quota of '{tenant}' is '{gpus}'",
                where="--tenant-quota",
                hint="give a number of GPUs, such as `--tenant-quota bio=16`",
            )
    return {tenant: float(gpus) for tenant, gpus in given.items()}
