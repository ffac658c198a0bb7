"""`/fabric`: the network drawn with its load, who suffers, who causes it, and what was done."""

from steward.service.pages.fabric.page import fabric_page

__all__ = ["fabric_page"]
