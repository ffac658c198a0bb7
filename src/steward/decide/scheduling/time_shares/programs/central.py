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
textbook method for cone programs, with which the published results were made: shares agree with
it to five digits. One Newton step costs a few operations per job, because jobs meet only in the
capacities and in t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["CentralOptimum", "ShareProgram", "solve_centrally"]

Floats = NDArray[np.float64]
Groups = tuple[Floats, Floats, Floats, Floats]  # of shares, rows, capacities, floors
Found = tuple[Floats, float, Groups]  # a direction: shares, level, prices
_MAX_STEPS = 100
REF = 1
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
    """The shares, the level t, and how far every job is above its floor."""

    shares: Floats
    level: float
    slack: Floats
    converged: bool


def solve_centrally(program: ShareProgram) -> CentralOptimum:
    """Follow the path from the start to the optimum; the best point seen if digits run out."""
    geometry = _Geometry(program)
    at = _start(geometry)
    best, best_fault = at, np.inf
    for _ in range(_MAX_STEPS):
        fault = geometry.fault(at)
        if fault < best_fault:
            best, best_fault = at, fault
        if fault < _CLOSE or not np.isfinite(fault) or fault > 1e3 * max(best_fault, _CLOSE):
            break
        at = _step(geometry, at)
    return CentralOptimum(
        shares=np.clip(best.x / best.tau, 0.0, 1.0),
        level=best.t / best.tau,
        slack=best.s[3] / best.tau,
        converged=bool(best_fault < _GOOD),
    )


@dataclass(frozen=True, slots=True)
class _Point:
    """Shares, level, what is left of each limit `s` and its price `z`, and the embedding's two."""

    x: Floats
    t: float
    s: Groups
    z: Groups
    tau: float
    kappa: float

    def mu(self) -> float:
        size = sum(part.size for part in self.s) + 1
        return (_dot(self.s, self.z) + self.tau * self.kappa) / size


