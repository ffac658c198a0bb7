"""Policies that divide the cluster's time: a problem in, shares out. Pure, one file each."""

from steward.decide.scheduling.time_shares.finish_time_fairness import FinishTimeFairness
from steward.decide.scheduling.time_shares.gandiva import Gandiva
from steward.decide.scheduling.time_shares.isolated import Isolated
from steward.decide.scheduling.time_shares.makespan import Makespan
from steward.decide.scheduling.time_shares.max_min import MaxMin
from steward.decide.scheduling.time_shares.max_sum import MaxSum
from steward.decide.scheduling.time_shares.min_cost import MinCost
from steward.decide.scheduling.time_shares.problem import TimeSharePolicy
from steward.decide.scheduling.time_shares.shockwave import Shockwave
from steward.decide.scheduling.time_shares.themis import Themis
from steward.decide.scheduling.time_shares.typed_fifo import TypedFifo

__all__ = ["TIME_SHARE_POLICIES"]

TIME_SHARE_POLICIES: dict[str, type[TimeSharePolicy]] = {
    "finish-time-fairness": FinishTimeFairness,
    "gandiva": Gandiva,
    "isolated": Isolated,
    "makespan": Makespan,
    "max-min": MaxMin,
    "max-sum": MaxSum,
    "min-cost": MinCost,
    "shockwave": Shockwave,
    "themis": Themis,
    "typed-fifo": TypedFifo,
}
