"""jq programs: what one takes at most on a line, and running those that take little.

jq runs in C and cannot be stopped from outside. So a program is weighed when its rule is read: how
long it may take and how much it may build, as a function of the length of the line. Lines that are
too long for it are not given to it; a program that would be too slow on short lines is refused.
"""

from __future__ import annotations

from steward.decide.rules.terms.programs.running import Program, needed_by_program

__all__ = ["Program", "needed_by_program"]
