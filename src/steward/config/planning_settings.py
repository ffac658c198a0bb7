"""What planning reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from steward.config.checked_values import check_folder, check_optional_file
from steward.config.section import Section

__all__ = ["PlanningSettings"]


class PlanningSettings(Section):
    """What is known before a job runs."""

    catalog: tuple[Annotated[str, AfterValidator(check_folder)], ...] = Field(
        (),
        strict=False,
        description="sites, queues and accelerators where jobs can run: YAML files, or folders of "
        "them; the later wins, and all win over what comes with steward",
    )
    follow: bool = Field(
        default=True,
        description="whether `steward up` follows jobs that `jobs submit --plan` submitted",
    )
    dry_run: bool = Field(
        default=False, description="write down what would be done with them, and no more"
    )
    carbon: Annotated[str, AfterValidator(check_optional_file)] = Field(
        "",
        description="CSV of region, hour_utc, grams_per_kwh: carbon of the hours ahead for plans, "
        "or a record that it is forecast from",
    )
    every_s: float = Field(
        10.0, gt=0, strict=False, description="seconds between two looks at followed jobs"
    )
    least_chance: float = Field(
        0.9,
        ge=0,
        le=1,
        strict=False,
        description="below this chance of its deadline, a followed job is at risk",
    )
    cheaper_share: float = Field(
        0.1,
        ge=0,
        le=1,
        strict=False,
        description="of what is left to pay: what another site must save, for a job to move",
    )
    move_every_s: float = Field(
        3600.0, ge=0, strict=False, description="seconds between two moves of one job"
    )
    lost_after_s: float = Field(
        900.0,
        gt=0,
        strict=False,
        description="after so many seconds without an answer of its site or a sign of the job, it "
        "goes on elsewhere",
    )
    save_within_s: float = Field(
        300.0, gt=0, strict=False, description="how long a job that is to be moved may take to save"
    )
    budget_usd_per_day: float | None = Field(
        None,
        ge=0,
        strict=False,
        description="what followed jobs may cost at this site in a day; none: no limit",
    )
