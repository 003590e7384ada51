"""The Hub token among a training script's options: it stays in memory, and in no file that a run writes."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trl import TrlParser

# How a sweep hands the token to its runs: command lines stand in logs and in lists of processes. It is not HF_TOKEN,
# which downloads would use too.
TOKEN_VARIABLE = "HB_HUB_TOKEN"
NOT_RECORDED = ("hub_token", "env")  # of a YAML file of options: the token, and variables that may be secrets
_OPTION = "hub_token"
_TOKEN = re.compile(r"hf_[A-Za-z0-9]{20,}")

TOKEN_ERROR = (
    "{place} holds what looks like a Hugging Face token or is named like one, which would be written into the run's "
    "files; give a token by --hub_token, in full, or log in with `hf auth login`, or set HF_TOKEN"
)
SHORT_ERROR = (
    "--{name} is taken for --hub_token; give that once, in full and not in a grid, so that the token is not written "
    "into files"
)


class HubToken(str):
    """A token that is pickled as `None`: trainers pickle all of their arguments into training_args.bin."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Leaves nothing of it."""
        return type(None), ()


def parse_training_options(parser: "TrlParser", argv: list[str]) -> Any:
    """The command line, and under it the YAML file given with `--config`, without a token that could be written.

    Raises:
        ValueError: A token stands where it would be written into files.
    """
    parsed = parser.parse_args_and_config(argv)
    handed = os.environ.pop(TOKEN_VARIABLE, None)
    for part in parsed:
        for each in fields(part):
            value = getattr(part, each.name, None)
            if each.name == _OPTION:
                token = value or handed
                setattr(part, _OPTION, HubToken(token) if token else None)
            elif _TOKEN.search(repr(value)):
                raise ValueError(TOKEN_ERROR.format(place=f"--{each.name}"))
    return parsed


def check_recorded(options: Iterable[str], config: Mapping[str, Any]) -> None:
    """Refuses a token among what a sweep records and hands on.

    Args:
        options: Words of the command line that are handed to the runs.
        config: Options of a YAML file.

    Raises:
        ValueError: There is one, or the option is shortened.
    """
    for word in options:
        name = word.partition("=")[0].lstrip("-").replace("-", "_")
        is_short = word.startswith("--") and name and _OPTION.startswith(name.lower())
        if is_short or _is_misspelt(name):
            raise ValueError(SHORT_ERROR.format(name=name))
        if _TOKEN.search(word):
            raise ValueError(TOKEN_ERROR.format(place="the command line"))
    for key, value in config.items():
        if key in NOT_RECORDED:
            continue
        if _TOKEN.search(repr(value)) or _is_misspelt(str(key)) or str(key).lower() in NOT_RECORDED:
            raise ValueError(TOKEN_ERROR.format(place=f"option '{key}' of the config"))


def _is_misspelt(name: str) -> bool:
    """Whether a name is that of the token to people, such as Hub_Token: no script knows it, and a sweep records it."""
    return re.sub("[^a-z]", "", name.lower()).startswith("hubtok")
