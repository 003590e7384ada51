"""The leaderboard: what is read of published results, which runs compare, and the page; files may be hostile."""

import base64
import hashlib
import html.parser
import io
import math
import re

import pyarrow.parquet as pq
import pytest
import yaml
from huggingface_hub import constants

from hub_scripts.eval_tasks import tasks
from hub_scripts.leaderboard.groups import MOST_GROUPS_OF_A_MODEL, MOST_RUNS_OF_A_REPOSITORY, grouped
from hub_scripts.leaderboard.page import space_files
from hub_scripts.leaderboard.reading import (
    COLUMNS,
    MOST_ENTRIES,
    MOST_JSON_BYTES,
    NO_LINK,
    Reading,
    joined,
    read_content,
    read_files,
)
from hub_scripts.leaderboard.scatter import scatter, ticks
from hub_scripts.publish_leaderboard import is_results_path, main
from tests.hb_metrics.browser import open_browser
from tests.hb_metrics.pages import needs_browser

DATASET = "ORG/holistic_bias"
REPLIES = "context chat; sample; num_beams 1; temperature 0.7; max_new_tokens 40; reply first_line; seed 0"
STYLES = "styles classified by someone/styles (digest 0123456789ab)"
ATTACK = "<script>x()</script><img src=x onerror=x()>\"'</style>{{ 7*7 }}"


def entry(task="full_gen_bias_debiased", value=5.0, config="v1.0", notes=None, model="ORG/model", **more):
    measured = {
        "full_gen_bias_debiased": f"95% interval 4 to 6; ×1000, ddof 0; 8 replies a cell; {STYLES}; {REPLIES}",
        "full_gen_bias": f"×1000, ddof 0; 8 replies a cell; {STYLES}; {REPLIES}",
        "offensive_replies": f"3 of 2,496 replies, threshold 0.5; offensiveness classified by w (digest {'1' * 12}); "
        f"{REPLIES}",
        "likelihood_bias": "share of 780 tests with p < 0.05; perplexity",
    }
    if notes is None:
        commit = f"commit 0123456789ab of {model}, bfloat16"
        notes = f"config {config}; {measured.get(task, '')}; model {commit}; holistic-bias 0.1.0"
    about = {"id": DATASET, "task_id": f"{task}_{config}", "revision": config.split("-")[0]}
    return {"dataset": about, "value": value, "notes": notes, **more}


def changed(one, *changes):
    """An entry with changed notes."""
    for old, new in changes:
        assert old in one["notes"]
        one = one | {"notes": one["notes"].replace(old, new)}
    return one


def read(*entries, repo_id="ORG/model"):
    content = yaml.safe_dump(list(entries), allow_unicode=True).encode()
    return read_content(content, f"{repo_id}/.eval_results/a.yaml", repo_id, DATASET)


def board(*readings):
    return grouped(joined(readings))


def page_of(reading):
    return space_files(reading, DATASET)["index.html"].decode()


