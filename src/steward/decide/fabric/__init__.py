"""Whose traffic is limited so that others wait less. One file each."""

from steward.decide.fabric.biggest_talker import BiggestTalker
from steward.decide.fabric.netscope import Netscope
from steward.decide.fabric.no_caps import NoCaps
from steward.decide.fabric.per_flow import PerFlow
from steward.decide.fabric.uniform import Uniform
from steward.model.fabric.view import FabricView
from steward.ports import Policy

__all__ = ["FABRIC_POLICIES"]

FABRIC_POLICIES: dict[str, type[Policy[FabricView]]] = {
    "netscope": Netscope,
    "none": NoCaps,
    "uniform": Uniform,
    "biggest-talker": BiggestTalker,
    "per-flow": PerFlow,
}
