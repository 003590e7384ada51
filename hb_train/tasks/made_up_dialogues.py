"""Dialogues about restaurants, hotels and trains, made up by a program, in the shape of MultiWOZ 2.2.

They are used where MultiWOZ is not at hand: in tests, and to see at once how well a model can be taught to track what a
user wants. They are far easier than what people say.
"""

from typing import Any

from hb_dataset.seeded_draws import seeded_generator

_AREAS = ("north", "south", "east", "west", "centre")
_PRICES = ("cheap", "moderate", "expensive")
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TOWNS = ("ashford", "brighton", "carlisle", "durham", "exeter", "falmouth", "grantham", "harwich")
_TIMES = ("08:15", "09:30", "11:45", "13:00", "15:20", "17:40", "19:05")
_NUMBERS = ("two", "three", "four", "five", "six")

# The slots of each domain in the order they come up: values, how a user says one unasked, what the system asks.
_DOMAINS: dict[str, dict[str, tuple[tuple[str, ...], str, str]]] = {
    "restaurant": {
        "food": (
            ("thai", "french", "greek", "turkish", "mexican", "korean"),
            "I feel like {} food.",
            "What kind of food do you like?",
        ),
        "area": (_AREAS, "It should be in the {}.", "Which part of town suits you?"),
        "pricerange": (_PRICES, "Something {} please.", "How much would you like to spend?"),
        "bookpeople": (_NUMBERS, "Please book a table for {} people.", "How many people will come?"),
    },
    "hotel": {
        "type": (("guesthouse", "hostel", "inn"), "I need a {} to sleep in.", "What sort of place do you look for?"),
        "area": (_AREAS, "I want to stay in the {}.", "Where in town do you want to stay?"),
        "pricerange": (_PRICES, "My rooms should be {}.", "What may the room cost?"),
        "bookstay": (_NUMBERS, "We stay {} nights.", "For how many nights?"),
    },
    "train": {
        "departure": (_TOWNS, "I will leave from {}.", "Where do you set out from?"),
        "destination": (_TOWNS, "I have to get to {}.", "Where are you going?"),
        "day": (_DAYS, "I travel on {}.", "On which day?"),
        "leaveat": (_TIMES, "I can leave after {}.", "When would you like to leave?"),
    },
}
_GREETINGS = ("Hello!", "Good morning.", "Hi there,", "Can you help me?", "")
_ANSWERS = ("{}, please.", "{} would be best.", "I think {}.", "Let us say {}.")
_YES = ("Yes, that is fine.", "That sounds good.", "Yes please.", "Perfect, go on.")
_OFFERS = "How about {}?"
_THANKS = ("Thank you, that is all.", "Great, goodbye.", "Thanks for your help.")


def made_up_dialogues(number: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Makes dialogues up.

    Args:
        number: The number of dialogues; the first are the same whatever it is.
        seed: The seed of all that is drawn.

    Returns:
        The dialogues: a value is said by the user, in answer to a question or unasked, or by the system and
        agreed to. States hold all values that were said before.
    """
    return [_dialogue(f"MADE{index:05}", seed) for index in range(number)]


def _dialogue(name: str, seed: int) -> dict[str, Any]:
    random = seeded_generator(seed, "made-up dialogue", name)

    def one_of(choices: tuple[str, ...]) -> str:
        return choices[random.integers(len(choices))]

    state: dict[str, str] = {}
    turns: list[dict[str, Any]] = []

    def say(speaker: int, utterance: str) -> None:
        frames = [_frame(domain, state) for domain in services if any(slot.startswith(domain) for slot in state)]
        utterance = " ".join(utterance.split())
        turns.append({"speaker": speaker, "utterance": utterance, "frames": [] if speaker else frames})

    services = [list(_DOMAINS)[index] for index in random.permutation(len(_DOMAINS))[: random.integers(1, 3)]]
    pending = one_of(_GREETINGS)  # what the user begins to say before the next slot
    for domain in services:
        for slot, (values, unasked, question) in _DOMAINS[domain].items():
            unused = tuple(value for value in values if value not in state.values())
            value = one_of(unused)
            way = random.random()
            if way < 0.4:  # unasked, now and then together with the next slot
                state[f"{domain}-{slot}"] = value
                pending = f"{pending} {unasked.format(value)}"
                if random.random() < 0.4:
                    continue
                say(0, pending)
                say(1, "Very well. Is there anything else?")
                pending = ""
                continue
            if pending:
                say(0, pending)
                pending = ""
            if way < 0.8:
                say(1, question)
                state[f"{domain}-{slot}"] = value
                say(0, one_of(_ANSWERS).format(value))
            else:
                say(1, f"{question} {_OFFERS.format(value)}")
                other = one_of(tuple(other for other in unused if other != value) or unused)
                agrees = random.random() < 0.6
                state[f"{domain}-{slot}"] = value if agrees else other
                say(0, one_of(_YES) if agrees else f"No, rather {other}.")
            say(1, "Noted.")
    say(0, f"{pending} {one_of(_THANKS)}")
    return {"dialogue_id": name, "turns": turns}


def _frame(domain: str, state: dict[str, str]) -> dict[str, Any]:
    own = []
    for slot, value in state.items():
        if slot.startswith(f"{domain}-"):
            own.append({"slots_values_name": slot, "slots_values_list": [value]})
    return {"service": domain, "state": {"slots_values": own}}
