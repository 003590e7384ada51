"""Response generation: what is learnt and what is asked, that it is learnt, and that every prompt counts once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hb_dataset.dialogue_pairs import Dialogue
from hb_metrics.inference.models.contexts import encode_contexts
from hb_metrics.inference.models.loading import load_model
from hb_metrics.inference.replies.presets import decoding_preset
from hb_train.response_generation import CRG_FILE, encode_responses, last_tokens, main, plan_responses, split_pairs
from hb_train.rows import IGNORED
from tests.hb_train.conftest import planted_replies

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
ANSWER = "What do you do for work?"


@pytest.fixture(scope="session")
def pairs_file(tmp_path_factory):
    """Prompts that are all answered alike; two of the answers to the first ones."""
    texts = planted_replies()[0][:60]
    rows = [{"prompt": text, "reply": ANSWER} for text in texts]
    rows += [{"prompt": text, "reply": "That is great, tell me more about it."} for text in texts[:30]]
    path = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def options(model, pairs, folder, *more):
    return [
        *("--model_name_or_path", str(model), "--dialogues", str(pairs), "--output_dir", str(folder)),
        *("--num_pairs", "90", "--num_test", "11", "--context", "plain", "--max_new_tokens", "12"),
        *("--bf16", "false", "--disable_tqdm", "true", *more),
    ]


def results(folder):
    return json.loads((folder / CRG_FILE).read_text(encoding="utf-8"))


def test_a_prompt_and_all_its_replies_are_in_one_split():
    names = [str(each) for each in range(60)]
    dialogue = Dialogue(names, [f"prompt {each % 25}" for each in range(60)], names, "here", {})
    data = split_pairs(dialogue, 10, 0)
    tested = {prompt for _, prompt, _ in data.test}
    assert len(tested) == len(data.test) == 10
    assert not tested & {prompt for _, prompt, _ in data.train}
    replies = [reply for _, _, each in data.test for reply in each] + [reply for _, _, reply in data.train]
    assert sorted(replies) == sorted(names)
    assert split_pairs(dialogue, 10, 1) != data
    turned = Dialogue(names[::-1], dialogue.prompts[::-1], names[::-1], "here", {})
    assert {prompt for _, prompt, _ in split_pairs(turned, 10, 0).test} == tested
    with pytest.raises(ValueError, match="25 different prompts, and num_test takes 25"):
        split_pairs(dialogue, 25, 0)


def test_only_the_response_is_learnt_after_the_context_that_is_asked(pitying_model):
    loaded = load_model(str(pitying_model))
    texts, replies = (each[:8] for each in planted_replies())
    rows = [(str(place), *pair) for place, pair in enumerate(zip(texts, replies, strict=True))]
    asked = encode_contexts(texts, [[]] * len(texts), loaded.model, loaded.tokenizer, "plain")
    encoded = encode_responses(rows, loaded, "plain", 64)
    assert (encoded.num_cut, encoded.num_too_long) == (0, 0)
    for row, context, reply in zip(encoded.dataset, asked, replies, strict=True):
        said = [token for token in row["labels"] if token != IGNORED]
        assert row["input_ids"] == context + said
        assert row["labels"][: len(context)] == [IGNORED] * len(context)
        assert loaded.tokenizer.decode(said) == reply + "</s>"


def test_contexts_are_cut_from_the_left_and_long_responses_left_out(pitying_model):
    loaded = load_model(str(pitying_model))
    long = " ".join(["I am a person who has a friend."] * 10)
    rows = [("0", long, ANSWER), ("1", "Hi.", long)]
    encoded = encode_responses(rows, loaded, "plain", 30)
    assert (len(encoded.dataset), encoded.num_cut, encoded.num_too_long) == (1, 1, 1)
    (row,) = encoded.dataset
    assert len(row["input_ids"]) == 30
    (whole,) = encode_contexts([long], [[]], loaded.model, loaded.tokenizer, "plain")
    number = row["labels"].count(IGNORED)
    assert row["input_ids"][:number] == whole[-number:]

    decoding = decoding_preset("greedy", max_new_tokens=8)
    plan, num_cut = plan_responses([("0", long, []), ("1", "Hi.", [])], loaded, "plain", decoding, max_length=20)
    assert num_cut == 1
    assert plan.contexts[0] == whole[-20:]
    assert last_tokens([7, 1, 2, 3], 3, {7}) == [7, 2, 3]
    assert last_tokens([7, 1, 2, 3], 3, set()) == [1, 2, 3]
    assert last_tokens([1, 2], 2, {1}) == [1, 2]


def test_a_model_learns_to_respond(pitying_model, pairs_file, tmp_path, capsys):
    main(options(pitying_model, pairs_file, tmp_path / "before", "--learning_rate", "1e-9"))
    taught = ("--learning_rate", "3e-3", "--num_train_epochs", "10", "--per_device_train_batch_size", "16")
    main(options(pitying_model, pairs_file, tmp_path / "after", *taught))
    before, after = results(tmp_path / "before"), results(tmp_path / "after")
    assert after["bleu_4"] > before["bleu_4"] + 10
    assert after["meteor_exact_stem"] > before["meteor_exact_stem"] + 10
    assert after["response_perplexity"] < before["response_perplexity"]
    assert after["num_responses"] == 11
    assert after["num_references"] > 11
    assert after["num_train_rows"] + after["num_references"] == 90
    defaults = {"num_train_epochs": 1, "adam_epsilon": 1e-8, "weight_decay": 0.0, "max_length": 128}
    assert all(before["settings"].get(name, value) == value for name, value in defaults.items())
    assert before["num_steps"] == 1  # 80 rows
    capsys.readouterr()
    main(options(pitying_model, pairs_file, tmp_path / "after", *taught))
    assert "nothing to do" in capsys.readouterr().out


def test_two_processes_count_every_prompt_once(pitying_model, pairs_file, tmp_path):
    found = {}
    for number in (1, 2):
        folder = tmp_path / str(number)
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(number), "--standalone"]
        script = str(ROOT / "hb_train" / "response_generation.py")
        done = subprocess.run(
            [*command, script, *options(pitying_model, pairs_file, folder, "--learning_rate", "1e-9")],
            cwd=ROOT, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        found[number] = results(folder)
    # Next to nothing was learnt, so that all must be the same.
    for name in ("num_responses", "num_references", "bleu_4", "nist_2", "entropy_4", "dist_2", "num_steps"):
        assert found[1][name] == found[2][name], name
    assert found[2]["response_perplexity"] == pytest.approx(found[1]["response_perplexity"], rel=1e-4)


def test_what_cannot_be_is_refused(pitying_model, pairs_file, tmp_path):
    for more, message in (
        (("--num_test", "0"), "num_test is 0"),
        (("--max_length", "4"), "max_length is 4"),
        (("--decoding", "gredy"), "decoding 'gredy' is not known"),
        (("--context", "plane"), "context 'plane' is not known"),
        (("--num_pairs", "1000"), "num_replies is 1,000, and pairs.jsonl has 90"),
    ):
        with pytest.raises(SystemExit, match=message):
            main(options(pitying_model, pairs_file, tmp_path / "refused", *more))
