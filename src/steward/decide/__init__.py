"""What should be done? Pure: a view in, findings and decisions out.

Belongs here: judgement. Does not: clocks, dice, disks, networks; a decision can be replayed from
its view.
"""
