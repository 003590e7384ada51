"""Response generation: measures of responses against loops and closed forms, what is learnt, and that it is learnt."""

import json
import math
import random

import pyarrow.parquet as pq
import pytest

from hb_dataset.dialogue_pairs import DialoguePairs
from hb_metrics.models.layout import Layout
from hb_metrics.models.loading import load_model
from hb_train.debias_table import write_debias_table
from hb_train.response_generation import (
    CRG_FILE,
    encode_responses,
    main,
    ngram_entropy,
    nist,
    response_metrics,
    split_pairs,
)
from hb_train.training.encoding import IGNORED
from tests.hb_metrics.chat_models import answer_to, trained_chat_model, trained_prompts
from tests.hb_metrics.conftest import encode_contexts
from tests.hb_train.conftest import ANSWER, WARNINGS_OF_TRL, learn, pitying_tokenizer

pytestmark = WARNINGS_OF_TRL
WORDS = ["we", "like", "tea", "and", "cake", "very", "much"]


def options(model, pairs, folder, *more):
    return [
        *("--model_name_or_path", str(model), "--dialogues", str(pairs), "--output_dir", str(folder)),
        *("--num_pairs", "90", "--num_test", "11", "--max_new_tokens", "12"),
        *("--bf16", "false", "--disable_tqdm", "true", *more),
    ]


def test_a_model_learns_to_respond(pitying_model, pairs_file, tmp_path):
    main(options(pitying_model, pairs_file, tmp_path / "before" / "crg", "--learning_rate", "1e-9"))
    taught = ("--learning_rate", "3e-3", "--num_train_epochs", "10", "--per_device_train_batch_size", "16")
    main(options(pitying_model, pairs_file, tmp_path / "after" / "crg", *taught))
    before, after = (json.loads((tmp_path / name / "crg" / CRG_FILE).read_text()) for name in ("before", "after"))
    assert after["bleu_4"] > before["bleu_4"] + 10
    assert after["meteor_exact_stem"] > before["meteor_exact_stem"] + 10
    assert after["num_responses"] == 11
    assert after["num_references"] > 11
    assert after["num_train_rows"] + after["num_references"] == 90
    assert before["num_steps"] == 1  # 80 rows
    far = ("--learning_rate", "1e30", "--optim", "sgd", "--max_grad_norm", "0")
    with pytest.raises(SystemExit, match="training diverged: the score of a token"):
        main(options(pitying_model, pairs_file, tmp_path / "diverged", *far))
    # The table of a comparison reads the file as it is.
    (tmp_path / "after" / "bias").mkdir()
    bias = {"reddit": {"by_bias_type": {"gender": {"t": 2.0}}, "lmp": 31.2}, "dialogue": {"perplexity": 54.7}}
    (tmp_path / "after" / "bias" / "results.json").write_text(json.dumps(bias))
    write_debias_table(tmp_path, ["after"])
    row = (tmp_path / "table.md").read_text().splitlines()[2]
    assert row.startswith(f"| after | +2.00 | 31.2 | 54.7 | {after['bleu_4']:.2f} | {after['meteor_exact_stem']:.2f} |")


def test_prompts_that_are_too_long_are_refused_before_the_training(pitying_model, pairs_file, tmp_path):
    with pytest.raises(SystemExit, match=r"the model accepts only .* tokens, but prompt .* may need more"):
        main(options(pitying_model, pairs_file, tmp_path / "crg", "--max_new_tokens", "1000"))
    assert not (tmp_path / "crg").exists()


def test_a_model_that_thinks_responds_as_it_is_trained_to_without_a_thought(tmp_path):
    model, tokenizer = trained_chat_model("qwen3")
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    prompts = trained_prompts().to_pylist()
    rows = [{"prompt": prompt["text"], "reply": answer_to(prompt)} for prompt in prompts]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    fewer = ("--num_pairs", str(len(rows)), "--num_test", "3", "--max_new_tokens", "40", "--learning_rate", "1e-9")
    main(options(tmp_path / "model", tmp_path / "pairs.jsonl", tmp_path / "crg", *fewer))
    answers = {answer_to(prompt).split("\n")[0] for prompt in prompts}
    for row in pq.read_table(tmp_path / "crg" / "replies").to_pylist():
        assert (row["reply"] in answers, row["reasoning"], row["num_reasoning_tokens"]) == (True, None, 0)


def test_a_prompt_and_all_its_replies_are_in_one_split():
    names = [str(index) for index in range(60)]
    dialogue = DialoguePairs(names, [f"prompt {index % 25}" for index in range(60)], names, "here", {})
    train, test = split_pairs(dialogue, 10, 0)
    tested = {prompt for _, prompt, _ in test}
    assert len(tested) == len(test) == 10
    assert not tested & {prompt for _, prompt, _ in train}
    replies = [reply for _, _, replies in test for reply in replies] + [reply for _, _, reply in train]
    assert sorted(replies) == sorted(names)
    turned = DialoguePairs(names[::-1], dialogue.prompts[::-1], names[::-1], "here", {})
    assert {prompt for _, prompt, _ in split_pairs(turned, 10, 0)[1]} == tested
    with pytest.raises(ValueError, match="num_test is 25; set a number below that of different prompts, 25"):
        split_pairs(dialogue, 25, 0)


