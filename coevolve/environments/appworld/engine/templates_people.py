"""Templates about phone and mail."""
# pyright: basic, reportMissingImports=false

import random
from typing import Any

from drawn import END, END_WITH, Change, Drawn, login

CONTACTS = "\ncontacts = pages(apis.phone.search_contacts, access_token=token)\n"
CONTACT = '(contact,) = [c for c in contacts if c["first_name"] == {name!r}]'
ALARMS = "\nalarms = pages(apis.phone.show_alarms, access_token=token)\n"


def _phone(m: Any, user: Any) -> Any:
    return m.phone.User.find_one(phone_number=user.phone_number)


def contacts_of(m: Any, user: Any) -> list[Any]:
    """Return the contacts of a person."""
    return m.phone.Contact.find_all(user_id=_phone(m, user).id)


def by_email(m: Any, app: str, email: str) -> Any:
    """Return an app's user with an address."""
    return m[app].User.find_one(email=email)


def later_alarm(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Move one alarm, and turn another off."""
    moved, stopped = rng.sample(m.phone.Alarm.find_all(user_id=_phone(m, user).id), 2)
    hour, minute = map(int, str(moved.time).split(":")[:2])
    minutes = rng.choice((10, 20, 40))
    later = f"{hour + (minute + minutes) // 60:02d}:{(minute + minutes) % 60:02d}"
    return Drawn(
        instruction=f"On my phone, let the alarm '{moved.label}' ring {minutes} minutes later than "
        f"now, and switch the alarm '{stopped.label}' off without deleting it.",
        reference=(
            login("phone"),
            ALARMS + 'by_label = {a["label"]: a for a in alarms}',
            f"""
moved = by_label[{moved.label!r}]
hour, minute = map(int, moved["time"].split(":"))
minute += {minutes}
later = f"{{hour + minute // 60:02d}}:{{minute % 60:02d}}"
apis.phone.update_alarm(alarm_id=moved["alarm_id"], time=later, access_token=token)
apis.phone.update_alarm(
    alarm_id=by_label[{stopped.label!r}]["alarm_id"], enabled=False, access_token=token)
""",
            END,
        ),
        changes={
            "phone.Alarm": Change(
                updated={
                    moved.id: {"time": later, "enabled": True},
                    stopped.id: {"time": str(stopped.time), "enabled": False},
                }
            )
        },
    )


def no_early_alarms(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Delete the alarms before some time of the day."""
    alarms = sorted(m.phone.Alarm.find_all(user_id=_phone(m, user).id), key=lambda a: str(a.time))
    border = str(alarms[rng.choice((1, 2))].time)[:5]
    gone = [each.id for each in alarms if str(each.time)[:5] < border]
    kept = [alarms[0]] if not gone else []
    border = "23:59" if kept else border
    gone = gone or [each.id for each in alarms]
    return Drawn(
        instruction=f"I want to sleep in. Delete every alarm on my phone that rings before {border}"
        "; the others stay untouched.",
        reference=(
            login("phone"),
            ALARMS,
            f"""
for alarm in alarms:
    if alarm["time"] < {border!r}:
        apis.phone.delete_alarm(alarm_id=alarm["alarm_id"], access_token=token)
""",
            END,
        ),
        changes={"phone.Alarm": Change(removed=tuple(gone))},
    )


def text_all_of_a_kind(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Send one message to all contacts of a kind."""
    kind = rng.choice(sorted({each.relationships[0] for each in contacts_of(m, user)}))
    chosen = [each for each in contacts_of(m, user) if kind in each.relationships]
    words = rng.choice(("Dinner is at eight", "The door code has changed", "See you on Sunday"))
    words = f"{words} ({rng.randint(10, 99)})"
    receivers = [m.phone.User.find_one(phone_number=each.phone_number).id for each in chosen]
    return Drawn(
        instruction=f"Please send the text message '{words}' to each person that my phone lists as "
        f"a {kind}.",
        reference=(
            login("phone"),
            f"contacts = pages(apis.phone.search_contacts, relationship={kind!r}, "
            "access_token=token)",
            f"""
for contact in contacts:
    apis.phone.send_text_message(
        phone_number=contact["phone_number"], message={words!r}, access_token=token)
""",
            END,
        ),
        changes={
            "phone.GlobalTextMessage": Change(
                added=tuple({"receiver_id": each, "message": words} for each in receivers)
            ),
            "phone.UserTextMessage": Change(added=({},) * (2 * len(receivers))),
        },
    )


def new_address(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Change the address of a contact."""
    contact = rng.choice(contacts_of(m, user))
    address = f"{rng.randint(100, 199)} Harvest Street, Lakeview"
    return Drawn(
        instruction=f"{contact.first_name} {contact.last_name} has moved house. The new address is "
        f"{address}; correct it in my phone's contacts.",
        reference=(
            login("phone"),
            CONTACTS + CONTACT.format(name=contact.first_name),
            'apis.phone.update_contact(contact_id=contact["contact_id"], '
            f"home_address={address!r}, access_token=token)",
            END,
        ),
        changes={"phone.Contact": Change(updated={contact.id: {"home_address": address}})},
    )


def whose_birthday(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Find when a contact has birthday."""
    contact = rng.choice(contacts_of(m, user))
    birthday = str(contact.birthday)[:10]
    return Drawn(
        instruction=f"When is the birthday of {contact.first_name} {contact.last_name}? My phone "
        "knows. Give the date as YYYY-MM-DD.",
        reference=(
            login("phone"),
            CONTACTS + CONTACT.format(name=contact.first_name),
            'answer = contact["birthday"][:10]',
            END_WITH,
        ),
        answer=birthday,
    )


def star_a_sender(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Star the threads from one person."""
    owner = by_email(m, "gmail", user.email)
    held = m.gmail.UserEmailThread.find_all(user_id=owner.id, incoming=True)
    sender = rng.choice(sorted(each.sender_email_addresses[0] for each in held))
    chosen = [each.id for each in held if each.sender_email_addresses[0] == sender]
    return Drawn(
        instruction=f"In my Gmail inbox, put a star on everything that came from {sender}.",
        reference=(
            login("gmail"),
            f"threads = pages(apis.gmail.show_inbox_threads, from_email={sender!r}, "
            "access_token=token)",
            """
for thread in threads:
    apis.gmail.mark_thread_starred(
        email_thread_id=thread["email_thread_id"], access_token=token)
""",
            END,
        ),
        changes={
            "gmail.UserEmailThread": Change(updated={each: {"starred": True} for each in chosen})
        },
    )


def archive_the_read(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Archive what has been read, and count it."""
    owner = by_email(m, "gmail", user.email)
    held = m.gmail.UserEmailThread.find_all(user_id=owner.id, incoming=True)
    is_read = any(each.read for each in held)
    chosen = [each.id for each in held if each.read is is_read]
    words = "have already read" if is_read else "have not read yet"
    return Drawn(
        instruction=f"My inbox is too full. Move all threads of my Gmail inbox that I {words} to "
        "the archive, and tell me the number of them.",
        reference=(
            login("gmail"),
            f"threads = pages(apis.gmail.show_inbox_threads, read={is_read}, access_token=token)",
            """
for thread in threads:
    apis.gmail.mark_thread_archived(
        email_thread_id=thread["email_thread_id"], access_token=token)
answer = len(threads)
""",
            END_WITH,
        ),
        changes={
            "gmail.UserEmailThread": Change(updated={each: {"archived": True} for each in chosen})
        },
        answer=len(chosen),
    )


def write_a_mail(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Write to a contact whose address is in the phone."""
    contact = rng.choice(contacts_of(m, user))
    subject = f"Keys {rng.randint(100, 999)}"
    body = rng.choice(("They are under the mat.", "I have both of them.", "Please bring yours."))
    owner = by_email(m, "gmail", user.email)
    receiver = by_email(m, "gmail", contact.email)
    return Drawn(
        instruction=f"Mail {contact.first_name} {contact.last_name} from my Gmail: the subject is "
        f"'{subject}', the text '{body}' and not a word more. The address is in my phone.",
        reference=(
            login("phone"),
            CONTACTS + CONTACT.format(name=contact.first_name),
            login("gmail"),
            f'apis.gmail.send_email(email_addresses=[contact["email"]], subject={subject!r}, '
            f"body={body!r}, access_token=token)",
            END,
        ),
        changes={
            "gmail.Email": Change(
                added=(
                    {
                        "sender_id": owner.id,
                        "recipient_ids": [receiver.id],
                        "subject": subject,
                        "body": body,
                    },
                )
            ),
            "gmail.GlobalEmailThread": Change(added=({},)),
            "gmail.UserEmailThread": Change(added=({}, {})),
        },
    )


PEOPLE = (
    *(later_alarm, no_early_alarms, text_all_of_a_kind, new_address, whose_birthday),
    *(star_a_sender, archive_the_read, write_a_mail),
)
