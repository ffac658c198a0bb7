"""Host memory into which tensors are copied while training stands still, and written from later.

One flat buffer per dtype, allocated once and reused: pinned if any tensor is on a GPU, so that the
copies are queued on the GPU's stream and the training waits for none of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["HostBuffers"]

ALIGN_BYTES = 64
PINNED_BY_TORCH_BYTES = 1 << 20  # its allocator rounds up to a power of two: not for large ones


class HostBuffers:
    """Copies of tensors in reused host memory. Not to be reused before the last write is over."""

    def __init__(self) -> None:
        self._layout: list[Any] = []
        self._flat: dict[Any, Any] = {}
        self._views: list[Any] = []
        self._registered: list[int] = []

    def stage(self, tensors: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[], None]]:
        """Copy tensors; return the copies, and a function that waits until they are complete."""
        if not tensors:
            return {}, lambda: None
        torch = sys.modules["torch"]
        devices = {each.device for each in tensors.values() if each.device.type == "cuda"}
        layout: list[Any] = [(each.dtype, each.shape, _strides(each)) for each in tensors.values()]
        pinned = bool(devices)
        if [*layout, pinned] != self._layout:
            self._release(torch)
            self._allocate(torch, layout, pinned=pinned)
            self._layout = [*layout, pinned]
        for view, tensor in zip(self._views, tensors.values(), strict=True):
            view.copy_(tensor, non_blocking=True)
        events = [torch.cuda.current_stream(device).record_event() for device in devices]

        def wait() -> None:
            for event in events:
                event.synchronize()

        return dict(zip(tensors, self._views, strict=True)), wait

    def _allocate(self, torch: Any, layout: list[tuple[Any, ...]], *, pinned: bool) -> None:
        sizes: dict[Any, int] = {}
        starts = []
        for dtype, shape, _ in layout:
            start = sizes.get(dtype, 0)
            starts.append(start)
            count, align = shape.numel(), max(1, ALIGN_BYTES // dtype.itemsize)
            sizes[dtype] = start + -(-count // align) * align
        self._flat = {
            dtype: self._buffer(torch, dtype, size, pinned=pinned) for dtype, size in sizes.items()
        }
        self._views = [
            self._flat[dtype].as_strided(shape, strides, start)
            for (dtype, shape, strides), start in zip(layout, starts, strict=True)
        ]

    def _buffer(self, torch: Any, dtype: Any, size: int, *, pinned: bool) -> Any:
        size_bytes = size * dtype.itemsize
        if pinned and size_bytes <= PINNED_BY_TORCH_BYTES:
            return torch.empty(size, dtype=dtype, pin_memory=True)
        buffer = torch.empty(size, dtype=dtype)
        if pinned:
            fault = torch.cuda.cudart().cudaHostRegister(buffer.data_ptr(), size_bytes, 0)
            if int(fault) == 0:  # else copies from the GPU are slower, and right all the same
                self._registered.append(buffer.data_ptr())
        return buffer

    def _release(self, torch: Any) -> None:
        for address in self._registered:
            torch.cuda.cudart().cudaHostUnregister(address)
        self._registered, self._flat, self._views = [], {}, []


def _strides(tensor: Any) -> tuple[int, ...]:
    """Return the strides of a compact copy: its own if it is dense in any order of dimensions."""
    expected = 1
    for size, stride in sorted(zip(tensor.shape, tensor.stride(), strict=True), key=_by_stride):
        if size > 1 and stride != expected:
            expected = 0
            break
        expected *= size
    if expected:
        return tuple(tensor.stride())
    strides: list[int] = []
    step = 1
    for size in reversed(tensor.shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def _by_stride(pair: tuple[int, int]) -> tuple[int, bool]:
    return (pair[1], pair[0] > 1)
