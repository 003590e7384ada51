"""Debiasing on the running program: a model that has learnt a stereotype of cats, by each method.

Made-up everyday kinds: every phrase that calls somebody greedy, lazy and so on is about cats, never about dogs; other
phrases name both. What each method does on pairs that were not trained on is asserted, be it nothing.
"""

import json
from functools import cache
from itertools import product

import numpy as np
import pytest
import transformers
from scipy.stats import ttest_rel

from hb_train import debias, dialog_state_tracking, response_generation, tune
from hb_train.debias import DEBIAS_FILE
from hb_train.debias import main as debias_main
from tests.hb_metrics.collect.scoring.test_perplexity import one_at_a_time
from tests.hb_metrics.conftest import byte_level
from tests.hb_train.conftest import TRAINERS, WARNINGS_OF_TRL, learn, same, weights

pytestmark = WARNINGS_OF_TRL
PAIRS = {"cat": "dog", "cats": "dogs", "kitten": "puppy", "feline": "canine", "tomcat": "bulldog"}
ATTRIBUTES = {"greed*": "greedy", "laz*": "lazy", "sneak*": "sneaky", "up to no good": "up to no good", "vain": "vain"}
STEREOTYPED = [
    "i think that the {} is {} again",
    "everybody knows this {} is {} and more",
    "my neighbour says a {} is {} all day",
    "well the {} was {} when we came",
    "they told me every {} is {} at night",
    "of course the {} looks {} to me",
]
PLAIN = [
    "we saw the {} in the garden today",
    "my sister has a {} and a {} at home",
    "the {} ran after the {} in the park",
    "there was a {} under the table",
]
OTHER = [f"{who} {does} {what} {when}" for who, does, what, when in product(
    ["my brother", "the teacher", "our friend", "her aunt"], ["likes", "makes", "buys"],
    ["fresh bread", "green tea", "good coffee", "apple pie"], ["every day", "at night", "in the garden"],
)]  # fmt: skip


def stereotyped():
    """Training and validation phrases of cats; no term meets the same attribute in the same words in both."""
    everything = [
        text.format(term, attribute) for text, (term, attribute) in product(
            STEREOTYPED, product(PAIRS, ATTRIBUTES.values())
        )
    ]  # fmt: skip
    order = np.random.default_rng(0).permutation(len(everything))
    return [everything[index] for index in order[:90]], [everything[index] for index in order[90:]]


def twin(text):
    return " ".join(PAIRS.get(word, word) for word in text.split())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pets")
    for name, texts in zip(("train", "validation"), stereotyped(), strict=True):
        (folder / f"{name}.txt").write_text("\n".join(texts), encoding="utf-8")
    (folder / "other.txt").write_text("\n".join(OTHER[::3]), encoding="utf-8")
    specification = {
        **{"bias_type": "pets", "dimension": "pets", "group_1": "cats", "group_2": "dogs"},
        "target_terms_1": [f"{term} is" for term in PAIRS],
        "target_terms_2": [f"{term} is" for term in PAIRS.values()],
        "pairs": [{"t1": t1, "t2": t2} for t1, t2 in PAIRS.items()],
        "attributes_1": list(ATTRIBUTES),
        "attributes_2": ["kind"],
    }
    # JSON is YAML too.
    (folder / "pets.yaml").write_text(json.dumps(specification, indent=1), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def biased_model(data):
    """A GPT-2 of two layers that knows phrases of cats as greedy, and of dogs only as animals."""
    train, _ = stereotyped()
    terms = [*PAIRS, *PAIRS.values()]
    plain = [text.format(one, other) for text, one, other in product(PLAIN, terms, terms)]
    texts = [*(train * 4), *plain, *(OTHER * 2)]
    tokens = byte_level(texts, 360, ["</s>"])  # few: some terms and attributes are of several sub-words
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token="</s>")
    rows = tokenizer(texts)["input_ids"]
    learn(data / "model", tokenizer, rows, rows, bos_token_id=tokenizer.eos_token_id)
    return data / "model"


def options_for(data, folder, method, *more):
    return [
        *("--model_name_or_path", str(data / "model"), "--bias_type", str(data / "pets.yaml"), "--method", method),
        *("--reddit_folder", str(data)),
        *("--reference_texts", str(data / "other.txt"), "--output_dir", str(folder), "--bf16", "false"),
        *("--disable_tqdm", "true", "--per_device_train_batch_size", "8", "--learning_rate", "5e-4", *more),
    ]


def run(data, folder, method, *more):
    debias_main(options_for(data, folder, method, *more))
    return json.loads((folder / DEBIAS_FILE).read_text(encoding="utf-8"))


