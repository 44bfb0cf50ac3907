"""Counts the bytes of the tensors that PyTorch allocates on the CPU."""

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Allocated(TorchDispatchMode):
    """While it is entered, ``peak`` is the most bytes that new tensors had at a time."""

    def __init__(self, known: Iterable[torch.Tensor]) -> None:
        """Leave out the tensors of ``known`` and all views of them."""
        super().__init__()
        self.peak = 0
        self._now = 0
        self._known = [each.untyped_storage() for each in known]
        self._sizes = {storage._cdata: 0 for storage in self._known}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the operator, and count the storages of its results that are new."""
        found = func(*args, **(kwargs or {}))
        for each in tree_leaves(found):
            if isinstance(each, torch.Tensor):
                self._count(each.untyped_storage())
        return found

    def _count(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key not in self._sizes:
            self._sizes[key] = storage.nbytes()
            self._now += storage.nbytes()
            self.peak = max(self.peak, self._now)
            weakref.finalize(storage, self._free, key)

    def _free(self, key: int) -> None:
        self._now -= self._sizes.pop(key)
