"""The round engine: time shares become rounds of GPUs, as in Gavel's mechanism.

Here are the jobs' rates, the ledger of time received, the choice of who runs, and the loop. What
the shares should be is decided in `decide/scheduling/time_shares`.
"""

from steward.sim.lab.time_shares.engine import replay_time_shares

__all__ = ["replay_time_shares"]
