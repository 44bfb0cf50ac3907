"""Worlds for planted cases, and the names in them that the templates' slots stand for."""

import random
from collections.abc import Sequence
from typing import Any

from coevolve.environments.tools.filesystem.slots import FILES, FOLDERS, WORDS

Slots = dict[str, str | int | float]
Scenario = dict[str, Any]

CLASSES = {
    "filesystem": "GorillaFileSystem",
    "ticket": "TicketAPI",
    "trading": "TradingBot",
    "vehicle": "VehicleControlAPI",
    "message": "MessageAPI",
    "post": "TwitterAPI",
    "travel": "TravelAPI",
    "math": "MathAPI",
}
"""A service's name in the rows -> its simulator class."""


def slots_of(service: str, rng: random.Random) -> tuple[Scenario, Slots]:
    """Return a new scenario of a service's class, and what the slots stand for in it."""
    if service == "filesystem":
        return filesystem_slots(rng)
    return service_slots(service, rng)


def filesystem_slots(rng: random.Random) -> tuple[Scenario, Slots]:
    """Return a file system, and the slots as `filesystem.txt` describes them."""
    files = rng.sample(FILES, 9)
    folders = rng.sample(FOLDERS, 6)
    f, g, h, one, s, x, n, n2, z = files
    d, e, o, m, m2 = folders[:5]
    words = list(WORDS)
    rng.shuffle(words)
    absent, known = words[0], words[1:]
    here = {name: _file(_text(known, 5, rng)) for name in (f, g, h, s)}
    here[f]["content"] = " ".join(known[:2]) + "\n" + here[f]["content"]
    here[one] = _file(" ".join(rng.sample(known, 3)))
    below = {name: _file(_text(known, 3, rng)) for name in (x, s)}
    root = here | {d: _folder(below), e: _folder({}), o: _folder({})}
    k = rng.choice((2, 3))
    slots: Slots = {
        **{"f": f, "g": g, "h": h, "one": one, "s": s, "x": x, "n": n, "n2": n2, "z": z},
        **{"d": d, "e": e, "o": o, "m": m, "m2": m2, "k": k, "k0": k - 1, "k1": k + 1},
        **{"w": known[0], "v": absent, "t": _sentence(known, rng), "u": _sentence(known, rng)},
        **{"lines_f": here[f]["content"].count("\n") + 1, "text_one": here[one]["content"]},
    }
    return {"root": {"workspace": _folder(root)}}, slots


def _sentence(words: Sequence[str], rng: random.Random) -> str:
    return " ".join(rng.sample(words, 3))


def _text(words: Sequence[str], lines: int, rng: random.Random) -> str:
    return "\n".join(" ".join(rng.sample(words, rng.choice((1, 2, 3)))) for _ in range(lines))


def _file(text: str) -> dict[str, str]:
    return {"type": "file", "content": text}


def _folder(contents: Scenario) -> Scenario:
    return {"type": "directory", "contents": contents}


def service_slots(service: str, rng: random.Random) -> tuple[Scenario, Slots]:
    """Return a scenario of one of the benchmark's services, and its slots."""
    return _MAKERS[service](rng)


