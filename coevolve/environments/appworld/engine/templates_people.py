"""Templates about phone, mail and money: what concerns other people."""
# pyright: basic, reportMissingImports=false

import random
from collections.abc import Callable
from typing import Any

from drawn import END, END_WITH, Change, Drawn, login

CONTACTS = "\ncontacts = pages(apis.phone.search_contacts, access_token=token)\n"
CONTACT = '(contact,) = [c for c in contacts if c["first_name"] == {name!r}]'
ALARMS = "\nalarms = pages(apis.phone.show_alarms, access_token=token)\n"


def _phone(m: Any, user: Any) -> Any:
    return m.phone.User.find_one(phone_number=user.phone_number)


def _contacts(m: Any, user: Any) -> list[Any]:
    return m.phone.Contact.find_all(user_id=_phone(m, user).id)


def _by_email(m: Any, app: str, email: str) -> Any:
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
    kind = rng.choice(sorted({each.relationships[0] for each in _contacts(m, user)}))
    chosen = [each for each in _contacts(m, user) if kind in each.relationships]
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
    contact = rng.choice(_contacts(m, user))
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
    contact = rng.choice(_contacts(m, user))
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
    owner = _by_email(m, "gmail", user.email)
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
    owner = _by_email(m, "gmail", user.email)
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
    contact = rng.choice(_contacts(m, user))
    subject = f"Keys {rng.randint(100, 999)}"
    body = rng.choice(("They are under the mat.", "I have both of them.", "Please bring yours."))
    owner = _by_email(m, "gmail", user.email)
    receiver = _by_email(m, "gmail", contact.email)
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


def _payer(m: Any, user: Any) -> Any:
    return _by_email(m, "venmo", user.email)


