"""The authors' data stays out of the repository: tests of it are skipped without it, and show row numbers alone."""

import logging
import os
from itertools import zip_longest
from pathlib import Path

import pytest

from hb_dataset.bias_specification import read_specification
from hb_dataset.counterfactuals import counterfactual
from hb_dataset.reddit_bias import load_reddit_bias
from hb_dataset.table_files import read_lines, read_table

COLUMNS = ["id", "text_t1", "text_t2"]

_FOLDER = os.environ.get("REDDIT_BIAS_DIR") or Path(__file__).parents[2].parent / "shared" / "redditbias"
REDDIT_BIAS = Path(_FOLDER)
with_data = pytest.mark.skipif(
    not REDDIT_BIAS.is_dir(), reason="the authors' RedditBias data is not there; set REDDIT_BIAS_DIR to its folder"
)

SIDES = {"religion1": ("jews", "christians"), "race": ("black", "white"), "gender": ("female", "male")}
# Paper, Table 3: train, development, test.
SIZES = {"religion1": (720, 238, 238), "race": (763, 253, 254), "gender": (1521, 252, 253)}


# --- The authors' data ------------------------------------------------------------------------------------------------


def different_rows(texts, others):
    """The rows in which two lists differ, and never the texts: an `assert` on those would show them when it fails."""
    return [row for row, (text, other) in enumerate(zip_longest(texts, others)) if text != other]


def reduced_texts(bias_type, group, split):
    path = REDDIT_BIAS / bias_type / f"reddit_comments_{bias_type}_{SIDES[bias_type][group]}_biased_{split}_reduced.csv"
    return [cells["comments_processed"] for _, cells in read_table(path, strict=False)]


def by_rule(texts, bias_type, mode="published"):
    specification = read_specification(bias_type)
    return [text if (other := counterfactual(text, specification, mode)) is None else other for text in texts]


@with_data
@pytest.mark.parametrize("bias_type", SIDES)
def test_the_rule_gives_every_published_pair(bias_type):
    expected = reduced_texts(bias_type, 1, "test")

    num_pairs = len(expected)
    assert num_pairs == SIZES[bias_type][2]
    rows = different_rows(by_rule(reduced_texts(bias_type, 0, "test"), bias_type), expected)
    assert rows == []


@with_data
@pytest.mark.parametrize("bias_type", SIDES)
def test_the_rule_gives_the_published_training_files(bias_type):
    train = read_lines(REDDIT_BIAS / bias_type / f"{bias_type}_bias_manual_train.txt")
    both = read_lines(REDDIT_BIAS / bias_type / f"{bias_type}_bias_manual_swapped_targets_train.txt")

    num_phrases = len(train)
    assert num_phrases == SIZES[bias_type][0]
    rows = different_rows(train + by_rule(train, bias_type), both)
    assert rows == []


@with_data
@pytest.mark.parametrize("bias_type", SIDES)
def test_the_data_loads_with_its_pairs_and_sizes(bias_type):
    dataset = load_reddit_bias(REDDIT_BIAS, bias_type)

    assert tuple(dataset[name].num_rows for name in ("train", "validation", "test")) == SIZES[bias_type]
    assert dataset["test"].column_names == COLUMNS
    rows = different_rows(dataset["test"]["text_t1"], reduced_texts(bias_type, 0, "test"))
    rows += different_rows(dataset["validation"]["text_t2"], reduced_texts(bias_type, 1, "valid"))
    assert rows == []


# --- Data of one's own ------------------------------------------------------------------------------------------------


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def authors_files(folder):
    """The authors' layout in small, as odd as theirs."""
    return write(
        folder,
        {
            "gender/gender_bias_manual_train.txt": "<bos> the girl sings\n<bos> a song\n<bos> the girl sings\n",
            "gender/x_female_biased_valid_reduced.csv": "id,comments_processed,perplexity\n"
            "1,my wife sings,12.5\n2,the girl sings,3.25\n",
            "gender/x_male_biased_valid_reduced.csv": "initial_demo,replaced_demo,comments_processed,perplexity\n"
            "a,b,my husband sings,11\na,b,the boy sang,4\n",
            "gender/x_female_biased_test_reduced.csv": "id,comments_processed,perplexity\n"
            '1,"<bos> my midwife, in a café",7\n'.encode("latin-1"),
            "gender/x_male_biased_test_reduced.csv": "replaced_demo,comments_processed,perplexity\n"
            'b,"<bos> my midhusband, in a café",\n'.encode("latin-1"),
        },
    )


def test_the_authors_layout_is_read(tmp_path, caplog):
    folder = authors_files(tmp_path)

    with caplog.at_level(logging.WARNING):
        dataset = load_reddit_bias(folder, "gender")

    assert list(dataset) == ["train", "validation", "test"]
    assert dataset["train"]["text_t1"][:] == ["the girl sings", "a song", "the girl sings"]
    assert dataset["train"]["text_t2"][:] == ["the boy sings", "a song", "the boy sings"]
    expected = "gender-validation-1", "the girl sings", "the boy sang"
    assert dataset["validation"][1] == dict(zip(COLUMNS, expected, strict=True))
    assert dataset["test"][0]["text_t1"] == "my midwife, in a café"
    assert dataset["test"][0]["text_t2"] == "my midhusband, in a café"
    assert caplog.messages == [
        f"the train split of '{folder}': 1 of 3 phrases are identical to their counterfactuals",
        "gender: 1 texts occur in both train and validation",
    ]


