"""Instances of designs: other names of ports, at the same places, in all texts."""

import random
import re

import msgspec
import pytest

from coevolve.environments.hdl.designs.catalogue import Catalogue
from coevolve.environments.hdl.designs.design import Design, Mutant, PointsFile
from coevolve.environments.hdl.designs.folders import load_all
from coevolve.environments.hdl.designs.renaming import (
    Replaced,
    instance,
    new_names,
    other_constants,
    replaced,
    root_of,
    secrets,
    varied,
)
from coevolve.environments.hdl.designs.rtl import elaborate, ports_of
from coevolve.environments.hdl.parts import DESIGNS
from coevolve.environments.hdl.simulate.messages import SourceFile
from protocols.errors import JournalError
from tests.coevolve.environments.hdl.policy.test_frontier import design
from tests.small_designs import COUNTER, counter

SHIPPED = {design.design_id: design for design in load_all(DESIGNS)}
BY_ID = pytest.mark.parametrize("design_id", SHIPPED)

COMMENTED = COUNTER.replace(
    "  always_ff",
    '  // count goes `up` by step, up to high\n  initial $display("up");\n  always_ff',
)
SPECIFICATION = "Set `up` to count up: `count[0]` is up_down. ```\nup = 1; clk = 0;\n``` It is up."


def names_of(design: Design) -> list[str]:
    return [port.name for port in design.ports]


def commented() -> Design:
    given = counter(specification=SPECIFICATION)
    files = (SourceFile(name="counter.sv", text=COMMENTED),)
    return msgspec.structs.replace(given, unit=msgspec.structs.replace(given.unit, files=files))


def test_all_ports_but_clock_and_reset_get_unused_names_of_the_same_form():
    given = counter()
    names = new_names(given, random.Random(0))
    assert list(names) == ["up", "step", "count", "high"]
    assert all(len(old) == len(new) for old, new in names.items())
    assert len({*names.values(), *names_of(given)}) == 4 + 6
    assert not any(name in COUNTER for name in names.values())


def test_source_is_renamed_by_identifier_and_prose_where_it_is_code():
    made = instance(commented(), 3)
    _, _, up, step, count, high = names_of(made)
    text = made.unit.files[0].text
    assert f"// count goes `{up}` by step, up to high" in text
    assert '$display("up")' in text
    assert f"else if ({up}) {count} <= {count} + {{4'd0, {step}}};" in text
    assert made.specification == (
        f"Set `{up}` to count up: `{count}[0]` is up_down. ```\n{up} = 1; clk = 0;\n``` It is up."
    )
    assert f"{up} <= 1; {step} <= 5;" in made.testbenches["good"]
    assert f"logic {up}" not in counter().testbenches["good"]
    assert high in text


def test_an_instance_depends_on_design_and_seed_alone():
    assert instance(counter(), 1) == instance(counter(), 1)
    assert names_of(instance(counter(), 1)) != names_of(instance(counter(), 2))
    assert names_of(instance(counter("other"), 1)) != names_of(instance(counter(), 1))


def test_an_id_names_design_and_seed():
    assert instance(counter(), 12).design_id == "counter~12"
    assert root_of("counter~12") == ("counter", 12)
    assert root_of("counter") is root_of("counter~") is root_of("counter.c1") is None


def test_the_catalogue_makes_instances_of_the_designs_it_knows():
    catalogue = Catalogue([counter()])
    made = catalogue.get("counter~4")
    assert made == instance(counter(), 4)
    assert catalogue.get("counter~4") is made
    with pytest.raises(JournalError, match="about the design 'other'"):
        catalogue.get("other~4")


@BY_ID
def test_texts_of_an_instance_are_as_long_and_elaborate_to_the_same_ports(design_id: str):
    given = SHIPPED[design_id]
    made = instance(given, 1)
    assert ports_of(elaborate(made.unit)) == made.ports
    for old, new in zip(given.unit.files, made.unit.files, strict=True):
        assert [*map(len, old.text.splitlines())] == [*map(len, new.text.splitlines())]
    assert len(made.specification) == len(given.specification)
    renamed = {*names_of(given)} - {*names_of(made)}
    assert len(renamed) >= len(given.ports) - 2
    code = "".join(re.findall(r"`[^`\n]+`", made.specification))
    assert not renamed & {*re.findall(r"\w+", code)}


