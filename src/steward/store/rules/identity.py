"""Machine ids of rules: derived where missing, and unique over all files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping

from steward.model.rules import Rule
from steward.store.rules.faults import RuleFault
from steward.store.rules.tree import ListTree, Scalar, Tree

__all__ = ["base58", "hash_of", "key_of", "repeated"]

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def base58(data: bytes) -> str:
    """Write bytes with letters and digits that are hard to mistake for one another.

    >>> base58(b"hello world"), base58(bytes([0, 0, 1]))
    ('StV1DL6CwTryKyV', '112')
    """
    number = int.from_bytes(data)
    digits = []
    while number:
        number, digit = divmod(number, 58)
        digits.append(ALPHABET[digit])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return ALPHABET[0] * zeros + "".join(reversed(digits))


def key_of(rule_id: str) -> str:
    """Return the `metadata.id` of a rule that has none."""
    return base58(hashlib.sha1(rule_id.encode(), usedforsecurity=False).digest())


def hash_of(tree: Tree, used: Mapping[str, Tree]) -> str:
    """Return the `metadata.hash` of a rule that has none: over its text and its terms."""
    said = [_plain(tree), {name: _plain(each) for name, each in sorted(used.items())}]
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
    return base58(hashlib.sha256(text.encode()).digest())


def _plain(tree: Tree) -> object:
    if isinstance(tree, Scalar):
        return tree.text
    if isinstance(tree, ListTree):
        return [_plain(each) for each in tree.items]
    return {each.key.text: _plain(each.value) for each in tree.entries}


def repeated(rules: Iterable[Rule]) -> Iterator[RuleFault]:
    """Yield a fault for each rule that has the name of an earlier one."""
    seen: dict[tuple[str, str], Rule] = {}
    for rule in rules:
        for kind, name in (("cre.id", rule.id), ("metadata.id", rule.key), ("hash", rule.hash)):
            first = seen.setdefault((kind, name), rule)
            if first is not rule:
                problem = f"`{kind}` {name} is also that of {first.id} in {first.place}"
                hint = "give it another" if kind == "cre.id" else "leave it out: it is filled in"
                yield RuleFault(place=rule.place, problem=problem, hint=hint, rule=rule.id)
                break