def pay_somebody(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Send money to a contact."""
    contact = rng.choice(_contacts(m, user))
    receiver = _by_email(m, "venmo", contact.email)
    amount, note = rng.randint(3, 40), rng.choice(("Tickets", "Bread", "Last week"))
    return Drawn(
        instruction=f"I owe {contact.first_name} {contact.last_name} {amount} dollars. Pay them "
        f"with my Venmo balance, visible to nobody else, and write '{note}' with it.",
        reference=(
            login("phone"),
            CONTACTS + CONTACT.format(name=contact.first_name),
            login("venmo"),
            'apis.venmo.create_transaction(receiver_email=contact["email"], '
            f"amount={amount}, description={note!r}, private=True, access_token=token)",
            END,
        ),
        changes={
            "venmo.Transaction": Change(
                added=(
                    {
                        "receiver_id": receiver.id,
                        "amount": float(amount),
                        "description": note,
                        "private": True,
                    },
                )
            )
        },
        beside=("venmo.User", "venmo.Notification"),
    )


def deny_requests(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Deny the payment requests of more than some amount."""
    held = m.venmo.PaymentRequest.find_all(receiver_id=_payer(m, user).id)
    border = sorted(each.amount for each in held)[rng.choice((0, 1))]
    denied = [each.id for each in held if each.amount >= border]
    return Drawn(
        instruction=f"Turn down every open Venmo payment request to me that is for {border:g} "
        "dollars or more. Leave smaller ones alone.",
        reference=(
            login("venmo"),
            "requests = pages(apis.venmo.show_received_payment_requests, status='pending', "
            "access_token=token)",
            f"""
for request in requests:
    if request["amount"] >= {border}:
        apis.venmo.deny_payment_request(
            payment_request_id=request["payment_request_id"], access_token=token)
""",
            END,
        ),
        changes={"venmo.PaymentRequest": Change(updated={each: {} for each in denied})},
        beside=("venmo.Notification",),
    )


def ask_for_shares(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Request the same amount from all contacts of a kind."""
    kind = rng.choice(sorted({each.relationships[0] for each in _contacts(m, user)}))
    chosen = [each for each in _contacts(m, user) if kind in each.relationships]
    amount, note = rng.randint(4, 25), rng.choice(("Tent", "Gift", "Internet"))
    payers = [_by_email(m, "venmo", each.email).id for each in chosen]
    return Drawn(
        instruction=f"Everyone who is a {kind} of mine by my phone's contacts owes me {amount} "
        f"dollars. Send each of them a payment request on Venmo with the description '{note}'.",
        reference=(
            login("phone"),
            f"contacts = pages(apis.phone.search_contacts, relationship={kind!r}, "
            "access_token=token)",
            login("venmo"),
            f"""
for contact in contacts:
    apis.venmo.create_payment_request(
        user_email=contact["email"], amount={amount}, description={note!r}, access_token=token)
""",
            END,
        ),
        changes={
            "venmo.PaymentRequest": Change(
                added=tuple(
                    {"receiver_id": each, "amount": float(amount), "description": note}
                    for each in payers
                )
            )
        },
        beside=("venmo.Notification",),
    )


def received_from_all(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Add up what others have paid for a reason."""
    held = m.venmo.Transaction.find_all(receiver_id=_payer(m, user).id)
    reason = rng.choice(sorted({each.description for each in held}))
    total = sum(each.amount for each in held if each.description == reason)
    return Drawn(
        instruction=f"How many dollars have I got on Venmo for '{reason}' altogether? Look at what "
        "others have paid me, and give the number alone.",
        reference=(
            login("venmo"),
            "held = pages(apis.venmo.show_transactions, direction='received', access_token=token)",
            f"answer = int(sum(t['amount'] for t in held if t['description'] == {reason!r}))",
            END_WITH,
        ),
        answer=int(total),
    )


def befriend(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Add somebody as a friend on Venmo."""
    me = _payer(m, user)
    friends = {each.friend_id for each in m.venmo.Friendship.find_all(user_id=me.id)}
    others = [each for each in m.venmo.User.all() if each.id not in friends | {me.id}]
    chosen = rng.choice(others)
    return Drawn(
        instruction=f"Add {chosen.first_name} {chosen.last_name} ({chosen.email}) to my friends on "
        "Venmo.",
        reference=(
            login("venmo"),
            f"apis.venmo.add_friend(user_email={chosen.email!r}, access_token=token)",
            END,
        ),
        changes={"venmo.Friendship": Change(added=({"friend_id": chosen.id},))},
        beside=("venmo.Notification",),
    )


def _my_groups(m: Any, user: Any) -> list[Any]:
    me = _by_email(m, "splitwise", user.email)
    held = m.splitwise.GroupMember.find_all(user_id=me.id)
    return [m.splitwise.Group.by_id(each.group_id) for each in held]


def new_group(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Make a group with all contacts of a kind."""
    kind = rng.choice(sorted({each.relationships[0] for each in _contacts(m, user)}))
    chosen = [each for each in _contacts(m, user) if kind in each.relationships]
    name = f"{rng.choice(('Canoe', 'Party', 'Garden'))} {rng.randint(10, 99)}"
    ids = [_by_email(m, "splitwise", each).id for each in (user.email, *(c.email for c in chosen))]
    return Drawn(
        instruction=f"Set up a Splitwise group named '{name}'. Besides me, it has the people whom "
        f"my phone has as a {kind}, with the mail addresses from there.",
        reference=(
            login("phone"),
            f"contacts = pages(apis.phone.search_contacts, relationship={kind!r}, "
            "access_token=token)",
            login("splitwise"),
            f"apis.splitwise.create_group(name={name!r}, "
            'member_emails=[c["email"] for c in contacts], access_token=token)',
            END,
        ),
        changes={
            "splitwise.Group": Change(added=({"name": name},)),
            "splitwise.GroupMember": Change(
                added=tuple({"user_id": each, "group_id": "new splitwise.Group"} for each in ids)
            ),
        },
        beside=("splitwise.Notification",),
    )


def how_many_groups(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Count the groups that one is in together with somebody."""
    other = rng.choice([each for each in m.splitwise.User.all() if each.email != user.email])
    groups = {each.id for each in _my_groups(m, user)}
    theirs = {each.group_id for each in m.splitwise.GroupMember.find_all(user_id=other.id)}
    return Drawn(
        instruction=f"In how many of my Splitwise groups is {other.first_name} {other.last_name} a "
        "member as well? Only the number.",
        reference=(
            login("splitwise"),
            """
groups = pages(apis.splitwise.show_groups, access_token=token)
whole = [apis.splitwise.show_group(group_id=g["group_id"], access_token=token) for g in groups]
""",
            f"mails = [[m['email'] for m in g['members']] for g in whole]\n"
            f"answer = sum({other.email!r} in each for each in mails)",
            END_WITH,
        ),
        answer=len(groups & theirs),
    )


PEOPLE: dict[str, Callable[[Any, random.Random, Any], Drawn]] = {
    "later_alarm": later_alarm,
    "no_early_alarms": no_early_alarms,
    "text_all_of_a_kind": text_all_of_a_kind,
    "new_address": new_address,
    "whose_birthday": whose_birthday,
    "star_a_sender": star_a_sender,
    "archive_the_read": archive_the_read,
    "write_a_mail": write_a_mail,
    "pay_somebody": pay_somebody,
    "deny_requests": deny_requests,
    "ask_for_shares": ask_for_shares,
    "received_from_all": received_from_all,
    "befriend": befriend,
    "new_group": new_group,
    "how_many_groups": how_many_groups,
}