TITLES = (
    "Printer on floor two",
    "Slow login page",
    "Broken badge reader",
    "Missing invoices",
    "Projector without sound",
    "Leaking coffee machine",
    "Wrong phone number",
    "Old firewall rule",
)
DETAILS = (
    "It started after the last update.",
    "Nobody on the second floor can work.",
    "The light blinks red all day.",
    "Three customers have complained.",
    "We see it in the morning only.",
)
CURES = (
    "A restart of the router.", "We replaced the cable.", "The account was unlocked.",
    "A new driver is installed.",
)  # fmt: skip
PEOPLE = ("Ingrid", "Mateo", "Yusuf", "Hanna", "Priya", "Olof", "Chiara", "Dmitri", "Amara", "Lena")
NOTES = (
    "The train leaves at nine.", "Lunch is on me today.", "The contract is signed.",
    "Please bring the blue folder.", "Our match is moved to Friday.", "The cake is in the fridge.",
)  # fmt: skip
POSTS = (
    "Our garden is in bloom", "New bread recipe tomorrow", "Finally finished the marathon",
    "The library opens again", "Rain all week in the valley", "Two tickets for the opera left",
)  # fmt: skip
CITIES = ("Rivermist", "Stonebrook", "Maplecrest", "Silverpine", "Shadowridge", "Oakendale")
AIRPORTS = {
    "Rivermist": "RMS", "Stonebrook": "SBK", "Maplecrest": "MPC", "Silverpine": "SVP",
    "Shadowridge": "SHD", "Oakendale": "OKD",
}  # fmt: skip


def _ticket(rng: random.Random) -> tuple[Scenario, Slots]:
    title, about, other, same = rng.sample(TITLES, 4)
    one, two, three, twin, ghost = rng.sample(range(1001, 9999), 5)
    p = rng.choice((2, 3))
    desc, told = rng.sample(DETAILS, 2)

    def ticket(number: int, title: str, priority: int) -> Scenario:
        return {
            "id": number, "title": title, "description": told, "status": "Open",
            "priority": priority, "created_by": "mira",
        }  # fmt: skip

    queue = [
        ticket(one, about, 1), ticket(two, other, 1), ticket(twin, same, 1), ticket(three, same, 4),
    ]  # fmt: skip
    scenario = {"ticket_queue": queue, "ticket_counter": 12, "current_user": "mira"}
    return scenario, {
        "id": one, "id2": two, "twin": twin, "ghost": ghost, "title": title, "desc": desc,
        "same": same, "same_p": 4, "why": rng.choice(CURES), "p": p, "p1": p + 1,
        "person": rng.choice(PEOPLE),
    }  # fmt: skip


def _trading(rng: random.Random) -> tuple[Scenario, Slots]:
    sym, sym2, watched, held = rng.sample(("AAPL", "GOOG", "TSLA", "MSFT", "NVDA", "NEPT"), 4)
    order, order2, ghost = rng.sample(range(20001, 29999), 3)

    def stock() -> Scenario:
        price = round(rng.uniform(20, 700), 2)
        return {
            "price": price, "percent_change": 0.2, "volume": 1.5, "MA(5)": price, "MA(20)": price,
        }  # fmt: skip

    def pending(number: int, symbol: str) -> Scenario:
        return {
            "id": number, "order_type": "Buy", "symbol": symbol, "price": 21.5,
            "amount": rng.randrange(3, 30), "status": "Open",
        }  # fmt: skip

    q, cash = rng.randrange(3, 12), rng.randrange(100, 900, 50)
    scenario = {
        "orders": {str(order): pending(order, held), str(order2): pending(order2, sym)},
        "account_info": {"account_id": 771, "balance": 9000.0, "binding_card": 4556111122223333},
        "authenticated": True,
        "market_status": "Open",
        "order_counter": 30001,
        "stocks": {symbol: stock() for symbol in (sym, sym2, watched, held)},
        "watch_list": [watched],
        "transaction_history": [],
    }
    return scenario, {
        "sym": sym, "sym2": sym2, "watched": watched, "order": order, "order2": order2,
        "ghost": ghost, "q": q, "q1": q + 1, "price": rng.randrange(40, 300), "cash": cash,
        "cash1": cash + 1,
    }  # fmt: skip