RTL = "localparam KEY = 16'hC0_DE; // 16'd49374\nassign open = word == 16'hc0de || tag == 8'hFF;\n"
SPEC = "Write 0xC0DE to open it. 0xFF does nothing."


def lock() -> Design:
    given = design("lock")
    file = msgspec.structs.replace(
        given.file,
        secret="Only 0xC0DE opens it; 0x0BAD is not in the RTL.",
        literals=(0xC0DE, 3),
        points=PointsFile(count=4, sha256="0" * 64),
    )
    unit = msgspec.structs.replace(
        given.unit, files=(SourceFile(name="lock.sv", text=RTL),), points_sha256="0" * 64
    )
    return msgspec.structs.replace(
        given,
        file=file,
        unit=unit,
        specification=SPEC,
        testbenches={"good": "word = 'hC0DE;", "poor": "", "mid": ""},
        mutants=(Mutant(name="m", file="lock.sv", find="KEY", replace="K", bug="none"),),
    )


def test_secrets_occur_in_the_sentence_the_rtl_and_the_specification():
    assert secrets(lock()) == {0xC0DE: 4}


def test_new_constants_have_the_same_length_and_are_unused():
    for seed in range(20):
        (constant,) = other_constants(lock(), random.Random(seed))
        assert constant.old == 0xC0DE
        assert 0x8000 <= constant.new <= 0xFFFF
        assert constant.new != constant.old
    assert other_constants(design("top"), random.Random(0)) == ()


def test_long_constants_are_replaced_unless_a_record_cannot_hold_them():
    given = lock()
    for word in ("DEADBEEF", "FEDCBA9876543210", "1FEDCBA9876543210"):
        long = msgspec.structs.replace(
            given,
            file=msgspec.structs.replace(given.file, secret=f"0x{word}"),
            unit=msgspec.structs.replace(
                given.unit, files=(SourceFile(name="lock.sv", text=f"80'h{word}"),)
            ),
            specification=f"0x{word}",
        )
        made = other_constants(long, random.Random(0))
        assert [len(f"{each.new:X}") for each in made] == [len(word)] * (len(word) <= 16)


def test_a_constant_stays_if_all_of_its_length_are_used():
    given = lock()
    every = " ".join(f"5'h{value:02X}" for value in range(16, 32))
    unit = msgspec.structs.replace(given.unit, files=(SourceFile(name="lock.sv", text=every),))
    file = msgspec.structs.replace(given.file, secret="0x1F")
    full = msgspec.structs.replace(given, file=file, unit=unit, specification="0x1F")
    assert secrets(full) == {0x1F: 2}
    assert other_constants(full, random.Random(0)) == ()


def test_a_variant_differs_only_in_the_constant_and_keeps_columns():
    made = varied(lock(), [Replaced(old=0xC0DE, new=0x9A1F)], "lock.v1")
    (file,) = made.unit.files
    assert file.text == RTL.replace("C0_DE", "9A_1F").replace("c0de", "9a1f")
    assert made.specification == SPEC.replace("C0DE", "9A1F")
    assert made.testbenches["good"] == "word = 'h9A1F;"
    assert made.file.secret.startswith("Only 0x9A1F opens it")
    assert made.file.literals == (0x9A1F, 3)
    assert (made.design_id, made.unit.name) == ("lock.v1", "lock.v1")
    assert (made.file.points, made.unit.points_sha256, made.mutants) == (None, "", ())


def test_identifiers_and_decimals_are_not_hexadecimal_constants():
    text = "c0de b0xC0DE 49374 16'd49374"
    assert replaced(text, {0xC0DE: 1}) == text
