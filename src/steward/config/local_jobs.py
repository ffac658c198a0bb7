"""The local engine with all its parts, as the settings describe it."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Self

from steward.act.actuators.local import Local
from steward.act.jobs.controller import JobController
from steward.act.jobs.job_thread import advancing
from steward.act.jobs.power import PowerCapper
from steward.clients.local_jobs.accounts import refuse_if_shared
from steward.clients.local_jobs.confinement import Confinement
from steward.clients.local_jobs.devices import JobDevices
from steward.clients.local_jobs.engine import LocalEngine
from steward.clients.local_jobs.suspension import Suspension
from steward.clients.nvml import PowerLimitControl
from steward.clients.power_rights import may_set_limits
from steward.clock import Clock
from steward.config.plugs import schedulers
from steward.config.settings import Settings
from steward.observe.collectors.local_jobs import LocalJobs
from steward.store.atomic import make_folder
from steward.store.jobs import JobStore
from steward.store.power_caps import PowerCapFile

__all__ = ["LocalJobRunner"]

SCHEDULER = "commons"
ESTIMATORS = ("similar-jobs", "tenant-use")
ENERGY_POLICY, ENERGY_ESTIMATOR = "save-energy", "power-curve"  # for jobs that allow it alone


@dataclass(kw_only=True)
class LocalJobRunner:
    """Jobs of this machine. As a context, it advances them and closes the store at its end."""

    settings: Settings
    clock: Clock
    store: JobStore
    engine: LocalEngine
    controller: JobController
    devices: JobDevices
    collector: LocalJobs
    actuator: Local
    power: PowerCapper
    wake: threading.Event = field(default_factory=threading.Event)
    _thread: AbstractContextManager[None] | None = None

    @classmethod
    def open(cls, settings: Settings, *, clock: Clock) -> LocalJobRunner | None:
        """Return the engine, or None where another one is chosen or jobs are switched off."""
        jobs = settings.jobs
        if not jobs.enabled or settings.act.actuator not in ("dry-run", "local"):
            return None
        refuse_if_shared(settings.jobs_folder)
        wake = threading.Event()
        devices = JobDevices.find(slots=jobs.slots)
        make_folder(settings.store.path)
        store = JobStore(settings.store.path / "jobs.sqlite3")
        engine = LocalEngine(
            settings.jobs_folder,
            grace_s=jobs.grace_s,
            log_max_bytes=jobs.log_max_bytes,
            confinement=Confinement.find(),
            uuids=devices.uuids,
        )
        controller = JobController(
            store, engine, changed=wake.set, save_within_s=jobs.save_within_s
        )
        suspension = Suspension(engine, devices.memory)
        controller.lending.suspender = suspension
        controller.lending.is_lost = devices.is_lost
        driver = devices.driver
        power = PowerCapper(
            PowerLimitControl(driver.library) if driver is not None else None,
            PowerCapFile(settings.store.path / "power_caps.json"),
            jobs=store,
            uuids=devices.uuids,
            rights=may_set_limits,
        )
        return cls(
            settings=settings,
            clock=clock,
            store=store,
            engine=engine,
            controller=controller,
            devices=devices,
            collector=LocalJobs(
                store=store,
                devices=devices,
                folder=engine.folder,
                news=power.take_events,
                suspension=suspension,
                grace_s=jobs.grace_s,
            ),
            actuator=Local(controller, power),
            power=power,
            wake=wake,
        )

    def scheduling(self, settings: Settings) -> Settings:
        """Return the settings with a policy that decides which jobs start, if they name none."""
        settings = _with_plugs(settings, (ENERGY_POLICY,), (ENERGY_ESTIMATOR,))
        named = settings.decide.policies
        if {*named} & {*schedulers()}:
            return settings
        estimators = dict.fromkeys((*settings.learn.estimators, *ESTIMATORS))
        return settings.model_copy(
            update={
                "decide": settings.decide.model_copy(update={"policies": (SCHEDULER, *named)}),
                "learn": settings.learn.model_copy(update={"estimators": tuple(estimators)}),
            }
        )

    @property
    def runs_for_others(self) -> bool:
        """Whether jobs of other accounts can be run: only root may."""
        return os.geteuid() == 0

    def __enter__(self) -> Self:
        self._thread = advancing(self.controller, self.clock, self.power.advance)
        self._thread.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.__exit__(None, None, None)
        self.power.close(self.clock.now_s())


def _with_plugs(
    settings: Settings, policies: tuple[str, ...], estimators: tuple[str, ...]
) -> Settings:
    """Return the settings with these plugs after those that they name."""
    decide, learn = settings.decide, settings.learn
    named = tuple(dict.fromkeys((*decide.policies, *policies)))
    learning = tuple(dict.fromkeys((*learn.estimators, *estimators)))
    return settings.model_copy(
        update={
            "decide": decide.model_copy(update={"policies": named}),
            "learn": learn.model_copy(update={"estimators": learning}),
        }
    )
