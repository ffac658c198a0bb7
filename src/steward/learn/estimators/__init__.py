"""Estimators of quantities that cannot be observed directly."""

from steward.learn.estimators.idle_spells import IdleSpells
from steward.learn.estimators.job_history import JobHistory
from steward.learn.estimators.power_curve import PowerCurve
from steward.learn.estimators.quiet_phases import QuietPhases
from steward.learn.estimators.similar_jobs import SimilarJobs
from steward.learn.estimators.step_rates import StepRates
from steward.learn.estimators.tenant_use import TenantUse
from steward.learn.estimators.use_levels import UseLevels
from steward.learn.estimators.workload_phases import WorkloadPhases
from steward.model.view import ClusterView
from steward.ports import Estimator

__all__ = ["ESTIMATORS"]

ESTIMATORS: dict[str, type[Estimator[ClusterView]]] = {
    "idle-spells": IdleSpells,
    "job-history": JobHistory,
    "power-curve": PowerCurve,
    "quiet-phases": QuietPhases,
    "similar-jobs": SimilarJobs,
    "step-rates": StepRates,
    "tenant-use": TenantUse,
    "use-levels": UseLevels,
    "workload-phases": WorkloadPhases,
}
