"""The page of plans: where a job should run, answered while one types."""

from steward.service.pages.planning.page import plan_page

__all__ = ["plan_page"]
