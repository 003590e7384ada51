"""The settings in which runs differ."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

ABSENT = "not recorded"
UNMEASURED = "not measured"


class Difference(NamedTuple):
    """A setting that differs between runs.

    Attributes:
        name: Its section and name.
        values: [runs] the setting in each.
    """

    name: str
    values: list[Any]

    @property
    def contradicts(self) -> bool:
        """Whether runs differ in it among those that have the measurement it belongs to."""
        known = [value for value in self.values if value != UNMEASURED]
        return any(value != known[0] for value in known)


def differing_settings(runs: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """The settings that are not the same in all the runs' records (`results["run"]`)."""
    flat = [_flat(run) for run in runs]
    differences = []
    for name in dict.fromkeys(name for settings in flat for name in settings):
        absent = [ABSENT if name.split(".")[0] in run else UNMEASURED for run in runs]
        values = [settings.get(name, missing) for settings, missing in zip(flat, absent, strict=True)]
        if any(value != values[0] for value in values):
            differences.append(Difference(name, values))
    return differences


def _flat(run: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{section}.{name}": value
        for section, content in run.items()
        for name, value in (content.items() if isinstance(content, Mapping) else [("", content)])
    }