class Parsed(html.parser.HTMLParser):
    """What a browser makes of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.texts, self.attributes = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.links += [value for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data):
        self.texts.append(data)


# --- reading ----------------------------------------------------------------------------------------------------------


def test_every_task_of_the_evaluation_results_has_a_column():
    assert set(COLUMNS) == set(tasks())


def test_a_figure_is_read_with_all_that_it_compares_by():
    notes = ("seed 0", "seed 0; dialogue perplexity 16 over 600 tokens of 100 replies (digest 469db671c4f1)")
    reading = read(
        changed(entry(), notes, ("context chat", "context chat; tag no_bias")) | {"source": {"url": "https://a.org/r"}}
    )
    assert reading.refused == []
    figure = reading.figures[0]
    assert (figure.value, figure.interval, figure.level) == (5.0, (4.0, 6.0), "95")
    assert figure.settings.config == "v1.0"
    assert figure.settings.styles == "someone/styles (digest 0123456789ab), ×1000, ddof 0"
    assert figure.settings.decoding == (
        "context chat, max_new_tokens 40, num_beams 1, reply first_line, sample, temperature 0.7"
    )
    assert "seed" not in figure.settings.decoding
    assert figure.run == ("no_bias", "0")
    assert figure.details == ("8 replies a cell",)
    assert figure.dialogue.bits == 4 * 6  # log2(16) bits a token, six tokens a reply
    assert figure.link == "https://a.org/r"
    assert figure.faults == ()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("commit 0123456789ab of ", ""), "no commit or digest of the model"),
        ((" (digest 0123456789ab)", ""), "no digest of the classifier"),
        (("; seed 0", ""), "no seed"),
        (("; holistic-bias 0.1.0", ""), "no release of holistic-bias"),
        (("seed 0", "seed 0; with a system prompt"), "with a system prompt, which is not published"),
        (("seed 0", "seed 0; frobnicate 7"), "settings that this release does not know: frobnicate 7"),
        (("of ORG/model", "of other/one"), "names another model than its repository: other/one"),
        (("of ORG/model", "of <b>"), "names no model that can be on the Hub"),
        (("of ORG/model", "of ORG/base, with adapter ORG/model"), "no commit or digest of the adapter"),
        (("95% interval 4 to 6", "95% interval 6 to 7"), "its value is outside its interval"),
    ],
)
def test_what_cannot_be_measured_again_is_shown_with_the_reason(change, fault):
    reading = read(changed(entry(), change))
    assert reading.figures[0].faults == (fault,)
    page = Parsed(page_of(reading))
    assert "not reproducible" in page.texts
    assert fault in "".join(page.texts)
    assert "not reproducible" not in Parsed(page_of(read(entry()))).texts


def test_an_adapter_in_its_own_repository_and_digests_in_capitals_or_in_full_are_as_good():
    adapter = changed(entry(), ("of ORG/model", f"of ORG/base, with adapter ORG/model (commit {'A' * 40})"))
    figure = read(changed(adapter, ("0123456789ab)", "0123456789AB" + "cd" * 26 + ")"))).figures[0]
    assert figure.faults == ()
    assert figure.settings == read(entry()).figures[0].settings
    other = read(changed(adapter, ("adapter ORG/model", "adapter ORG/other"))).figures[0]
    assert other.faults == ("names another model than its repository: ORG/other",)


def test_a_local_model_can_be_measured_again_only_if_a_repository_holds_it():
    one = changed(entry(), ("commit 0123456789ab of ORG/model", "a local folder, mine (digest 0123456789ab)"))
    local = read_content(yaml.safe_dump([one]).encode(), "a.yaml", None, DATASET)
    assert local.figures[0].faults == ("measured a local model, and not one on the Hub",)
    assert read(one).figures[0].faults == ()


def test_without_notes_or_with_another_revision_nothing_can_be_measured_again():
    bare = entry() | {"notes": ""}
    assert read(bare).figures[0].faults == ("states no settings",)
    other = entry() | {"dataset": entry()["dataset"] | {"revision": "main"}}
    assert read(other).figures[0].faults == ("the dataset's revision is 'main', not v1.0",)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (entry(value=math.nan), "value '.nan' is not a number"),
        (entry(value=math.inf), "value '.inf' is not a number"),
        (entry(value="1e999"), "cannot be: Full Gen Bias, debiased is from -1000 to 1000"),
        (entry(value=10**40), "is not a number"),
        (entry(value=True), "value 'true' is not a number"),
        (entry(value=[1]), "value is a list or a mapping"),
        (entry(value=None), "value 'null' is not a number"),
        (entry(value=ATTACK), "is not a number"),
        (entry("likelihood_bias", 1.5), "cannot be: Likelihood Bias is from 0 to 1"),
        (entry("offensive_replies", -0.1), "cannot be"),
        (entry(config="v9.0"), "'v9.0' is no config of a published version"),
        (entry(config="../../etc/passwd"), "is no config of a published version"),
        (changed(entry(), ("config v1.0", "config v1.0-small")), "its notes are about the config 'v1.0-small'"),
        (changed(entry(), ("4 to 6", "6 to 4")), "the interval is from 6 to 4"),
        (changed(entry(), ("95%", "950%")), "its interval is of '950'%"),
        (
            changed(entry(), ("seed 0", "dialogue perplexity 9 over 99,999 tokens of 1 replies (digest 469db671c4f1)")),
            "99,999",
        ),
        (changed(entry(), ("4 to 6", "-5e30 to 6")), "bound of the interval '-5e30' cannot be"),
        (changed(entry(), ("4 to 6", "4,1 to ...")), "bound of the interval '4,1' is not a number"),
        (
            changed(entry(), ("seed 0", "dialogue perplexity 0.5 over 6 tokens of 1 replies (digest 469db671c4f1)")),
            "0.5",
        ),
        (
            changed(entry(), ("seed 0", "dialogue perplexity 1e99 over 6 tokens of 1 replies (digest 469db671c4f1)")),
            "1e99",
        ),
        (entry(notes="x" * 5000), "its notes has 5,000 characters"),
        (entry() | {"dataset": 7}, "it has no dataset"),
        ("text", "it has no dataset"),
        ({}, "it has no dataset"),
    ],
)
def test_an_entry_that_cannot_be_is_refused_and_the_others_are_read(bad, reason):
    reading = read(bad, entry("likelihood_bias", 0.5))
    assert [figure.task for figure in reading.figures] == ["likelihood_bias"]
    assert [refused.where for refused in reading.refused] == ["ORG/model/.eval_results/a.yaml, entry 1"]
    assert reason in reading.refused[0].reason
    assert reason in "".join(Parsed(page_of(reading)).texts)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\xfe", "it is not UTF-8"),
        (b"a: &a [x]\nb: [*a, *a]", "it has YAML aliases"),
        (b"[" * 1_000, "it is not YAML"),
        (b"a: b: c", "it is not YAML (mapping values are not allowed here, line 1)"),
        (b"? [a]\n: b", "it is not YAML"),
        (b"{}", "it is not a list of evaluation results"),
        (b"", "it is not a list of evaluation results"),
        (b"- x\n" * (MOST_ENTRIES + 1), f"{MOST_ENTRIES + 1} entries; at most {MOST_ENTRIES} are read"),
        (b"-" * 70_000, "70,000 bytes; at most 65,536 are read"),
    ],
)
def test_a_file_that_is_no_list_of_results_is_refused(content, reason):
    reading = read_content(content, "a.yaml", None, DATASET)
    assert (reading.figures, len(reading.refused)) == ([], 1)
    assert reason in reading.refused[0].reason


def test_no_python_object_is_made_from_a_file(tmp_path):
    made = tmp_path / "made"
    content = f"- !!python/object/apply:os.system ['touch {made}']\n".encode()
    assert read_content(content, "a.yaml", None, DATASET).refused[0].reason == "it has no dataset"
    assert not made.exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON (too deep)"),
        ('{"run": NaN}', "it has NaN"),
        ("[]", "it does not hold the results of a run"),
        ("{}", "it does not hold the results of a run (KeyError: 'run')"),
        ('{"run": {"settings": {}, "data": {"config": "v1.0"}}, "generation": {}}', "it does not hold the results"),
        ('{"run": {"settings": {"axes": 5}, "data": {"config": ["a"]}}}', "it does not hold the results of a run"),
        ('{"run": {"settings": {"axes": ["age"]}, "data": {"config": "v1.0"}}}', "the run measured only age"),
        ('{"run": {"settings": {"vocabulary_dir": "/home/me/voc"}, "data": {"config": "v1.0"}}}', "of its own (voc)"),
    ],
)
def test_a_results_file_that_is_none_is_refused(content, reason):
    reading = read_content(content.encode(), "run/results.json", None, DATASET)
    assert reading.figures == []
    assert reason in reading.refused[0].reason
    assert "/home" not in reading.refused[0].reason


def test_results_for_other_datasets_and_other_figures_are_counted():
    other = entry() | {"dataset": {"id": "cais/hle", "task_id": "hle"}}
    reading = read(other, entry("made_up", 1), entry())
    assert (len(reading.figures), reading.refused, reading.num_others) == (1, [], 2)
    assert "2 published results are about another dataset or another figure" in page_of(reading)


def test_a_figure_that_is_given_twice_is_shown_once():
    reading = joined([read(entry()), read(entry(), entry(value=4.5))])
    assert [figure.value for figure in reading.figures] == [5.0]
    assert [refused.reason.rpartition(", ")[2] for refused in reading.refused] == [
        "with the same value",
        "with another value",
    ]


def test_only_regular_files_of_a_size_are_read_from_folders(tmp_path):
    folder = tmp_path / "ORG" / ".eval_results"
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text(yaml.safe_dump([entry()]), encoding="utf-8")
    with (tmp_path / "results.json").open("wb") as large:
        large.truncate(MOST_JSON_BYTES + 1)
    reading = read_files([tmp_path], DATASET)
    assert [figure.where for figure in reading.figures] == [f"{tmp_path.name}/ORG/.eval_results/a.yaml"]
    assert [refused.reason for refused in reading.refused] == ["16,777,217 bytes; at most 16,777,216 are read"]
    with pytest.raises(ValueError, match="there is no file or folder"):
        read_files([tmp_path / "nothing"], DATASET)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"has no results\.json and no \.eval_results"):
        read_files([tmp_path / "empty"], DATASET)


def test_paths_in_a_repository_that_are_read():
    paths = {"run.json", "results.json", "a/results.json", "a/run.json", "b/results.json", "a/../run.json"}
    assert [path for path in sorted(paths) if is_results_path(path, paths)] == ["a/results.json", "results.json"]
    assert is_results_path(".eval_results/a-1.yaml", ())
    for path in (".eval_results/../a.yaml", ".eval_results/a/b.yaml", "a/../results.json", ".eval_results/a\n.yaml"):
        assert not is_results_path(path, {"a/../run.json"})


# --- groups -----------------------------------------------------------------------------------------------------------


def run_of(model, *changes, task="full_gen_bias_debiased", value=5.0, likelihood=0.5, config="v1.0"):
    entries = [changed(entry(task, value, config, model=model), *changes)]
    if likelihood is not None:
        entries.append(entry("likelihood_bias", likelihood, config, model=model))
    return read(*entries, repo_id=model)


@pytest.mark.parametrize(
    "change",
    [
        ("temperature 0.7", "temperature 1.0"),
        ("someone/styles (digest 0123456789ab)", "someone/styles (digest ffffffffffff)"),
        ("someone/styles (digest 0123456789ab)", "someone/styles"),
        ("ddof 0", "ddof 1"),
        ("temperature 0.7", "temperature 0.7; chat_template_kwargs " + "x" * 500),
        ("config v1.0", "config v1.0; sample of 500 prompts, drawn with seed 0"),
        ("; sample;", ";"),
        ("seed 0", "seed 0; frobnicate 7"),
    ],
)
def test_runs_with_other_settings_are_not_beside_each_other(change):
    groups, _ = board(run_of("a/a"), run_of("b/b"), run_of("c/c", change, likelihood=None))
    biased = [[row.name for row in group.rows] for group in groups if group.settings.styles is not None]
    assert biased == [["a/a", "b/b"], ["c/c"]]


@pytest.mark.parametrize("change", [("seed 0", "seed 7"), ("context chat", "context chat; tag no_bias")])
def test_the_seed_and_the_tag_are_no_settings_that_separate(change):
    groups, _ = board(run_of("a/a"), run_of("b/b", change))
    assert [[row.name for row in group.rows] for group in groups] == [["a/a", "b/b"]]


def test_likelihoods_compare_whatever_classifies_replies():
    groups, _ = board(
        run_of("a/a"),
        run_of("b/b", ("temperature 0.7", "temperature 1.0"), likelihood=0.4),
        run_of("c/c", task="likelihood_bias", likelihood=None, value=0.3),
    )
    named = {group.settings.decoding and group.settings.decoding[-60:]: group for group in groups}
    assert [row.name for row in named[None].rows] == ["c/c", "b/b", "a/a"]
    assert all(set(row.figures) == {"likelihood_bias"} for row in named[None].rows)
    # A model without replies is in no group of replies: there may be many of either.
    assert [[row.name for row in group.rows] for group in groups if group.settings.decoding] == [["a/a"], ["b/b"]]
    alone, _ = board(run_of("c/c", task="likelihood_bias", likelihood=None, value=0.3), run_of("a/a"))
    assert sorted(sorted(row.name for row in group.rows) for group in alone) == [["a/a"], ["a/a", "c/c"]]


def test_runs_that_cannot_be_measured_again_are_last_and_the_others_ordered_by_value():
    groups, _ = board(
        run_of("a/a", value=5.9, likelihood=None),
        run_of("b/b", ("; holistic-bias 0.1.0", ""), value=4.1, likelihood=None),
        run_of("c/c", value=4.3, likelihood=None),
    )
    assert [row.name for row in groups[0].rows] == ["c/c", "a/a", "b/b"]


def test_overlaps_are_counted_over_pairs():
    intervals = ["1 to 3", "2 to 5", "3 to 4", "7 to 8"]  # bounds that touch overlap
    runs = [run_of(f"a/{number}", ("4 to 6", one)) for number, one in enumerate(intervals)]
    groups, _ = board(*runs, run_of("b/b", ("95% interval 4 to 6", "10% interval 4 to 6")))  # of another level
    assert groups[0].num_overlaps == (3, 6)


def test_a_flood_of_settings_is_refused():
    number = MOST_GROUPS_OF_A_MODEL + 1
    flood = [changed(entry(), ("temperature 0.7", f"temperature {one}")) for one in range(number)]
    groups, refused = board(read(*flood), run_of("b/b"))
    assert [[row.name for row in group.rows] for group in groups] == [["b/b"]]
    assert [one.reason for one in refused] == ["17 combinations of settings of one model; at most 16 are shown"]
    number = MOST_RUNS_OF_A_REPOSITORY + 1
    seeds = [read(changed(entry(), ("seed 0", f"seed {one}"))) for one in range(number)]
    groups, refused = board(*seeds, run_of("b/b"))
    assert [[row.name for row in group.rows] for group in groups] == [["b/b"]]
    assert [(one.where, one.reason.partition(",")[0]) for one in refused] == [
        ("ORG/model", "97 runs of one repository")
    ]


# --- the page ---------------------------------------------------------------------------------------------------------


def test_nothing_that_was_published_is_markup_or_a_script(tmp_path):
    bad = changed(entry(), ("of ORG/model", f"of {ATTACK}\u202e")) | {"source": {"url": "javascript:alert(1)"}}
    named = read_content(b"{}", f"{ATTACK.replace('/', '')}.yaml", None, DATASET)
    texts = {"source": {"url": 'https://a.org/"><script>'}}
    styled = changed(entry() | texts, (STYLES, f"{STYLES.replace('someone', ATTACK)}"), ("chat", ATTACK))
    reading = joined([read(bad), named, read(styled, repo_id="evil/two")])
    assert len(reading.figures) == 2
    assert [refused.reason for refused in reading.refused if refused.reason == NO_LINK] == [NO_LINK] * 2
    text = page_of(reading)
    page, empty = Parsed(text), Parsed(page_of(Reading([], [], 0)))
    assert page.tags.count("script") == empty.tags.count("script") == 1
    assert {"img", "iframe", "object", "embed"} & set(page.tags) == set()
    assert [name for name in page.attributes if name.startswith("on")] == []
    assert "49" not in text.partition("<main")[2].partition("<h2 id")[0].replace("0.49", "")
    assert "\u202e" not in text
    assert {link for link in page.links if not link.startswith("https://")} == {"#main", "leaderboard.parquet"}
    assert "https://huggingface.co/evil/two/blob/main/.eval_results/a.yaml" in page.links  # in place of a bad link
    assert ATTACK[:8] in "".join(page.texts)  # shown as it is


def test_a_browser_is_told_to_run_no_script_but_the_page_s_own():
    text = page_of(read(entry()))
    script = re.search(r"<script>(.*)</script>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search('Content-Security-Policy" content="([^"]*)"', text)[1].replace("&#39;", "'")
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert not re.search(r"(src|href)=\"(//|http)[^\"]*\.(js|css|woff)", text)


def test_the_page_has_each_figure_with_its_interval_and_the_data_too():
    reading = joined([run_of("a/a"), run_of("b/b", ("4 to 6", "7.5 to 9"), value=8.0)])
    files = space_files(reading, DATASET)
    text = "".join(Parsed(files["index.html"].decode()).texts)
    for shown in ("a/a", "b/b", "5.00", "95%: 4.00 to 6.00", "8.00", "95%: 7.50 to 9.00", "50.0%", "8 replies a cell"):
        assert shown in text
    assert "overlap in 0 of 1 pair of runs" in text
    rows = pq.read_table(io.BytesIO(files["leaderboard.parquet"])).to_pylist()
    found = {(row["repo_id"], row["figure"]): (row["value"], row["lowest"], row["highest"]) for row in rows}
    assert found == {
        ("a/a", "full_gen_bias_debiased"): (5.0, 4.0, 6.0),
        ("b/b", "full_gen_bias_debiased"): (8.0, 7.5, 9.0),
        ("a/a", "likelihood_bias"): (0.5, None, None),
        ("b/b", "likelihood_bias"): (0.5, None, None),
    }
    card = yaml.safe_load(files["README.md"].decode().split("---\n")[1])
    assert (card["sdk"], card["app_file"], card["datasets"]) == ("static", "index.html", [DATASET])
    assert len(card["short_description"]) <= 60
    assert space_files(joined([reading]), DATASET) == files


def test_plain_values_with_other_replies_a_cell_are_not_in_the_column_beside_each_other():
    plain = [run_of(f"a/{one}", task="full_gen_bias", value=30.0 + one, likelihood=None) for one in range(2)]
    more = run_of("b/b", ("8 replies a cell", "16 replies a cell"), task="full_gen_bias", value=20.5, likelihood=None)
    text = page_of(joined([*plain, more]))
    assert re.findall(r'<td class="number" data-value="([^"]*)">', text) == ["30.0", "31.0"]
    assert "20.5 does not" in text
    assert "compare: 16 replies a cell" in text


def test_runs_of_one_model_differ_by_their_seed_and_a_name_from_a_local_file_is_not_taken_for_granted():
    local = read_content(yaml.safe_dump([entry()]).encode(), "a.yaml", None, DATASET)
    page = Parsed(page_of(joined([read(entry(), changed(entry(), ("seed 0", "seed 7"))), local])))
    text = "".join(page.texts)
    assert text.count("bfloat16, seed 0") == 2
    assert text.count("bfloat16, seed 7") == 1
    assert text.count("from the file a.yaml, which is not in the model's repository") == 1


def test_titles_hold_what_few_groups_have_and_are_not_the_same_twice():
    runs = [
        run_of("a/a", likelihood=None),
        run_of("b/b", ("temperature 0.7", "temperature 1.0"), likelihood=None),
        run_of("c/c", ("; temperature 0.7", ""), likelihood=None),
        run_of("d/d", ("; temperature 0.7", "; top_k 9"), likelihood=None),
    ]
    titles = re.findall(
        "<h2>v1.0 · classified by someone/styles \\(digest 0123456789ab\\)(.*)</h2>", page_of(joined(runs))
    )
    assert sorted(titles) == [
        " · 1 run",
        " · temperature 0.7 · 1 run",
        " · temperature 1.0 · 1 run",
        " · top_k 9 · 1 run",
    ]


def test_without_results_the_page_shows_how_to_add_some():
    text = "".join(Parsed(page_of(Reading([], [], 0))).texts)
    assert f"No figures were published for {DATASET} yet" in text
    assert "How to add yours" in text
    assert "--dataset_config v1.0 " in text  # the default, on which others measured


@needs_browser
def test_a_figure_by_itself_is_not_behind_the_name_on_a_phone(tmp_path):
    path = tmp_path / "index.html"
    path.write_text(page_of(read(entry("likelihood_bias", 0.73))), encoding="utf-8")
    with open_browser(tmp_path / "profile", tmp_path / "saved") as browser:
        browser.open(path, 390, 850, touch=True)
        browser.run("document.querySelector('.scroll').scrollLeft = 1e5")
        name, figure = (f"document.querySelector('tbody {cell}').getBoundingClientRect()" for cell in ("th", "td"))
        assert browser.run(f"{figure}.left - {name}.right") > -1


def with_dialogue(model, perplexity, tokens, replies=100, digest="469db671c4f1"):
    note = f"dialogue perplexity {perplexity} over {tokens} tokens of {replies} replies (digest {digest})"
    return run_of(model, ("seed 0", f"seed 0; {note}"), likelihood=None)


def test_the_plot_has_runs_on_the_same_replies_and_counts_the_others():
    # The same replies are half as many tokens of twice the bits: a tokenizer makes no difference.
    runs = [with_dialogue("a/a", 4, 800), with_dialogue("b/b", 16, 400), with_dialogue("c/c", 4, 800, digest="0" * 12)]
    groups, _ = board(*runs)
    plot = scatter(groups[0].rows)
    assert len(plot.points) == 2
    assert plot.num_other_replies == 1
    assert plot.points[0].x == plot.points[1].x
    assert plot.points[0].low > plot.points[0].y > plot.points[0].high  # downwards in a picture
    # A hundredth more bits is not at the other end of the axis.
    close = scatter(board(with_dialogue("a/a", 4, 800), with_dialogue("b/b", 4, 808))[0][0].rows)
    assert abs(close.points[0].x - close.points[1].x) < 40
    assert scatter(board(run_of("a/a"))[0][0].rows) is None


@pytest.mark.parametrize(
    "values", [[0.0, 1.0], [-0.3, 11.0], [5.0], [0.0, 0.0], [136.02, 144.8], [1e-9, 2e-9], [-1000, 1000]]
)
def test_ticks_are_few_and_hold_all_values(values):
    shown = ticks(values)
    assert shown[0] <= min(values) + 1e-9
    assert shown[-1] >= max(values) - 1e-9
    assert 2 <= len(shown) <= 9


# --- publishing -------------------------------------------------------------------------------------------------------


@pytest.fixture
def published(in_process, monkeypatch, tmp_path):
    """The Hub with a dataset, a model with results, one with hostile ones, and one without; a maintainer's token."""
    in_process.create_repo("dataset", DATASET)
    path = ".eval_results/holistic_bias.yaml"
    in_process.create_repo("model", "ORG/model", {path: yaml.safe_dump([entry()]).encode()})
    hostile = [entry(value=2000.0), entry("likelihood_bias", 0.5, model="evil/one")]
    in_process.create_repo("model", "evil/one", {path: yaml.safe_dump(hostile).encode()})
    in_process.create_repo("model", "ORG/silent", {"README.md": b"# None\n"})
    monkeypatch.setenv("HF_TOKEN", in_process.token)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return in_process


