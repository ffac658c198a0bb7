"""What can be looked at, one file per source; the table maps a name to what makes its plug.

Belongs here: turning one source's values into rows, events and jobs. Does not: names and units of
our own (`observe` translates once) or access to external systems (`clients`).
"""

from __future__ import annotations

from steward.observe.collectors.cgroups import Cgroups
from steward.observe.collectors.dcgm import Dcgm
from steward.observe.collectors.ebpf import Ebpf
from steward.observe.collectors.host import Host
from steward.observe.collectors.job_map import JobMap
from steward.observe.collectors.kubernetes import Kubernetes
from steward.observe.collectors.local_jobs import LocalJobs
from steward.observe.collectors.logs.container_logs import ContainerLogs
from steward.observe.collectors.logs.journald import Journald
from steward.observe.collectors.logs.kernel_log import KernelLog
from steward.observe.collectors.logs.log_files import LogFiles
from steward.observe.collectors.marks import Marks
from steward.observe.collectors.nvml import Nvml
from steward.observe.collectors.perf import Perf
from steward.observe.collectors.processes import Processes
from steward.observe.collectors.prometheus import Prometheus
from steward.observe.collectors.slurm import Slurm
from steward.ports import Collector

__all__ = ["COLLECTORS"]

COLLECTORS: dict[str, type[Collector]] = {
    "cgroups": Cgroups,
    "container-logs": ContainerLogs,
    "dcgm": Dcgm,
    "ebpf": Ebpf,
    "host": Host,
    "job-map": JobMap,
    "journald": Journald,
    "kernel-log": KernelLog,
    "kubernetes": Kubernetes,
    "local-jobs": LocalJobs,
    "log-files": LogFiles,
    "marks": Marks,
    "nvml": Nvml,
    "perf": Perf,
    "processes": Processes,
    "prometheus": Prometheus,
    "slurm": Slurm,
}
