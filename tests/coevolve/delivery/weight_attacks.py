"""Hostile test cases: ways in which an engine can get other weights than the published ones.

`WEIGHTS` lists faults of the tensors in memory, `FILES` faults of the files on disk. A function
marked "same function" changes numbers but (nearly) no output, so only a comparison of weights
detects it.
"""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from types import EllipsisType
from typing import Any

import torch
from safetensors.torch import load, save_file

Tensors = dict[str, torch.Tensor]
WeightAttack = Callable[
    [dict[str, torch.Tensor], dict[str, torch.Tensor], torch.Generator], dict[str, torch.Tensor]
]
FileAttack = Callable[[Path, Path, random.Random], None]
Index = int | slice | torch.Tensor | tuple[int | EllipsisType, ...]
Change = Callable[[torch.Tensor], torch.Tensor]

FILES: list[FileAttack] = []
EMBED = "model.embed_tokens.weight"
MATRIX = "_proj.weight"
NORM = "norm.weight"


def _draw(count: int, rng: torch.Generator) -> int:
    """Draw a whole number below `count`."""
    return int(torch.randint(count, (1,), generator=rng).item())


def _name(tensors: Tensors, rng: torch.Generator, end: str = MATRIX) -> str:
    """Draw the name of a tensor whose name ends with ``end``."""
    names = [name for name in tensors if name.endswith(end)]
    return names[_draw(len(names), rng)]


