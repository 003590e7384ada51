"""Scores and replies of every architecture family against one text at a time, the model called plainly.

In bfloat16 the tolerance is the noise of the model itself: how far it is from the same weights in float32.
"""

from copy import deepcopy

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForMaskedLM, AutoModelForSeq2SeqLM
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

from hb_metrics.collect.replies.decoding import decode
from hb_metrics.collect.replies.decoding_settings import Decoding
from hb_metrics.collect.replies.forward import decoding_paths
from hb_metrics.collect.scoring.perplexity import score_perplexity
from hb_metrics.collect.scoring.scoring_paths import check_causal
from hb_metrics.models.contexts import EndTokens
from tests.hb_metrics.collect.one_call import log_likelihood, log_probabilities
from tests.hb_metrics.collect.scoring.test_pseudo_likelihood import one_token_at_a_time, score_spans
from tests.hb_metrics.collect.small_architectures import longrope, small_architecture
from tests.hb_metrics.conftest import byte_level_tokenizer, roberta_tokenizer

KINDS = {
    "causal": (AutoModelForCausalLM, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
    "encoder-decoder": (AutoModelForSeq2SeqLM, MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES),
    "image-text": (AutoModelForImageTextToText, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES),
    "masked": (AutoModelForMaskedLM, MODEL_FOR_MASKED_LM_MAPPING_NAMES),
}
# One of each mechanism, tried in every run of the tests; `-m long` tries all.
SHORT = {"causal": "gpt_oss lfm2 roberta", "encoder-decoder": "t5"}
SHORT |= {"image-text": "qwen3_vl", "masked": "ibert perceiver"}
# Of the first two transformers mixes types; the third, a loop, moves by 0.3 in log-perplexity with any rounding.
ONLY_FLOAT32 = ("inkling2_text", "inkling2_loop_text", "hrm_text")
# With their caches transformers computes something else, or nothing: all tokens are run each time.
UNCACHED = ("prophetnet", "moshi", "dory")
# The families that are not tried, and why.
NOT_TRIED = {
    "reads bytes, and its tables of byte groups cannot be made small": "blt",
    "puts a prompt of its own before a text, and reads that both ways": "cpmant",
    "drafts for another model, whose cache it reads": "gemma4_assistant gemma4_unified_assistant",
    "writes audio": "musicgen musicgen_melody",
    "reads a text both ways, and is refused for it": "xlm xlnet",
    "cannot be made small with its vision tower; its text model is tried": "gemma3n dots3_note",
    "is an encoder-decoder model, and is scored as one": "bart mbart mvp",
}
# Of these kinds, others hear audio, read prompts both ways, caption images, or have a vision tower of a fixed size.
TRIED = {
    "encoder-decoder": "bart bigbird_pegasus blenderbot blenderbot-small encoder-decoder fsmt led longt5 m2m_100 "
    "marian mbart mt5 mvp nllb-moe omniasr pegasus pegasus_x plbart prophetnet seamless_m4t seamless_m4t_v2 "
    "switch_transformers t5 t5gemma t5gemma2 umt5",
    "image-text": "aria aya_vision cosmos3_omni deepseek_vl hyperclovax_vision_v2 idefics2 idefics3 internvl "
    "kosmos-2.5 lfm2_vl lfm3_vl lighton_ocr llava llava_next llava_next_video llava_onevision minicpm_ocr minicpmv4_6 "
    "minicpmv4_7 minimax_m3_vl mistral3 ovis2 pp_chart2table qianfan_ocr qwen3_vl qwen3_vl_moe shieldgemma2 smolvlm "
    "video_llama_3 video_llava vipllava",
}
GREEDY = Decoding(max_new_tokens=6)
ENDS = EndTokens(dropped=())
EPSILON = torch.finfo(torch.bfloat16).eps


def families(*kinds):
    for kind in kinds:
        names = KINDS[kind][1]
        left_out = " ".join(NOT_TRIED.values()).split()
        for name in TRIED[kind].split() if kind in TRIED else (name for name in names if name not in left_out):
            if name in names:  # older releases of transformers lack some
                marks = () if name in SHORT[kind].split() else pytest.mark.long
                yield pytest.param(kind, name, id=f"{kind}-{name}", marks=marks)


def mostly_long(*cases, short):
    return [
        case if number in short else pytest.param(*case, marks=pytest.mark.long) for number, case in enumerate(cases)
    ]


def log_perplexities(model, tokenizer, texts):
    """[texts], each scored alone."""
    context = tokenizer("")["input_ids"] if model.config.is_encoder_decoder else [tokenizer.bos_token_id]
    encoded = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return np.array([-log_likelihood(model, context, tokens) / len(tokens) for tokens in encoded])


def greedy_replies(model, contexts, limits):
    """The reply to each context alone up to its limit, with all of its tokens given each time."""
    replies = []
    for context, limit in zip(contexts, limits, strict=True):
        reply = []
        for _ in range(limit):
            reply.append(int(log_probabilities(model, context, [*reply, 0])[-1].argmax()))
        replies.append(reply)
    return replies


def close_share(model, contexts, replies):
    """The share of tokens of replies that are the likeliest, or as good as that by the noise of the model."""
    rows = [[*context, *reply] for context, reply in zip(contexts, replies, strict=True)]
    exact = deepcopy(model).float()
    alone, expected = (
        [log_probabilities(weights, row[:1], [*row[1:], 0]) for row in rows] for weights in (model, exact)
    )
    noise = max((one - other).abs().max().item() for one, other in zip(alone, expected, strict=True))
    behind = []
    for context, reply, log_probs in zip(contexts, replies, alone, strict=True):
        here = log_probs[len(context) - 1 : -1]
        behind += (here.amax(-1) - here[range(len(reply)), reply]).tolist()
    return np.mean(np.array(behind) <= 3 * noise + 16 * EPSILON)


def contexts_of(sequences, length=None):
    """Contexts that start alike, of one length or of several."""
    shared = sequences[0][:5]
    return [[*shared, *sequence[1 : length or 4 + index % 9]] for index, sequence in enumerate(sequences)]


@pytest.mark.parametrize(("kind", "family"), list(families("causal", "encoder-decoder", "image-text")))
def test_scores_and_replies_are_those_of_one_text_at_a_time(kind, family, prompts):
    auto_class, _ = KINDS[kind]
    model = small_architecture(family, auto_class)
    tokenizer = roberta_tokenizer() if kind == "encoder-decoder" else byte_level_tokenizer(bos=True)
    texts = prompts[::50]
    for dtype in (torch.float32, torch.bfloat16):
        if dtype == torch.bfloat16 and family in ONLY_FLOAT32:
            continue
        model = model.to(dtype)
        expected = log_perplexities(model, tokenizer, texts)
        noise = np.abs(expected - log_perplexities(deepcopy(model).float(), tokenizer, texts)).max()
        for trees in (False, True):
            found = np.log(score_perplexity(texts, model, tokenizer, trees=trees).perplexities)
            np.testing.assert_allclose(found, expected, atol=1e-4 + 3 * noise)

        sequences = tokenizer(texts)["input_ids"]
        for contexts in (contexts_of(sequences, 9), contexts_of(sequences)):
            cached, padded = decoding_paths(model, contexts, GREEDY.max_new_tokens)
            assert cached or family in UNCACHED
            if not padded and len({len(context) for context in contexts}) > 1:
                continue
            limits = [1 + row % GREEDY.max_new_tokens for row in range(len(contexts))]  # rows end at different times
            with torch.inference_mode():
                replies = [
                    reply.tokens for reply in decode(model, contexts, GREEDY, ENDS, limits=limits, cached=cached)
                ]
            if dtype == torch.float32:
                assert replies == greedy_replies(model, contexts, limits)
            elif kind != "encoder-decoder":
                assert close_share(model, contexts, replies) > 0.9


@pytest.mark.parametrize(("kind", "family"), list(families("masked")))
def test_spans_are_scored_as_in_one_text_at_a_time(kind, family, prompts):
    model, tokenizer = small_architecture(family, KINDS[kind][0]), roberta_tokenizer()
    texts = sorted(prompts[::30], key=len)[::3]
    spans = [(len(text) - 14, len(text)) if row % 2 else (3, 12) for row, text in enumerate(texts)]
    scores = score_spans(texts, spans, model, tokenizer).log_likelihoods
    alone = [one_token_at_a_time(text, span, model, tokenizer)[0] for text, span in zip(texts, spans, strict=True)]
    np.testing.assert_allclose(scores, alone, rtol=1e-4)


SWITCH = 48


def test_dynamic_rope_changes_beyond_the_longest_text_only(prompts):
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}
    model = small_architecture("llama", AutoModelForCausalLM, rope_parameters=rope, max_position_embeddings=SWITCH)
    tokenizer = byte_level_tokenizer(bos=True)
    fitting = [text for text in prompts[::20] if len(tokenizer(text)["input_ids"]) < SWITCH]
    scores = score_perplexity(fitting, model, tokenizer)
    np.testing.assert_allclose(np.log(scores.perplexities), log_perplexities(model, tokenizer, fitting), atol=1e-4)
    with pytest.raises(ValueError, match=rf"text {len(fitting)} .*accepts 2 to {SWITCH}"):
        score_perplexity([*fitting, " ".join(prompts[:8])], model, tokenizer)


