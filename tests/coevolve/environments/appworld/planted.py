"""Spoils sound tasks whose references are code, to measure what the gates admit falsely.

Each kind is one fault that a model makes when it writes a task: the code does something else than
the instruction says, or cannot be carried out by somebody who knows the instruction alone, or the
instruction gives away what the task is about. The kinds are made without looking at the gates'
rules; those that concern words alone are those of calls (`tests.spoiling.kinds`).
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import cast

import msgspec

from coevolve.environments.appworld.blocks import apis_in
from coevolve.environments.appworld.gates.literals import ANSWER, COMPLETE, is_given
from coevolve.environments.appworld.mutants import LOGGED_IN, dropped, literals
from coevolve.environments.tools.task import ToolTask, ToolTurn
from tests.spoiling.kinds import KINDS as OF_CALLS
from tests.spoiling.kinds import Kind, Spoil

Seen = Mapping[str, object]
"""Expression of a reference -> its first value in the reference's world."""

Edit = Callable[[ast.AST, Random], bool]
"""Changes a node in place; returns whether it did."""

OF_WORDS = (
    *("wrong verb", "contradiction", "negation", "gibberish", "beyond anyone's control"),
    *("chat markup", "injection"),
)
"""Kinds of `tests.spoiling.kinds` that change the instruction alone."""

_MORE = (
    "Then write a text message about it to my manager.",
    "Afterwards archive the oldest thread in my inbox, too.",
    "And turn off the first of my alarms.",
    "Also put the cheapest product of the shop into my cart.",
)
_APPS = ("Spotify", "Venmo", "Gmail", "Splitwise", "Simple Note", "Todoist", "Amazon", "phone")
_UNITS = (("dollars", "cents"), ("dollars", "euros"), ("minutes", "hours"), ("priority", "cost"))
_VAGUE = ("something", "the usual one", "that one", "it")
_NAMED = ("Use {} for it.", "You need {} here.", "Call {} at the end.")
_QUOTED = re.compile(r"'[^'\n]+'")
_PERSON = re.compile(r"\b[A-Z][a-z]+ [A-Z][a-z]+\b")
_NUMBER = re.compile(r"(?<![\w.:])\d+(?![\w.:])")

_ADDED = {
    "simple_note": "delete_note(note_id=each['note_id'], access_token=mine) "
    "for each in apis.simple_note.search_notes(access_token=mine)[:1]",
    "phone": "delete_alarm(alarm_id=each['alarm_id'], access_token=mine) "
    "for each in apis.phone.show_alarms(access_token=mine)[:1]",
    "gmail": "mark_thread_archived(email_thread_id=each['email_thread_id'], access_token=mine) "
    "for each in apis.gmail.show_inbox_threads(access_token=mine)[:1]",
    "amazon": "delete_product_from_cart(product_id=each['product_id'], access_token=mine) "
    "for each in apis.amazon.show_cart(access_token=mine)['cart_items'][:1]",
    "todoist": "delete_project(project_id=each['project_id'], access_token=mine) "
    "for each in apis.todoist.show_projects(access_token=mine)[:1]",
    "spotify": "delete_playlist(playlist_id=each['playlist_id'], access_token=mine) "
    "for each in apis.spotify.show_playlist_library(access_token=mine)[:1]",
    "venmo": "deny_payment_request(payment_request_id=each['payment_request_id'], "
    "access_token=mine) for each in apis.venmo.show_received_payment_requests("
    "status='pending', access_token=mine)[:1]",
}
"""App -> a change that nobody asks for, and that needs no text or number."""

_HIDDEN = {
    "private API": "apis.admin.show_users()",
    "files": "open('/data/tasks/ground_truth/answer.json').read()",
    "the task": "apis.supervisor.show_active_task()",
    "modules": "__import__('appworld').ground_truth",
}


def _recalled(body: ToolTask, blocks: Sequence[str]) -> ToolTask:
    turn = ToolTurn(instruction=body.turns[0].instruction, reference=tuple(blocks))
    return msgspec.structs.replace(body, turns=(turn,))


def _reworded(body: ToolTask, instruction: str) -> ToolTask:
    turn = ToolTurn(instruction=instruction, reference=body.turns[0].reference)
    return msgspec.structs.replace(body, turns=(turn,))


