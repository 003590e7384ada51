import argparse
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hb_dataset.command_line import CommandParser, check_known
from hb_dataset.yaml_lines import load_values
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.measurement import Measurement
from hb_metrics.measurements.settings import QUICK, RunOptions, Settings, make_settings

# The most common options. `--help` without a topic shows only these.
COMMON = (
    "model", "base_url", "measurements", "dataset_config", "prompts", "axes", "sample", "output_dir", "seed", "quick",
    "replies_per_cell", "decoding", "style_classifier", "offensiveness_classifier", "fail_above", "config",
)  # fmt: skip


def parse_arguments(argv: list[str], description: str = "") -> Settings:
    """Reads options from the command line and from the YAML file in `--config`. The command line takes precedence."""
    names = [measurement.name for measurement in MEASUREMENTS]
    defaults = [measurement.name for measurement in MEASUREMENTS if measurement.by_default]
    parser = CommandParser(
        description=description,
        epilog=f"All measurements: {', '.join(names)}. Default: {', '.join(defaults)}.",
        add_help=False,
    )
    for kind in (RunOptions, *_option_classes()):
        _add_options(parser, kind)
    parser.add_argument("--config", type=Path, help="A YAML file that sets any of these options.")
    topics = ["run", *(measurement.name for measurement in MEASUREMENTS if measurement.options is not None), "all"]
    parser.add_argument(
        *("-h", "--help"),
        nargs="?",
        const="",
        default=argparse.SUPPRESS,
        choices=["", *topics],
        metavar="TOPIC",
        help=f"Show the most common options, or the options of one topic: {', '.join(topics)}.",
    )
    if {"-h", "--help"} & {*argv}:
        _show_help(parser, parser.parse_args([*argv]).help)
    config = parser.parse_args(argv).config
    options: list[str] = []
    if config is not None:
        content = load_values(config) or {}
        if not isinstance(content, dict):
            raise ValueError(f"--config '{config}' contains no options; write one `option: value` per line")
        known = list(settings_of({}).values())
        take_lists = {action.dest for action in parser._actions if action.nargs == "+"}
        for name, value in content.items():
            check_known(str(name), known, f"--config '{config}' sets the unknown option {name!r}")
            if isinstance(value, list) and name in take_lists:
                options += [f"--{name}", *map(str, value)]
            elif isinstance(value, list):  # on the command line, such as --terms, with commas
                options.append(f"--{name}={','.join(map(str, value))}")
            elif isinstance(value, dict):
                options.append(f"--{name}={json.dumps(value, default=str)}")
            elif value is not None:
                options.append(f"--{name}={value}")
    if parser.parse_args([*options, *argv]).quick:
        parser.set_defaults(**QUICK)
    values = vars(parser.parse_args([*options, *argv]))
    del values["config"]
    return settings_of(values)


def _add_options(parser: CommandParser, kind: type) -> None:
    """Adds an option for each field of a dataclass. Its name may be written with hyphens or underscores."""
    group = parser.add_argument_group(getattr(kind, "_argument_group_name", None))
    types = get_type_hints(kind)
    for option in fields(kind):
        of_field = [part for part in get_args(types[option.name]) if part is not NoneType]
        is_optional = NoneType in get_args(types[option.name])
        kind_of = of_field[0] if is_optional else types[option.name]
        more: dict[str, Any] = {"type": kind_of, "help": option.metadata["help"]}
        if get_origin(kind_of) is Literal:
            more |= {"type": str, "choices": get_args(kind_of)}
        elif get_origin(kind_of) is list:
            more |= {"type": str, "nargs": "+"}
        elif "const" in option.metadata:
            more |= {"nargs": "?", "const": option.metadata["const"]}
        elif kind_of is bool:
            more |= {"type": _yes_or_no, "nargs": "?", "const": True}
        names = dict.fromkeys([f"--{option.name}", f"--{option.name.replace('_', '-')}"])
        group.add_argument(*names, dest=option.name, default=option.default, **more)


def _yes_or_no(word: str) -> bool:
    if word.lower() not in ("true", "false", "yes", "no", "1", "0"):
        raise argparse.ArgumentTypeError(f"{word!r} is neither true nor false")
    return word.lower() in ("true", "yes", "1")


def _show_help(parser: CommandParser, topic: str) -> None:
    options: dict[str, type | None] = {measurement.name: measurement.options for measurement in MEASUREMENTS}
    kind = RunOptions if topic == "run" else options.get(topic)
    shown = COMMON if kind is None else tuple(option.name for option in fields(kind))
    for action in parser._actions:
        if topic != "all" and action.dest not in (*shown, "help"):
            action.help = argparse.SUPPRESS
        elif action.default not in (None, argparse.SUPPRESS) and "Default: " not in str(action.help):
            action.help = f"{action.help} (default: %(default)s)"
    parser.print_help()
    parser.exit()


def settings_of(values: Mapping[str, object]) -> Settings:
    """Returns the settings in `values`, with defaults for all other options.

    Raises:
        ValueError: An option or a measurement is unknown, or an option has an invalid value.
    """
    quick = QUICK if values.get("quick") else {}
    settings = make_settings(_option_classes(), {**quick, **values})
    asked_measurements(settings)
    chosen = settings.values()
    asks = chosen["judge"] is not None or any(str(value).startswith("judge:") for value in chosen.values())
    if settings.run.judge_model != RunOptions.judge_model and not asks:
        raise ValueError(f"judge_model is '{settings.run.judge_model}', but no judge is used; set --judge to a rubric")
    return settings


def asked_measurements(settings: Settings) -> list[Measurement] | None:
    if settings.run.measurements is None:
        return None
    asked = [name.strip() for name in settings.run.measurements.split(",")]
    known = [measurement.name for measurement in MEASUREMENTS]
    for name in asked:
        check_known(name, known, f"measurement '{name}' is unknown")
    return [measurement for measurement in MEASUREMENTS if measurement.name in asked]


def wanted_measurements(settings: Settings) -> list[Measurement]:
    asked = asked_measurements(settings)
    chosen = (
        [measurement for measurement in MEASUREMENTS if measurement.is_default(settings)] if asked is None else asked
    )
    return [measurement for measurement in MEASUREMENTS if measurement in chosen or measurement.is_asked(settings)]


def _option_classes() -> tuple[type, ...]:
    return tuple(measurement.options for measurement in MEASUREMENTS if measurement.options is not None)