# What changes beyond some length, and how texts below it are scored. GPT-Neo's window is one of nodes of the tree.
SWITCHES = mostly_long(
    ("mistral", {"sliding_window": SWITCH}, "tree"),
    ("gemma2", {"sliding_window": SWITCH}, "tree"),
    ("gpt_oss", {"sliding_window": SWITCH}, "tree"),
    ("llama4_text", {"attention_chunk_size": SWITCH}, "tree"),
    ("gpt_neo", {"window_size": SWITCH}, "batches"),
    ("gpt_neo", {"window_size": 300}, "batches"),
    ("llama", longrope(SWITCH), "tree"),
    ("phi3", longrope(SWITCH), "tree"),
    short=(3, 4, 6),
)


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.long)])
@pytest.mark.parametrize(("family", "changes", "path"), SWITCHES)
def test_scores_are_right_on_both_sides_of_a_length(family, changes, path, dtype, prompts):
    model = small_architecture(family, AutoModelForCausalLM, **changes).to(dtype)
    tokenizer = byte_level_tokenizer(bos=True)
    lengths = [len(tokens) for tokens in tokenizer(prompts)["input_ids"]]
    short = [text for text, length in zip(prompts, lengths, strict=True) if length < 40]
    long_text = " ".join(prompts[:8])
    for texts, expected_path in ((short[::4], path), ([*short[:30], long_text], "batches")):
        scores = score_perplexity(texts, model, tokenizer)
        assert scores.plan.scoring == expected_path
        tolerance = 1e-4 if dtype == torch.float32 else 4 * EPSILON
        expected = log_perplexities(model, tokenizer, texts)
        np.testing.assert_allclose(np.log(scores.perplexities), expected, rtol=tolerance)


