"""README, CONTRIBUTING, the pages of docs and the cards: links, files, commands and options that they name exist."""

import ast
import importlib
import re
import shlex
import sys
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from hb_cli.main import COMMANDS, GROUPS, PROGRAM
from hb_metrics.command.arguments import parse_arguments
from hb_metrics.command.planning import default_folder

ROOT = Path(__file__).parent.parent
README, ARCHITECTURE = ROOT / "README.md", ROOT / "docs" / "architecture.md"
GUIDES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
CARDS = sorted([*ROOT.glob("hb_*/README.md"), *ROOT.glob("hb_*/*/*.md")])
LONGEST_README = 130  # lines: a page
RUNNERS = (["accelerate", "launch"], ["torchrun"], ["python"])
MEASURE = "hb_metrics.measure"
# commands that are not checked
NOT_OURS = {"export", "git", "hf", "inspect", "lm_eval", "pip", "pytest", "source"}
OUR_PATH = re.compile(r"(hb_|hub_scripts|tests/|docs/|\.github|\.ci)[\w./-]*")
PACKAGES = ("hb_cli", "hb_dataset", "hb_metrics", "hb_train", "hub_scripts")

name_of = {page: str(page.relative_to(ROOT)) for page in [*GUIDES, *CARDS]}.get


@cache
def tokens(page):
    """The page's blocks, and what is inside its lines, one after the other."""
    blocks = MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))
    return [token for block in blocks for token in (block, *(block.children or ()))]


def links(page):
    return [token.attrs[name] for token in tokens(page) for name in ("href", "src") if name in token.attrs]


def headings(page):
    """The anchors of the page's headings, as GitHub makes them."""
    texts = [
        "".join(part.content for part in after.children)
        for token, after in pairwise(tokens(page))
        if token.type == "heading_open"
    ]
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


def inline_code(page):
    return [token.content for token in tokens(page) if token.type == "code_inline"]


def code_blocks(page, language):
    return [token.content for token in tokens(page) if token.type == "fence" and token.info == language]


def commands(page):
    """The commands of the page's shell blocks, each as its words."""
    for block in code_blocks(page, "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["srun"]:  # which runs the rest on each machine
                words = words[next(index for index, word in enumerate(words) if index and word[0] != "-") :]
                words = shlex.split(words[2]) if words[:2] == ["bash", "-c"] else words
            while "&&" in words:
                yield words[: words.index("&&")]
                words = words[words.index("&&") + 1 :]
            if words:
                yield words


def module_and_options(words):
    """What a command of ours runs, as a module, and the options it is given; `None`: it runs nothing of ours."""
    if words[0] == "make" and words[1] == "measure":
        given = dict(word.split("=", 1) for word in words[2:])
        options = [f"--model={given.get('MODEL', 'embedded')}"]
        options += [f"--dataset_config={given['DATASET_CONFIG']}"] if "DATASET_CONFIG" in given else []
        return MEASURE, [*options, *shlex.split(given.get("ARGS", ""))]
    if words[0] == PROGRAM:
        name = " ".join(words[1:3] if words[1] in GROUPS else words[1:2])
        return COMMANDS[name].module.removesuffix(".__main__"), words[1 + len(name.split()) :]
    for runner in RUNNERS:
        if words[: len(runner)] == runner:
            rest = words[len(runner) :]
            if rest[0] == "-m":
                return rest[1], rest[2:]
            script = next(index for index, word in enumerate(rest) if word.endswith(".py"))
            assert (ROOT / rest[script]).is_file(), f"there is no {rest[script]}"
            return rest[script].removesuffix(".py").replace("/", "."), rest[script + 1 :]
    return None


def check_make(words):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words[1:]:
        name, is_variable, _ = word.partition("=")
        pattern = rf"\$\({name}\)|\(if \$\({name}\)" if is_variable else rf"^{re.escape(name)}:"
        assert re.search(pattern, makefile, re.MULTILINE), f"the Makefile does not know {name}"


@pytest.mark.parametrize("page", [*GUIDES, *CARDS], ids=name_of)
def test_links_and_images_lead_somewhere(page):
    missing = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if re.match(r"https?:|mailto:", link):
            continue
        if not target.exists() or ROOT not in target.parents or (anchor and anchor not in headings(target)):
            missing.append(link)
    assert missing == []


def test_the_readme_is_a_page_and_leads_to_all_others():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= LONGEST_README
    linked = {link.partition("#")[0] for link in links(README)}
    assert {str(page.relative_to(ROOT)) for page in GUIDES if page != README} <= linked
    from_guides = {(page.parent / link.partition("#")[0]).resolve() for page in GUIDES for link in links(page)}
    assert [card for card in CARDS if card.name == "README.md" and card not in from_guides] == []


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_files_and_make_targets_that_a_page_names_are_there(page):
    paths = [code for code in inline_code(page) if OUR_PATH.fullmatch(code)]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    for code in inline_code(page):
        if code.startswith("make "):
            check_make(shlex.split(code))


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_commands_of_a_page_can_be_given(page):
    for words in commands(page):
        if words[0] == "make":
            check_make(words)
        run = module_and_options(words)
        if run is None:
            assert words[0] in NOT_OURS | {"make"}, f"{words[0]}: how is this command checked?"
        elif run[0] != MEASURE:  # those are parsed below
            module, options = run
            named = {option.partition("=")[0] for option in options if option.startswith("--")}
            assert not named or named <= options_of(module, "--compare" in named), words


@cache
def options_of(module, compares):
    """The options that a script lists with --help, which some need a second for."""
    is_package = (ROOT / module.replace(".", "/")).is_dir()
    script = importlib.import_module(f"{module}.__main__" if is_package else module)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setattr(sys, "argv", [module, *(["--compare"] if compares else []), "--help"])
        with pytest.raises(SystemExit) as ended:
            script.main()
    assert not ended.value.code
    # TRL's parser leaves it out.
    unlisted = {"hb_train.tune": {"--config"}, "hb_train.debias": {"--config"}}
    return {"--compare"} | unlisted.get(module, set()) | set(re.findall(r"--[\w-]+", printed.getvalue()))


def test_measure_commands_are_parsed_and_only_the_same_command_shares_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "RedditBias").mkdir()
    for name in ("replies.jsonl", "logprobs.jsonl", "names.csv", "style_clusters.yaml"):
        (tmp_path / name).touch()
    for name in ("prompts.csv", "letters.csv", "loans.csv", "questions.csv", "cv.csv"):
        (tmp_path / name).write_text("prompt\nDescribe the applicant.\n")
    runs = [module_and_options(words) for page in GUIDES for words in commands(page)]
    asked = [parse_arguments(options) for module, options in filter(None, runs) if module == MEASURE]
    different = {repr(arguments): arguments for arguments in asked}
    folders = [arguments.run.output_dir or default_folder(arguments) for arguments in different.values()]
    assert len(set(folders)) == len(folders) > 8


@pytest.mark.parametrize("page", [*GUIDES, ROOT / "hb_dataset" / "README.md"], ids=name_of)
def test_python_of_a_page_is_python_and_imports_what_there_is(page):
    for block in code_blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in PACKAGES:
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
