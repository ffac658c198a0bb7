"""Scratch memory that cuDNN's convolutions take and give back at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["conv_workspaces"]


def conv_workspaces(
    tensors: Sequence[Any], outputs: Sequence[Any], details: Sequence[int], *, backward: bool
) -> list[int]:
    """Return the bytes of each scratch buffer of one convolution, in order.

    Tensor cores read channels-last: cuDNN copies the input, the weight and the output of a
    contiguous convolution. Seen in a recording of the allocator on an H200.
    """
    area, stride, groups = details
    if groups > 1:
        return []
    if backward:
        grad, given, weight = (_bytes(each) for each in tensors[:3])
        return [grad + given + weight] * min(2, sum(each.dim() > 1 for each in outputs))
    given, weight = (_bytes(each) for each in tensors[:2])
    if area > 1:
        return [given + weight + _bytes(outputs[0])]
    return [given + weight] if stride > 1 else []


def _bytes(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())
