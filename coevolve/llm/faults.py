"""Why a server gave no answer: what it says about its error, what to do, and whether to ask again.

Servers report errors with a status, or inside an answer of status 200; as an object, a text or a
list; with a number, a name or a sentence. `error_in` reads all of them, `fault_of` sorts them.
"""

import re
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from coevolve.llm.http import shown

OK = 200
PAYMENT_REQUIRED = 402
REFUSED = 451
"""Status that stands for a refusal: the server works, but not for this request."""

_UNKNOWN = 500
_PASSING = (408, 409, 425, 429)

_STATUS_OF = {
    **dict.fromkeys(
        (
            "insufficient_quota",
            "exceeded_current_quota_error",
            "billing_hard_limit_reached",
            "billing_not_active",
            "billing_error",
            "insufficient_balance",
        ),
        PAYMENT_REQUIRED,
    ),
    **dict.fromkeys(("content_filter", "content_policy_violation"), REFUSED),
    **dict.fromkeys(("invalid_api_key", "authentication_error", "unauthenticated"), 401),
    **dict.fromkeys(("permission_error", "permission_denied"), 403),
    **dict.fromkeys(("model_not_found", "not_found_error", "notfounderror", "not_found"), 404),
    **dict.fromkeys(("context_length_exceeded", "invalid_argument", "badrequesterror"), 400),
    "invalid_request_error": 400,
    **dict.fromkeys(("rate_limit_exceeded", "rate_limit_error", "resource_exhausted"), 429),
    **dict.fromkeys(("overloaded_error", "unavailable"), 503),
}
"""Name of an error, as providers write it -> the status that it has or should have."""

_ANSWERED_LATER = (PAYMENT_REQUIRED, REFUSED)
"""What a name of an error says more exactly than the status that came with it."""

_NO_CREDIT = re.compile(
    r"credit balance is too low|insufficient (balance|credit|funds|quota)", re.IGNORECASE
)
"""Sentences without a name. "You exceeded your current quota" is not among them, because Gemini
says it of limits per minute."""


@dataclass(frozen=True)
class Fault:
    """The reason why a try gave no answer."""

    found: str
    remedy: str
    passing: bool
    """Whether another try may succeed."""

    wait_s: float | None = None
    """Seconds to wait, as the server requests."""


@dataclass(frozen=True)
class ServerError:
    """An error that a server reports."""

    status: int
    """The HTTP status, or that which its number or name stands for."""

    found: str
    """What came, for the user."""

    text: str = ""
    """The server's whole text, to look for names in it."""


def error_in(status: int, body: bytes) -> ServerError | None:
    """Return the error of a reply; None if it is an answer, or no JSON of status 200."""
    document = _document(body)
    reported = _reported(document, status)
    if status == OK and reported is None:
        return None
    names, message = ([], "") if reported is None else _told(reported)
    real = _status(status, names, message)
    text = body.decode(errors="replace")
    if status != OK:
        return ServerError(real, f"status {status}: {shown(body)}", text)
    words = shown(message) if message else shown(body)
    code = f" ({shown(', '.join(names))})" if names else ""
    return ServerError(real, f"an error with status 200: {words}{code}", text)


def refusal(words: str) -> Fault:
    """Return the fault of a model that refuses."""
    return Fault(
        f"the model refuses: {shown(words)}",
        "no further try was made, because the same request is refused again; use a model that "
        "accepts such requests, or change what the tasks say",
        passing=False,
    )


def withheld(reason: str) -> Fault:
    """Return the fault of a server that keeps an answer back."""
    return Fault(
        f"the server's content filter withheld the answer ({shown(reason)})",
        "no further try was made, because the same request is filtered again; change the "
        "provider's filter, the model, or what the tasks say",
        passing=False,
    )


def fault_of(error: ServerError, key_state: str, wait_s: float | None) -> Fault:
    """Return what an error means; ``key_state`` is a sentence about the key."""
    match error.status:
        case 401 | 403:
            remedy, passing = f"{key_state}; set it to a key that this server accepts", False
        case 402:
            remedy = (
                "the account of this key has no credit or quota left, which further tries do not "
                "change; pay it, or use another key, model or server"
            )
            passing = False
        case 404:
            remedy = "check that base_url is right and that the server has this model"
            passing = False
        case 451:
            return withheld(error.found)
        case code if code in _PASSING or code >= 500:
            remedy, passing = "wait until the server has recovered, or raise tries", True
        case _:
            remedy = "read the server's message; a lower max_answer_tokens may help"
            passing = False
    return Fault(error.found, remedy, passing=passing, wait_s=wait_s if passing else None)


def _document(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None


def _reported(document: Any, status: int) -> Any:
    """Return what a document says about an error; None if it says nothing."""
    match document:
        case [first, *_]:
            return _reported(first, status)
        case {"error": error} if error:
            return error
        case {"choices": [{"error": error}, *_]} if error:
            return error
        case {"choices": _}:
            return None
        case {"object": "error"} | {"type": "error"}:
            return document
        case {"detail": detail} if detail:
            return detail
        case {"message": str() as message} if message:
            return document
        case _:
            return document if status != OK else None


def _told(error: Any) -> tuple[list[str], str]:
    """Return the names and numbers of an error, and its sentence."""
    match error:
        case [first, *_]:
            return _told(first)
        case dict():
            fields = cast("dict[str, Any]", error)
            given = (fields.get(each) for each in ("code", "type", "status"))
            names = [str(each) for each in given if isinstance(each, str | int) and each]
            words = next((fields[each] for each in ("message", "msg") if fields.get(each)), "")
            return list(dict.fromkeys(names)), words if isinstance(words, str) else str(words)
        case _:
            return [], error if isinstance(error, str) else ""


def _status(status: int, names: list[str], message: str) -> int:
    """Return the status that describes an error best."""
    known = [_STATUS_OF[each.lower()] for each in names if each.lower() in _STATUS_OF]
    if _NO_CREDIT.search(message):
        known.insert(0, PAYMENT_REQUIRED)
    exact = next((each for each in known if each in _ANSWERED_LATER), None)
    if exact:
        return exact
    if status != OK:
        return status
    numbers = (int(each) for each in names if each.isdecimal() and len(each) == len("500"))
    return next((each for each in numbers if 400 <= each < 600), known[0] if known else _UNKNOWN)
