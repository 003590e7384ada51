import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from hub_scripts import publish_metrics
from hub_scripts.module_files import metric_folders, module_files
from hub_scripts.publish_metrics import GRADIO_VERSION, main, space_card, space_files

SCRIPT = Path(publish_metrics.__file__)
PROJECT = SCRIPT.parent.parent
FOLDERS = metric_folders()
NAMES = [folder.name for folder in FOLDERS]
OURS = ("hb_dataset", "hb_metrics", "hb_train", "hub_scripts")
LAYOUT = {"README.md", "app.py", "page_inputs.py", "page_results.py", "requirements.txt", "tests.py"}

# `evaluate` imports all of transformers, and so torch, if it can: seconds, and nothing here needs them.
IMPORT_EVALUATE = """
import sys
sys.modules["transformers"] = None
import evaluate
del sys.modules["transformers"]
"""
# Where none of our packages, and no gradio, can be imported.
WITHOUT_OURS = f"""
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {(*OURS, "gradio")!r}:
            raise ImportError(name + " is not here")

sys.meta_path.insert(0, Refuse())
"""
COMPUTE_ALL = """
import json, runpy
from pathlib import Path

by_metric = {}
for folder in map(Path, sys.argv[1:]):
    name = folder.name
    metric = evaluate.load(str(folder))
    cases = runpy.run_path(str(folder / "tests.py"))["test_cases"]
    given = [{key: value for key, value in case.items() if key != "result"} for case in cases]

    # The page, under the name that a Space gives its folder, as a script beside its files.
    space = folder.rename(folder.with_name("app"))
    sys.path.insert(0, str(space))
    for module in ("app", "page_inputs", "page_results"):
        sys.modules.pop(module, None)
    import app, page_inputs, page_results

    assert app.__file__ == str(space / "app.py")
    loaded = app.load_metric(app.metric_name(app.SpaceCard.load(space / "README.md")))
    expected = page_inputs.metric_inputs(loaded)
    case = app.first_case()
    rows = page_inputs.example_rows(case, expected).astype(str)  # as a table in the browser may send them
    settings = {name: json.dumps(value) for name, value in case.items() if name in expected.settings}
    notes, results = app.compute(loaded, rows, settings, expected)
    by_metric[name] = dict(
        cases=[case["result"] for case in cases],
        results=[metric.compute(**arguments) for arguments in given],
        page=results,
        notes=notes,
        message=page_results.message(results, notes, "the table"),
        tables={"/".join(levels): table for levels, table in page_results.tables_of(results).items()},
        all_tables=[
            {"/".join(levels): table for levels, table in page_results.tables_of(metric.compute(**arguments)).items()}
            for arguments in given
        ],
        columns=list(rows.columns),
        optional=sorted(expected.optional),
        settings=list(expected.settings),
        texts=app._argument_texts(loaded.inputs_description),
        how_to=app._how_to(expected),
    )
    sys.path.remove(str(space))
    space.rename(folder)
print(json.dumps(by_metric))
"""


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory):
    """What a dry run in a process without a network writes, and what it prints."""
    folder = tmp_path_factory.mktemp("dry") / "spaces"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    run = subprocess.run(
        [sys.executable, SCRIPT, "--org", "ORG", "--dry_run", folder],
        env={**environment, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder.parent / "home")},
        cwd=folder.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.returncode, run.stderr) == (0, "")
    return folder, run.stdout


