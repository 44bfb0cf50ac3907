"""Spoilt references: blocks of code that nearly do what a reference does.

A verdict that tells a reference from each of them checks what the task asks for.
"""

import ast
import random
from collections.abc import Iterator, Sequence
from typing import Literal, cast

import msgspec

MutantKind = Literal[
    "drop_statement", "swap_literals", "change_literal", "change_answer", "add_write"
]

WRITES = (
    "apis.simple_note.create_note(title='Draft', content='', access_token={token})",
    "apis.todoist.create_project(name='Draft', access_token={token})",
    "apis.phone.create_alarm(time='03:33', label='Draft', access_token={token})",
)

LOGGED_IN = (
    "apis.{app}.login(username=apis.supervisor.show_profile()['{by}'], "
    "password=[a['password'] for a in apis.supervisor.show_account_passwords() "
    "if a['account_name'] == '{app}'][0])['access_token']"
)
ANSWER = "answer"
COMPLETE = "complete_task"


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A spoilt reference."""

    kind: MutantKind
    blocks: tuple[str, ...]
    spoilt: str
    """The code that was changed, or added."""


def mutants_of(blocks: Sequence[str], rng: random.Random, most: int) -> tuple[Mutant, ...]:
    """Return at most ``most`` different mutants, of as many kinds as there are, in random order.

    None of them equals the reference. A mutant may still do the same work.
    """
    found: dict[tuple[str, ...], Mutant] = {}
    trees = [ast.parse(block) for block in blocks]
    kinds = [
        list(each) for each in (dropped(trees), literals(trees), _answers(trees), _writes(blocks))
    ]
    for each in kinds:
        rng.shuffle(each)
    original = tuple(ast.unparse(tree) for tree in trees)
    while any(kinds) and len(found) < most:
        for each in kinds:
            if each and len(found) < most:
                mutant = each.pop()
                if mutant.blocks != original:
                    found.setdefault(mutant.blocks, mutant)
    return tuple(found.values())


def dropped(trees: Sequence[ast.Module]) -> Iterator[Mutant]:
    """Yield the reference without each of its statements, those in loops included."""
    for number, tree in enumerate(trees):
        for place in range(sum(1 for _ in _statements(tree))):
            copy = ast.parse(ast.unparse(tree))
            body, index = list(_statements(copy))[place]
            spoilt, body[index] = body[index], ast.Pass()
            yield _mutant("drop_statement", trees, number, copy, spoilt)


def _statements(tree: ast.Module) -> Iterator[tuple[list[ast.stmt], int]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                held = cast("list[ast.stmt]", body)
                yield from ((held, index) for index in range(len(held)))


def literals(trees: Sequence[ast.Module]) -> Iterator[Mutant]:
    """Yield the reference with two literals of a kind exchanged, and with each one changed."""
    for number, tree in enumerate(trees):
        for place in range(sum(1 for _ in _constants(tree))):
            copy = ast.parse(ast.unparse(tree))
            first, *others = list(_constants(copy))[place:]
            for other in others:
                if type(other.value) is type(first.value) and other.value != first.value:
                    other.value, first.value = first.value, other.value
                    yield _mutant("swap_literals", trees, number, copy, other)
                    break
            copy = ast.parse(ast.unparse(tree))
            constant = list(_constants(copy))[place]
            spoilt = ast.Constant(constant.value)
            constant.value = _changed(constant.value)
            yield _mutant("change_literal", trees, number, copy, spoilt)


def _constants(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the literals outside formatted texts."""
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in inside and _changes(node.value):
            yield node


def _changes(value: object) -> bool:
    return isinstance(value, bool | int | float | str)


def _changed(value: object) -> bool | float | str:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case _:
            return f"{value} 2"


def _answers(trees: Sequence[ast.Module]) -> Iterator[Mutant]:
    """Yield the reference with another answer, without one, or with one that nobody asked for."""
    for number, tree in enumerate(trees):
        for value in (ast.Constant("nothing"), ast.Constant(-1), None):
            copy = ast.parse(ast.unparse(tree))
            for node in ast.walk(copy):
                if isinstance(node, ast.Call) and _name(node.func) == COMPLETE:
                    kept = [each for each in node.keywords if each.arg != ANSWER]
                    added = [ast.keyword(ANSWER, value)] if value else []
                    node.keywords = [*kept, *added]
                    yield _mutant("change_answer", trees, number, copy, node)


def _writes(blocks: Sequence[str]) -> Iterator[Mutant]:
    """Yield the reference with one more change, in an app that it may not use."""
    for write in WRITES:
        app = write.split(".")[1]
        by = "phone_number" if app == "phone" else "email"
        code = write.format(token=LOGGED_IN.format(app=app, by=by))
        yield Mutant(kind="add_write", blocks=(code, *blocks), spoilt=f"apis.{app}")


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else ""


def _mutant(
    kind: MutantKind,
    trees: Sequence[ast.Module],
    number: int,
    changed: ast.Module,
    spoilt: ast.AST,
) -> Mutant:
    blocks = [*trees[:number], changed, *trees[number + 1 :]]
    return Mutant(kind=kind, blocks=tuple(map(ast.unparse, blocks)), spoilt=ast.unparse(spoilt))