def _vehicle(rng: random.Random) -> tuple[Scenario, Slots]:
    doors = ["driver", "passenger", "rear_left", "rear_right"]
    rng.shuffle(doors)
    door, door2, locked, other = doors
    gal, deg = rng.randrange(5, 20), rng.randrange(17, 25)
    city, city2 = rng.sample(CITIES, 2)
    scenario = {
        "fuelLevel": float(rng.randrange(5, 20)), "batteryVoltage": 12.6, "engineState": "stopped",
        "doorStatus": {
            door: "unlocked", door2: "unlocked", locked: "locked", other: "unlocked",
        },
        "acTemperature": 29.0, "fanSpeed": 20, "acMode": "auto", "humidityLevel": 50.0,
        "headLightStatus": "off", "parkingBrakeStatus": "released", "destination": "None",
    }  # fmt: skip
    return scenario, {
        "door": door, "door2": door2, "locked": locked, "city": city, "city2": city2, "gal": gal,
        "gal1": gal + 1, "deg": deg, "deg1": deg + 1, "warm": rng.randrange(62, 79),
        "fan": rng.randrange(55, 95, 5),
    }  # fmt: skip


def _message(rng: random.Random) -> tuple[Scenario, Slots]:
    me, who, who2, sent, new, nobody = rng.sample(PEOPLE, 6)
    ids = {name: f"USR{number:03}" for number, name in enumerate((me, who, who2, sent), start=11)}
    note, note2, old = rng.sample(NOTES, 3)
    scenario = {
        "user_count": 4, "user_map": ids, "inbox": [{ids[sent]: old}], "message_count": 1,
        "current_user": ids[me],
    }  # fmt: skip
    return scenario, {
        "who": who, "who2": who2, "uid": ids[who], "uid2": ids[who2], "sent": sent,
        "sentid": ids[sent], "new": new, "nobody": nobody, "note": note, "note2": note2,
        "key": old.split()[-1].strip("."), "note_word": old.split()[1],
    }  # fmt: skip


def _post(rng: random.Random) -> tuple[Scenario, Slots]:
    friend, friend2, star, star2, me = (name.lower() for name in rng.sample(PEOPLE, 5))
    text, text2, one, two, three = rng.sample(POSTS, 5)
    tweets = {
        str(number): {
            "id": number, "username": author, "content": content, "tags": [], "mentions": [],
        }
        for number, (author, content) in enumerate(((me, one), (friend, two), (me, three)))
    }  # fmt: skip
    scenario = {
        "username": me, "password": "spring", "authenticated": True, "tweets": tweets,
        "comments": {}, "retweets": {}, "following_list": [friend, friend2], "tweet_counter": 3,
    }  # fmt: skip
    tw, tw2 = rng.sample(range(3), 2)
    return scenario, {
        "tw": tw, "tw2": tw2, "ghost": rng.randrange(40, 90), "text": text, "text2": text2,
        "friend": friend, "friend2": friend2, "star": star, "star2": star2,
    }  # fmt: skip


def _travel(rng: random.Random) -> tuple[Scenario, Slots]:
    city, city2 = rng.sample(CITIES, 2)
    a, b = rng.sample(("SFO", "LAX"), 2)
    c = rng.choice(("JFK", "ORD", "BOS"))
    day = rng.randrange(10, 27)
    token = "".join(rng.sample("abcdef0123456789", 8))
    return {"access_token": token, "token_expires_in": 3600, "token_scope": "read_write"}, {
        "city": city, "city2": city2, "airport": AIRPORTS[city], "a": a, "b": b, "c": c,
        "date": f"2024-11-{day}", "date1": f"2024-11-{day + 1}", "token": token,
        "cls": rng.choice(("economy", "business", "first")), "lim": rng.randrange(1500, 7000, 250),
    }  # fmt: skip


def _math(rng: random.Random) -> tuple[Scenario, Slots]:
    x, y, x2 = rng.sample(range(12, 97), 3)
    return {}, {"x": x, "y": y, "y1": y + 1, "x2": x2, "xy": x * y}


_MAKERS = {
    "ticket": _ticket,
    "trading": _trading,
    "vehicle": _vehicle,
    "message": _message,
    "post": _post,
    "travel": _travel,
    "math": _math,
}
