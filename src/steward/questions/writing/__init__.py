"""A language model plans which tools to call, and writes sentences that are checked.

It never sees what people, rules or logs wrote freely, and it never computes: a number, a name or a
time that no cited fact holds refuses the whole text.
"""

from steward.questions.writing.assistant import Assistant, Speaker

__all__ = ["Assistant", "Speaker"]
