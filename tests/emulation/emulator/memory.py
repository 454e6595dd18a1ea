"""Copies of tensors between closed pages, so that an access beside one is noticed."""

from __future__ import annotations

import ctypes
import mmap

import torch

from emulation.emulator.errors import EmulationError

_PAGE = mmap.PAGESIZE
_NO_ACCESS = 0
_UNIT = 16  # tensors start on the boundaries that the device's allocator keeps at least
_libc = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """A copy of a tensor that ends, up to its alignment, where a closed page begins.

    The few bytes between its end and the page hold a NaN in every float type and are compared
    afterwards.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        if not tensor.is_contiguous():
            raise ValueError("the emulator takes contiguous tensors")
        self._tensor = tensor
        size = tensor.numel() * tensor.element_size()
        room = -(-size // _UNIT) * _UNIT
        pages = max(1, -(-room // _PAGE))
        self._map = mmap.mmap(-1, (pages + 2) * _PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.address = base + (pages + 1) * _PAGE - room
        self._size, self._pad = size, room - size
        ctypes.memmove(self.address, tensor.data_ptr(), size)
        ctypes.memset(self.address + size, 0xFF, self._pad)
        for page in (base, base + (pages + 1) * _PAGE):
            if _libc.mprotect(ctypes.c_void_p(page), _PAGE, _NO_ACCESS):
                raise OSError(ctypes.get_errno(), "mprotect")

    def copy_back(self) -> None:
        """Writes the contents into the tensor that was copied.

        Raises:
            EmulationError: something was written behind the tensor.
        """
        behind = ctypes.string_at(self.address + self._size, self._pad)
        if behind != b"\xff" * self._pad:
            raise EmulationError("a tensor was written beyond its end")
        ctypes.memmove(self._tensor.data_ptr(), self.address, self._size)