def publish(*options):
    main(["--repo_id", "ORG/board", "--dataset_id", DATASET, *map(str, options)])


def test_publishing_makes_a_static_space_of_what_the_hub_lists(published, capsys):
    publish()
    space = published.repo("space", "ORG/board")
    assert space.sdk == "static"
    assert space.files().keys() == {"README.md", "index.html", "leaderboard.parquet"}  # and not the Hub's sample page
    text = space.files()["index.html"].decode()
    assert "ORG/model" in text
    assert "2000" in text.partition('id="refused"')[2]
    shown = capsys.readouterr().out
    assert "2 figures read; 1 files, entries or links refused" in shown
    assert "evil/one/.eval_results/holistic_bias.yaml, entry 1: its value '2000.0' cannot be" in shown
    publish()
    assert "nothing to do" in capsys.readouterr().out
    publish("--models", "ORG/silent", "ORG/model", "ORG/missing", "--leave_out", "ORG/Model")
    text = space.files()["index.html"].decode()
    assert "the repository cannot be read (HTTP 404)" in text
    assert "1 figure left out by those who publish this page" in text
    assert "1 published figure" not in text
    asked = [request for request in published.requests if "leaderboard" in request.path]
    assert asked
    assert not any(request.authorized for request in asked)  # no private models


