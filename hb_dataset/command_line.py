import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from hb_dataset.hints import did_you_mean


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line, with a suggestion for a mistyped option. Options cannot be abbreviated."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            name = unknown[0].partition("=")[0]
            hint = did_you_mean(name, [option for action in self._actions for option in action.option_strings])
            kind = "option" if name.startswith("-") else "argument"
            self.error(f"the {kind} {name} is unknown; {hint}--help lists the options")
        return parsed

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")
