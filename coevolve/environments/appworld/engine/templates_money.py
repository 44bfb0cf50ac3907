"""Templates about money: payments, requests of them, and groups who share costs."""
# pyright: basic, reportMissingImports=false

import random
from typing import Any

from drawn import END, END_WITH, Change, Drawn, login
from templates_people import CONTACT, CONTACTS, by_email, contacts_of


def _payer(m: Any, user: Any) -> Any:
    return by_email(m, "venmo", user.email)


def pay_somebody(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Send money to a contact."""
    contact = rng.choice(contacts_of(m, user))
    receiver = by_email(m, "venmo", contact.email)
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
    kind = rng.choice(sorted({each.relationships[0] for each in contacts_of(m, user)}))
    chosen = [each for each in contacts_of(m, user) if kind in each.relationships]
    amount, note = rng.randint(4, 25), rng.choice(("Tent", "Gift", "Internet"))
    payers = [by_email(m, "venmo", each.email).id for each in chosen]
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
    me = by_email(m, "splitwise", user.email)
    held = m.splitwise.GroupMember.find_all(user_id=me.id)
    return [m.splitwise.Group.by_id(each.group_id) for each in held]


def new_group(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Make a group with all contacts of a kind."""
    kind = rng.choice(sorted({each.relationships[0] for each in contacts_of(m, user)}))
    chosen = [each for each in contacts_of(m, user) if kind in each.relationships]
    name = f"{rng.choice(('Canoe', 'Party', 'Garden'))} {rng.randint(10, 99)}"
    ids = [by_email(m, "splitwise", each).id for each in (user.email, *(c.email for c in chosen))]
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


MONEY = (
    *(pay_somebody, deny_requests, ask_for_shares, received_from_all, befriend, new_group),
    *(how_many_groups,),
)
