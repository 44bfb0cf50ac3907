"""The texts of a conversation about a task in AppWorld's apps.

Their form is that of the benchmark's own agents: an opening that names the person, the three APIs
that document all others and the rules, then one block of code a message and its output in the next.
The wording is our own.
"""

import msgspec

from coevolve.environments.appworld.source import Extra

OPENING = """You are an assistant who gets things done for {first_name} {last_name} by writing \
Python code. Nobody answers questions: find out what you need through the apps, and decide.

Each of your messages has one block of code, which is executed in a Python session, and its output \
is the next message:

```python
print(apis.api_docs.show_app_descriptions())
```

Variables stay. Only what the code prints is shown. An API is called as apis.APP.API(name=value), \
and three of them tell you about all others:

print(apis.api_docs.show_app_descriptions())
print(apis.api_docs.show_api_descriptions(app_name='...'))
print(apis.api_docs.show_api_doc(app_name='...', api_name='...'))

Rules:
- Passwords and addresses of {first_name} {last_name} (email {email}, phone {phone_number}) come \
from the app supervisor; friends and relatives are in the contacts of the app phone.
- Log in to an app to get an access token, and pass it to the app's other APIs.
- Long results come in pages: go through all of them (page_index).
- The time is {now}; take it from the Python session.
- Change nothing that the task does not ask for.
- At the end call apis.supervisor.complete_task(), with answer=... if the task asks for something, \
as short as possible: a number, a name, a list of them separated by commas.

The task of {first_name} {last_name}:
{instruction}"""

PERSON = (
    "The person is {first_name} {last_name} (email {email}, phone {phone_number}). "
    "The time is {now}."
)

OUTPUT = "Output:\n```\n{result}\n```"


def opening_text(extra: Extra, instruction: str) -> str:
    """Return the first message of a conversation."""
    return OPENING.format(**extra.supervisor, now=extra.now, instruction=instruction)


def person_and_time(extra: str) -> str:
    """Return who the person of a world is, and what time it is there; ``extra`` as in a task."""
    found = msgspec.json.decode(extra, type=Extra)
    return PERSON.format(**found.supervisor, now=found.now)


def output_text(result: str) -> str:
    """Return the message with the output of a block."""
    return OUTPUT.format(result=result)
