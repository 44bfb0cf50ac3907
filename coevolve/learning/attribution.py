"""Measures each source's part of a step's gradient, and how far it moved the weights.

Letters: D sampled entries of the weights.

- A source is the objective, the references of this step's failed groups (``imitation``), or the
  references imitated again (``replay``). Gradient norms are those before clipping.
- Movement: each teacher has its own optimizer (`coevolve.learning.optimizers`), so its change of
  the weights is known exactly. Its share is the component of the whole change along it,
  <d_teacher, d> / |d|^2; the shares add up to 1.
- The gradient noise scale (McCandlish et al., "An empirical model of large-batch training", arXiv
  1812.06162) is the number of groups at which noise and signal in the gradient are equally large.
  Let A and B be the gradients of the even and of the odd groups, and n the number of all groups.
  The expectation of <A, B> is the signal |G|^2. That of (|A|^2 + |B|^2) / 2 is |G|^2 + 2 S / n,
  where S is the noise of one group. The scale is S / |G|^2. Both are averaged over steps before the
  division. A step of several updates has no such halves and is left out.

Norms and products use every k-th entry of each parameter, so that at most `ENTRIES` are held. They
are scaled up to account for the other entries, and added up over ranks.
"""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch.distributed.tensor import DTensor

from coevolve.learning.optimizers import TEACHERS, Teacher

ENTRIES = 2**22
"""Approximate maximum number of sampled entries of the weights on each rank."""

Part = Literal["even", "odd", "imitation", "replay"]
"""Source of a measured gradient: half of the objective's groups, or the references."""

FADING = 0.9
"""Decay per step of the averages behind the noise scale."""


class Gauge:
    """Measures one update after another; its sums add up over ranks and updates."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Measure these parameters, or this rank's shards of them."""
        self._parameters = list(parameters)
        total = sum(_local(each).numel() for each in self._parameters)
        self._stride = max(1, math.ceil(total / ENTRIES))
        self._gradients: dict[Part, torch.Tensor] = {}
        self._so_far: torch.Tensor | None = None
        self._moves: dict[Teacher, torch.Tensor] = {}
        self._before: torch.Tensor | None = None

    @torch.no_grad()
    def begin(self) -> None:
        """Start the measurement of a teacher, before any gradient is added."""
        self._so_far = None
        self._before = self._weights()

    @torch.no_grad()
    def added(self, part: Part) -> None:
        """Measure the gradient of ``part``, which was just added to that of earlier parts."""
        now_D = self._gradient()
        self._gradients[part] = now_D if self._so_far is None else now_D - self._so_far
        self._so_far = now_D

    @torch.no_grad()
    def moved(self, teacher: Teacher) -> None:
        """Measure the change of the weights since ``begin``."""
        assert self._before is not None, "begin comes before moved"
        self._moves[teacher] = self._weights() - self._before

    def sums(self) -> dict[str, float]:
        """Return the update's products, to be summed, and reset."""
        found: dict[str, float] = {}
        for part, gradient_D in self._gradients.items():
            found[f"gradient_{part}"] = self._product(gradient_D, gradient_D)
        if {"even", "odd"} <= self._gradients.keys():
            found["gradient_halves"] = self._product(
                self._gradients["even"], self._gradients["odd"]
            )
        for teacher, move_D in self._moves.items():
            found[f"moved_{teacher}"] = self._product(move_D, move_D)
        if len(self._moves) == len(TEACHERS):
            found["moved_both"] = self._product(*self._moves.values())
        self._gradients.clear()
        self._moves.clear()
        return found

    def _product(self, one_D: torch.Tensor, other_D: torch.Tensor) -> float:
        return float(torch.dot(one_D, other_D)) * self._stride

    def _weights(self) -> torch.Tensor:
        """Return the D sampled entries of the weights."""
        return torch.cat([self._sample(each) for each in self._parameters])

    def _gradient(self) -> torch.Tensor:
        """Return the D sampled entries of the gradient."""
        return torch.cat(
            [
                self._sample(torch.zeros_like(each) if each.grad is None else each.grad)
                for each in self._parameters
            ]
        )

    def _sample(self, tensor: torch.Tensor) -> torch.Tensor:
        return _local(tensor.detach()).reshape(-1)[:: self._stride].float().clone()


def shares(sums: Mapping[str, float]) -> dict[str, float]:
    """Return the norms and shares computed from the sums of a step."""

    def at(name: str) -> float:
        return sums.get(name, 0.0)

    objective = at("gradient_even") + at("gradient_odd") + 2 * at("gradient_halves")
    total = at("moved_objective") + at("moved_imitation") + 2 * at("moved_both")
    found = {
        "source/objective/grad_norm": math.sqrt(max(0.0, objective)),
        "source/imitation/grad_norm": math.sqrt(at("gradient_imitation")),
        "source/replay/grad_norm": math.sqrt(at("gradient_replay")),
        "source/movement": math.sqrt(max(0.0, total)),
    }
    for teacher in TEACHERS:
        along = at(f"moved_{teacher}") + at("moved_both")
        found[f"source/{teacher}/movement_share"] = along / total if total > 0 else 0.0
    return found


class NoiseScale:
    """The gradient noise scale, averaged over the steps with exponential decay."""

    def __init__(self, signal: float = 0.0, noise: float = 0.0) -> None:
        """Continue from averages that ``state`` returned."""
        self._signal = signal
        self._noise = noise

    @property
    def state(self) -> tuple[float, float]:
        return self._signal, self._noise

    def add(self, sums: Mapping[str, float], even: int, odd: int) -> dict[str, float]:
        """Add the sums of a step, and return its metrics.

        ``even`` and ``odd`` are the numbers of groups in the two halves of the step's gradient. The
        scale is omitted while the averaged signal is not positive, which happens if the noise is
        much larger.
        """
        if not {"gradient_even", "gradient_odd"} <= sums.keys():
            return {}
        product = sums["gradient_halves"]
        # A and B are sums over the even and the odd groups, divided by the number of all groups.
        groups = even + odd
        of_even, of_odd = groups / even, groups / odd
        squares = (sums["gradient_even"] * of_even**2 + sums["gradient_odd"] * of_odd**2) / 2
        signal = product * of_even * of_odd
        noise = (squares - signal) * 2 * groups / (of_even + of_odd)
        self._signal = FADING * self._signal + (1 - FADING) * signal
        self._noise = FADING * self._noise + (1 - FADING) * noise
        norms = math.sqrt(sums["gradient_even"] * sums["gradient_odd"])
        found = {"gradient_noise/cosine_of_halves": product / norms if norms else 0.0}
        if self._signal > 0:
            found["gradient_noise/scale_groups"] = max(0.0, self._noise) / self._signal
        return found


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
