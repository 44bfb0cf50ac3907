"""Variants: other secrets, at the same places, in all texts of a design."""

import random

import msgspec

from coevolve.environments.hdl.designs.design import Design, Mutant, PointsFile
from coevolve.environments.hdl.designs.variants import (
    Replaced,
    other_constants,
    replaced,
    secrets,
    varied,
)
from coevolve.environments.hdl.simulate.messages import SourceFile
from tests.coevolve.environments.hdl.policy.test_frontier import design

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
