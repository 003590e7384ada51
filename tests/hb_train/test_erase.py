"""Linear erasure against its closed form, on planted concepts, and through `measure`."""

import json

import numpy as np
import pytest
import torch
import transformers

from hb_metrics.inference.models.contexts import EndTokens
from hb_metrics.inference.models.erasure import add_erasures, decoder_layers
from hb_metrics.inference.models.loading import load_model
from hb_metrics.inference.models.sources import find_source
from hb_metrics.inference.replies.decoding import decode
from hb_metrics.inference.replies.decoding_settings import Decoding
from hb_metrics.inference.scoring.perplexity import score_perplexity
from hb_train.erase import fit_erasures, leace
from hb_train.erase import main as erase_main
from tests.hb_metrics.conftest import sentences, small_model
from tests.hb_metrics.inference.small_architectures import small_architecture
from tests.hb_train.conftest import measured, sympathy


def planted(rows=400, width=12, values=4, seed=0):
    """Correlated activations, in which a concept with several values moves the mean."""
    random = torch.Generator().manual_seed(seed)
    mixing = torch.randn(width, width, generator=random, dtype=torch.float64)
    concept = torch.eye(values, dtype=torch.float64)[torch.randint(values, (rows,), generator=random)]
    moves = 3 * torch.randn(values, width, generator=random, dtype=torch.float64)
    noise = torch.randn(rows, width, generator=random, dtype=torch.float64)
    return noise @ mixing + concept @ moves + 5, concept


def covariance(x, z):
    return (x - x.mean(0)).T.double() @ (z - z.mean(0)).double() / len(x)


def test_activations_move_least():
    """The least-squares problem with the constraint B cov(x, z) = cov(x, z), solved by its Lagrangian."""
    x, z = planted()
    erasure = leace(x, z, 12)
    crossed, precision = covariance(x, z)[:, :-1], torch.linalg.inv(covariance(x, x))
    least = crossed @ torch.linalg.inv(crossed.T @ precision @ crossed) @ crossed.T @ precision
    torch.testing.assert_close((erasure.writes @ erasure.reads).double(), least, atol=1e-5, rtol=1e-4)
    directions = torch.linalg.qr(covariance(x, z))[0][:, :3]
    orthogonal = (x - x.mean(0)) @ directions @ directions.T  # hides the concept too
    assert ((erasure.apply(x) - x) ** 2).sum() < 0.9 * (orthogonal**2).sum()


def test_fewer_activations_than_their_width():
    x, z = planted(rows=9, width=12)
    erased = leace(x, z, 12).apply(x).double()
    torch.testing.assert_close(covariance(erased, z), torch.zeros(12, 4, dtype=torch.float64), atol=1e-5, rtol=0)


def test_a_linear_reader_finds_less_with_each_rank_and_then_nothing():
    x, z = planted()
    readable = []
    for rank in (0, 1, 2, 12):
        erased = leace(x, z, rank).apply(x).double()
        torch.testing.assert_close(erased.mean(0), x.mean(0), atol=1e-5, rtol=0)
        inputs = torch.cat([erased, torch.ones(len(x), 1, dtype=torch.float64)], 1)
        rest = z - inputs @ torch.linalg.lstsq(inputs, z, rcond=1e-4, driver="gelsd").solution
        readable.append(float(1 - (rest**2).sum() / ((z - z.mean(0)) ** 2).sum()))
    assert readable[3] < 1e-6
    drops = -np.diff(readable)
    assert (drops > 0.05).all()


@pytest.mark.parametrize("family", ["llama", "gpt2", "bloom", "mamba"])
def test_layers_above_are_fitted_to_changed_ones(family, save_small_model):
    loaded = load_model(str(save_small_model(family)))
    contexts = [loaded.tokenizer(text)["input_ids"][:12] for text in sentences()[:60]]
    contexts = [context for context in contexts if len(context) == 12]
    concepts = ["odd" if context[5] % 2 else "even" for context in contexts]
    z = torch.tensor([[float(concept == "odd")] for concept in concepts]).repeat_interleave(12, 0)

    def traces():
        found = []

        def keep(module, inputs, output):
            found.append((output[0] if isinstance(output, tuple) else output).flatten(0, 1))

        hooks = [layer.register_forward_hook(keep) for layer in decoder_layers(loaded.model)]
        with torch.inference_mode():
            loaded.model(torch.tensor(contexts))
        for hook in hooks:
            hook.remove()
        return [float(covariance(x, z).norm() / x.std()) for x in found]

    before = traces()
    add_erasures(loaded.model, fit_erasures(loaded.model, contexts, concepts, [0, 1], 4))
    after = traces()
    assert min(before) > 0.01
    assert max(after) < 1e-4


