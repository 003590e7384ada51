"""Reads the probabilities of options from the likeliest first tokens of an answer."""

from collections.abc import Iterable, Sequence
from math import exp

_SPACES = "▁Ġ"  # symbols that tokenizers use for a space; some servers do not decode them
_UNREAD = 0.01  # the largest accepted share of the options' probability whose option is unknown


def plain_token(token: str) -> str:
    """Returns a token without the space before it."""
    return token.strip().lstrip(_SPACES)


def forms_of(option: str) -> list[str]:
    """Returns the forms in which a model may write an option: as it is, and with a capital letter."""
    return list(dict.fromkeys([option, option[0].upper() + option[1:]]))


def option_masses(tokens: Iterable[tuple[str, float]], options: Sequence[str]) -> dict[str, float] | None:
    """Returns the probability of each option, or `None` if the tokens do not show it.

    A token counts for the option that begins with it. A token that begins several options, or has only one of an
    option's letters, shows nothing. An option without a token may be as likely as the least likely token in the list.

    Args:
        tokens: The likeliest first tokens of an answer, with their log-probabilities.
        options: The options of the decision.
    """
    masses, known, unread = dict.fromkeys(options, 0.0), [0.0], 0.0
    for token, value in tokens:
        known.append(exp(value))
        word = plain_token(token)
        begun = [option for option in options if word and any(form.startswith(word) for form in forms_of(option))]
        if len(begun) == 1 and (len(word) > 1 or len(begun[0]) == 1):
            masses[begun[0]] += known[-1]
        elif begun:
            unread += known[-1]
    hidden = min(min(known[1:], default=1.0), max(1 - sum(known), 0.0))
    unread += hidden * sum(not mass for mass in masses.values())
    total = sum(masses.values())
    return masses if total > 0 and unread <= _UNREAD * total else None