def test_in_whole_words_the_files_counterfactuals_are_made_anew(tmp_path, caplog):
    dataset = load_reddit_bias(authors_files(tmp_path), "gender", mode="word")

    assert dataset["train"].num_rows == 2
    assert f"{tmp_path}: 1 train phrases contain no term and were skipped" in caplog.messages
    assert dataset["validation"]["text_t2"][:] == ["my husband sings", "the boy sings"]
    assert dataset["test"].num_rows == 0
    assert dataset["test"].column_names == COLUMNS


THINGS = ("tea", "chess", "old maps")


def test_the_authors_repository_is_read_as_it_is(tmp_path):
    """Its folders of pairs and of training phrases, with the authors' name of a type, and beside other files."""
    side_1, side_2 = "lesbians are fond of tea", "straight women are fond of tea"
    pairs, train = "data/orientation/reddit_comments_orientation", "text_files/orientation/orientation_bias_manual"
    files = {f"{pairs}_lgbtq_processed_phrase_annotated.csv": "comment,phrase\n"}
    for split in ("valid", "test"):
        files[f"{pairs}_lgbtq_biased_{split}_reduced.csv"] = f"id,comments_processed\n1,{split} {side_1}\n"
        head = "initial_demo,replaced_demo,comments_processed\n"
        files[f"{pairs}_straight_biased_{split}_reduced.csv"] = f"{head}a,b,{split} {side_2}\n"
    files |= {f"{train}_train.txt": "<bos> Lesbians ARE\n", f"{train}_lowercase_train.txt": "<bos> lesbians are\n"}
    files[f"{train}_swapped_targets_train.txt"] = "<bos> a\n<bos> b\n"
    root = write(tmp_path / "RedditBias", files)
    dataset = load_reddit_bias(root, "queerness")
    assert list(dataset) == ["train", "validation", "test"]
    assert dataset["train"]["text_t1"][:] == ["lesbians are"]
    assert (dataset["test"]["text_t1"][:], dataset["test"]["text_t2"][:]) == ([f"test {side_1}"], [f"test {side_2}"])
    assert load_reddit_bias(root / "data", "queerness")["test"][:] == dataset["test"][:]
    assert load_reddit_bias(root / "text_files" / "orientation", "queerness")["train"][:] == dataset["train"][:]


def test_data_of_another_bias_type_are_refused_but_pairs_of_your_own_are_not(tmp_path):
    phrases = [f"my wife likes {thing}" for thing in THINGS]
    folder = write(tmp_path, {"gender/train.txt": "\n".join(phrases), "own/test.csv": "text,text_t2\na cat,a dog\n"})

    with pytest.raises(ValueError, match="3 of 3 train phrases contain no term of 'race'") as error:
        load_reddit_bias(folder / "gender", "race")
    assert "tea" not in str(error.value)
    assert load_reddit_bias(folder / "own", "race")["test"].num_rows == 1


def test_a_folder_of_your_own_is_read_in_whole_words(tmp_path):
    csv = "text,text_t2\nmy wife sings,\nmy girl,my lad\n"
    folder = write(tmp_path, {"train.txt": "The midwife met a Girl.\r\n\r\nnobody\n", "test.csv": csv})

    dataset = load_reddit_bias(folder, read_specification("gender"))

    assert list(dataset) == ["train", "test"]
    assert dataset["train"]["text_t2"][:] == ["The midwife met a Boy."]
    assert dataset["test"]["text_t2"][:] == ["my husband sings", "my lad"]


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({}, "contains no RedditBias split for gender; add a file named train, validation or test"),
        ({"train.txt": "a", "train.csv": "text\na"}, r"has several files for train \(train.csv, train.txt\)"),
        ({"test.csv": "secret words here\nb"}, r"no column text_t1 or text or .*; .* are: …\)$"),
        ({"test.csv": "text\n"}, "the test file in '.*' has no phrases"),
        (
            {
                "x_biased_test_reduced.csv": "comments_processed\na\nb\n",
                "y_biased_test_reduced.csv": "replaced_demo,comments_processed\na,a\n",
            },
            r"has 2 rows, but '.*' has 1",
        ),
        (
            {"y_biased_valid_reduced.csv": "replaced_demo,comments_processed\na,a\n"},
            r"validation has counterfactuals \(y_biased_valid.*, but no phrases",
        ),
    ],
)
def test_a_faulty_folder_is_reported(tmp_path, files, error):
    with pytest.raises((ValueError, FileNotFoundError), match=error) as caught:
        load_reddit_bias(write(tmp_path, files), "gender")

    assert "secret" not in str(caught.value)


def test_a_missing_folder_type_or_mode_is_reported(tmp_path):
    with pytest.raises(NotADirectoryError, match="does not exist"):
        load_reddit_bias(tmp_path / "none", "gender")
    with pytest.raises(FileNotFoundError, match="did you mean 'gender'"):
        load_reddit_bias(tmp_path, "genders")
    with pytest.raises(ValueError, match="mode 'words' is unknown"):
        load_reddit_bias(tmp_path, "gender", mode="words")