class _Geometry:
    """The limits as one matrix G with limits h, so that G (x, t) + s = h; kept in four groups."""

    def __init__(self, program: ShareProgram) -> None:
        jobs, _ = program.rate.shape
        self.p = program
        self.g = program.gpus
        self.slope = np.zeros(jobs) if program.slope is None else program.slope
        self.has_level = program.slope is not None
        self.cost = np.zeros_like(program.rate) if program.gain is None else -program.gain
        self.cost_t = -1.0 if self.has_level else 0.0
        zeros = np.zeros_like(program.rate)
        self.h: Groups = (zeros, np.ones(jobs), program.capacity, -program.base)
        self.h_norm = max(1.0, np.sqrt(_dot(self.h, self.h)))
        self.cost_norm = max(1.0, float(np.sqrt((self.cost**2).sum() + self.cost_t**2)))

    def apply(self, x: Floats, t: float) -> Groups:
        """Return G (x, t)."""
        floors = self.slope * t - (self.p.rate * x).sum(axis=1)
        return -x, x.sum(axis=1), self.g @ x, floors

    def pull(self, z: Groups) -> tuple[Floats, float]:
        """Return what prices z exert on shares and level: G transposed."""
        on_x = -z[0] + z[1][:, None] + self.g[:, None] * z[2] - self.p.rate * z[3][:, None]
        return on_x, float(self.slope @ z[3])

    def fault(self, at: _Point) -> float:
        """Return the worst of gap, missed limits and missed prices, relative to the program."""
        on_x, on_t = self.pull(at.z)
        dual = np.sqrt(((on_x + self.cost * at.tau) ** 2).sum() + (on_t + self.cost_t * at.tau) ** 2)
        made = self.apply(at.x, at.t)
        missed = [a + s - h * at.tau for a, s, h in zip(made, at.s, self.h, strict=True)]
        value = abs(float((self.cost * at.x).sum()) + self.cost_t * at.t) / at.tau
        gap = _dot(at.s, at.z) / at.tau**2 / max(value, 1.0)
        primal = np.sqrt(_dot(missed, missed))
        return float(max(gap, dual / at.tau / self.cost_norm, primal / at.tau / self.h_norm))

    def factored(self, w: Groups) -> Callable[[Floats, float, Groups], Found]:
        """Factor for weights w; the answer solves G'z = b and G(x, t) - z/w = c for x, t and z.

        Each job has a small system of its own (its shares, its row, its floor); jobs meet in one
        more, with a row per GPU type and one for the level.
        """
        g, rate, slope = self.g, self.p.rate, self.slope
        types = rate.shape[1]
        own = self.own_inverse(w)
        xx, x4, m4 = own[:, :types, :types], own[:, :types, -1], own[:, -1, -1]
        along = (g * slope) @ x4
        meet = np.empty((types + 1, types + 1))
        meet[:types, :types] = np.diag(1.0 / w[2]) + np.tensordot(g * g, xx, 1)
        meet[:types, types] = -along
        meet[types, :types] = along
        meet[types, types] = -float((slope * slope) @ m4) if self.has_level else 1.0
        meet_inverse = np.linalg.inv(meet)

        def solve(b_x: Floats, b_t: float, c: Groups) -> Found:
            dx, dt, dz = once(b_x, b_t, c)
            for _ in range(REF):
                on_x, on_t = self.pull(dz)
                made = self.apply(dx, dt)
                miss = _group(q - a + z / wk for q, a, z, wk in zip(c, made, dz, w, strict=True))
                ex, et, ez = once(b_x - on_x, b_t - on_t, miss)
                dx, dt = dx + ex, dt + et
                dz = _group(p + q for p, q in zip(dz, ez, strict=True))
            return dx, dt, dz

        def once(b_x: Floats, b_t: float, c: Groups) -> Found:
            push_x, push_t = self.pull(_times(w, c))
            right = b_x + push_x
            inner = np.empty(types + 1)
            inner[:types] = g @ np.einsum("ijk,ik->ij", xx, right)
            inner[types] = b_t + push_t + slope @ (x4 * right).sum(axis=1)
            found = meet_inverse @ inner
            dt = float(found[types])
            dx = np.einsum("ijk,ik->ij", xx, right - g[:, None] * found[:types])
            dx += (slope * dt)[:, None] * x4
            made = self.apply(dx, dt)
            dz = _group(wk * (a - q) for wk, a, q in zip(w, made, c, strict=True))
            return dx, dt, dz

        return solve

    def own_inverse(self, w: Groups) -> Floats:
        """Invert every job's system. Row and floor stay in it: eliminating them loses digits."""
        jobs, types = self.p.rate.shape
        own = np.zeros((jobs, types + 2, types + 2))
        shares = np.arange(types)
        own[:, shares, shares] = w[0]
        own[:, :types, types] = own[:, types, :types] = 1.0
        own[:, :types, types + 1] = own[:, types + 1, :types] = self.p.rate
        own[:, types, types] = -1.0 / w[1] - 1e-14
        own[:, types + 1, types + 1] = -1.0 / w[3] - 1e-14
        return np.asarray(np.linalg.inv(own))

    def row_scales(self) -> Groups:
        """Equilibrate: three times divide rows and columns by the root of their largest entry."""
        rate, jobs = np.abs(self.p.rate), len(self.g)
        level = np.abs(self.slope)
        rows: list[Floats] = [np.ones_like(s) for s in self.h]
        x, t = np.ones_like(rate), 1.0
        for _ in range(3):
            share = 1.0 / (rows[0] * x)
            row = 1.0 / (rows[1][:, None] * x)
            held = self.g[:, None] / (rows[2] * x)
            floor = rate / (rows[3][:, None] * x)
            lift = level / (rows[3] * t)
            largest = (
                share,
                row.max(axis=1),
                held.max(axis=0),
                np.maximum(floor.max(axis=1), lift),
            )
            column = np.maximum(np.maximum(share, row), np.maximum(held, floor))
            rows = [r * _root(big) for r, big in zip(rows, largest, strict=True)]
            x = x * _root(column)
            t = t * float(_root(lift.max(initial=0.0)))
        assert len(rows[1]) == jobs  # noqa: S101 - our own mistake
        return _group(rows)


def _root(largest: Floats) -> Floats:
    """Return the divisor for a row or column; one that is empty stays as it is."""
    return np.where(largest > 1e-12, np.sqrt(np.maximum(largest, 1e-12)), 1.0)


def _start(geometry: _Geometry) -> _Point:
    """Least squares for shares and level, least norm for prices; both moved inside if outside."""
    scale = geometry.row_scales()
    solve = geometry.factored(_group(1.0 / (e * e) for e in scale))
    zero = _group(np.zeros_like(h) for h in geometry.h)
    x, t, _ = solve(np.zeros_like(geometry.cost), 0.0, geometry.h)
    made = geometry.apply(x, t)
    left = _group((h - a) / e for h, a, e in zip(geometry.h, made, scale, strict=True))
    _, _, z = solve(-geometry.cost, -geometry.cost_t, zero)
    price = _times(z, scale)
    return _Point(
        x=x,
        t=t,
        s=_times(_inside(left), scale),
        z=_group(p / e for p, e in zip(_inside(price), scale, strict=True)),
        tau=1.0,
        kappa=1.0,
    )


