"""Work terms: arithmetic over a run's parameters that its time may be a sum of."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError, did_you_mean

__all__ = ["WorkTerm", "automatic_terms"]

Floats = NDArray[np.float64]
MOST_LETTERS = 200
MOST_SCALING = 4  # parameters, for terms that nobody wrote
_HINT = "use the numeric parameters, numbers, + - * / **, and ceil, log2, sqrt, min, max"

_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
_FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "ceil": (1, np.ceil),
    "log2": (1, np.log2),
    "sqrt": (1, np.sqrt),
    "min": (2, np.minimum),
    "max": (2, np.maximum),
}


class WorkTerm:
    """An expression such as `L**3 * steps`; only arithmetic is ever carried out."""

    def __init__(self, text: str, names: Sequence[str], *, where: str = "work") -> None:
        self.text = text
        self._where = f"{where}: {text[:MOST_LETTERS]}"
        if len(text) > MOST_LETTERS:
            raise StewardError(
                "a work term is too long", where=where, hint=f"{MOST_LETTERS} letters"
            )
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
            raise StewardError("it is no arithmetic", where=self._where, hint=_HINT) from fault
        self._check(self._tree, names)

    def values(self, columns: Mapping[str, Floats]) -> Floats:
        """Return the term for each row. Where it is not above 0 it cannot be work: an error."""
        with np.errstate(all="ignore"):
            found = np.asarray(self._value(self._tree, columns), dtype=np.float64)
        rows = len(next(iter(columns.values()))) if columns else 1
        found = np.broadcast_to(found, (rows,)).copy()
        bad = np.flatnonzero(~(np.isfinite(found) & (found > 0.0)))
        if len(bad):
            at = {name: float(each[bad[0]]) for name, each in columns.items()}
            problem = f"it is {found[bad[0]]:g} for {at}"
            hint = "work is above 0 and finite for each configuration"
            raise StewardError(problem, where=self._where, hint=hint)
        return found

    def _check(self, node: ast.expr, names: Sequence[str]) -> None:
        match node:
            case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
                return
            case ast.Name():
                self._check_name(node.id, names)
            case ast.BinOp() if type(node.op) in _OPERATORS:
                self._check(node.left, names)
                self._check(node.right, names)
            case ast.Call(func=ast.Name(), keywords=[]) if _fits(node):
                for each in node.args:
                    self._check(each, names)
            case _:
                problem = f"'{ast.unparse(node)}' is not allowed in it"
                raise StewardError(problem, where=self._where, hint=_HINT)

    def _check_name(self, name: str, names: Sequence[str]) -> None:
        if name not in names:
            known = ", ".join(names) or "none"
            hint = did_you_mean(name, names) or f"numeric parameters: {known}"
            problem = f"no numeric parameter is called {name!r}"
            raise StewardError(problem, where=self._where, hint=hint)

    def _value(self, node: ast.expr, columns: Mapping[str, Floats]) -> Any:  # noqa: ANN401 - array or number
        match node:
            case ast.Constant():
                return float(node.value)  # type: ignore[arg-type] # checked to be a number
            case ast.Name():
                return columns[node.id]
            case ast.BinOp():
                left, right = self._value(node.left, columns), self._value(node.right, columns)
                return _OPERATORS[type(node.op)](left, right)
            case ast.Call(func=ast.Name(id=name)):
                return _FUNCTIONS[name][1](*(self._value(each, columns) for each in node.args))
        raise AssertionError(ast.dump(node))  # _check has let nothing else pass


def automatic_terms(scaling: Sequence[str]) -> tuple[str, ...]:
    """Return work terms where nobody wrote any: products of powers of the scaling parameters.

    >>> automatic_terms(["n"])
    ('n', 'n**2', 'n**3')
    """
    names = scaling[:MOST_SCALING]
    most = {0: 0, 1: 3, 2: 3, 3: 2}.get(len(names), 1)
    powers = [each for each in product(range(most + 1), repeat=len(names)) if any(each)]
    return tuple(
        " * ".join(
            name if power == 1 else f"{name}**{power}"
            for name, power in zip(names, each, strict=True)
            if power
        )
        for each in powers
    )


def _fits(node: ast.Call) -> bool:
    """Return whether a call is of a known function with the right number of arguments."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    return name in _FUNCTIONS and len(node.args) == _FUNCTIONS[name][0]
