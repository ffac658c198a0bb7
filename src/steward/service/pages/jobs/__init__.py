"""`/jobs` and `/jobs/ID`. Belongs here: how jobs look. What may be shown of one, the API says."""

from __future__ import annotations

from steward.service.pages.jobs.job_reader import JobReader
from steward.service.pages.jobs.listing import jobs_page
from steward.service.pages.jobs.one_job import job_page

__all__ = ["JobReader", "job_page", "jobs_page"]