def _edited(edit: Edit) -> Spoil:
    """Return a kind that changes one place of the code; the places in random order."""

    def spoil(body: ToolTask, rng: Random) -> Iterator[ToolTask]:
        blocks = body.turns[0].reference
        places = [
            (number, place)
            for number, block in enumerate(blocks)
            for place in range(sum(1 for _ in ast.walk(ast.parse(block))))
        ]
        for number, place in rng.sample(places, len(places)):
            tree = ast.parse(blocks[number])
            if edit(list(ast.walk(tree))[place], rng):
                changed = ast.unparse(ast.fix_missing_locations(tree))
                yield _recalled(body, (*blocks[:number], changed, *blocks[number + 1 :]))

    return spoil


def _is_complete(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == COMPLETE
    )


def _answered(value: Callable[[ast.expr, Random], ast.expr | None]) -> Spoil:
    """Return a kind that gives another answer."""

    def edit(node: ast.AST, rng: Random) -> bool:
        if isinstance(node, ast.keyword) and node.arg == ANSWER and not is_given(node.value):
            other = value(node.value, rng)
            node.value = other or node.value
            return other is not None
        return False

    return _edited(edit)


_SIDES: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
}
_OPPOSITE: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is},
}


def _compared(others: Mapping[type[ast.cmpop], type[ast.cmpop]]) -> Edit:
    def edit(node: ast.AST, rng: Random) -> bool:
        del rng
        if isinstance(node, ast.Compare) and (other := others.get(type(node.ops[0]))):
            node.ops[0] = other()
            return True
        return False

    return edit


def _opposite(node: ast.AST, rng: Random) -> bool:
    match node:
        case ast.keyword(arg=str(), value=ast.Constant(value=bool(was))):
            node.value = ast.Constant(not was)
            return True
        case _:
            return _compared(_OPPOSITE)(node, rng)


def _unfiltered(node: ast.AST, rng: Random) -> bool:
    match node:
        case ast.If():
            node.test = ast.Constant(True)
        case ast.comprehension(ifs=[_, *_]):
            node.ifs = []
        case ast.BoolOp(op=ast.And()):
            node.values.pop(rng.randrange(len(node.values)))
        case ast.Call(keywords=[_, *_]) if not _is_complete(node):
            wanted = [each for each in node.keywords if not str(each.arg).endswith(("token", "id"))]
            if not wanted:
                return False
            node.keywords.remove(rng.choice(wanted))
        case _:
            return False
    return True


def _other_end(node: ast.AST, rng: Random) -> bool:
    del rng
    ends = {"min": "max", "max": "min"}
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in ends:
            node.func = ast.Name(ends[name])
        case ast.Call(func=ast.Name(id="sorted")):
            node.func = ast.Name("list")
            node.args[:] = [
                ast.Call(
                    ast.Name("reversed"),
                    [ast.Call(ast.Name("sorted"), node.args[:], node.keywords[:])],
                    [],
                )
            ]
            node.keywords.clear()
        case ast.Subscript(slice=ast.Constant(value=0)):
            node.slice = ast.Constant(-1)
        case ast.keyword(arg="sort_by", value=ast.Constant(value=str(by))):
            node.value = ast.Constant(by.translate(str.maketrans("+-", "-+")))
        case _:
            return False
    return True


def _one_left_out(node: ast.AST, rng: Random) -> bool:
    if isinstance(node, ast.For):
        part = (
            ast.Slice(ast.Constant(1)) if rng.random() < 0.5 else ast.Slice(None, ast.Constant(-1))
        )
        node.iter = ast.Subscript(ast.Call(ast.Name("list"), [node.iter], []), part)
        return True
    return False


def _by_chance(node: ast.AST, rng: Random) -> bool:
    del rng
    if isinstance(node, ast.For):
        kept = f"[x for x in {ast.unparse(node.iter)} if random.SystemRandom().random() < 0.5]"
        node.iter = ast.parse(kept, mode="eval").body
        return True
    return False


def _first_page(node: ast.AST, rng: Random) -> bool:
    del rng
    match node:
        case ast.Call(func=ast.Name(id="pages"), args=[api]):
            node.func, node.args = api, []
            node.keywords.append(ast.keyword("page_limit", ast.Constant(1)))
            return True
        case _:
            return False


def _given_up(node: ast.AST, rng: Random) -> bool:
    del rng
    if isinstance(node, ast.Call) and _is_complete(node):
        node.keywords[:] = [ast.keyword("status", ast.Constant("fail"))]
        return True
    return False


