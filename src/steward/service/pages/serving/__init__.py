"""`/serving`: the gateways in front of model servers, their queues and how well they predict."""

from steward.service.pages.serving.page import serving_page

__all__ = ["serving_page"]
