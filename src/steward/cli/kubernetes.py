"""`steward kubernetes`: the operator that makes Jobs of TrainingJobs."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_note

__all__ = ["app"]

app = typer.Typer(help="Serve TrainingJobs of a Kubernetes cluster.", rich_markup_mode=None)

Kubeconfig = Annotated[
    str,
    typer.Option(
        "--kubeconfig", metavar="FILE", help="[$KUBECONFIG, the pod's account, ~/.kube/config]"
    ),
]
Context = Annotated[str, typer.Option("--context", metavar="NAME", help="Of the kubeconfig.")]
Namespace = Annotated[
    str, typer.Option("--namespace", metavar="NAME", help="Only TrainingJobs of this one.")
]
LeaseNamespace = Annotated[
    str, typer.Option("--lease-namespace", metavar="NAME", help="Where the Lease is.")
]
LeaseTime = Annotated[
    float,
    typer.Option("--lease", metavar="S", min=0.1, max=3600, help="Until another may take over."),
]
Identity = Annotated[
    str, typer.Option("--identity", metavar="NAME", help="In the Lease [the pod's or host's name].")
]
Every = Annotated[
    float, typer.Option("--every", metavar="S", min=0.05, max=60, help="Between two passes.")
]


Kueue = Annotated[
    bool,
    typer.Option(help="Answer admission checks of Kueue, where the cluster has it."),
]


@app.callback()
def kubernetes() -> None:
    """Serve TrainingJobs of a Kubernetes cluster."""


@app.command()
def operator(  # noqa: PLR0913 - what can be set
    *,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    namespace: Namespace = "",
    lease_namespace: LeaseNamespace = "steward",
    lease: LeaseTime = 15.0,
    identity: Identity = "",
    every: Every = 1.0,
    kueue: Kueue = True,
    as_json: Json = False,
) -> None:
    """Make a Job of each TrainingJob, once, and keep its status and that of ResourcePools.

    Admission checks of Kueue with the controller steward.dev/lend are answered from the pools.

    Of several operators, the one that holds the Lease works. `steward up` decides when the Jobs
    start. See docs/kubernetes.md.
    """
    from steward.act.kubernetes.kueue_operator import KueueOperator
    from steward.act.kubernetes.pool_operator import PoolOperator
    from steward.act.kubernetes.training_operator import TrainingOperator
    from steward.clients.kubernetes import Api, find_credentials
    from steward.clients.kubernetes.lease import Lease
    from steward.errors import StewardError

    access = find_credentials(kubeconfig, context=context)
    if access is None:
        hint = "set KUBECONFIG or --kubeconfig, or run it in the cluster"
        raise StewardError("no cluster is configured", hint=hint)
    name = identity or os.environ.get("POD_NAME", "") or socket.gethostname()
    api = Api(access)
    held = Lease(
        api, namespace=lease_namespace, name="steward-operator", identity=name, duration_s=lease
    )
    serving = TrainingOperator(api, held, namespace=namespace, pass_s=min(5.0, lease / 3))
    pools = None if namespace else PoolOperator(api)  # pools belong to the whole cluster
    checks = KueueOperator(api, pools) if kueue and pools is not None else None
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    print_note(f"operator {name} at {access.server}")
    serving.start()
    optional = [each for each in (pools, checks) if each is not None]
    for each in optional:
        each.start()
    said = ""
    while not stop.wait(every):
        done = serving.turn()
        if as_json and (done.created or done.updated):
            print_json({"leads": done.leads, "created": done.created, "updated": done.updated})
        more = [fault for each in optional for fault in each.turn(leads=done.leads)]
        problem = "; ".join(sorted({str(fault) for fault in (*done.faults, *more)}))
        if problem and problem != said:
            print_note(f"error: {problem}")
        said = problem
    for each in optional:
        each.stop()
    serving.stop()
    api.close()
