"""Solves the program that time-share policies have in common, far from its corners.

    maximise  sum(gain * X) + level_gain * t
    so that   X >= 0,  each row of X sums to at most 1,  gpus @ X <= capacity,
              sum(rate[i] * X[i]) >= slope[i] * t + base[i]   for every job i

Why not a simplex method: these programs have many optima (whoever is not a bottleneck may get
more or less), and which one is taken decides how long jobs wait. A corner starves some of the
equals. An interior-point method ends inside the set of optima: equals are treated equally, the
order of the rows does not matter, and slack is left wherever it is possible, so that bottlenecks
can be read off. Where inside it ends depends on where it starts. The start here (least squares
for the shares, least norm for the prices, after three rounds of equilibration) and the steps (a
homogeneous embedding, Mehrotra's predictor and corrector, one step length) are those of the
textbook method for cone programs, with which the published results were made: the shares agree
with it to four digits or more, rarely to two. One Newton step costs a few operations per job,
because jobs meet only in the capacities and in t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["CentralOptimum", "ShareProgram", "solve_centrally"]

Floats = NDArray[np.float64]
Found = tuple[Floats, float, Floats]  # shares, level, and a value per limit
_MAX_STEPS = 100
_TO_THE_WALL = 0.99  # how much of the way to the nearest limit a step goes
_LONGEST = 0.999
_CLOSE = 1e-8
_GOOD = 1e-5  # enough, when digits begin to be lost before it is close


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShareProgram:
    """The program above; `gain` None is 0 for all, `slope` None is a program without level."""

    gpus: Floats
    capacity: Floats
    rate: Floats
    base: Floats
    slope: Floats | None = field(default=None)
    gain: Floats | None = field(default=None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CentralOptimum:
    """The shares, the level t, how far every job is above its floor, and what a floor costs."""

    shares: Floats
    level: float
    slack: Floats
    price: Floats  # by how much t falls, or the gain, if the floor rises by 1
    converged: bool


def solve_centrally(program: ShareProgram) -> CentralOptimum:
    """Follow the path from the start to the optimum; the best point seen if digits run out."""
    limits = _Limits(program)
    at = _start(limits)
    best, best_fault = at, np.inf
    for _ in range(_MAX_STEPS):
        fault = limits.fault(at)
        if fault < best_fault:
            best, best_fault = at, fault
        if fault < _CLOSE or not fault <= 1e3 * max(best_fault, _CLOSE):
            break
        at = _step(limits, at)
    jobs = len(program.gpus)
    return CentralOptimum(
        shares=np.clip(best.x / best.tau, 0.0, 1.0),
        level=best.t / best.tau,
        slack=best.s[-jobs:] / best.tau,
        price=best.z[-jobs:] / best.tau,
        converged=bool(best_fault < _GOOD),
    )


@dataclass(frozen=True, slots=True)
class _Point:
    """Shares, level, what is left of each limit `s`, its price `z`, and the embedding's two."""

    x: Floats
    t: float
    s: Floats
    z: Floats
    tau: float
    kappa: float

    def mu(self) -> float:
        return float(self.s @ self.z + self.tau * self.kappa) / (len(self.s) + 1)


