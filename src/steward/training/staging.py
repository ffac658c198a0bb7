"""Host memory into which tensors are copied while training stands still, and written from later.

One flat buffer per dtype, allocated once and reused: pinned if any tensor is on a GPU, so that the
copies are queued on the GPU's stream and the training waits for none of them. Pinning itself takes
half a second per GiB, so it is done in the background, before the first save.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["HostBuffers"]

ALIGN_BYTES = 64
PINNED_BY_TORCH_BYTES = 1 << 20  # its allocator rounds up to a power of two: not for large ones


class HostBuffers:
    """Copies of tensors in reused host memory. Not to be reused before the last write is over."""

    def __init__(self) -> None:
        # Apart, so that a small state on the host that changes its size moves nothing pinned.
        self._pinned, self._plain = _Pool(pinned=True), _Pool(pinned=False)
        self._thread: threading.Thread | None = None

    def prepare(self, tensors: Mapping[str, Any]) -> None:
        """Begin to allocate what `stage` will need for tensors on GPUs."""
        on_gpu = [each for each in tensors.values() if _on_gpu(each)]
        if on_gpu:
            name, layout = "steward-pinning", _layout(on_gpu)
            self._thread = threading.Thread(target=self._pinned.fit, args=(layout,), name=name)
            self._thread.start()

    def wait(self) -> None:
        """Wait until `prepare` is done."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def stage(self, tensors: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[], None]]:
        """Copy tensors; return the copies, and a function that waits until they are complete."""
        self.wait()
        on_gpu = {key: each for key, each in tensors.items() if _on_gpu(each)}
        others = {key: each for key, each in tensors.items() if key not in on_gpu}
        copies = {**self._pinned.copy(on_gpu), **self._plain.copy(others)}
        streams = [
            sys.modules["torch"].cuda.current_stream(device)
            for device in {each.device for each in on_gpu.values()}
        ]
        events = [stream.record_event() for stream in streams]

        def wait() -> None:
            for event in events:
                event.synchronize()

        return copies, wait


class _Pool:
    """Flat buffers, one per dtype, and a view of them for each tensor."""

    def __init__(self, *, pinned: bool) -> None:
        self._pin = pinned
        self._layout: list[Any] = []
        self._flat: dict[Any, Any] = {}
        self._views: list[Any] = []
        self._registered: list[int] = []  # addresses, pinned until the pool is gone
        # Memory that is freed while it is registered makes later copies to its place fail.
        weakref.finalize(self, _unregister, self._registered).atexit = False

    def copy(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Return copies of tensors; those from a GPU are queued on its current stream."""
        self.fit(_layout(tensors.values()))
        for view, tensor in zip(self._views, tensors.values(), strict=True):
            view.copy_(tensor, non_blocking=True)
        return dict(zip(tensors, self._views, strict=True))

    def fit(self, layout: list[Any]) -> None:
        """Allocate buffers of that layout, unless they are there."""
        if layout != self._layout:
            torch = sys.modules["torch"]
            self._layout = []
            self._release()
            self._allocate(torch, layout)
            self._layout = layout

    def _allocate(self, torch: Any, layout: list[Any]) -> None:
        sizes: dict[Any, int] = {}
        starts = []
        for dtype, shape, _ in layout:
            start = sizes.get(dtype, 0)
            starts.append(start)
            count, align = shape.numel(), max(1, ALIGN_BYTES // dtype.itemsize)
            sizes[dtype] = start + -(-count // align) * align
        self._flat = {dtype: self._buffer(torch, dtype, size) for dtype, size in sizes.items()}
        self._views = [
            self._flat[dtype].as_strided(shape, strides, start)
            for (dtype, shape, strides), start in zip(layout, starts, strict=True)
        ]

    def _buffer(self, torch: Any, dtype: Any, size: int) -> Any:
        size_bytes = size * dtype.itemsize
        if self._pin and size_bytes <= PINNED_BY_TORCH_BYTES:
            return torch.empty(size, dtype=dtype, pin_memory=True)
        buffer = torch.empty(size, dtype=dtype)
        if self._pin:
            fault = torch.cuda.cudart().cudaHostRegister(buffer.data_ptr(), size_bytes, 0)
            if int(fault) == 0:
                self._registered.append(buffer.data_ptr())
            else:  # copies from the GPU are slower then, and right all the same
                _forget_error(torch)
        return buffer

    def _release(self) -> None:
        _unregister(self._registered)
        self._flat, self._views = {}, []


def _unregister(addresses: list[int]) -> None:
    while addresses:
        torch = sys.modules["torch"]
        if int(torch.cuda.cudart().cudaHostUnregister(addresses.pop())) != 0:
            _forget_error(torch)


def _forget_error(torch: Any) -> None:
    """Take the error that CUDA would report at the next call, whatever that is."""
    try:
        torch.zeros(1, device="cuda")
    except RuntimeError:
        return


def _on_gpu(tensor: Any) -> bool:
    return bool(tensor.device.type == "cuda")


def _layout(tensors: Iterable[Any]) -> list[Any]:
    """Return dtype, shape and strides of the copy of each tensor."""
    return [(each.dtype, each.shape, _strides(each)) for each in tensors]


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
