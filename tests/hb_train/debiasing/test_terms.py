"""Terms are found in texts and tokens with any tokenizer, and phrases are read and marked."""

import pytest
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from hb_dataset.bias_specification import BiasSpecification, TargetPair
from hb_train.debiasing.terms import (
    ATTRIBUTES,
    NUM_FORMS,
    RUNNING_FORM,
    TARGETS,
    encode_phrases,
    find_terms,
    num_occurrences,
    read_phrases,
    read_terms,
    term_pattern,
)
from hb_train.training.encoding import collate
from tests.hb_metrics.conftest import byte_level

TEXTS = [
    "My cat is greedy and Cats sleep all day",
    "CATS, said the guard dog, are sleep eaters; a dog is not",
    "the guard dog and the house cat share greediness",
]
PAIRS = (TargetPair(t1="cat", t2="dog"), TargetPair(t1="house cat", t2="guard dog"), TargetPair(t1="cat", t2="pup"))


def pets(*pairs):
    return BiasSpecification(
        bias_type="pets",
        dimension="pets",
        group_1="cats",
        group_2="dogs",
        target_terms_1=("cat",),
        target_terms_2=("dog",),
        pairs=pairs or PAIRS,
        attributes_1=("greed*", "sleep eaters", "sleep"),
        attributes_2=(),
    )


def metaspace():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator(TEXTS * 9, trainer)
    return tokenizer


MADE = {name: byte_level(TEXTS * 9, size) for name, size in {"characters": 256, "words": 400, "between": 280}.items()}
MADE["meta"] = metaspace()
TOKENIZERS = {name: transformers.PreTrainedTokenizerFast(tokenizer_object=made) for name, made in MADE.items()}


@pytest.fixture(params=TOKENIZERS)
def tokenizer(request):
    return TOKENIZERS[request.param]


def words_found(text, terms):
    return [text[match.start : match.end] for match in find_terms(text, term_pattern(terms))]


def test_terms_are_whole_words_in_any_case_the_longest_first():
    assert words_found("Cats concatenate a cat, cat's and CAT-like", ["cat"]) == ["cat", "cat", "CAT"]
    assert words_found("the house  cat, a cat, the household cat", ["cat", "house cat"]) == ["house  cat", "cat", "cat"]
    assert words_found("greed greedy Greediness agreed", ["greed*"]) == ["greed", "greedy", "Greediness"]
    assert words_found("sleep sleepy", ["sleep"]) == ["sleep"]
    assert words_found("they sleep* (a.b) aXb", ["a.b"]) == ["a.b"]
    assert words_found("bad drivers and bad driving", ["bad* driver*"]) == ["bad drivers"]


def test_the_tokens_of_a_form_are_those_of_the_word_in_text(tokenizer):
    terms = read_terms(pets(), tokenizer)
    assert terms.terms == ("cat", "dog", "house cat", "guard dog", "pup")
    assert terms.pairs.tolist() == [[0, 1], [2, 3], [0, 4]]
    assert terms.ids.shape[:2] == (NUM_FORMS, 5)
    running = [[token for token in row if token >= 0] for row in terms.ids[RUNNING_FORM].tolist()]
    for term, tokens in zip(terms.terms, running, strict=True):
        inside = tokenizer(f"a {term}", add_special_tokens=False)["input_ids"]
        assert inside[-len(tokens) :] == tokens
        assert tokenizer.decode(tokens).strip() == term


def test_plurals_and_forms_are_pairs_where_they_are_wanted():
    own = TargetPair(t1="kitty", t2="puppy", forms=(("kitties", "puppies"),))
    specification = pets(own, TargetPair(t1="feline", t2="canine"))
    terms = read_terms(specification, TOKENIZERS["words"], with_forms=True)
    pairs = [(terms.terms[t1], terms.terms[t2]) for t1, t2 in terms.pairs.tolist()]
    assert pairs[:3] == [("kitty", "puppy"), ("feline", "canine"), ("kitties", "puppies")]
    assert pairs[3:] == [("felines", "canines")]  # "kitties" and "puppies" have a pair, and "kittys" is no word
    assert len(read_terms(specification, TOKENIZERS["words"]).pairs) == 2


def test_marks_are_on_the_tokens_of_the_terms(tokenizer):
    specification = pets()
    terms = read_terms(specification, tokenizer)
    dataset, _ = encode_phrases(TEXTS, tokenizer, terms, specification.attributes_1, max_length=None)
    expected_targets = [["cat"], ["guard dog", "dog"], ["guard dog", "house cat"]]
    expected_attributes = [["greedy", "sleep"], ["sleep eaters"], ["greediness"]]
    for text, row, targets, attributes in zip(TEXTS, dataset, expected_targets, expected_attributes, strict=True):
        offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        assert row["labels"] == row["input_ids"]
        marks = [(token, mark - 1) for token, mark in enumerate(row[TARGETS]) if mark]
        assert [terms.terms[mark % len(terms.terms)] for _, mark in marks] == targets
        for token, mark in marks:
            ids = terms.ids[mark // len(terms.terms), mark % len(terms.terms)]
            ids = ids[ids >= 0].tolist()
            assert row["input_ids"][token : token + len(ids)] == ids  # the form's tokens are those of the text
        for number, word in enumerate(attributes, 1):
            inside = [token for token, span in enumerate(row[ATTRIBUTES]) if span == number]
            assert text[offsets[inside[0]][0] : offsets[inside[-1]][1]].strip() == word
        assert max(row[ATTRIBUTES]) == len(attributes)
    batch = collate(list(dataset))
    assert [num_occurrences(batch, name) for name in (TARGETS, ATTRIBUTES)] == [5, 4]


def test_what_nothing_predicts_is_not_marked_and_what_is_too_short_is_counted():
    tokenizer = TOKENIZERS["words"]
    terms = read_terms(pets(), tokenizer)
    texts = ["cat and dog", "a", "a b c d e f a cat"]
    rows, counts = encode_phrases(texts, tokenizer, terms, pets().attributes_1, max_length=4)
    assert [sum(mark > 0 for mark in row[TARGETS]) for row in rows] == [1, 0]  # "cat" is first, or cut
    assert counts == {"num_phrases": 2, "num_too_short": 1, "num_cut": 1}


def test_phrases_of_ones_own_are_read(tmp_path):
    (tmp_path / "train.txt").write_text("the cat is greedy\n\nthe cats are greedy\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has no phrases for validation"):
        read_phrases(tmp_path, pets())
    (tmp_path / "validation.csv").write_text("text_t1,text_t2\nthe cat,the pup\n", encoding="utf-8")
    read = read_phrases(tmp_path, pets())
    assert read["train"]["text_t2"][0] == "the dog is greedy"
    assert read["validation"] == {"text_t1": ["the cat"], "text_t2": ["the pup"]}
