"""The gateway's section `[batches]`: files of requests that have hours to be answered."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from steward.config.checked_values import check_not_blank
from steward.config.section import Section

__all__ = ["BatchSettings"]

Name = Annotated[str, AfterValidator(check_not_blank)]


class BatchSettings(Section):
    """`/v1/files` and `/v1/batches` of the gateway."""

    enabled: bool = Field(default=True, description="without it both are answered 404")
    store: str = Field(
        "",
        description="a database URL; empty is SQLite in the store folder, for one gateway; "
        "`postgresql://USER:PASSWORD@HOST/DATABASE` for several",
    )
    deadline_class: Name = Field("batch", description="of the requests of batches")
    in_flight: int = Field(
        256, ge=1, le=100_000, description="requests of batches in a gateway's queue at once"
    )
    attempts: int = Field(
        5, ge=1, le=100, description="how often a request is sent that upstreams fail to answer"
    )
    lease_s: float = Field(
        30.0, ge=1, description="a gateway that is silent for so long is presumed dead"
    )
    file_limit_bytes: int = Field(200 * 2**20, ge=1024, description="larger files are refused")
    upload_stall_s: float = Field(
        60.0, gt=0, description="an upload without a byte for so long is broken off"
    )
    line_limit_bytes: int = Field(8 * 2**20, ge=1024, description="longer lines are faults")
    most_requests: int = Field(50_000, ge=1, description="requests of one batch")
    longest_window_s: float = Field(
        7 * 86_400.0, gt=0, description="the longest `completion_window` of a batch"
    )
