"""Two stand-in servers, the gateway, chat and a batch: how a batch fills the gaps of chat."""

from __future__ import annotations

from steward.service.serving_demo.demo import DemoSettings, DemoSummary, Moment, run_demo

__all__ = ["DemoSettings", "DemoSummary", "Moment", "run_demo"]