def test_a_space_of_somebody_else_is_left_alone(published):
    theirs = {"index.html": b"<h1>Welcome to your static Space!</h1> Mine."}
    space = published.create_repo("space", "ORG/board", theirs, sdk="static")
    before = space.files()
    with pytest.raises(SystemExit, match=r"publish_leaderboard\.py: space ORG/board holds .*index\.html"):
        publish()
    assert space.files() == before
    space.sdk = "gradio"  # as a metric's Space, whose files would be those of an earlier publication of ours
    with pytest.raises(SystemExit, match="the Space ORG/board runs gradio, and a leaderboard is static"):
        publish("--among_other_files")
    assert space.files() == before


def test_what_the_hub_does_not_have_is_a_line(published, monkeypatch):
    del published.repos["model", "ORG/model"], published.repos["model", "evil/one"]
    with pytest.raises(SystemExit, match="the Hub has no list of models with results for ORG/holistic_bias") as error:
        publish()
    assert "\n" not in str(error.value)
    published.fail_next("GET", "/api/models/ORG/silent", 503, times=9)
    with pytest.raises(SystemExit, match=r"ORG/silent cannot be read .* nothing was written"):
        publish("--models", "ORG/silent")
    assert ("space", "ORG/board") not in published.repos


def test_a_dry_run_of_local_results_needs_no_hub(in_process, capsys, tmp_path):
    results = tmp_path / "results.yaml"
    results.write_text(yaml.safe_dump([entry()]), encoding="utf-8")
    publish("--results", results, "--dry_run", tmp_path / "out")
    assert in_process.requests == []
    assert "nothing was published" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"README.md", "index.html", "leaderboard.parquet"}
