"""Hypothesis strategies for messages, derived from the messages' own types."""

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from coevolve.environments.hdl.simulate.messages import KindCount
from coevolve.environments.tools.task import ToolTurn
from protocols import columns
from protocols.evolution import GroupSummary
from protocols.learning import Checkpoint, PolicyVersion, Probe
from protocols.rollouts import Rollout, RolloutRequest, Tokens


def of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a msgspec type."""
    return _of(inspect.type_info(kind))


def tokens() -> st.SearchStrategy[Tokens]:
    """Columns of equal lengths."""
    row = st.tuples(
        st.integers(-(2**31), 2**31 - 1),
        st.integers(0, 1),
        st.floats(max_value=0, allow_nan=False, width=32),
        st.integers(-1, 2**31 - 1),
    )
    return st.lists(row, max_size=20).map(
        lambda rows: Tokens(
            token_ids=columns.int32(row[0] for row in rows),
            mask=columns.uint8(row[1] for row in rows),
            logprobs=columns.float32(row[2] for row in rows),
            versions=columns.int32(row[3] for row in rows),
        )
    )


def _turn(fields: dict[str, Any]) -> ToolTurn:
    return ToolTurn(**{**fields, "results": fields["reference"]})


def _rollout(fields: dict[str, Any]) -> Rollout:
    passed, total = sorted((abs(fields["turns_passed"]), abs(fields["turns_total"])))
    return Rollout(**{**fields, "turns_passed": passed, "turns_total": total})


def _request(fields: dict[str, Any]) -> RolloutRequest:
    return RolloutRequest(**{**fields, "group_size": fields["index"] + fields["group_size"]})


def _summary(fields: dict[str, Any]) -> GroupSummary:
    successes, rollouts = sorted((abs(fields["successes"]), abs(fields["rollouts"])))
    return GroupSummary(**{**fields, "successes": successes, "rollouts": rollouts})


def _probe(fields: dict[str, Any]) -> Probe:
    count = len(fields["token_ids"])
    return Probe(
        token_ids=columns.int32(list(fields["token_ids"])),
        logprobs=columns.float32(-float(n) for n in range(1, count)),
    )


def _kind_count(fields: dict[str, Any]) -> KindCount:
    return KindCount(**fields | {"covered": min(abs(fields["covered"]), fields["total"])})


def _inside(kind: type[PolicyVersion] | type[Checkpoint]) -> Callable[[dict[str, Any]], Any]:
    def build(fields: dict[str, Any]) -> PolicyVersion | Checkpoint:
        inside: dict[str, Any] = {**fields, "path": f"versions/v_{len(fields['path'])}"}
        return kind(**inside)

    return build


LAWFUL: dict[type[msgspec.Struct], Callable[[dict[str, Any]], Any]] = {
    ToolTurn: _turn,
    Rollout: _rollout,
    RolloutRequest: _request,
    GroupSummary: _summary,
    Probe: _probe,
    KindCount: _kind_count,
    PolicyVersion: _inside(PolicyVersion),
    Checkpoint: _inside(Checkpoint),
}
"""Structs whose fields depend on one another, or have a form."""


def _struct(info: inspect.StructType) -> st.SearchStrategy[Any]:
    if info.cls is Tokens:
        return tokens()
    fields = st.fixed_dictionaries({field.name: _of(field.type) for field in info.fields})
    build = LAWFUL.get(info.cls, lambda values: info.cls(**values))
    return fields.map(build)


def _integer(info: inspect.IntType) -> st.SearchStrategy[int]:
    low = info.ge if info.ge is not None else -(2**31)
    return st.integers(low, info.le if info.le is not None else 2**31 - 1)


def _float(info: inspect.FloatType) -> st.SearchStrategy[float]:
    low = info.ge if info.ge is not None else info.gt
    high = info.le if info.lt is None else info.lt
    return st.floats(
        low,
        high,
        allow_nan=False,
        allow_infinity=False,
        exclude_min=info.gt is not None,
        exclude_max=info.lt is not None,
    )


def _of(info: Any) -> st.SearchStrategy[Any]:  # noqa: C901  one case a kind of type
    match info:
        case inspect.StructType():
            return _struct(info)
        case inspect.UnionType(types=kinds):
            return st.one_of([_of(kind) for kind in kinds])
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.VarTupleType(item_type=item, min_length=least):
            return st.lists(_of(item), min_size=least or 0, max_size=3).map(tuple)
        case inspect.TupleType(item_types=items):
            return st.tuples(*[_of(item) for item in items])
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(_of(key), _of(value), max_size=3)
        case inspect.IntType():
            return _integer(info)
        case inspect.FloatType():
            return _float(info)
        case inspect.BoolType():
            return st.booleans()
        case inspect.StrType(pattern=str(pattern)):
            return st.from_regex(pattern)
        case inspect.StrType(min_length=least):
            return st.text(min_size=least or 0, max_size=12)
        case inspect.NoneType():
            return st.none()
        case inspect.BytesType():
            return st.binary(max_size=12)
        case inspect.Metadata(type=kind):
            return _of(kind)
        case inspect.RawType():
            return st.dictionaries(st.text(), st.integers(0, 9), max_size=2).map(_raw)
        case _:
            raise NotImplementedError(f"no strategy for {info}")


def _raw(value: dict[str, int]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(value))


def tags(kind: Any) -> dict[str, type[msgspec.Struct]]:
    """Return the members of a tagged union by tag."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.UnionType)
    members = [member for member in info.types if isinstance(member, inspect.StructType)]
    return {str(member.tag): member.cls for member in members}
