"""Commands that pages and `plan` print: our own parsers and checks accept them, whatever the run was."""

import html
import json
import re
import shlex
from importlib import import_module

import pytest

from hb_cli.main import COMMANDS, GROUPS, PROGRAM
from hb_dataset.command_line import CommandParser
from hb_metrics.command.export_prompts import main as export
from hb_metrics.command.plan import plan
from hb_metrics.report.page import write_report
from tests.hb_metrics.conftest import write_vocabulary
from tests.hb_metrics.made_results import loaded, whole_run
from tests.hb_metrics.runs_here import measure_here, replies_file

SHORT = "Yes."
NAMES = ["--cue", "name", "--names_file", "names.csv", "--measurements", "generation"]
OWN = ["--prompts", "own.csv", "--names_file", "names.csv", "--measurements", "generation,decisions"]
RUNS = {
    "terms": (["--replies_per_cell", 2, "--measurements", "generation"], 1),
    "a message like an option": (["--replies_per_cell", 2, "--measurements", "generation", "--system_prompt=--no"], 1),
    "names": ([*NAMES, "--replies_per_cell", 2], 1),
    "names, greedy": ([*NAMES, "--replies_per_cell", 1, "--decoding", "greedy"], 0),
    "decisions, greedy": ([*OWN, "--replies_per_cell", 1, "--decoding", "greedy"], 0),
    SHORT: (["--replies_per_cell", 2, "--measurements", "generation"], 0),
}


class Parsed(Exception):
    """The command was parsed, so it need not run."""


def printed(text):
    """The commands in a text that names them in full."""
    return [shlex.split(line) for line in re.findall(rf"{PROGRAM} [^\n<`]+", text.replace("\\\n", " "))]


def check_parsed(words, monkeypatch):
    name = " ".join(words[1:3] if words[1] in GROUPS else words[1:2])
    parse = CommandParser.parse_args

    def parse_alone(parser, *given):
        parse(parser, *given)
        raise Parsed

    with monkeypatch.context() as patch:
        patch.setattr(CommandParser, "parse_args", parse_alone)
        patch.setattr("sys.argv", [name, *words[1 + len(name.split()) :]])
        with pytest.raises(Parsed):
            import_module(COMMANDS[name].module).main()


def test_commands_on_a_page_of_everything_are_parsed(tmp_path, monkeypatch):
    write_report(loaded(whole_run()), tmp_path / "report.html")
    commands = printed(html.unescape((tmp_path / "report.html").read_text(encoding="utf-8")))
    assert len({tuple(words) for words in commands}) > 3
    for words in commands:
        check_parsed(words, monkeypatch)


@pytest.mark.parametrize("kind", RUNS)
def test_the_longer_run_can_be_asked_for(kind, tmp_path, monkeypatch):
    options, number = RUNS[kind]
    monkeypatch.chdir(tmp_path)
    nouns = ("kid", "parent", "sibling", "friend", "guy", "man", "woman", "girl")
    options = [*options, "--model", "acme", "--vocabulary_dir", write_vocabulary(tmp_path / "vocabulary", nouns=nouns)]
    (tmp_path / "names.csv").write_text("name,group\nAda,A\nBo,A\nCy,B\nDi,B\n")
    questions = [f"{{name}} asks for {number} tickets. Do you agree?,choice: yes | no,yes\n" for number in range(8)]
    (tmp_path / "own.csv").write_text("prompt,outcome,favourable\n" + "".join(questions))
    reply = SHORT if kind == SHORT or "decisions" in kind else "It opens at nine, as always. See you there."
    answers = replies_file(tmp_path, lambda text: f"{reply}", *options)
    measure_here(*options, *answers, "--output_dir", tmp_path / "run")
    texts = [html.unescape((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))]
    try:
        texts.append(plan(tmp_path / "run", replies=[2, 4]))
    except ValueError:  # such as too few replies for an interval
        texts.append("")
    commands = [words for text in texts for words in printed(text) if words[1] in ("measure", "export-prompts")]
    assert sum(words in printed(texts[0]) for words in commands) == number
    for index, words in enumerate(commands):
        assert words[1] == "export-prompts", words
        export([str(tmp_path / f"{index}.jsonl"), *words[3:]])
        assert json.loads((tmp_path / f"{index}.jsonl").read_text().splitlines()[0])["wanted"] == "reply"