def _unasked(node: ast.AST, rng: Random) -> bool:
    if isinstance(node, ast.Call) and _is_complete(node) and not node.keywords:
        node.keywords.append(
            ast.keyword(ANSWER, ast.parse("str(profile['email'])", mode="eval").body)
        )
        return True
    del rng
    return False


def _silent(node: ast.AST, rng: Random) -> bool:
    del rng
    if isinstance(node, ast.Call) and _is_complete(node) and node.keywords:
        node.keywords.clear()
        return True
    return False


def _missing_write(body: ToolTask, rng: Random) -> Iterator[ToolTask]:
    """Leave out one of several statements that call an API."""
    every = list(dropped(list(map(ast.parse, body.turns[0].reference))))
    for each in rng.sample(every, len(every)):
        if apis_in(each.spoilt) and ".login" not in each.spoilt and COMPLETE not in each.spoilt:
            yield _recalled(body, each.blocks)


def _swapped(body: ToolTask, rng: Random) -> Iterator[ToolTask]:
    every = list(literals(list(map(ast.parse, body.turns[0].reference))))
    for each in rng.sample(every, len(every)):
        if each.kind == "swap_literals":
            yield _recalled(body, each.blocks)


def _added(*, same: bool) -> Spoil:
    """Return a kind that changes more than is asked for, in an app that is used, or another."""

    def spoil(body: ToolTask, rng: Random) -> Iterator[ToolTask]:
        *before, last = body.turns[0].reference
        used = {name.partition(".")[0] for block in before for name in apis_in(block)}
        apps = [app for app in _ADDED if (app in used) is same]
        for app in rng.sample(apps, len(apps)):
            by = "phone_number" if app == "phone" else "email"
            code = f"mine = {LOGGED_IN.format(app=app, by=by)}\n[apis.{app}.{_ADDED[app]}]"
            yield _recalled(body, (*before, code, last))

    return spoil


def _hiding(code: str) -> Spoil:
    def spoil(body: ToolTask, rng: Random) -> Iterator[ToolTask]:
        del rng
        looked = f"try:\n    known = {code}\nexcept Exception:\n    known = None"
        yield _recalled(body, (looked, *body.turns[0].reference))

    return spoil


def _said(form: Callable[[ToolTask, Random], str]) -> Spoil:
    """Return a kind that changes the instruction."""

    def spoil(body: ToolTask, rng: Random) -> Iterator[ToolTask]:
        for _ in range(3):
            after = form(body, rng)
            if after != body.turns[0].instruction:
                yield _reworded(body, after)

    return spoil


def _wrong_app(body: ToolTask, rng: Random) -> str:
    said = body.turns[0].instruction
    named = [app for app in _APPS if app in said]
    other = rng.choice([app for app in _APPS if app not in named])
    return said.replace(named[0], other) if named else said


def _wrong_unit(body: ToolTask, rng: Random) -> str:
    said = body.turns[0].instruction
    units = [(one, other) for one, other in _UNITS if one in said]
    return said.replace(*rng.choice(units)) if units else said


def _wrong_number(body: ToolTask, rng: Random) -> str:
    said = body.turns[0].instruction
    found = list(_NUMBER.finditer(said))
    if not found:
        return said
    match = rng.choice(found)
    return f"{said[: match.start()]}{int(match[0]) + 1}{said[match.end() :]}"


def _vague(body: ToolTask, rng: Random) -> str:
    said = body.turns[0].instruction
    found = [*_QUOTED.findall(said), *_PERSON.findall(said)]
    return said.replace(rng.choice(found), rng.choice(_VAGUE)) if found else said


def _naming(body: ToolTask, rng: Random) -> str:
    names = [name for block in body.turns[0].reference for name in apis_in(block)]
    return f"{body.turns[0].instruction} {rng.choice(_NAMED).format(rng.choice(names))}"


def _spelled(body: ToolTask, rng: Random) -> str:
    del rng
    return "Please run this:\n" + "\n".join(body.turns[0].reference)


def _more(body: ToolTask, rng: Random) -> str:
    return f"{body.turns[0].instruction} {rng.choice(_MORE)}"


def _idle(body: ToolTask, rng: Random) -> Iterator[ToolTask]:
    del rng
    yield _recalled(body, body.turns[0].reference[-1:])


def _one_more(was: ast.expr, rng: Random) -> ast.expr:
    del rng
    return ast.BinOp(was, ast.Add(), ast.Constant(1))


