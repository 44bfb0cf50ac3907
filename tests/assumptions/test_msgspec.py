"""Facts about msgspec's messages."""

import msgspec
import pytest


class Step(msgspec.Struct, frozen=True, kw_only=True, tag="step"):
    number: int = 0

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("a step needs a number from 0 on")


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag="stop"):
    reason: str = "none"


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    body: msgspec.Raw


def test_fields_that_a_reader_does_not_know_are_dropped():
    """A struct is decoded from a map with further fields, which are dropped.

    Needed by: coevolve/journal/codec.py
    """
    encoded = msgspec.msgpack.encode({"type": "step", "number": 3, "later": [1]})
    assert msgspec.msgpack.decode(encoded, type=Step) == Step(number=3)


def test_fields_that_an_older_record_lacks_get_their_defaults():
    """A field that the encoded map lacks gets its default.

    Needed by: coevolve/journal/codec.py
    """
    assert msgspec.msgpack.decode(msgspec.msgpack.encode({"type": "step"}), type=Step) == Step()


def test_a_tag_chooses_the_struct_of_a_union():
    """The tag in the field `type` chooses the struct of a union, also in JSON.

    Needed by: coevolve/journal/called_store.py, coevolve/environments/appworld/frames.py
    """
    for coded in (msgspec.msgpack, msgspec.json):
        for each in (Step(number=1), Stop()):
            assert coded.decode(coded.encode(each), type=Step | Stop) == each


def test_a_struct_tells_its_tag():
    """`__struct_config__.tag` is the tag of a struct.

    Needed by: coevolve/journal/codec.py
    """
    assert Step.__struct_config__.tag == "step"


def test_a_rule_of_a_struct_is_kept_when_it_is_decoded():
    """A ValueError in `__post_init__` is a ValidationError in `decode` and `convert`.

    Needed by: protocols/rollouts.py, coevolve/journal/codec.py
    """
    broken = {"type": "step", "number": -1}
    with pytest.raises(msgspec.ValidationError, match="from 0 on"):
        msgspec.convert(broken, Step)
    with pytest.raises(msgspec.ValidationError, match="from 0 on"):
        msgspec.msgpack.decode(msgspec.msgpack.encode(broken), type=Step)


def test_a_rule_of_a_struct_is_kept_when_a_field_is_replaced():
    """`structs.replace` runs `__post_init__`.

    Needed by: protocols/rollouts.py
    """
    with pytest.raises(ValueError, match="from 0 on"):
        msgspec.structs.replace(Step(), number=-1)


def test_a_constructor_does_not_check_types():
    """A constructor and `encode` take a value of a wrong type, which only `decode` refuses.

    Needed by: coevolve/journal/codec.py
    """
    wrong: object = 5
    encoded = msgspec.msgpack.encode(Stop(reason=wrong))  # pyright: ignore[reportArgumentType]
    with pytest.raises(
        msgspec.ValidationError, match=r"Expected `str`, got `int` - at `\$.reason`"
    ):
        msgspec.msgpack.decode(encoded, type=Stop)


def test_large_numbers_and_lone_surrogates_are_no_errors_of_msgspec():
    """`encode` raises OverflowError for integers of 65 bits and a ValueError for lone surrogates.

    Needed by: coevolve/journal/codec.py
    """
    with pytest.raises(OverflowError):
        msgspec.msgpack.encode(2**64)
    with pytest.raises(UnicodeEncodeError):
        msgspec.msgpack.encode("\ud800")
    assert issubclass(UnicodeEncodeError, ValueError)
    assert not issubclass(UnicodeEncodeError, msgspec.MsgspecError)


def test_bytes_that_are_no_text_are_an_error_of_msgspec():
    """`json.decode` raises DecodeError for bytes that are not UTF-8.

    Needed by: coevolve/environments/appworld/frames.py, coevolve/environments/appworld/engines.py
    """
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(b'"\xff"')


def test_deep_brackets_are_a_recursion_error():
    """`json.decode` raises RecursionError for brackets that are nested too deeply.

    Needed by: coevolve/environments/appworld/frames.py, coevolve/environments/appworld/engines.py
    """
    with pytest.raises(RecursionError):
        msgspec.json.decode(b"[" * 100_000 + b"]" * 100_000)


def test_raw_bytes_pass_through_unchanged():
    """A `Raw` field is decoded and encoded as the bytes that it was, blanks and order included.

    Needed by: protocols/tasks.py
    """
    inner = b'{ "b":1,  "a": [1.50, "\\u00e9"] }'
    carried = msgspec.json.decode(b'{"body":' + inner + b"}", type=Carried)
    assert bytes(carried.body) == inner
    assert msgspec.json.encode(carried) == b'{"body":' + inner + b"}"


def test_an_order_makes_the_same_bytes_of_equal_maps():
    """`order="deterministic"` encodes equal maps as the same bytes.

    Needed by: coevolve/journal/snapshots.py
    """
    one, other = {"a": 1, "b": {"d": 1, "c": 2}}, {"b": {"c": 2, "d": 1}, "a": 1}
    assert msgspec.json.encode(one, order="deterministic") == msgspec.json.encode(
        other, order="deterministic"
    )
    assert msgspec.json.encode(one) != msgspec.json.encode(other)


def test_a_schema_tells_forms_apart():
    """`json.schema` differs between structs of which one has a further field.

    Needed by: coevolve/journal/snapshots.py
    """
    further = msgspec.defstruct("Step", [("number", int, 0), ("later", int, 0)], tag="step")
    plain = msgspec.defstruct("Step", [("number", int, 0)], tag="step")
    assert msgspec.json.schema(plain) != msgspec.json.schema(further)


def test_text_becomes_a_number_where_that_is_allowed():
    """`convert` with `strict=False` reads numbers from texts, as commands give them.

    Needed by: coevolve/cli/attach_views/swap.py
    """
    assert msgspec.convert({"type": "step", "number": "7"}, Step, strict=False) == Step(number=7)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"type": "step", "number": "7"}, Step)


class Kept(msgspec.Struct):
    ids: list[str] = []
    counts: dict[str, int] = {}
    seen: set[str] = set()


def test_an_empty_default_is_a_new_one_in_each_struct():
    """A struct shares no empty list, dict or set that is a default with another struct.

    Needed by: coevolve/curriculum/task_pool.py, coevolve/validation/ledger.py
    """
    first, second, decoded = Kept(), Kept(), msgspec.msgpack.decode(b"\x80", type=Kept)
    first.ids.append("a")
    first.counts["a"] = 1
    first.seen.add("a")
    assert second == decoded == Kept([], {}, set())


def test_a_map_may_have_tuples_as_keys():
    """A map from tuples is encoded and decoded as one, also if a tuple holds a tagged struct.

    Needed by: coevolve/signals/history.py, coevolve/signals/rules.py
    """
    found = {("a", Step(number=1)): 1, ("b", Stop(reason="c")): 2}
    kind = dict[tuple[str, Step | Stop], int]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=kind) == found
