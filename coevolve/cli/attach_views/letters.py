"""`attach letters`: the units of work that were given up, and their retries."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coevolve.cli.attach_views.output import age, console, print_json, table, tell
from coevolve.cli.attach_views.subject import Subject
from coevolve.journal.codec import decode, topics_of
from coevolve.journal.fold import in_order
from protocols.control import DeadLetter, LetterAnswered, LetterRetried
from protocols.errors import RunError

NS_PER_S = 1e9


@dataclass
class Letter:
    """A dead letter, and what became of it."""

    number: int
    """Its sequence in the journal."""

    time_s: float
    letter: DeadLetter
    retry: str = ""
    """Result of the newest retry; empty if there was none."""

    done: bool = False


async def letters(subject: Subject, retry: Sequence[str], *, as_json: bool) -> None:
    """Print the dead letters, or retry those with these numbers (``all``: each that is not done).

    Raises RunError for a number without a letter.
    """
    found = await _letters(subject)
    if retry:
        await _retry(subject, found, retry, as_json=as_json)
    elif as_json:
        listed = list(found.values())
        print_json({"run": subject.name, "running": subject.running, "letters": listed})
    else:
        _print(subject, list(found.values()))


async def _letters(subject: Subject) -> dict[int, Letter]:
    """Return all letters by number, in the order of the journal."""
    found: dict[int, Letter] = {}
    topics = topics_of(DeadLetter, LetterRetried, LetterAnswered)
    async for record in in_order(subject.reader, topics):
        match decode(record):
            case DeadLetter() as letter:
                found[record.sequence] = Letter(record.sequence, record.time_ns / NS_PER_S, letter)
            case LetterRetried(letter=number):
                found[number].retry = "is retried"
            case LetterAnswered(letter=number, done=done, outcome=outcome):
                found[number].done = done
                found[number].retry = f"done: {outcome}" if done else f"failed again: {outcome}"
            case _:
                pass
    return found


async def _retry(
    subject: Subject, found: Mapping[int, Letter], retry: Sequence[str], *, as_json: bool
) -> None:
    chosen = [each.number for each in found.values() if not each.done]
    if "all" not in retry:
        chosen = [int(number) for number in retry]
    unknown = [str(number) for number in chosen if number not in found]
    if unknown:
        raise RunError(
            f"{subject.name}: has no dead letter {', '.join(unknown)}; `coevolve attach letters` "
            "lists their numbers"
        )
    live = subject.actors()
    for number in chosen:
        letter = found[number].letter
        await live.append(
            LetterRetried(letter=number, consumer=letter.consumer, sequence=letter.sequence)
        )
    text = f"{subject.name}: {len(chosen)} retried; `attach letters` shows the results"
    tell({"run": subject.name, "retried": chosen}, text, as_json=as_json)


def _print(subject: Subject, found: Sequence[Letter]) -> None:
    out = console()
    out.print(f"{subject.standing}; {len(found)} dead letters")
    if not found:
        return
    columns = ("number", "since", "part", "unit", "attempts", "reason", "retry")
    rows = (
        (
            *(each.number, f"{age(time.time() - each.time_s)} ago", each.letter.consumer),
            *(each.letter.unit, each.letter.attempts, each.letter.reason, each.retry),
        )
        for each in found
    )
    out.print(table("dead letters", columns, rows, wrapped=("unit", "reason", "retry")))
