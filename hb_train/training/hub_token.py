"""The Hub token among a training script's options: it stays in memory, and in no file that a run writes."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

# How a sweep hands the token to its runs: command lines appear in logs and in lists of processes. It is not HF_TOKEN,
# which downloads would use too.
TOKEN_VARIABLE = "HB_HUB_TOKEN"
NOT_RECORDED = ("hub_token", "env")  # in a YAML file of options: the token, and variables that may be secrets
_OPTION = "hub_token"
_TOKEN = re.compile(r"hf_[A-Za-z0-9]{20,}")


class HubToken(str):
    """A token that is pickled as `None`: trainers pickle all of their arguments into training_args.bin."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles `None` in its place."""
        return type(None), ()


def hide_token(arguments: Iterable[Any]) -> None:
    """Makes the Hub token among a script's arguments one that is never written to a file.

    Args:
        arguments: The dataclasses that the command line was parsed into. The one with a field `hub_token` gets the
            token that was given there or, from a sweep, in the environment, as a `HubToken`.

    Raises:
        ValueError: Another option holds what looks like a token.
    """
    from_sweep = os.environ.pop(TOKEN_VARIABLE, None)
    for group in arguments:
        for option in fields(group):
            value = getattr(group, option.name, None)
            if option.name == _OPTION:
                token = value or from_sweep
                setattr(group, _OPTION, HubToken(token) if token else None)
            elif _TOKEN.search(repr(value)):
                raise _found(f"--{option.name}")


def check_recorded(options: Iterable[str], config: Mapping[str, Any]) -> None:
    """Raises if there is a token among the options that a sweep records and hands on.

    Args:
        options: Words of the command line that are handed to the runs.
        config: Options of a YAML file.

    Raises:
        ValueError: One of them holds a token, or is --hub_token shortened or misspelt.
    """
    for word in options:
        name = word.partition("=")[0].lstrip("-").replace("-", "_")
        is_short = word.startswith("--") and name and _OPTION.startswith(name.lower())
        if is_short or _is_misspelt(name):
            raise _found(f"--{name}")
        if _TOKEN.search(word):
            raise _found("the command line")
    for key, value in config.items():
        if key in NOT_RECORDED:
            continue
        if _TOKEN.search(repr(value)) or _is_misspelt(str(key)) or str(key).lower() in NOT_RECORDED:
            raise _found(f"option '{key}' of the config")


def _found(where: str) -> ValueError:
    """The error for a token where it would be written into files."""
    return ValueError(
        f"{where} holds what looks like a Hugging Face token, or is named like one, and would be written into the "
        "run's files; set --hub_token, in full and once, or log in with `hf auth login`, or set HF_TOKEN"
    )


def _is_misspelt(name: str) -> bool:
    """Whether a person would read a name as the token's: no script knows Hub_Token, and a sweep records it."""
    return re.sub("[^a-z]", "", name.lower()).startswith("hubtok")