FIT = ["--dataset_config", "v1.0-small", "--num_prompts", "80", "--rank", "8", "--context", "plain"]


def erase(folder):
    """The folders of a small model and of an erasure of it."""
    for part in small_model("llama"):
        part.save_pretrained(folder / "base")
    erase_main(["--model", str(folder / "base"), *FIT, "--output_dir", str(folder / "erased")])
    return folder / "base", folder / "erased"


@pytest.fixture(scope="module")
def erased(tmp_path_factory):
    return erase(tmp_path_factory.mktemp("erase"))


def test_a_folder_loads_on_its_base(erased):
    base, folder = erased
    plain, loaded = load_model(str(base)), load_model(str(folder))
    assert (loaded.name, loaded.digest) == (plain.name, plain.digest)
    assert (loaded.adapter.name, loaded.adapter.trained_on) == (str(folder), str(base))
    assert len(loaded.adapter.digest) == 64
    assert json.loads((folder / "adapter_config.json").read_text())["erasure"]["layers"] == [1]
    texts = sentences()[:12]
    scores = score_perplexity(texts, loaded.model, loaded.tokenizer, progress=False)
    assert scores.scoring == "tree"
    alone = [score_perplexity([text], loaded.model, loaded.tokenizer, progress=False).perplexities[0] for text in texts]
    np.testing.assert_allclose(scores.perplexities, alone, rtol=1e-5)
    before = score_perplexity(texts, plain.model, plain.tokenizer, progress=False).perplexities
    assert (abs(np.log(scores.perplexities / before)) > 1e-2).any()


def test_replies_are_the_same_in_any_batch(erased):
    loaded = load_model(str(erased[1]))
    contexts = [loaded.tokenizer(text)["input_ids"] for text in sentences()[:8]]
    decoding, ends = Decoding(max_new_tokens=8), EndTokens(dropped=())
    with torch.inference_mode():
        together = [reply.tokens for reply in decode(loaded.model, contexts, decoding, ends)]
        alone = [decode(loaded.model, [context], decoding, ends)[0].tokens for context in contexts]
        before = [reply.tokens for reply in decode(load_model(str(erased[0])).model, contexts, decoding, ends)]
    assert together == alone
    assert together != before


def test_another_base_is_rejected(tmp_path):
    base, folder = erase(tmp_path)
    other = transformers.AutoModelForCausalLM.from_pretrained(base)
    other.lm_head.weight.data += 0.1
    other.save_pretrained(base)
    digest = load_model(str(base)).digest
    for source in (find_source(str(folder)), find_source(str(base), adapter=str(folder))):
        with pytest.raises(ValueError, match=f"fitted on '{base}'.*digest {digest}.*fit a new erasure"):
            load_model(source)
    (folder / "erasure.safetensors").write_bytes(b"damaged")
    with pytest.raises(OSError, match="cannot be loaded"):
        load_model(str(folder))


def test_other_models_are_rejected(erased, save_small_model, tmp_path):
    options = [*FIT, "--output_dir", str(tmp_path / "other")]
    for folder, kind in ((save_small_model("t5"), "encoder-decoder"), (erased[1], "an adapter")):
        with pytest.raises(SystemExit, match=f"is {kind}[;,]"):
            erase_main(["--model", str(folder), *options])
    model = load_model(str(save_small_model("gpt2"))).model
    model.config.n_layer = 3
    with pytest.raises(ValueError, match="because it does not have exactly one list of decoder layers"):
        decoder_layers(model)


@pytest.mark.parametrize("family", ["gemma3n_text", "deepseek_v4", "xlnet"])
def test_layers_without_one_activation_per_token_are_rejected(family):
    model = small_architecture(family, transformers.AutoModelForCausalLM)
    with pytest.raises(ValueError, match="needs one activation per token; set --model"):
        fit_erasures(model, [[5, 6, 7, 8], [5, 9, 7, 8], [6, 9, 8, 5]], ["a", "b", "a"], [0], 2)


@pytest.mark.long
def test_a_planted_axis_is_hidden(pitying_model, before, tmp_path):
    options = [*FIT, "--layers", "0", "0.5", "--num_prompts", "520", "--output_dir", str(tmp_path / "erased")]
    erase_main(["--model", str(pitying_model), *options])
    after = measured(tmp_path / "erased", tmp_path / "after")
    assert (np.array(sympathy(after)) < np.array(sympathy(before[1])) / 2).all()
    run = json.loads((tmp_path / "after" / "run.json").read_text())
    assert run["model"]["digest"] == json.loads((before[0] / "run.json").read_text())["model"]["digest"]
    assert len(run["model"]["adapter"]["digest"]) == 64