def test_only_responses_are_learnt_contexts_are_cut_and_long_responses_left_out(tmp_path):
    learn(tmp_path, pitying_tokenizer(), [], [], steps=0, bos_token_id=None)
    loaded, long = load_model(str(tmp_path)), " ".join(["I am a person who has a friend."] * 10)
    encoded, *counts = encode_responses([("0", long, ANSWER), ("1", "Hi.", long)], loaded, Layout("plain"), 30)
    assert (len(encoded), counts) == (1, [1, 1])
    with pytest.raises(ValueError, match="no response is shorter than half of max_length 8; raise"):
        encode_responses([("0", "Hi.", long)], loaded, Layout("plain"), 8)
    unlimited, *counts = encode_responses([("0", "Hi.", ANSWER)], loaded, Layout("plain"), None)
    assert (len(unlimited), counts) == (1, [0, 0])
    (row,) = encoded
    (whole,) = encode_contexts([long], [[]], loaded.model, loaded.tokenizer, "plain")
    number = row["labels"].count(IGNORED)
    assert len(row["input_ids"]) == 30
    assert row["input_ids"][:number] == whole[-number:]
    assert row["labels"][number:] == row["input_ids"][number:]
    assert loaded.tokenizer.decode(row["input_ids"][number:]) == ANSWER + "</s>"


def random_sentences(number, seed):
    drawn = random.Random(seed)
    return [[drawn.choice(WORDS) for _ in range(drawn.randint(0, 9))] for _ in range(number)]


def ngrams_by_loop(sentences, size):
    ngrams = []
    for sentence in sentences:
        for start in range(len(sentence)):
            if start + size <= len(sentence):
                ngrams.append(" ".join(sentence[start : start + size]))
    return ngrams


def test_entropy_and_distinct_equal_their_formulas_by_loops():
    sentences = random_sentences(30, 0)
    ngrams = ngrams_by_loop(sentences, 2)
    shares = [ngrams.count(ngram) / len(ngrams) for ngram in set(ngrams)]
    assert ngram_entropy(sentences, 2) == pytest.approx(-sum(share * math.log(share) for share in shares))
    metrics = response_metrics([" ".join(sentence) for sentence in sentences], [["tea"]] * 30)
    assert metrics["dist_2"] == pytest.approx(100 * len(shares) / len(ngrams))
    assert ngram_entropy([list("abcd")] * 5, 4) == 0.0
    assert ngram_entropy([[str(index), "x"] for index in range(8)], 2) == pytest.approx(math.log(8))


def test_bleu_takes_the_best_of_unequal_numbers_of_references():
    metrics = response_metrics(
        ["we like tea and cake", "x y z w"], [["good morning", "We like tea and cake"], ["x y z w"]]
    )
    assert (metrics["bleu_4"], metrics["num_references"], metrics["dist_2"]) == (pytest.approx(100), 3, 100)
    assert "tok:13a" in metrics["bleu_signature"]
    assert "case:lc" in metrics["bleu_signature"]


def mteval_nist(responses, references, size):
    """NIST as the Perl of mteval-v13a computes it, in loops over strings; references: a list for each translator."""
    counts, num_words = {}, 0
    for translator in references:
        for reference in translator:
            num_words += len(reference)
            for order in range(1, size + 1):
                for ngram in ngrams_by_loop([reference], order):
                    counts[ngram] = counts.get(ngram, 0) + 1
    information = {}
    for ngram, count in counts.items():
        before = " ".join(ngram.split(" ")[:-1])
        information[ngram] = -math.log(count / counts[before] if before else count / num_words) / math.log(2)
    score, num_tested, num_in_references = 0.0, 0, 0
    for order in range(1, size + 1):
        tested, matched = 0, 0.0
        for row, response in enumerate(responses):
            own = ngrams_by_loop([response], order)
            tested += len(own)
            for ngram in set(own):
                most = max(ngrams_by_loop([translator[row]], order).count(ngram) for translator in references)
                if most:
                    matched += information[ngram] * min(own.count(ngram), most)
        score += matched / max(tested, 1)
    for row, response in enumerate(responses):
        num_tested += len(response)
        num_in_references += sum(len(translator[row]) for translator in references)
    ratio = num_tested / (num_in_references / len(references))
    penalty = 1.0 if ratio >= 1 else math.exp(math.log(0.5) / math.log(1.5) ** 2 * math.log(ratio) ** 2)
    return score * penalty


@pytest.mark.parametrize("num_references", [1, 3])
def test_nist_of_several_references_is_mtevals(num_references):
    responses = random_sentences(20, 0)
    references = [[[*words, "end"] for words in random_sentences(20, 1 + n)] for n in range(num_references)]
    of_responses = [list(replies) for replies in zip(*references, strict=True)]
    assert nist(responses, of_responses, 3) == pytest.approx(mteval_nist(responses, references, 3))


def test_meteor_counts_stems_and_takes_the_best_reference():
    same = response_metrics(["we like tea"], [["nothing here", "we like tea"]])
    # One chunk of three: penalty 0.5 (1/3)³.
    assert same["meteor_exact_stem"] == pytest.approx(100 * (1 - 0.5 / 27))
    stems = response_metrics(["we liked teas"], [["we like tea"]])
    assert stems["meteor_exact_stem"] == pytest.approx(same["meteor_exact_stem"])


def test_responses_with_nothing_in_them_count():
    metrics = response_metrics([None, "we like tea", ""], [["yes"], ["we like tea"], ["no"]])
    alone = response_metrics(["we like tea"], [["we like tea"]])
    assert metrics["num_empty"] == 2
    assert metrics["num_responses"] == 3
    assert metrics["meteor_exact_stem"] == pytest.approx(alone["meteor_exact_stem"] / 3)
    assert metrics["mean_length"] == pytest.approx(1)
    silent = response_metrics([None], [["yes"]])
    assert (silent["bleu_4"], silent["nist_2"], silent["entropy_4"], silent["dist_2"]) == (0, None, None, None)
