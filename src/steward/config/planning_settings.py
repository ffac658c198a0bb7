"""What planning reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from steward.config.checked_values import check_folder
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