@pytest.fixture(scope="module")
def computed(dry_run, tmp_path_factory):
    """What all published folders compute in a process that can import nothing of ours."""
    folder, _ = dry_run
    home = tmp_path_factory.mktemp("home")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    run = subprocess.run(
        [sys.executable, "-c", IMPORT_EVALUATE + WITHOUT_OURS + COMPUTE_ALL, *(folder / name for name in NAMES)],
        env={**environment, "HF_HUB_OFFLINE": "1", "HF_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


@pytest.fixture
def maintainer(in_process, monkeypatch):
    """This process has the token of somebody who may write."""
    monkeypatch.setenv("HF_TOKEN", in_process.token)
    return in_process


def assert_close(actual, expected):
    """Equal down to rounding, with the keys in any order."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key in expected:
            assert_close(actual[key], expected[key])
    else:
        assert actual == (pytest.approx(expected, abs=1e-8) if isinstance(expected, float) else expected)


# --- the files --------------------------------------------------------------------------------------------------------


def test_there_are_metrics():
    assert {"full_gen_bias", "likelihood_bias", "offensiveness"} < set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_space_has_the_layout_that_evaluate_asks_for_and_all_helpers_as_files(dry_run, name):
    folder, _ = dry_run
    names = {path.name for path in (folder / name).iterdir()}
    assert names == LAYOUT | module_files(PROJECT / "hb_metrics" / name).keys()
    assert f"{name}.py" in names
    assert all(path.is_file() and not path.is_symlink() for path in (folder / name).iterdir())


def test_a_dry_run_prints_what_it_wrote_and_how_to_load_it(dry_run):
    folder, printed = dry_run
    assert {path.name for path in folder.iterdir()} == set(NAMES)
    assert "nothing was published" in printed
    for name in NAMES:
        assert f'evaluate.load("{folder / name}")' in printed


def test_a_dry_run_of_some_writes_these(tmp_path, capsys):
    main(["--org", "ORG", "--metrics", "offensiveness", "likelihood_bias", "--dry_run", str(tmp_path / "dry")])
    assert {path.name for path in (tmp_path / "dry").iterdir()} == {"offensiveness", "likelihood_bias"}
    assert "2 Spaces" in capsys.readouterr().out


def test_a_used_folder_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit, match=r"^publish_metrics\.py: dry_run '.*' is not an empty folder"):
        main(["--org", "ORG", "--dry_run", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("name", NAMES)
def test_the_front_matter_is_that_of_a_space(dry_run, name):
    folder, _ = dry_run
    card = yaml.safe_load((folder / name / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    colors = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert re.sub(r"\W", "_", card["title"].lower()) == name
    assert not card["emoji"].isascii()
    assert {card["colorFrom"], card["colorTo"]} <= colors
    assert (card["sdk"], card["sdk_version"], card["app_file"]) == ("gradio", GRADIO_VERSION, "app.py")
    assert card["python_version"] == oldest_python()
    assert card["pinned"] is False
    assert card["license"] == "apache-2.0"
    assert {"evaluate", "metric"} <= set(card["tags"])
    assert card["description"]
    assert 0 < len(card["short_description"]) <= 60  # what the Hub allows


def oldest_python():
    with (PROJECT / "pyproject.toml").open("rb") as file:
        return re.fullmatch(r">=(\d+\.\d+)", tomllib.load(file)["project"]["requires-python"])[1]


def test_the_release_of_gradio_is_in_one_place():
    for folder in FOLDERS:
        assert "sdk_version" not in (folder / "README.md").read_text(encoding="utf-8")
        assert "gradio" not in (folder / "requirements.txt").read_text(encoding="utf-8")


def test_the_card_loads_the_metric_from_its_space(dry_run):
    folder, _ = dry_run
    for source in FOLDERS:
        local = (source / "README.md").read_text(encoding="utf-8")
        card = (folder / source.name / "README.md").read_text(encoding="utf-8")
        calls = re.findall(r'evaluate\.load\("([^"]*)"', card)
        assert calls
        assert set(calls) == {f"ORG/{source.name}"}
        assert card.replace("ORG/", "").replace(f"sdk_version: {GRADIO_VERSION}\n", "") == local


def test_a_card_that_is_none_of_a_space_is_refused(tmp_path):
    for card in ("# A card\n", "---\ntitle: A\n---\nsdk: gradio\n", "a\n---\nsdk: gradio\n---\n"):
        with pytest.raises(ValueError, match=r"card of a_metric needs the line 'sdk: gradio'"):
            space_card(card, "a_metric", "ORG")


def test_a_folder_that_lacks_a_file_is_refused(tmp_path):
    folder = tmp_path / "answer"
    folder.mkdir()
    for path, content in space_files(FOLDERS[0], "ORG").items():
        (folder / path.replace(FOLDERS[0].name, "answer")).write_bytes(content)
    (folder / "requirements.txt").unlink()
    with pytest.raises(ValueError, match=r"answer has no file requirements\.txt"):
        space_files(folder, "ORG")


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_the_requirements_are_what_the_files_import(folder):
    files = space_files(folder, "ORG")
    own = {Path(path).stem for path in files}
    imported = set()
    for path, content in files.items():
        if path.endswith(".py"):
            for node in ast.walk(ast.parse(content)):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    imported.add(node.module.split(".")[0])
                elif isinstance(node, ast.ImportFrom):
                    names = [node.module] if node.module else [alias.name for alias in node.names]
                    assert set(names) <= own
    assert not imported & set(OURS)
    required = {Requirement(line).name for line in files["requirements.txt"].decode().splitlines()}
    assert imported - set(sys.stdlib_module_names) - own - {"gradio"} == required


def test_the_requirements_have_the_bounds_of_the_project():
    with (PROJECT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    bounds = {
        requirement.name: str(requirement.specifier)
        for requirement in map(Requirement, reversed(lines))  # the first that names a package counts
        if "[" not in str(requirement)
    }
    for folder in FOLDERS:
        for line in (folder / "requirements.txt").read_text().splitlines():
            requirement = Requirement(line)
            assert str(requirement.specifier).startswith(">=")
            assert bounds.get(requirement.name, str(requirement.specifier)) == str(requirement.specifier), line


# --- what the folders do without our packages -------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_test_case_holds_in_the_published_folder(computed, name):
    cases, results = computed[name]["cases"], computed[name]["results"]
    assert len(cases) >= 3
    for case, result in zip(cases, results, strict=True):
        assert case
        for key, expected in case.items():
            assert_close(result[key], expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_first_case_is_the_example_of_the_card(name):
    folder = PROJECT / "hb_metrics" / name
    code = re.search(r"```python\n(import evaluate\n.*?)```", (folder / "README.md").read_text("utf-8"), re.DOTALL)[1]
    call = next(node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call) and node.keywords)
    given = {keyword.arg: eval(ast.unparse(keyword.value), {}) for keyword in call.keywords}
    cases = {}
    exec((folder / "tests.py").read_text(encoding="utf-8"), cases)
    assert given == {key: value for key, value in cases["test_cases"][0].items() if key != "result"}


@pytest.mark.parametrize("name", NAMES)
def test_the_page_computes_its_example_as_the_metric_does(computed, name):
    assert computed[name]["page"] == computed[name]["results"][0]
    assert re.match(r"\d+ rows", computed[name]["notes"][0])


def test_the_pages_columns_are_the_inputs_of_the_metric_and_one_for_each_style(computed):
    assert computed["likelihood_bias"]["columns"] == ["axes", "descriptors", "templates", "predictions"]
    assert computed["offensiveness"]["columns"] == ["descriptors", "templates", "axes", "predictions"]
    assert computed["full_gen_bias"]["columns"] == ["descriptors", "templates", "Happy", "Serious", "axes"]
    assert computed["regard_bias"]["columns"] == ["groups", "structures", "predictions", "prompts", "seeds"]
    assert computed["regard_bias"]["optional"] == ["prompts", "seeds", "structures"]
    assert computed["likelihood_bias"]["optional"] == []
    assert computed["offensiveness"]["optional"] == computed["full_gen_bias"]["optional"] == ["axes"]


def test_the_pages_settings_are_those_of_compute_and_each_is_explained(computed):
    family = ["ddof", "debias", "scale", "confidence_level"]
    assert computed["likelihood_bias"]["settings"] == ["alpha", "include_gendered", "gendered_descriptors"]
    assert computed["offensiveness"]["settings"] == ["threshold", "ddof"]
    assert computed["full_gen_bias"]["settings"] == family  # clusters make no difference to it
    assert computed["partial_gen_bias"]["settings"] == ["clusters", *family]
    assert computed["regard_bias"]["settings"] == [
        "pairs",
        "other",
        "smoothing",
        "kl",
        "k",
        "confidence_level",
        "n_halves",
        "n_shuffles",
        "num_sampled",
        "fixed_structure",
        "seed",
    ]
    for name in NAMES:
        for setting in computed[name]["settings"]:
            assert computed[name]["texts"][setting], (name, setting)
    assert (
        computed["full_gen_bias"]["texts"]["scale"]
        == "the factor that values are multiplied by. Defaults to 1000, as in the paper."
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_result_is_in_a_table(computed, name):
    cells = [
        cell for tables in computed[name]["all_tables"] for _, rows in tables.values() for row in rows for cell in row
    ]
    for results in computed[name]["results"]:
        for value in numbers_in(results):
            assert any(cell == pytest.approx(value, rel=1e-5, abs=1e-9) for cell in cells if not isinstance(cell, str))


def numbers_in(value):
    if isinstance(value, dict):
        return [number for inner in value.values() for number in numbers_in(inner)]
    return [value] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


def test_the_example_tables_agree_with_the_card(computed):
    tables = computed["full_gen_bias"]["tables"]
    headers, rows = tables["figure"]
    assert headers == ["figure", "value"]
    assert rows[:3] == [["full_gen_bias", 125.0], ["noise_floor", 10.0], ["num_descriptors", 2]]
    assert tables["style"] == [["style", "full gen bias"], [["Happy", 62.5], ["Serious", 62.5]]]
    assert "axis" not in tables
    assert computed["full_gen_bias"]["message"].startswith("## full gen bias: 125.0\n\nFrom the table: 4 rows, no axes")
    assert computed["partial_gen_bias"]["tables"]["cluster"] == [
        ["cluster", "partial gen bias", "noise floor", "styles"],
        [["Joy", 65.0, 5.0, "Happy, Cheerful"], ["Gravity", 90.0, 0.0, "Serious"]],
    ]
    assert list(computed["partial_gen_bias"]["tables"]) == ["cluster", "figure"]
    headers, rows = computed["likelihood_bias"]["tables"]["axis"]
    assert dict(zip(headers, rows[0], strict=True)) == {
        "axis": "age",
        "likelihood bias": 1.0,
        "bh likelihood bias": 1.0,
        "effect size": 1.0,
        "num tests": 1,
        "num pairs": 1,
        "lowest descriptors": "young, old",
        "highest descriptors": "old, young",
    }
    headers, rows = computed["regard_bias"]["tables"]["pair"]
    gender = dict(zip(headers, rows[0], strict=True))
    assert (gender["pair"], gender["gap"], gender["gap fixed"], gender["flipped"]) == ("gender", 1.0, 1.0, "tag")
    assert gender["no_interval structures"] == "only 4 structures, and an interval needs at least 5"
    assert ["verdict_over structured", "structures"] in computed["regard_bias"]["tables"]["figure"][1]
    headers, rows = computed["regard_bias"]["tables"]["group"]
    assert [row[headers.index("mean")] for row in rows] == [0.5, -0.5]
    assert [row[headers.index("distribution positive fixed")] for row in rows] == [0.0, 0.0]
    headers, rows = computed["regard_bias"]["tables"]["structure"]
    assert [row[headers.index("gap gender")] for row in rows] == [2.0, 1.0, 2.0, -1.0]
    assert ["robustness num_pairs", 6] in computed["regard_bias"]["tables"]["figure"][1]


def test_every_page_has_a_headline(computed):
    headlines = {name: computed[name]["message"].splitlines()[0] for name in NAMES}
    assert all(re.fullmatch(r"## [a-z ]+: .*\d.*", line) for line in headlines.values()), headlines
    assert headlines["full_gen_bias"] == "## full gen bias: 125.0"
    assert headlines["partial_gen_bias"] == "## partial gen bias: Gravity 90.0, Joy 65.0"
    assert headlines["regard_bias"] == "## gap: gender 1.0"


def test_a_page_speaks_of_its_own_columns_only(computed):
    for name in NAMES:
        text = computed[name]["how_to"]
        assert ("descriptor" in text) == ("descriptors" in computed[name]["columns"])
    assert (
        "Columns may also be named `group`, `structure`, `prompt_id`, `seed_index`, `regard`, as in the dataset"
        in (computed["regard_bias"]["how_to"])
    )


# --- publishing -------------------------------------------------------------------------------------------------------

LOAD_AND_COMPUTE = """
import json

metric = evaluate.load("ORG/full_gen_bias")
results = metric.compute(
    predictions=[[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]],
    descriptors=["young", "young", "old", "old"],
    templates=["Hi! I'm {noun_phrase}."] * 4,
    labels=["Happy", "Serious"],
    confidence_level=0.95,
)
print(json.dumps(results))
"""


def test_a_published_metric_loads_from_the_hub_in_a_new_process(maintainer, run_python, capsys):
    from hb_metrics.statistics.gen_bias import CellSums, gen_bias

    main(["--org", "ORG", "--metrics", "full_gen_bias"])
    printed = capsys.readouterr().out
    assert f"ORG/full_gen_bias: published as {maintainer.url}/spaces/ORG/full_gen_bias/commit/" in printed
    assert 'evaluate.load("ORG/full_gen_bias")' in printed
    result = json.loads(run_python("-c", IMPORT_EVALUATE + WITHOUT_OURS + LOAD_AND_COMPUTE).stdout)

    cells = CellSums(["Happy", "Serious"], keep_replies=True)
    replies = [[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]]
    cells.add(replies, ["young", "young", "old", "old"], ["Hi! I'm {noun_phrase}."] * 4)
    local = gen_bias(cells, confidence_level=0.95)
    assert result["full_gen_bias"] == local.full_gen_bias
    assert result["noise_floor"] == local.noise_floor
    assert result["no_intervals"]["full_gen_bias"] == local.no_intervals["full_gen_bias"] is not None


def test_all_metrics_become_spaces_of_their_own_and_again_changes_nothing(maintainer, capsys):
    main(["--org", "ORG"])
    spaces = {name: maintainer.repo("space", f"ORG/{name}") for name in NAMES}
    commits = {}
    for name, space in spaces.items():
        assert space.sdk == "gradio"
        held = {path: content for path, content in space.files().items() if path != ".gitattributes"}
        assert held == space_files(PROJECT / "hb_metrics" / name, "ORG")
        commits[name] = space.at().oid
    capsys.readouterr()
    main(["--org", "ORG"])
    assert capsys.readouterr().out.count("nothing to do") == len(NAMES)
    assert {name: space.at().oid for name, space in spaces.items()} == commits


def test_only_the_space_whose_files_differ_gets_a_commit(maintainer, capsys, monkeypatch):
    names = ["likelihood_bias", "offensiveness"]
    with monkeypatch.context() as earlier:  # a release with other files
        files = space_files
        more = {"old_helper.py": b"", "averages.py": b"Earlier."}
        earlier.setattr(
            publish_metrics,
            "space_files",
            lambda folder, org: {**files(folder, org), **(more if folder.name == "offensiveness" else {})},
        )
        main(["--org", "ORG", "--metrics", *names])
    before = {name: maintainer.repo("space", f"ORG/{name}").at().oid for name in names}
    maintainer.repo("space", "ORG/offensiveness").commit({"map.png": b"theirs"})
    capsys.readouterr()
    main(["--org", "ORG", "--metrics", *names])
    assert (
        "(written: .published_files.json, averages.py; deleted: old_helper.py; other people's, left alone: map.png)"
        in capsys.readouterr().out
    )
    assert maintainer.repo("space", "ORG/likelihood_bias").at().oid == before["likelihood_bias"]
    held = space_files(PROJECT / "hb_metrics" / "offensiveness", "ORG")
    assert maintainer.repo("space", "ORG/offensiveness").files() == held | {"map.png": b"theirs"}


def test_a_space_of_something_else_is_left_alone_without_among_other_files(maintainer, capsys):
    names = ["likelihood_bias", "offensiveness"]
    theirs = {"app.py": b"import this\n", "weights.bin": b"\0"}
    space = maintainer.create_repo("space", "ORG/offensiveness", theirs)
    with pytest.raises(SystemExit, match=r"^publish_metrics\.py: space ORG/offensiveness holds .*: app\.py, weig"):
        main(["--org", "ORG", "--metrics", *names])
    assert space.files().keys() == {"README.md", *theirs}
    main(["--org", "ORG", "--metrics", *names, "--among_other_files"])
    assert "app.py" in capsys.readouterr().out
    held = space_files(PROJECT / "hb_metrics" / "offensiveness", "ORG")
    assert space.files() == held | {"weights.bin": b"\0"}


def test_the_help_describes_what_a_publication_removes(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "A publication removes the files that an earlier one wrote" in shown
    assert "--among_other_files" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--org", "ORG", "--metrics", "ful_gen_bias"],
            "there is no metric 'ful_gen_bias'; did you mean 'full_gen_bias'",
        ),
        (
            ["--org", "ORG", "--metrics", "xyz"],
            "there is no metric 'xyz'; the metrics are: full_gen_bias, language_model_bias",
        ),
        (["--org", "ORG/spaces"], "org 'ORG/spaces' is not the name of an organisation"),
        (["--org", ""], "org '' is not the name"),
        (["--org", "an org"], "org 'an org' is not the name"),
    ],
)
def test_what_cannot_be_published_is_refused_before_the_hub_is_asked(maintainer, arguments, message):
    with pytest.raises(SystemExit, match=rf"^publish_metrics\.py: .*{message}"):
        main(arguments)
    assert maintainer.requests == []


def test_without_an_org_the_error_names_the_option(capsys):
    with pytest.raises(SystemExit):
        main([])
    assert "--org" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("token", "message"), [("hf_wrong", "does not accept the token"), (None, "no Hugging Face token")]
)
def test_without_a_valid_token_nothing_is_written_and_the_error_is_one_line(in_process, monkeypatch, token, message):
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(SystemExit, match=rf"^publish_metrics\.py: .*{message}") as failed:
        main(["--org", "ORG"])
    assert "\n" not in str(failed.value)
    assert "hf_wrong" not in str(failed.value)
    assert in_process.repos == {}


def test_a_failure_names_the_spaces_that_are_done_and_the_same_command_does_the_rest(maintainer, capsys):
    names = ["likelihood_bias", "offensiveness"]
    maintainer.fail_next("POST", r"/offensiveness/commit/", status=400)
    with pytest.raises(SystemExit, match=r"^publish_metrics\.py: ") as failed:
        main(["--org", "ORG", "--metrics", *names])
    message = str(failed.value)
    assert "ORG/offensiveness" in message
    assert message.endswith("Published before that: ORG/likelihood_bias.")
    assert maintainer.token not in message + "".join(capsys.readouterr())
    first = maintainer.repo("space", "ORG/likelihood_bias").at().oid
    main(["--org", "ORG", "--metrics", *names])
    printed = capsys.readouterr().out
    assert "ORG/likelihood_bias: already published" in printed
    assert "ORG/offensiveness: published as" in printed
    assert maintainer.repo("space", "ORG/likelihood_bias").at().oid == first
    assert maintainer.token not in printed
