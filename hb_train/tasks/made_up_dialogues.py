"""Dialogues about restaurants, hotels and trains, made up by a program.

They replace MultiWOZ in tests and in quick trials of state tracking. They are far easier than real dialogues.
"""

from hb_dataset.seeded_draws import seeded_generator

_AREAS = ("north", "south", "east", "west", "centre")
_PRICES = ("cheap", "moderate", "expensive")
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TOWNS = ("ashford", "brighton", "carlisle", "durham", "exeter", "falmouth", "grantham", "harwich")
_TIMES = ("08:15", "09:30", "11:45", "13:00", "15:20", "17:40", "19:05")
_NUMBERS = ("two", "three", "four", "five", "six")

# The slots of each domain in order of appearance: values, the user's unprompted sentence, the system's question.
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


# The system's words, the user's answer, and the state after it: slot → the spellings of its value.
Exchange = tuple[str, str, dict[str, tuple[str, ...]]]


def made_up_dialogues(number: int, *, seed: int = 0) -> dict[str, list[Exchange]]:
    """Makes dialogues up.

    Args:
        number: The number of dialogues; a larger number only adds dialogues.
        seed: The seed of all draws.

    Returns:
        The user's turns of each dialogue, by its id. The user names a value, prompted or unprompted, or agrees to the
        system's value. States contain all values so far.
    """
    return {f"MADE{index:05}": _dialogue(f"MADE{index:05}", seed) for index in range(number)}


def _dialogue(name: str, seed: int) -> list[Exchange]:
    random = seeded_generator(seed, "made-up dialogue", name)

    def one_of(choices: tuple[str, ...]) -> str:
        return choices[random.integers(len(choices))]

    state: dict[str, tuple[str, ...]] = {}
    exchanges: list[Exchange] = []
    system = ""  # the system's latest words

    def user_says(utterance: str) -> None:
        exchanges.append((system, " ".join(utterance.split()), dict(state)))

    services = [list(_DOMAINS)[index] for index in random.permutation(len(_DOMAINS))[: random.integers(1, 3)]]
    pending = one_of(_GREETINGS)  # the user's words before the next slot
    for domain in services:
        for slot, (values, unasked, question) in _DOMAINS[domain].items():
            unused = tuple(value for value in values if (value,) not in state.values())
            value = one_of(unused)
            way = random.random()
            if way < 0.4:  # unprompted, sometimes together with the next slot
                state[f"{domain}-{slot}"] = (value,)
                pending = f"{pending} {unasked.format(value)}"
                if random.random() < 0.4:
                    continue
                user_says(pending)
                system = "Very well. Is there anything else?"
                pending = ""
                continue
            if pending:
                user_says(pending)
                pending = ""
            if way < 0.8:
                system = question
                state[f"{domain}-{slot}"] = (value,)
                user_says(one_of(_ANSWERS).format(value))
            else:
                system = f"{question} {_OFFERS.format(value)}"
                other = one_of(tuple(other for other in unused if other != value) or unused)
                agrees = random.random() < 0.6
                state[f"{domain}-{slot}"] = (value if agrees else other,)
                user_says(one_of(_YES) if agrees else f"No, rather {other}.")
            system = "Noted."
    user_says(f"{pending} {one_of(_THANKS)}")
    return exchanges
