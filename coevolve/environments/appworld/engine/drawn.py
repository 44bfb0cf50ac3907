"""What a template draws: instruction, reference, and the changes that solve the task.

The evaluator in the engine's form is written from the changes: which records of which tables are
added, updated and removed, which of their fields count, and the answer. Tables that the engine
changes on its own beside them (balances, notifications) are named, and not looked into.
"""
# pyright: basic

import json
import re
from dataclasses import dataclass, field
from typing import Any

LOGIN = """
passwords = {{a["account_name"]: a["password"] for a in apis.supervisor.show_account_passwords()}}
profile = apis.supervisor.show_profile()
token = apis.{app}.login(username=profile["{by}"], password=passwords["{app}"])["access_token"]
"""
PAGES = """
def pages(api, **given):
    found, number = [], 0
    while page := api(page_index=number, **given):
        found, number = found + page, number + 1
    return found
"""
END = "apis.supervisor.complete_task()"
END_WITH = "apis.supervisor.complete_task(answer=answer)"

CHANGED = """
    changes = json.loads(private_data.changes)
    beside = set(private_data.beside)
    with test("only what the task names changes"):
        test.case(set(models.changed_model_names()) - beside, "==", set(changes))
    with test("these records are added, changed and removed, and no others"):
        for name, change in changes.items():
            added, updated, removed = models.changed_records(name)
            test.case(sorted(each.id for each in removed), "==", sorted(change["removed"]))
            test.case(sorted(str(each.id) for each in updated), "==", sorted(change["updated"]))
            test.case(len(added), "==", len(change["added"]))
    with test("they are as the task says"):
        new = {"new " + name: {r.id for r in models.changed_records(name)[0]} for name in changes}
        for name, change in changes.items():
            added, updated, removed = models.changed_records(name)
            for each in updated:
                named = change["updated"].get(str(each.id), {})
                for key, value in named.items():
                    test.case(plain(getattr(each, key)), "==", value)
                differing = models.changed_field_names(name, each.id) or set()
                besides = {key for key in differing if not key.endswith("_at")} - COMPUTED
                test.case(besides - set(named), "==", set())
            keys = sorted({key for each in change["added"] for key in each})
            found = [[told(each, key, change, new) for key in keys] for each in added]
            wanted = [[each[key] for key in keys] for each in change["added"]]
            test.case(sorted(map(json.dumps, found)), "==", sorted(map(json.dumps, wanted)))
            if keys:
                for each in added:
                    test.case(chosen_besides(each, keys), "==", {})
"""
ANSWERED = """
    with test("the answer is right"):
        test.answer(predicted_answer(models), ground_truth_answer)
"""
FORM = """import json

COMPUTED = {"id", "record_hash", "tilde_path", "order_index"}


def predicted_answer(models):
    said = models.end.supervisor.Task.first().answer
    return said and json.loads(said)


def plain(value):
    return value if isinstance(value, (bool, int, float, list, type(None))) else str(value)


def told(record, key, change, new):
    value = plain(getattr(record, key))
    links = [each[key] for each in change["added"] if str(each[key]) in new]
    return links[0] if links and value in new[links[0]] else value


def chosen_besides(record, keys):
    found = {}
    for name, each in record.__fields__.items():
        if name in COMPUTED or name in keys:
            continue
        value = plain(getattr(record, name))
        has_default = not each.required and each.default_factory in (None, list)
        if has_default and (value or None) != (each.get_default() or None):
            found[name] = value
    return found


def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):
"""


@dataclass(frozen=True, kw_only=True)
class Change:
    """The changes of one table, by the names of the fields that count."""

    added: tuple[dict[str, Any], ...] = ()
    """A link to a record that the attempt adds as well is ``new app.Model``.

    Where a field is named, fields that are not named and have a default must have kept it.
    """

    updated: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Other fields must not change, but those that the engine computes, and times."""

    removed: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One task, drawn from a world."""

    instruction: str
    reference: tuple[str, ...]
    """Blocks of code that solve it, and print nothing."""

    changes: dict[str, Change] = field(default_factory=dict)
    """Table, as ``app.Model`` -> its changes; empty if the task only asks a question."""

    beside: tuple[str, ...] = ()
    """Tables that the engine changes on its own."""

    answer: Any = None
    """The answer, if the task asks for one; otherwise none may be given."""

    @property
    def evaluation(self) -> str:
        """The evaluator's program."""
        return FORM + CHANGED + ANSWERED

    @property
    def requirements(self) -> dict[str, str]:
        """The evaluator's tests, and whether doing nothing passes each."""
        failing = {True: "no_op_fail", False: "no_op_pass"}
        return {
            "only what the task names changes": failing[bool(self.changes)],
            "these records are added, changed and removed, and no others": failing[
                bool(self.changes)
            ],
            "they are as the task says": failing[any(each.added for each in self.changes.values())],
            "the answer is right": failing[self.answer is not None],
        }

    @property
    def apps(self) -> int:
        """The number of apps that the reference logs in to, at least 1."""
        return max(1, len(set(re.findall(r"apis\.(\w+)\.login\(", "\n".join(self.reference)))))

    @property
    def difficulty(self) -> int:
        """How hard it is, from 1 to 3: one more for a second app, and one for a second change."""
        changed = sum(
            len(each.added) + len(each.updated) + len(each.removed)
            for each in self.changes.values()
        )
        return min(3, self.apps + (changed > 1))

    @property
    def private(self) -> dict[str, Any]:
        """What the evaluator's program reads."""
        told = {
            name: {
                "added": list(change.added),
                "updated": {str(key): value for key, value in change.updated.items()},
                "removed": list(change.removed),
            }
            for name, change in self.changes.items()
        }
        return {"changes": json.dumps(told), "beside": list(self.beside)}


def login(app: str) -> str:
    """Return the block that logs in to an app."""
    by = "phone_number" if app == "phone" else "email"
    return LOGIN.format(app=app, by=by) + PAGES