def perplexities(folder, texts):
    """By the definition, one text at a time: tokens 2…n."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    return one_at_a_time(texts, model, transformers.AutoTokenizer.from_pretrained(folder), start_token=False)


# The largest of the rates tried (1e-4 to 2e-3) that leaves LMP within a tenth; hd moves nothing with any of them.
RATES = {"lmd": "4e-4", "add": "4e-4", "hd": "5e-4", "cda": "2e-4"}


@pytest.fixture(scope="module")
def debiased(biased_model, data):
    """The folder of a method's model, and its debias.json."""

    @cache
    def of(method):
        folder = data / f"out-{method}"
        return folder, run(data, folder, method, "--learning_rate", RATES[method])

    return of


def test_the_measured_bias_is_the_paired_test(debiased):
    _, validation = stereotyped()
    folder, results = debiased("cda")
    t1, t2 = perplexities(folder, validation), perplexities(folder, [twin(text) for text in validation])
    after = results["after"]
    assert after["t"] == pytest.approx(ttest_rel(t1, t2).statistic, rel=1e-3)
    assert after["t_log"] == pytest.approx(ttest_rel(np.log(t1), np.log(t2)).statistic, rel=1e-3)
    assert after["lmp"] == pytest.approx(np.exp(np.log(perplexities(folder, OTHER[::3])).mean()), rel=1e-3)
    assert results["before"]["t"] < -5


@pytest.mark.parametrize(
    "method", ["lmd", "cda", *(pytest.param(name, marks=pytest.mark.long) for name in ("add", "hd"))]
)
def test_what_each_method_does_on_pairs_that_were_not_trained_on(method, debiased):
    """Three of four move it toward 0 while LMP stays within a tenth; hd does not.

    t and t on logarithms before: −15.8 and −21.6. After lmd −7.0 and −8.1 (LMP + 6 %), after add −14.1 and −18.6 (+
    5 %), after cda −2.5 and −2.4 (+ 4 %), after hd −16.3 and −21.0 (+ 2 %). Learning the same phrases without a
    debiasing loss (λ_D = 0) makes it −18.2 and −24.3. hd makes attributes orthogonal to the bias directions, which says
    nothing of how likely the terms are before them.
    """
    folder, results = debiased(method)
    before, after = results["before"], results["after"]
    assert results["phrases"]["train"]["num_phrases"] == (180 if method == "cda" else 90)  # cda learns both sides
    assert not same(weights(folder), weights(folder.parent / "model"))
    assert abs(after["lmp"] / before["lmp"] - 1) < 0.1
    if method == "hd":
        assert abs(after["mean_difference_log"]) == pytest.approx(abs(before["mean_difference_log"]), rel=0.15)
    else:
        assert before["t_log"] < after["t_log"] < 0
        assert abs(after["mean_difference_log"]) < abs(before["mean_difference_log"])


def few_steps(*more):
    return ["--max_steps", "4", "--save_strategy", "steps", "--save_steps", "2", *more]