CROSSED = 24
COMPRESSED = {"compressed_sparse_attention": 4, "heavily_compressed_attention": CROSSED}


@pytest.mark.parametrize(
    ("family", "changes"),
    mostly_long(
        ("gpt_neo", {"window_size": CROSSED}),
        ("mistral", {"sliding_window": CROSSED}),
        ("deepseek_v4", {"num_hidden_layers": 2, "compress_rates": COMPRESSED}),
        ("llama", longrope(CROSSED)),
        ("minicpm3", longrope(CROSSED)),
        ("phi3", longrope(CROSSED)),
        ("phimoe", longrope(CROSSED, short_mscale=1.0, long_mscale=1.2)),
        short=(1, 3),
    ),
)
def test_replies_may_cross_a_length_at_which_a_model_changes(family, changes):
    model = small_architecture(family, AutoModelForCausalLM, **changes)
    rng, limits = np.random.default_rng(0), [12] * 6
    shared = rng.integers(4, 390, 3).tolist()
    contexts = [[*shared, *rng.integers(4, 390, length).tolist()] for length in (6, 9, 13, 16, 17, 19)]
    cached, padded = decoding_paths(model, contexts, 12)
    decoding, expected = Decoding(max_new_tokens=12), greedy_replies(model, contexts, limits)
    for batches in ([contexts] if padded else [], [[context] for context in contexts]):
        replies = [reply.tokens for batch in batches for reply in decode(model, batch, decoding, ENDS, cached=cached)]
        assert replies in ([], expected)


def test_a_model_that_reads_both_ways_is_refused_in_half_precision():
    model = small_architecture("xlnet", AutoModelForCausalLM).to(torch.bfloat16)
    with pytest.raises(ValueError, match="depend on later tokens"):
        check_causal(model, [list(range(40, 60))])
