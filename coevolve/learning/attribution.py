"""What each source of a step's gradient amounts to, and how far it moved the weights.

Letters: D entries of the weights that are looked at.

- A source is the objective, the references of this step's failed groups (``imitation``), or the
  ones that are imitated once more (``replay``). Gradient norms are those before any clip.
- Movement: each teacher has its own optimizer (`coevolve.learning.optimizers`), so its change of
  the weights is known exactly. Its share is the part of the whole change that lies along it,
  <d_teacher, d> / |d|^2; the shares add up to 1.
- The gradient noise scale (McCandlish et al., "An empirical model of large-batch training", arXiv
  1812.06162) is the number of groups at which noise and signal in the gradient are equally large.
  With A and B the gradients of the even and of the odd groups, n groups in all, the expectation of
  <A, B> is the signal |G|^2, that of (|A|^2 + |B|^2) / 2 is |G|^2 + 2 S / n with S the noise of one
  group, and the scale is S / |G|^2. Both are averaged over steps before the division. A step of
  several updates has no such halves, and is left out.

Norms and products are taken over every k-th entry of each parameter, so that no more than
`ENTRIES` are held; what is left out is accounted for by scaling. Over several ranks they add up.
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
"""Entries of the weights that are looked at, on each rank, at most about."""

Part = Literal["even", "odd", "imitation", "replay"]
"""What a gradient is taken of: half of the objective's groups, or the references."""

FADING = 0.9
"""What a step leaves of the averages behind the noise scale."""


class Gauge:
    """Measures one update after another; gives sums that are added over ranks and updates."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Look at these parameters, this rank's parts of them."""
        self._parameters = list(parameters)
        total = sum(_local(each).numel() for each in self._parameters)
        self._stride = max(1, math.ceil(total / ENTRIES))
        self._gradients: dict[Part, torch.Tensor] = {}
        self._so_far: torch.Tensor | None = None
        self._moves: dict[Teacher, torch.Tensor] = {}
        self._before: torch.Tensor | None = None

    @torch.no_grad()
    def begin(self) -> None:
        """Begin with a teacher: no gradient has been added yet."""
        self._so_far = None
        self._before = self._weights()

    @torch.no_grad()
    def added(self, part: Part) -> None:
        """Note that the gradient of ``part`` has been added to that of the parts before it."""
        now_D = self._gradient()
        self._gradients[part] = now_D if self._so_far is None else now_D - self._so_far
        self._so_far = now_D

    @torch.no_grad()
    def moved(self, teacher: Teacher) -> None:
        """Note that the weights have moved since ``begin``."""
        assert self._before is not None, "begin comes before moved"
        self._moves[teacher] = self._weights() - self._before

    def sums(self) -> dict[str, float]:
        """Return the update's products, to be added up, and forget the update."""
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
        """Return the D entries of the weights."""
        return torch.cat([self._looked_at(each) for each in self._parameters])

    def _gradient(self) -> torch.Tensor:
        """Return the D entries of the gradient."""
        return torch.cat(
            [
                self._looked_at(torch.zeros_like(each) if each.grad is None else each.grad)
                for each in self._parameters
            ]
        )

    def _looked_at(self, tensor: torch.Tensor) -> torch.Tensor:
        return _local(tensor.detach()).reshape(-1)[:: self._stride].float().clone()


def shares(sums: Mapping[str, float]) -> dict[str, float]:
    """Return the norms and shares that come of the sums of a step."""

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
    """The gradient noise scale over the steps so far, the newest counting most."""

    def __init__(self, signal: float = 0.0, noise: float = 0.0) -> None:
        """Go on from averages that ``state`` returned."""
        self._signal = signal
        self._noise = noise

    @property
    def state(self) -> tuple[float, float]:
        """Return the averages."""
        return self._signal, self._noise

    def add(self, sums: Mapping[str, float], even: int, odd: int) -> dict[str, float]:
        """Take in the sums of a step, and return its metrics.

        ``even`` and ``odd`` count the groups in the two halves of the step's gradient. The scale is
        left out while the averages show no signal, which is so where noise is much larger.
        """
        if not {"gradient_even", "gradient_odd"} <= sums.keys():
            return {}
        product = sums["gradient_halves"]
        # A and B are sums over the even and over the odd groups, with the divisor of all.
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
