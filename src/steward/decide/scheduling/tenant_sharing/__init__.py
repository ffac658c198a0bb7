"""Tenants share by quota, use or rank. One file each."""

from steward.decide.scheduling.tenant_sharing.commons import Commons
from steward.decide.scheduling.tenant_sharing.drf import Drf
from steward.decide.scheduling.tenant_sharing.kueue import Kueue
from steward.decide.scheduling.tenant_sharing.multifactor import Multifactor
from steward.decide.scheduling.tenant_sharing.static_quota import StaticQuota
from steward.model.view import ClusterView
from steward.ports import Policy

__all__ = ["SHARED"]

SHARED: dict[str, type[Policy[ClusterView]]] = {
    "static-quota": StaticQuota,
    "multifactor": Multifactor,
    "kueue": Kueue,
    "drf": Drf,
    "commons": Commons,
}
