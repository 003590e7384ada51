"""The options of measure.py: one list from all measurements, each with a help that can be understood alone."""

import json
import re
from dataclasses import fields

import pytest

from hb_metrics.command import arguments as module
from hb_metrics.command.arguments import asked_measurements, parse_arguments, settings_of
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.reddit.options import RedditOptions
from hb_metrics.measurements.settings import RunOptions

KINDS = (RunOptions, *(measurement.options for measurement in MEASUREMENTS if measurement.options))
OPTIONS = [(kind, option) for kind in KINDS for option in fields(kind)]
NAMES = [option.name for _, option in OPTIONS]


def test_what_is_not_given_has_its_default():
    settings = settings_of({"seed": 3, "replies_per_cell": 5, "bias_type": ["race"]})
    assert settings.run == RunOptions(seed=3)
    assert settings.of(GenerationOptions) == GenerationOptions(replies_per_cell=5)
    assert settings.of(RedditOptions) == RedditOptions(bias_type=["race"])
    assert settings_of({}) == parse_arguments([])
    assert list(settings.values()) == list(settings.defaults()) == NAMES
    changed = {name for name, value in settings.values().items() if value != settings.defaults()[name]}
    assert changed == {"seed", "replies_per_cell", "bias_type"}


@pytest.mark.parametrize(
    ("options", "number"),
    [({}, 8), ({"quick": True}, 5), ({"quick": True, "replies_per_cell": 8}, 8), ({"quick": False}, 8)],
)
def test_a_quick_look_has_fewer_replies_unless_they_are_asked_for(options, number, tmp_path):
    config = tmp_path / "options.yaml"
    config.write_text(json.dumps(options))
    settings = settings_of(options)
    assert settings == parse_arguments([f"--{name}={value}" for name, value in options.items()])
    assert settings == parse_arguments(["--config", str(config)])
    assert settings.of(GenerationOptions).replies_per_cell == number
    assert settings.run.quick == options.get("quick", False)


def test_an_option_or_a_measurement_that_is_not_known_is_named_with_a_guess():
    with pytest.raises(ValueError, match=r"option 'replies_per_sell' is not known; did you mean 'replies_per_cell'\?"):
        settings_of({"replies_per_sell": 3})
    with pytest.raises(ValueError, match=r"measurement 'regrad' is unknown; did you mean 'regard'\? allowed: likel"):
        settings_of({"measurements": "likelihood,regrad"})


def test_measurements_are_in_their_own_order_and_each_once():
    asked = asked_measurements(settings_of({"measurements": "regard, likelihood,regard"}))
    assert [measurement.name for measurement in asked] == ["likelihood", "regard"]
    assert asked_measurements(settings_of({})) is None


def help_of(capsys, *topic):
    """The options that a help shows, and its text."""
    with pytest.raises(SystemExit) as end:
        parse_arguments(["--help", *topic])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    return re.findall(r"^  --([a-z_]+)", printed, re.MULTILINE), " ".join(printed.split())


def test_help_shows_the_most_used_options_or_those_of_a_topic(capsys):
    names = [measurement.name for measurement in MEASUREMENTS]
    shown, text = help_of(capsys)
    assert {*shown} == {*module.COMMON}
    assert len(shown) == 16
    assert f"All measurements: {', '.join(names)}. Default: likelihood, generation, offensiveness." in text
    for measurement in MEASUREMENTS:
        if measurement.options is not None:
            own = [option.name for option in fields(measurement.options)]
            assert help_of(capsys, measurement.name)[0] == own
    assert help_of(capsys, "run")[0] == [option.name for option in fields(RunOptions)]
    every, _ = help_of(capsys, "all")
    assert sorted(every) == sorted([*NAMES, "config"])
    assert len(every) <= 55  # another option takes the place of one that nobody would miss
    with pytest.raises(SystemExit, match="2"):
        parse_arguments(["--help", "regrad"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("seed: 1\nmodel: a\nseed: 2\n", r"options\.yaml:3: key 'seed' occurs twice; remove one of the two"),
        ("chat_template_kwargs: {a: 1, b: {c: 1, c: 2}}\n", "key 'c' occurs twice"),
        ("sede: 1\n", r"unknown option 'sede'; did you mean 'seed'\?"),
        ("seed: [", "is not valid YAML"),
        ("- seed\n", "write one `option: value` per line"),
        ("seed: \udcfc", "UTF-8"),
        ("temperature: much", "--temperature"),
    ],
)
def test_a_config_that_would_be_read_in_part_is_refused(content, message, tmp_path, capsys):
    path = tmp_path / "options.yaml"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises((SystemExit, ValueError)) as error:
        parse_arguments(["--config", str(path)])
    assert re.search(message, f"{error.value}{capsys.readouterr().err}")


def test_variables_of_chat_templates_are_a_json_object(tmp_path):
    settings = settings_of({"chat_template_kwargs": '{"enable_thinking":false}'})
    assert settings.run.chat_template_kwargs == '{"enable_thinking": false}'
    assert settings.run.chat() == {"template_kwargs": {"enable_thinking": False}, "system_prompt": None}
    assert settings_of({}).run.chat() == {"template_kwargs": {}, "system_prompt": None}
    file = tmp_path / "options.yaml"
    file.write_text("chat_template_kwargs: {enable_thinking: false}\n")
    assert parse_arguments(["--config", str(file)]).run == settings.run
    for wrong in ("{'a': 1}", "[1]", '{"a": NaN}', '{"a": 1, "a": 2}'):
        with pytest.raises(ValueError, match="pass a JSON object such as"):
            settings_of({"chat_template_kwargs": wrong})
    file.write_text("chat_template_kwargs: {day: 2026-05-06}\n")  # which YAML reads as a date
    assert parse_arguments(["--config", str(file)]).run.chat()["template_kwargs"] == {"day": "2026-05-06"}
    with pytest.raises(ValueError, match="max_reasoning_tokens is -1; set a number of at least 0"):
        settings_of({"max_reasoning_tokens": -1})


def test_a_list_in_a_config_is_that_of_its_option_and_the_command_line_has_the_last_word(tmp_path):
    path = tmp_path / "options.yaml"
    lists = "axes: [age, ability]\nterms: [Deaf, old]\nmeasurements: [length, judge]\njudge: [refusal]\n"
    path.write_text(f"{lists}seed: 1\nvariations: true\nsample: null\n")
    settings = parse_arguments(["--config", str(path), "--seed", "2"])
    run = settings.run
    assert (run.axes, run.term_list, run.measurements) == (["age", "ability"], ["Deaf", "old"], "length,judge")
    given = {"axes": ["age", "ability"], "terms": "Deaf,old", "measurements": "length,judge", "judge": ["refusal"]}
    assert settings == settings_of({**given, "seed": 2, "variations": True})