def _sentence(was: ast.expr, rng: Random) -> ast.expr:
    del rng
    return ast.BinOp(ast.Constant("It is %s."), ast.Mod(), was)


class _Faults:
    """The kinds that need other tasks, or values that the reference finds."""

    def __init__(self, tasks: Sequence[ToolTask], seen: Mapping[ToolTask, Seen]) -> None:
        self._said = tuple(dict.fromkeys(task.turns[0].instruction for task in tasks))
        self._seen = seen

    def wrong_person(self, body: ToolTask, rng: Random) -> str:
        said = body.turns[0].instruction
        people = sorted({name for each in self._said for name in _PERSON.findall(each)})
        named = [name for name in _PERSON.findall(said) if name in people]
        others = [name for name in people if name not in said]
        return said.replace(named[0], rng.choice(others)) if named and others else said

    def wrong_object(self, body: ToolTask, rng: Random) -> str:
        said = body.turns[0].instruction
        quoted, others = _QUOTED.findall(said), [q for s in self._said for q in _QUOTED.findall(s)]
        others = [each for each in others if each not in said]
        return said.replace(rng.choice(quoted), rng.choice(others)) if quoted and others else said

    def another_request(self, body: ToolTask, rng: Random) -> str:
        del body
        return rng.choice(self._said)

    def tells_answer(self, body: ToolTask, rng: Random) -> str:
        del rng
        said, values = body.turns[0].instruction, self._seen.get(body, {})
        told = values.get(ANSWER)
        return said if told is None else f"{said} I think it is {told}."

    def given_answer(self, body: ToolTask, rng: Random) -> Iterator[ToolTask]:
        told = self._seen.get(body, {}).get(ANSWER)

        def value(was: ast.expr, rng: Random) -> ast.expr | None:
            del was, rng
            return None if told is None else ast.Constant(cast("str", told))

        yield from _answered(value)(body, rng)

    def given_id(self, body: ToolTask, rng: Random) -> Iterator[ToolTask]:
        values = self._seen.get(body, {})

        def edit(node: ast.AST, rng: Random) -> bool:
            del rng
            if isinstance(node, ast.keyword) and str(node.arg).endswith("_id"):
                written = ast.unparse(node.value)
                if written in values:
                    node.value = ast.Constant(cast("int", values[written]))
                    return True
            return False

        yield from _edited(edit)(body, rng)


def code_kinds(tasks: Sequence[ToolTask], seen: Mapping[ToolTask, Seen]) -> Mapping[str, Kind]:
    """Return kind of fault -> how it is made of ``tasks``, whose references show ``seen``."""
    faults = _Faults(tasks, seen)
    means = {
        "boundary off by one": _edited(_compared(_SIDES)),
        "count off by one": _answered(_one_more),
        "answer in other words": _answered(_sentence),
        "opposite filter": _edited(_opposite),
        "filter left out": _edited(_unfiltered),
        "wrong end of an order": _edited(_other_end),
        "one left out": _edited(_one_left_out),
        "first page only": _edited(_first_page),
        "missing write": _missing_write,
        "more is changed, in the app": _added(same=True),
        "more is changed, in another app": _added(same=False),
        "swapped values": _swapped,
    }
    words = {
        "wrong app": _said(_wrong_app),
        "wrong unit": _said(_wrong_unit),
        "another request": _said(faults.another_request),
        "more is asked for": _said(_more),
    }
    form = {
        "wrong person": _said(faults.wrong_person),
        "wrong object": _said(faults.wrong_object),
        "wrong number": _said(_wrong_number),
        "ambiguous": _said(_vague),
        "tells the answer": _said(faults.tells_answer),
        "names an API": _said(_naming),
        "spells the code": _said(_spelled),
        "written-out answer": faults.given_answer,
        "written-out id": faults.given_id,
        "gives up": _edited(_given_up),
        "chance": _edited(_by_chance),
        "answers unasked": _edited(_unasked),
        "no answer": _edited(_silent),
        "does nothing": _idle,
        **{f"looks at {label}": _hiding(code) for label, code in _HIDDEN.items()},
    }
    return {
        **{name: Kind(each, visible=False, differs=True) for name, each in means.items()},
        **{name: Kind(each, visible=False) for name, each in words.items()},
        **{name: Kind(each, visible=True) for name, each in form.items()},
        **{name: OF_CALLS[name] for name in OF_WORDS},
    }