class _Limits:
    """All limits as one matrix G with right side h, so that G (x, t) + s = h.

    A vector over limits has the shares first (row by row), then rows, capacities and floors.
    """

    def __init__(self, program: ShareProgram) -> None:
        jobs, types = program.rate.shape
        self.p = program
        self.g = program.gpus
        self.slope = np.zeros(jobs) if program.slope is None else program.slope
        self.cost = np.zeros_like(program.rate) if program.gain is None else -program.gain
        self.cost_t = 0.0 if program.slope is None else -1.0
        ends = np.cumsum([jobs * types, jobs, types, jobs])
        self.parts = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        zeros = np.zeros(jobs * types)
        self.h = np.concatenate([zeros, np.ones(jobs), program.capacity, -program.base])
        self.h_norm = max(1.0, float(np.linalg.norm(self.h)))
        self.cost_norm = max(1.0, float(np.hypot(np.linalg.norm(self.cost), self.cost_t)))

    def apply(self, x: Floats, t: float) -> Floats:
        """Return G (x, t)."""
        made = np.empty_like(self.h)
        shares, rows, held, floors = self.parts
        made[shares] = -x.ravel()
        made[rows] = x.sum(axis=1)
        made[held] = self.g @ x
        made[floors] = self.slope * t - (self.p.rate * x).sum(axis=1)
        return made

    def pull(self, z: Floats) -> tuple[Floats, float]:
        """Return what prices z exert on shares and level: G transposed."""
        shares, rows, held, floors = self.parts
        on_x = z[rows][:, None] - self.p.rate * z[floors][:, None]
        on_x += self.g[:, None] * z[held]
        on_x -= z[shares].reshape(on_x.shape)
        return on_x, float(self.slope @ z[floors])

    def worth(self, x: Floats, t: float, z: Floats) -> float:
        return float(np.vdot(self.cost, x) + self.cost_t * t + self.h @ z)

    def fault(self, at: _Point) -> float:
        """Return the worst of gap, missed limits and missed prices, relative to the program."""
        on_x, on_t = self.pull(at.z)
        dual = np.hypot(np.linalg.norm(on_x + self.cost * at.tau), on_t + self.cost_t * at.tau)
        primal = np.linalg.norm(self.apply(at.x, at.t) + at.s - self.h * at.tau)
        value = abs(float(np.vdot(self.cost, at.x)) + self.cost_t * at.t) / at.tau
        gap = at.s @ at.z / at.tau**2 / max(value, 1.0)
        return float(max(gap, dual / at.tau / self.cost_norm, primal / at.tau / self.h_norm))

    def factored(self, w: Floats) -> Callable[[Floats, float, Floats], Found]:
        """Factor for weights w; the answer solves G'z = b and G(x, t) - z/w = c for x, t and z.

        Each job has a small system of its own (its shares, its row, its floor); jobs meet in one
        more, with a row per GPU type and one for the level.
        """
        g, slope, types = self.g, self.slope, len(self.p.capacity)
        own = self.own_inverse(w)
        xx, x4, m4 = own[:, :types, :types], own[:, :types, -1], own[:, -1, -1]
        along = (g * slope) @ x4
        meet = np.empty((types + 1, types + 1))
        meet[:types, :types] = np.diag(1.0 / w[self.parts[2]])
        meet[:types, :types] += ((g * g) @ xx.reshape(len(g), -1)).reshape(types, types)
        meet[:types, types] = -along
        meet[types, :types] = along
        meet[types, types] = 1.0 if self.p.slope is None else -float((slope * slope) @ m4)
        meet_inverse = np.linalg.inv(meet)

        def once(b_x: Floats, b_t: float, c: Floats) -> Found:
            push_x, push_t = self.pull(w * c)
            right = b_x + push_x
            inner = np.empty(types + 1)
            inner[:types] = g @ (xx @ right[:, :, None])[:, :, 0]
            inner[types] = b_t + push_t + slope @ (x4 * right).sum(axis=1)
            found = meet_inverse @ inner
            dt = float(found[types])
            dx = (xx @ (right - g[:, None] * found[:types])[:, :, None])[:, :, 0]
            dx += (slope * dt)[:, None] * x4
            return dx, dt, w * (self.apply(dx, dt) - c)

        def solve(b_x: Floats, b_t: float, c: Floats) -> Found:
            # once more for what the first time missed: near the end the weights span 16 digits
            dx, dt, dz = once(b_x, b_t, c)
            on_x, on_t = self.pull(dz)
            ex, et, ez = once(b_x - on_x, b_t - on_t, c - self.apply(dx, dt) + dz / w)
            return dx + ex, dt + et, dz + ez

        return solve

    def own_inverse(self, w: Floats) -> Floats:
        """Invert every job's system. Row and floor stay in it: eliminating them loses digits."""
        jobs, types = self.p.rate.shape
        shares, rows, _, floors = self.parts
        own = np.zeros((jobs, types + 2, types + 2))
        diagonal = np.arange(types)
        own[:, diagonal, diagonal] = w[shares].reshape(jobs, types)
        own[:, :types, types] = own[:, types, :types] = 1.0
        own[:, :types, types + 1] = own[:, types + 1, :types] = self.p.rate
        own[:, types, types] = -1.0 / w[rows] - 1e-14
        own[:, types + 1, types + 1] = -1.0 / w[floors] - 1e-14
        return np.asarray(np.linalg.inv(own))

    def row_scales(self) -> Floats:
        """Equilibrate: three times divide rows and columns by the root of their largest entry."""
        rate = np.abs(self.p.rate)
        scale = np.ones_like(self.h)
        x, t = np.ones_like(rate), 1.0
        for _ in range(3):
            shares, rows, held, floors = (scale[part] for part in self.parts)
            share = 1.0 / (shares.reshape(x.shape) * x)
            row = 1.0 / (rows[:, None] * x)
            hold = self.g[:, None] / (held * x)
            floor = rate / (floors[:, None] * x)
            lift = self.slope / (floors * t)
            high = np.maximum(floor.max(axis=1), lift)
            largest = np.concatenate([share.ravel(), row.max(axis=1), hold.max(axis=0), high])
            scale = scale * _root(largest)
            x = x * _root(np.maximum(np.maximum(share, row), np.maximum(hold, floor)))
            t = t * float(_root(lift.max()))
        return scale