def _inside(values: Groups) -> Groups:
    """Return the values if all are positive, else all raised so that the least is 1."""
    least = min(float(v.min()) for v in values)
    return values if least > 0.0 else _group(v + (1.0 - least) for v in values)


def _step(geometry: _Geometry, at: _Point) -> _Point:
    """Look ahead along the affine direction, then go the centred and corrected one."""
    ahead = _Direction(geometry, at)
    affine = ahead.towards(0.0, _group(-s * z for s, z in zip(at.s, at.z, strict=True)), -at.tau * at.kappa)
    reach = min(_reach(at, affine), _LONGEST)
    centring = float(np.clip((1.0 - reach) ** 3, 1e-4, 1.0))
    mu = at.mu()
    corrected = _group(
        centring * mu - s * z - ds * dz
        for s, z, ds, dz in zip(at.s, at.z, affine.s, affine.z, strict=True)
    )
    kappa = centring * mu - at.tau * at.kappa - affine.tau * affine.kappa
    way = ahead.towards(centring, corrected, kappa)
    far = min(_TO_THE_WALL * _reach(at, way), _LONGEST)
    return _Point(
        x=at.x + far * way.x,
        t=at.t + far * way.t,
        s=_group(s + far * d for s, d in zip(at.s, way.s, strict=True)),
        z=_group(z + far * d for z, d in zip(at.z, way.z, strict=True)),
        tau=at.tau + far * way.tau,
        kappa=at.kappa + far * way.kappa,
    )


class _Direction:
    """The Newton system at a point; its answers are directions, in the form of a point."""

    def __init__(self, geometry: _Geometry, at: _Point) -> None:
        self.at, self.geometry = at, geometry
        on_x, on_t = geometry.pull(at.z)
        self.dual_x = -on_x - geometry.cost * at.tau
        self.dual_t = -on_t - geometry.cost_t * at.tau
        made = geometry.apply(at.x, at.t)
        self.primal = _group(
            s + a - h * at.tau for s, a, h in zip(at.s, made, geometry.h, strict=True)
        )
        self.value = at.kappa + self.worth(at.x, at.t, at.z)
        self.solve = geometry.factored(_group(z / s for s, z in zip(at.s, at.z, strict=True)))
        self.x1, self.t1, self.z1 = self.solve(-geometry.cost, -geometry.cost_t, geometry.h)
        self.bend = at.kappa / at.tau - self.worth(self.x1, self.t1, self.z1)

    def worth(self, x: Floats, t: float, z: Groups) -> float:
        cost = float((self.geometry.cost * x).sum()) + self.geometry.cost_t * t
        return cost + _dot(self.geometry.h, z)

    def towards(self, centring: float, target: Groups, target_kappa: float) -> _Point:
        """Return the direction that brings s*z to the target and residuals down."""
        at, part = self.at, 1.0 - centring
        c = _group(
            -part * r - want / z for r, want, z in zip(self.primal, target, at.z, strict=True)
        )
        x2, t2, z2 = self.solve(part * self.dual_x, part * self.dual_t, c)
        d_tau = (part * self.value + target_kappa / at.tau + self.worth(x2, t2, z2)) / self.bend
        dz = _group(b + d_tau * a for a, b in zip(self.z1, z2, strict=True))
        return _Point(
            x=x2 + d_tau * self.x1,
            t=t2 + d_tau * self.t1,
            s=_group(
                (want - s * d) / z for want, s, d, z in zip(target, at.s, dz, at.z, strict=True)
            ),
            z=dz,
            tau=d_tau,
            kappa=(target_kappa - at.kappa * d_tau) / at.tau,
        )


def _reach(at: _Point, way: _Point) -> float:
    """Return how far the point can go along the direction before something turns negative."""
    steepest = max(-way.tau / at.tau, -way.kappa / at.kappa, 1e-12)
    for values, steps in ((at.s, way.s), (at.z, way.z)):
        for value, step in zip(values, steps, strict=True):
            steepest = max(steepest, float((-step / value).max()))
    return 1.0 / steepest


def _group(parts: object) -> Groups:
    shares, rows, held, floors = parts  # type: ignore[misc]
    return shares, rows, held, floors


def _times(a: Groups, b: Groups) -> Groups:
    return _group(p * q for p, q in zip(a, b, strict=True))


def _dot(a: object, b: object) -> float:
    return float(sum((p * q).sum() for p, q in zip(a, b, strict=True)))  # type: ignore[call-overload]
