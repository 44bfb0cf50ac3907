"""Keys and values of many conversations, each in its own slot.

Letters: L layers, N slots, T positions, H key-value heads, D width of a head, R rows of a forward,
Q tokens per row.

The rows of one forward have different lengths. `SlotCache.aim` sets their slots and the positions
of their new tokens; then the model's own attention calls ``update``. Padding tokens go to a spare
position that nothing reads.
"""

import torch
from transformers import Cache, PretrainedConfig


class SlotCache(Cache):
    """A `transformers.Cache` that writes at each row's own positions."""

    def __init__(self, config: PretrainedConfig, slots: int, positions: int, dtype: torch.dtype):
        """Reserve the memory for ``slots`` conversations of ``positions`` tokens."""
        super().__init__(layers=[])
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        shape = (
            config.num_hidden_layers,
            slots,
            positions + 1,
            getattr(config, "num_key_value_heads", None) or heads,
            width,
        )
        # Positions come before heads, so that one token writes one contiguous piece of memory.
        self._keys_L_N_T_H_D = torch.zeros(shape, dtype=dtype)
        self._values_L_N_T_H_D = torch.zeros(shape, dtype=dtype)
        self.spare = positions
        self._rows: slice | torch.Tensor = slice(0)
        self._slots_R_1 = torch.zeros(0, 1, dtype=torch.int64)
        self._positions_R_Q = self._slots_R_1
        self._longest = 0

    def aim(
        self,
        rows: slice | torch.Tensor,
        slots_R_1: torch.Tensor,
        positions_R_Q: torch.Tensor,
        longest: int,
    ) -> None:
        """Set the targets of the next forward.

        Args:
            rows: The slots to read, in row order; a slice reads without a copy.
            slots_R_1: The same slots, as indices.
            positions_R_Q: Position of each new token; ``spare`` for padding.
            longest: Number of positions that any row reads.
        """
        self._rows, self._slots_R_1 = rows, slots_R_1
        self._positions_R_Q, self._longest = positions_R_Q, longest

    def update(  # type: ignore[override] what else the base takes is for other than full attention
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_: object,
        **__: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the new keys and values (R, H, Q, D); return those of all positions so far."""
        keys_N_T_H_D = self._keys_L_N_T_H_D[layer_idx]
        values_N_T_H_D = self._values_L_N_T_H_D[layer_idx]
        where = (self._slots_R_1, self._positions_R_Q)
        keys_N_T_H_D[where] = key_states.transpose(1, 2)
        values_N_T_H_D[where] = value_states.transpose(1, 2)
        seen = slice(self._longest)
        if isinstance(self._rows, slice):
            keys, values = keys_N_T_H_D[self._rows, seen], values_N_T_H_D[self._rows, seen]
        else:
            keys, values = keys_N_T_H_D[:, seen][self._rows], values_N_T_H_D[:, seen][self._rows]
        return keys.transpose(1, 2), values.transpose(1, 2)

    def copy(self, source: int, target: int, positions: int) -> None:
        """Copy the first ``positions`` positions of a slot into another one."""
        for kept_L_N_T_H_D in (self._keys_L_N_T_H_D, self._values_L_N_T_H_D):
            kept_L_N_T_H_D[:, target, :positions] = kept_L_N_T_H_D[:, source, :positions]

    def swap(self, one: int, other: int, positions: int) -> None:
        """Exchange the first ``positions`` positions of two slots."""
        for kept_L_N_T_H_D in (self._keys_L_N_T_H_D, self._values_L_N_T_H_D):
            seen = kept_L_N_T_H_D[:, :, :positions]
            seen[:, [one, other]] = seen[:, [other, one]]