def _root(largest: Floats) -> Floats:
    """Return the divisor for a row or column; one that is empty stays as it is."""
    return np.where(largest > 1e-12, np.sqrt(np.maximum(largest, 1e-12)), 1.0)


def _start(limits: _Limits) -> _Point:
    """Least squares for shares and level, least norm for prices; both moved inside if outside."""
    scale = limits.row_scales()
    solve = limits.factored(1.0 / scale**2)
    x, t, _ = solve(np.zeros_like(limits.cost), 0.0, limits.h)
    left = (limits.h - limits.apply(x, t)) / scale
    _, _, z = solve(-limits.cost, -limits.cost_t, np.zeros_like(limits.h))
    return _Point(
        x=x, t=t, s=_inside(left) * scale, z=_inside(z * scale) / scale, tau=1.0, kappa=1.0
    )


def _inside(values: Floats) -> Floats:
    """Return the values if all are positive, else all raised so that the least is 1."""
    least = float(values.min())
    return values if least > 0.0 else values + (1.0 - least)


def _step(limits: _Limits, at: _Point) -> _Point:
    """Look ahead along the affine direction, then go the centred and corrected one."""
    newton = _Newton(limits, at)
    affine = newton.direction(0.0, -at.s * at.z, -at.tau * at.kappa)
    reach = min(_reach(at, affine), _LONGEST)
    centring = min(max((1.0 - reach) ** 3, 1e-4), 1.0)
    aim = centring * at.mu()
    way = newton.direction(
        centring,
        aim - at.s * at.z - affine.s * affine.z,
        aim - at.tau * at.kappa - affine.tau * affine.kappa,
    )
    far = min(_TO_THE_WALL * _reach(at, way), _LONGEST)
    return _Point(
        x=at.x + far * way.x,
        t=at.t + far * way.t,
        s=at.s + far * way.s,
        z=at.z + far * way.z,
        tau=at.tau + far * way.tau,
        kappa=at.kappa + far * way.kappa,
    )


class _Newton:
    """The Newton system at a point; its answers are directions, in the form of a point."""

    def __init__(self, limits: _Limits, at: _Point) -> None:
        self.limits, self.at = limits, at
        on_x, on_t = limits.pull(at.z)
        self.dual_x = -on_x - limits.cost * at.tau
        self.dual_t = -on_t - limits.cost_t * at.tau
        self.primal = at.s + limits.apply(at.x, at.t) - limits.h * at.tau
        self.value = at.kappa + limits.worth(at.x, at.t, at.z)
        self.solve = limits.factored(at.z / at.s)
        self.x1, self.t1, self.z1 = self.solve(-limits.cost, -limits.cost_t, limits.h)
        self.bend = at.kappa / at.tau - limits.worth(self.x1, self.t1, self.z1)

    def direction(self, centring: float, aim: Floats, aim_kappa: float) -> _Point:
        """Return the direction that changes s*z by `aim` and takes residuals down."""
        at, part = self.at, 1.0 - centring
        x2, t2, z2 = self.solve(
            part * self.dual_x, part * self.dual_t, -part * self.primal - aim / at.z
        )
        gained = self.limits.worth(x2, t2, z2)
        d_tau = (part * self.value + aim_kappa / at.tau + gained) / self.bend
        dz = z2 + d_tau * self.z1
        return _Point(
            x=x2 + d_tau * self.x1,
            t=t2 + d_tau * self.t1,
            s=(aim - at.s * dz) / at.z,
            z=dz,
            tau=d_tau,
            kappa=(aim_kappa - at.kappa * d_tau) / at.tau,
        )


def _reach(at: _Point, way: _Point) -> float:
    """Return how far the point can go along the direction before something turns negative."""
    steepest = max(
        -way.tau / at.tau,
        -way.kappa / at.kappa,
        float((-way.s / at.s).max()),
        float((-way.z / at.z).max()),
        1e-12,
    )
    return 1.0 / steepest