def _moved(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Mark the numbers that differ once both are rounded to bfloat16."""
    return one.bfloat16().view(torch.int16) != other.bfloat16().view(torch.int16)


def _with(right: Tensors, changes: Tensors) -> Tensors:
    """Copy the right tensors, with some of them replaced."""
    kept = torch.contiguous_format
    return {name: changes.get(name, t).clone(memory_format=kept) for name, t in right.items()}


def _every(right: Tensors, change: Change, end: str = "") -> Tensors:
    """Apply one change to every tensor whose name ends so."""
    return _with(right, {name: change(t) for name, t in right.items() if name.endswith(end)})


def _stale(before: Tensors, right: Tensors, names: Iterable[str]) -> Tensors:
    """Leave these tensors old; all of them, should these happen to round to the same numbers."""
    chosen = list(names)
    if not any(_moved(before[name], right[name]).any() for name in chosen):
        chosen = list(right)
    return _with(right, {name: before[name] for name in chosen})


def _renewed(before: Tensors, right: Tensors, rng: torch.Generator, end: str = MATRIX) -> str:
    """Draw a tensor that the new version really changes, if possible with such a name."""
    names = [name for name in right if _moved(before[name], right[name]).any()]
    names = [name for name in names if name.endswith(end)] or names
    return names[_draw(len(names), rng)]


def _old_at(before: Tensors, right: Tensors, name: str, at: Index) -> Tensors:
    """Leave the numbers of one tensor at this index old."""
    got = _with(right, {})
    got[name][at] = before[name][at]
    return got


def _moved_at(before: Tensors, right: Tensors, name: str, rng: torch.Generator) -> list[int]:
    """Draw the place of a number that the new version really changes."""
    places = _moved(before[name], right[name]).nonzero()
    return [int(part) for part in places[_draw(len(places), rng)]]


def _flip(values: torch.Tensor, mask: int) -> torch.Tensor:
    """Flip the bits of this mask in float32 numbers."""
    return (values.contiguous().view(torch.int32) ^ mask).view(torch.float32)


def _places(values: torch.Tensor, count: int, rng: torch.Generator) -> list[int]:
    """Draw distinct flat places of numbers other than zero."""
    places = values.flatten().nonzero().flatten()
    return [int(places[i]) for i in torch.randperm(len(places), generator=rng)[:count]]


def _put(right: Tensors, name: str, places: list[int], values: torch.Tensor) -> Tensors:
    """Put numbers at flat places of one tensor."""
    flat = right[name].flatten().clone()
    flat[places] = values
    return _with(right, {name: flat.view(right[name].shape)})


def _flip_some(right: Tensors, rng: torch.Generator, mask: int, count: int = 1) -> Tensors:
    """Flip the same bits in a few numbers of one tensor."""
    name = _name(right, rng)
    places = _places(right[name], count, rng)
    return _put(right, name, places, _flip(right[name].flatten()[places], mask))


def _exchange(right: Tensors, pairs: Iterable[tuple[str, str]]) -> Tensors:
    """Exchange tensors pair by pair; only the rows that both have, where shapes differ."""
    got = _with(right, {})
    for one, other in pairs:
        rows = min(len(right[one]), len(right[other]))
        got[one][:rows], got[other][:rows] = right[other][:rows], right[one][:rows]
    return got


def _siblings(right: Tensors, one: str, other: str) -> list[tuple[str, str]]:
    """List the pairs of two kinds of tensors, layer by layer."""
    return [(name, name.replace(one, other)) for name in right if f".{one}." in name]


def _only_fp32(right: Tensors, got: Tensors) -> Tensors:
    """Keep only those changes that rounding to bfloat16 hides."""
    return {n: torch.where(_moved(t, right[n]), right[n], t) for n, t in got.items()}


# Something old stays


def load_did_nothing(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """The engine said that it had loaded and kept the old version."""
    return _with(before, {})


def one_matrix_missed(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """One matrix was skipped by the loader's name mapping."""
    return _stale(before, right, [_renewed(before, right, rng)])


def all_norms_missed(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """The update covered the matrices only, as if norms were frozen."""
    return _stale(before, right, [name for name in right if name.endswith(NORM)])


def second_shard_stale(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """The second of two shards was still the previous version's file."""
    return _stale(before, right, list(right)[len(right) // 2 :])


def second_rank_stale(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """The second of two tensor-parallel ranks kept its halves of all matrices."""
    got = _with(right, {})
    for name in (name for name in right if name.endswith(MATRIX)):
        axis = 1 if ".o_proj." in name or ".down_proj." in name else 0
        half = right[name].shape[axis] // 2
        got[name].narrow(axis, half, half).copy_(before[name].narrow(axis, half, half))
    return got


def half_of_heads_stale(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """In one layer only the first half of the query heads was written."""
    name = _renewed(before, right, rng, "q_proj.weight")
    half = len(right[name]) // 2
    rows = slice(half, None) if _moved(before[name], right[name])[half:].any() else slice(half)
    return _old_at(before, right, name, rows)


def one_row_stale(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """One row of one matrix stayed old."""
    name = _renewed(before, right, rng)
    return _old_at(before, right, name, _moved_at(before, right, name, rng)[0])


def one_column_stale(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """One column of one matrix stayed old."""
    name = _renewed(before, right, rng)
    return _old_at(before, right, name, (..., _moved_at(before, right, name, rng)[-1]))


def one_number_stale(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """A single number of the whole model stayed old."""
    name = _renewed(before, right, rng, "")
    return _old_at(before, right, name, tuple(_moved_at(before, right, name, rng)))


def rare_tokens_stale(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """The last tokens of the vocabulary, hardly ever sampled, kept their old embedding."""
    rows = _moved(before[EMBED], right[EMBED]).any(dim=1).nonzero().flatten()[-4:]
    return _old_at(before, right, EMBED, rows)


def one_page_stale(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """One page of 4096 bytes came from the page cache of the old file."""
    name = _renewed(before, right, rng)
    moved = _moved(before[name], right[name]).flatten().nonzero().flatten()
    page = int(moved[_draw(len(moved), rng)]) // 1024 * 1024
    places = list(range(page, min(page + 1024, right[name].numel())))
    return _put(right, name, places, before[name].flatten()[places])


def smallest_updates_dropped(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """A sparse update left out the smaller half of the changes."""
    got = _with(right, {})
    for name, new in right.items():
        moved, size = _moved(before[name], new), (new - before[name]).abs()
        small = moved & (size <= size[moved].median())
        got[name] = torch.where(small, before[name], new)
    return got


# Wrong arithmetic between the versions


def moving_average(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """The engine holds a moving average, 99 % new and 1 % old."""
    return {name: torch.lerp(before[name], right[name], 0.99) for name in right}


def delta_twice(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """The change was added to a version that had it already."""
    return {name: right[name] + (right[name] - before[name]) for name in right}


def delta_without_its_scale(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """An adapter was merged without its factor alpha / r = 1.5."""
    changes = {n: torch.lerp(before[n], right[n], 1 / 1.5) for n in right if n.endswith(MATRIX)}
    return _with(right, changes)


def delta_lost_half_its_rank(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """The change of one matrix was cut to half of its rank."""
    name = _renewed(before, right, rng)
    left, sizes, across = torch.linalg.svd(right[name] - before[name], full_matrices=False)
    keep = int((sizes > sizes[0] * 1e-3).sum()) // 2
    return _with(right, {name: before[name] + (left[:, :keep] * sizes[:keep]) @ across[:keep]})


def delta_added_in_bfloat16(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """The change was added to weights that were rounded first, so small steps got lost."""
    delta = {name: (right[name] - before[name]).bfloat16() for name in right}
    return {name: (before[name].bfloat16() + delta[name]).float() for name in right}


def decayed_once_more(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Weight decay of 0.01 % ran once more on the matrices."""
    return _every(right, lambda t: t * (1 - 1e-4), MATRIX)


# Single numbers


def last_bit_flipped(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """One number is off by the last bit that bfloat16 keeps."""
    return _flip_some(right, rng, 1 << 16)


def sign_bit_flipped(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """One number has the wrong sign; magnitudes, norms and squares are all right."""
    return _flip_some(right, rng, -(1 << 31))


def same_bit_flipped_twice(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """The same bit flipped in two numbers: a checksum by exclusive or sees nothing."""
    return _flip_some(right, rng, 1 << 18, count=2)


def tiny_numbers_doubled(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """The eight smallest numbers of a matrix doubled: below any absolute tolerance."""
    name = _name(right, rng)
    flat = right[name].flatten()
    sizes = torch.where(flat == 0, torch.inf, flat.abs())
    places = sizes.argsort()[:8].tolist()
    return _put(right, name, places, flat[places] * 2)


def errors_that_cancel(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """One number too large, another too small by as much: the sum is kept."""
    name = _name(right, rng)
    places = _places(right[name], 2, rng)
    values = right[name].flatten()[places]
    step = values.abs().max() / 128
    return _put(right, name, places, values + step * torch.tensor([1.0, -1.0]))


def errors_that_cancel_by_place(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Three neighbours off by +1, -2, +1 steps: the sum weighted by place is kept too."""
    name = _name(right, rng)
    first = _draw(right[name].numel() - 2, rng)
    values = right[name].flatten()[first : first + 3]
    step = values.abs().max() / 128 * torch.tensor([1.0, -2.0, 1.0])
    return _put(right, name, [first, first + 1, first + 2], values + step)


def nan_for_a_rare_token(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """One NaN in a rare token's row: every 'difference > limit' is false for it."""
    place = right[EMBED].numel() - 1 - _draw(256, rng)
    return _put(right, EMBED, [place], torch.tensor([torch.nan]))


# Things in the wrong place


def two_tokens_swapped(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Two neighbouring tokens changed places in the embedding."""
    unlike = _moved(right[EMBED][:-1], right[EMBED][1:]).any(dim=1).nonzero().flatten()
    first = int(unlike[_draw(len(unlike), rng)])
    got = _with(right, {})
    got[EMBED][[first, first + 1]] = right[EMBED][[first + 1, first]]
    return got


def layers_exchanged(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Layers 0 and 1 changed places as a whole."""
    return _exchange(right, [(n, n.replace("s.0.", "s.1.")) for n in right if ".layers.0." in n])


def norms_exchanged(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Two norms of equal shape changed places (k and v, should all norms be equal)."""
    pairs = _siblings(right, "q_norm", "k_norm")
    pairs += _siblings(right, "input_layernorm", "post_attention_layernorm")
    pairs = [(one, other) for one, other in pairs if _moved(right[one], right[other]).any()]
    pairs = pairs or _siblings(right, "k_proj", "v_proj")
    return _exchange(right, [pairs[_draw(len(pairs), rng)]])


def q_and_k_exchanged(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Queries and keys changed places (as many rows as both have)."""
    return _exchange(right, _siblings(right, "q_proj", "k_proj"))


def gate_and_up_exchanged(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """The halves of the fused gate-and-up block changed places."""
    return _exchange(right, _siblings(right, "gate_proj", "up_proj"))


def matrix_transposed(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """One matrix was read in column-major order (transposed, if it is square)."""
    name = _name(right, rng, "o_proj.weight")
    return _with(right, {name: right[name].t().reshape(right[name].shape)})


def rope_rows_interleaved(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Rows of queries and keys stand in the interleaved order of another rotary embedding."""
    got = _with(right, {})
    for name in (n for n in right if ".q_proj." in n or ".k_proj." in n):
        size = right[name.replace("_proj", "_norm")].numel()
        rows = torch.arange(len(right[name])).view(-1, 2, size // 2).transpose(1, 2).flatten()
        got[name] = right[name][rows]
    return got


# Bad conversions


def truncated(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Cut to bfloat16 instead of rounded to the nearest."""
    return _every(right, lambda t: (t.contiguous().view(torch.int32) & -65536).view(torch.float32))


def rounded_by_chance(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Rounded to bfloat16 up or down by chance."""

    def change(t: torch.Tensor) -> torch.Tensor:
        noise = torch.randint(1 << 16, t.shape, generator=rng, dtype=torch.int32)
        return ((t.contiguous().view(torch.int32) + noise) & -65536).view(torch.float32)

    return _every(right, change)


def rounded_twice(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Rounded to ten bits (as TF32 does) before bfloat16: ties appear that were none."""
    return _every(
        right, lambda t: ((t.contiguous().view(torch.int32) + 4096) & -8192).view(torch.float32)
    )


def through_float16(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Everything passed through float16 on its way."""
    return _every(right, lambda t: t.half().float())


def one_matrix_through_float8(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """One matrix was stored in float8 with one scale."""
    name = _name(right, rng)
    scale = right[name].abs().max() / 448
    return _with(right, {name: (right[name] / scale).to(torch.float8_e4m3fn).float() * scale})


def outliers_clipped(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Every matrix was clipped at nine tenths of its largest number."""
    return _every(right, lambda t: t.clamp(-0.9 * t.abs().max(), 0.9 * t.abs().max()), MATRIX)


def byte_order_swapped(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """One tensor was read with its bytes in the reverse order."""
    name = _name(right, rng)
    raw = right[name].contiguous().view(torch.uint8).view(-1, 4).flip(1).contiguous()
    return _with(right, {name: raw.view(torch.float32).view(right[name].shape)})


def last_64_bytes_zero(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """The last sixteen numbers of one tensor are zero: the final block was never copied."""
    name = _name(right, rng, "")
    size = right[name].numel()
    return _put(right, name, list(range(size - 16, size)), torch.zeros(16))


# Other numbers, same function: outputs alone do not show these


def neurons_permuted(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Same function: the neurons of one layer stand in another order, consistently."""
    gate = _name(right, rng, "gate_proj.weight")
    up, down = gate.replace("gate", "up"), gate.replace("gate", "down")
    order = torch.arange(len(right[gate])).roll(1 + _draw(len(right[gate]) - 1, rng))
    changes = {gate: right[gate][order], up: right[up][order], down: right[down][:, order]}
    return _with(right, changes)


def up_and_down_negated(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Same function: up and down projection of one layer both have the wrong sign."""
    up = _name(right, rng, "up_proj.weight")
    down = up.replace("up_proj", "down_proj")
    return _with(right, {up: -right[up], down: -right[down]})


def queries_doubled(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Nearly the same function: queries twice as large, which their norm takes out again."""
    name = _name(right, rng, "q_proj.weight")
    return _with(right, {name: right[name] * 2})


# Seen in float32 only


def through_bfloat16_fp32(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """A float32 engine got weights that had passed through bfloat16."""
    return _every(right, lambda t: t.bfloat16().float())


def lowest_bit_fp32(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """The lowest bit of one number flipped."""
    name = _name(right, rng)
    flipped = _flip(right[name], 1).flatten()
    hidden = (~_moved(flipped, right[name].flatten())).nonzero().flatten()
    place = int(hidden[_draw(len(hidden), rng)])
    return _put(right, name, [place], flipped[[place]])


def low_halves_stale_fp32(before: Tensors, right: Tensors, rng: torch.Generator) -> Tensors:
    """Upper 16 bits are new, lower 16 bits old: a split master copy was joined wrongly."""
    got: Tensors = {}
    for name, new in right.items():
        low = before[name].contiguous().view(torch.int32) & 0xFFFF
        got[name] = ((new.contiguous().view(torch.int32) & -65536) | low).view(torch.float32)
    return _only_fp32(right, got)


# fmt: off
WEIGHTS: list[WeightAttack] = [
    load_did_nothing, one_matrix_missed, all_norms_missed, second_shard_stale, second_rank_stale,
    half_of_heads_stale, one_row_stale, one_column_stale, one_number_stale, rare_tokens_stale,
    one_page_stale, smallest_updates_dropped, moving_average, delta_twice, delta_without_its_scale,
    delta_lost_half_its_rank, delta_added_in_bfloat16, decayed_once_more, last_bit_flipped,
    sign_bit_flipped, same_bit_flipped_twice, tiny_numbers_doubled, errors_that_cancel,
    errors_that_cancel_by_place, nan_for_a_rare_token, two_tokens_swapped, layers_exchanged,
    norms_exchanged, q_and_k_exchanged, gate_and_up_exchanged, matrix_transposed,
    rope_rows_interleaved, truncated, rounded_by_chance, rounded_twice, through_float16,
    one_matrix_through_float8, outliers_clipped, byte_order_swapped, last_64_bytes_zero,
    neurons_permuted, up_and_down_negated, queries_doubled, through_bfloat16_fp32, lowest_bit_fp32,
    low_halves_stale_fp32,
]
# fmt: on


# Files


def _file(form: str) -> Callable[[FileAttack], FileAttack]:
    """Add a function to the list of faults on disk, for one form of version."""

    def mark(attack: FileAttack) -> FileAttack:
        attack.__dict__["form"] = form
        FILES.append(attack)
        return attack

    return mark


def _weights(folder: Path) -> Path:
    """Find the weights file of a version."""
    adapter = folder / "adapter_model.safetensors"
    return adapter if adapter.exists() else folder / "model.safetensors"


def _split(path: Path) -> tuple[dict[str, Any], bytes]:
    """Take a safetensors file apart: the header and the data."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


def _join(path: Path, header: str, data: bytes) -> None:
    """Put a safetensors file together."""
    text = header.encode() + b" " * (-len(header.encode()) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def _alike(header: dict[str, Any], rng: random.Random) -> tuple[str, str]:
    """Draw two tensors of one type and shape (B rather than A of an adapter)."""
    names = [n for n in sorted(header) if "_proj" in n and "lora_A" not in n]
    kinds = {n: (header[n]["dtype"], header[n]["shape"]) for n in names}
    pairs = [(n, m) for n in names for m in names if n < m and kinds[n] == kinds[m]]
    return rng.choice(pairs)


def _rewrite(path: Path, change: Callable[[Tensors], object]) -> None:
    """Change the tensors of a file."""
    tensors = load(path.read_bytes())
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def _set(path: Path, **changes: object) -> None:
    """Change entries of a settings file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes, indent=2))


@_file("either")
def weights_of_previous(previous: Path, folder: Path, rng: random.Random) -> None:
    """The weights are the previous version's, the settings the new one's."""
    shutil.copyfile(_weights(previous), _weights(folder))


@_file("either")
def weights_link_to_previous(previous: Path, folder: Path, rng: random.Random) -> None:
    """The weights file became a link to the previous version's."""
    path, target = _weights(folder), _weights(previous).resolve()
    path.unlink()
    path.symlink_to(target)


@_file("either")
def one_tensor_of_previous(previous: Path, folder: Path, rng: random.Random) -> None:
    """One tensor in the file is the previous version's."""
    old = load(_weights(previous).read_bytes())
    new = load(_weights(folder).read_bytes())
    name = rng.choice([n for n in sorted(new) if n in old and not torch.equal(old[n], new[n])])
    _rewrite(_weights(folder), lambda tensors: tensors.update({name: old[name]}))


@_file("either")
def one_bit_flipped(previous: Path, folder: Path, rng: random.Random) -> None:
    """One bit flipped on disk; size and times of the file are as they were."""
    path = _weights(folder)
    raw, times = bytearray(path.read_bytes()), path.stat()
    header, _ = _split(path)
    name = rng.choice(sorted(set(header) - {"__metadata__"}))
    width = 4 if header[name]["dtype"] == "F32" else 2
    start, stop = header[name]["data_offsets"]
    place = 8 + int.from_bytes(raw[:8], "little") + rng.randrange(start, stop, width)
    raw[place + width - 2] ^= 1  # the last bit that bfloat16 keeps
    path.write_bytes(raw)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@_file("either")
def cut_short(previous: Path, folder: Path, rng: random.Random) -> None:
    """The disk was full: the end of the weights file is missing."""
    raw = _weights(folder).read_bytes()
    _weights(folder).write_bytes(raw[: -rng.randrange(1, 1024)])


@_file("either")
def end_never_flushed(previous: Path, folder: Path, rng: random.Random) -> None:
    """The machine lost power: the size is right, the last kilobyte is zeros."""
    raw = _weights(folder).read_bytes()
    _weights(folder).write_bytes(raw[:-1024] + bytes(1024))


@_file("either")
def bytes_after_the_end(previous: Path, folder: Path, rng: random.Random) -> None:
    """A longer file was overwritten in place and kept its tail."""
    with _weights(folder).open("ab") as file:
        file.write(rng.randbytes(256))


@_file("either")
def tensor_renamed(previous: Path, folder: Path, rng: random.Random) -> None:
    """One tensor has a name that no loader looks for, so a lenient one skips it."""
    header, data = _split(_weights(folder))
    name = rng.choice([name for name in sorted(header) if "_proj" in name])
    renamed = {key.replace("_proj", "_prj") if key == name else key: header[key] for key in header}
    _join(_weights(folder), json.dumps(renamed), data)


@_file("either")
def names_exchanged(previous: Path, folder: Path, rng: random.Random) -> None:
    """Two tensors of equal shape exchanged names (lora_B of two modules in an adapter)."""
    header, data = _split(_weights(folder))
    one, other = _alike(header, rng)
    _join(_weights(folder), json.dumps(header | {one: header[other], other: header[one]}), data)


@_file("either")
def names_given_twice(previous: Path, folder: Path, rng: random.Random) -> None:
    """The header names two tensors twice, the second time exchanged: which entry counts?"""
    header, data = _split(_weights(folder))
    one, other = _alike(header, rng)
    again = json.dumps({one: header[other], other: header[one]})
    _join(_weights(folder), json.dumps(header)[:-1] + ", " + again[1:], data)


@_file("either")
def type_changed(previous: Path, folder: Path, rng: random.Random) -> None:
    """The header gives one tensor another type of the same width."""
    header, data = _split(_weights(folder))
    name = rng.choice([name for name in sorted(header) if "_proj" in name])
    header[name]["dtype"] = {"F32": "I32", "BF16": "F16", "F16": "BF16"}[header[name]["dtype"]]
    _join(_weights(folder), json.dumps(header), data)


@_file("either")
def old_file_beside(previous: Path, folder: Path, rng: random.Random) -> None:
    """A second weights file with old numbers lies beside: loaders of '*.safetensors' read both."""
    name = _weights(folder).stem + "-00002-of-00002.safetensors"
    shutil.copyfile(_weights(previous), folder / name)


@_file("full")
def index_to_old_shard(previous: Path, folder: Path, rng: random.Random) -> None:
    """An index of shards appeared that names a shard with old numbers."""
    shard = "model-00001-of-00001.safetensors"
    shutil.copyfile(_weights(previous), folder / shard)
    names = sorted(set(_split(folder / shard)[0]) - {"__metadata__"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(names, shard)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@_file("full")
def untied_with_old_head(previous: Path, folder: Path, rng: random.Random) -> None:
    """The output is no longer tied, and the file has an old output matrix."""
    old = load(_weights(previous).read_bytes())[EMBED]
    _rewrite(_weights(folder), lambda tensors: tensors.update({"lm_head.weight": old}))
    _set(folder / "config.json", tie_word_embeddings=False)


@_file("lora")
def one_module_missing(previous: Path, folder: Path, rng: random.Random) -> None:
    """One module's A and B are not in the file: a lenient loader takes zeros."""
    name = rng.choice([name for name in sorted(_split(_weights(folder))[0]) if "lora_B" in name])
    other = name.replace("lora_B", "lora_A")
    _rewrite(_weights(folder), lambda tensors: (tensors.pop(name), tensors.pop(other)))


@_file("lora")
def one_a_zeroed(previous: Path, folder: Path, rng: random.Random) -> None:
    """A of one module is all zeros."""
    name = rng.choice([name for name in sorted(_split(_weights(folder))[0]) if "lora_A" in name])
    _rewrite(_weights(folder), lambda tensors: tensors[name].zero_())


def _settings_fault(form: str, name: str, what: str, **changes: object) -> None:
    """Add a fault that only changes entries of the settings file."""

    def attack(previous: Path, folder: Path, rng: random.Random) -> None:
        _set(folder / ("adapter_config.json" if form == "lora" else "config.json"), **changes)

    attack.__name__ = attack.__qualname__ = name
    attack.__doc__ = what
    _file(form)(attack)


_settings_fault("full", "norm_epsilon_changed", "Norms add a larger epsilon.", rms_norm_eps=1e-3)
ROPE = {"rope_type": "default", "rope_theta": 5e5}
_settings_fault("full", "rotary_base", "Another base.", rope_theta=5e5, rope_parameters=ROPE)
_settings_fault("full", "activation_changed", "Another activation function.", hidden_act="gelu")
_settings_fault("lora", "alpha_changed", "The default alpha came back.", lora_alpha=8)
_settings_fault("lora", "rank_changed", "The rank is not the file's.", r=8)
_settings_fault("lora", "root_scaling", "Alpha is divided by the rank's root.", use_rslora=True)
_settings_fault("lora", "own_alpha", "One module has its own alpha.", alpha_pattern={"q_proj": 12})
_settings_fault("lora", "own_rank", "One module has its own rank.", rank_pattern={"up_proj": 2})
KINDS = [f"{kind}_proj" for kind in ("q", "k", "v", "o", "gate", "up", "down")]
FIRST = {"layers_to_transform": [0], "target_modules": KINDS}
_settings_fault("lora", "first_layer_only", "Only layer 0 is adapted.", **FIRST)
_settings_fault("lora", "one_target_only", "All but q_proj is left out.", target_modules=["q_proj"])
_settings_fault("lora", "start_changes_base", "Loading alters the base.", init_lora_weights="pissa")
_settings_fault("lora", "layer_repeated", "Layer 0 runs twice.", layer_replication=[[0, 1], [0, 2]])
_settings_fault("lora", "transposed", "The base counts as transposed.", fan_in_fan_out=True)
_settings_fault("lora", "magnitudes", "Magnitudes are asked for, none are there.", use_dora=True)
_settings_fault("lora", "full_head", "A whole module is asked for.", modules_to_save=["lm_head"])
_settings_fault("lora", "biases", "Trained biases are asked for.", bias="all")
