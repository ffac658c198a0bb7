"""Lists and watches objects of a Kubernetes API server over HTTPS.

Belongs here: finding and reaching the server, list and watch, pods, nodes and warnings in
Kubernetes' names. Does not: what they mean; `observe/collectors/kubernetes.py` translates.
"""

from __future__ import annotations

from steward.clients.kubernetes.api import Api, KubernetesError
from steward.clients.kubernetes.credentials import Credentials, find_credentials
from steward.clients.kubernetes.objects import KubeNode, Pod, WarningEvent
from steward.clients.kubernetes.reflector import ObjectChange, Reflector

__all__ = [
    "Api",
    "Credentials",
    "KubeNode",
    "KubernetesError",
    "ObjectChange",
    "Pod",
    "Reflector",
    "WarningEvent",
    "find_credentials",
]