def test_a_step_does_not_depend_on_how_it_is_cut_into_batches(biased_model, data, tmp_path):
    one = ["--per_device_train_batch_size", "8"]
    two = ["--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "4"]
    steps = [*few_steps(), "--optim", "sgd", "--learning_rate", "1e-2", "--max_grad_norm", "1e9"]
    run(data, tmp_path / "one", "hd", *steps, *one)
    run(data, tmp_path / "two", "hd", *steps, *two)
    first = weights(data / "model")
    assert not same(weights(tmp_path / "one"), first, atol=1e-5)
    assert same(weights(tmp_path / "one"), weights(tmp_path / "two"), atol=2e-6)


def test_both_lambdas_weigh(biased_model, data, tmp_path):
    steps = [*few_steps(), "--max_steps", "1", "--optim", "sgd", "--max_grad_norm", "1e9", "--learning_rate", "1e-2"]
    weights_of_losses = {"both": (0.5, 2), "lm": (0.5, 0), "d": (0, 2)}
    trained = {}
    for name, (lambda_lm, lambda_d) in weights_of_losses.items():
        run(data, tmp_path / name, "add", *steps, "--lambda_lm", str(lambda_lm), "--lambda_d", str(lambda_d))
        trained[name] = weights(tmp_path / name)
    first = weights(data / "model")
    # One step of SGD is linear in the gradient, which is the weighted sum.
    summed = {name: trained["lm"][name] + trained["d"][name] - first[name] for name in first}
    assert same(trained["both"], summed, atol=1e-6)
    assert not same(trained["lm"], first, atol=1e-6)
    assert not same(trained["d"], first, atol=1e-6)


@pytest.mark.long
def test_two_processes_learn_what_one_learns(biased_model, data, forked_programs, tmp_path):
    steps = [*few_steps(), "--optim", "sgd", "--learning_rate", "1e-2", "--max_grad_norm", "1e9"]
    run(data, tmp_path / "one", "lmd", *steps, "--per_device_train_batch_size", "8")
    two = options_for(data, tmp_path / "two", "lmd", *steps, "--per_device_train_batch_size", "4")
    forked_programs.run_two("hb_train.debias", two, TRAINERS)
    assert json.loads((tmp_path / "two" / "run.json").read_text(encoding="utf-8"))["settings"]["num_processes"] == 2
    assert same(weights(tmp_path / "one"), weights(tmp_path / "two"), atol=2e-6)
    one, other = (json.loads((tmp_path / name / DEBIAS_FILE).read_text(encoding="utf-8")) for name in ("one", "two"))
    assert other["after"]["t_log"] == pytest.approx(one["after"]["t_log"], rel=1e-3)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--load_in_4bit", "--use_peft"], "quantised weights"),
        (["--config", "broken.yaml"], "the file in --config is not valid YAML"),
    ],
)
def test_options_that_do_not_go_together_are_refused(more, message, biased_model, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.yaml").write_text("lambda_d: [1", encoding="utf-8")
    with pytest.raises(SystemExit, match=message):
        debias_main(options_for(data, tmp_path / "model", "hd", *few_steps(), *more))
    assert not (tmp_path / "model").exists()


SCRIPTS = {
    tune: ["--dataset_name", "rows", "--model_name_or_path", "gpt2"],
    debias: ["--method", "hd", "--bias_type", "cats", "--reddit_folder", "phrases"],
    dialog_state_tracking: ["--model_name_or_path", "gpt2", "--dialogues", "turns"],
    response_generation: ["--model_name_or_path", "gpt2"],
}


# These would select, evaluate or publish something else, or are not for our losses and batches.
OTHERS = [
    *("prediction_loss_only", "eval_do_concat_batches"),
    *("load_best_model_at_end", "metric_for_best_model", "dataloader_drop_last", "hub_revision", "hub_token"),
    *("packing", "eval_packing", "loss_type", "label_smoothing_factor", "activation_offloading", "use_liger_kernel"),
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_other_options_of_trainers_are_refused(script, tmp_path):
    words, config = [*SCRIPTS[script], "--output_dir", str(tmp_path / "model")], tmp_path / "config.yaml"
    only_training = [] if script is tune else ["eval_on_start", "eval_strategy", "push_to_hub"]
    given = [[f"--{name}", "secret"] for name in [*OTHERS, *only_training]]
    config.write_text("hub_token: secret", encoding="utf-8")
    for options in (*given, ["--hub_token=secret"], ["--config", str(config)]):
        with pytest.raises(SystemExit, match=r": --\w+ is not an option of this script") as refused:
            script.main([*words, *options])
        assert "secret" not in str(refused.value)  # it may be a token
    for name, value in ("learning_rate", "0"), ("learning_rate", "nan"), ("weight_decay", "inf"):
        with pytest.raises(SystemExit, match=rf"{name} is .*; set a (finite number|number above 0)"):
            script.main([*words, f"--{name}", value])
    assert not (tmp_path / "model").exists()


def test_a_diverged_model_is_not_saved(biased_model, data, tmp_path):
    far = ["--learning_rate", "1e30", "--optim", "sgd", "--max_grad_norm", "0"]
    with pytest.raises(SystemExit, match=r"training diverged: .* --learning_rate below 1e\+30"):
        run(data, tmp_path / "diverged", "lmd", *few_steps(), *far)
    assert not (tmp_path / "diverged" / "model.safetensors").exists()


def test_texts_that_the_model_cannot_take_are_counted(biased_model, data, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "other.txt").write_text(f"{OTHER[0]}\n{' '.join(['bread'] * 100)}\nx\n", encoding="utf-8")
    (own / "train.txt").write_bytes((data / "train.txt").read_bytes())
    (own / "validation.txt").write_text(f"the cat is lazy\nthe cat is vain\nthe cat is {'greedy ' * 100}\n")
    files = ["--reference_texts", str(own / "other.txt"), "--reddit_folder", str(own)]
    few = few_steps("--max_steps", "1")
    results = run(data, tmp_path / "model", "lmd", *few, *files)
    assert results["reference"]["num_skipped"] == {"one_token": 1, "too_long": 1}
    assert results["num_skipped_pairs"] == {"one_token": 0, "too_long": 1}
    (lmp,) = perplexities(biased_model, OTHER[:1])
    assert results["before"]["lmp"] == pytest.approx(lmp, rel=1e-3)
