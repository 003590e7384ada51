"""Converts a ParlAI checkpoint into a model folder of transformers."""

import math
import re
import shutil
from pathlib import Path
from tempfile import mkdtemp

import torch
from transformers import PreTrainedConfig, PreTrainedModel, XLMConfig, XLMForSequenceClassification

from hb_metrics.inference.classifiers.parlai.card import model_card
from hb_metrics.inference.classifiers.parlai.checkpoint import Checkpoint, one_line, read_checkpoint, read_labels
from hb_metrics.inference.classifiers.parlai.models import ParlaiClassifier, ParlaiClassifierConfig, ParlaiTokenizer
from hb_metrics.inference.classifiers.parlai.vocabulary import dictionary_files, read_vocabulary
from hb_metrics.inference.models.sources import file_digest

_DEFAULT_POSITIONS = 1024  # ParlAI's, where its options name no length

# Names of the weights of a layer: ParlAI's → transformers'.
_LAYER = {
    "attention": "self_attn",
    "self_attention": "self_attn",
    "encoder_attention": "encoder_attn",
    "q_lin": "q_proj",
    "k_lin": "k_proj",
    "v_lin": "v_proj",
    "out_lin": "out_proj",
    "lin1": "fc1",
    "lin2": "fc2",
}
_NORMS = {
    "encoder": {"norm1": "self_attn_layer_norm", "norm2": "final_layer_norm"},
    "decoder": {"norm1": "self_attn_layer_norm", "norm2": "encoder_attn_layer_norm", "norm3": "final_layer_norm"},
}
_EMBEDDINGS = {
    "embeddings": "embed_tokens",
    "position_embeddings": "embed_positions",
    "norm_embeddings": "layer_norm",
}


def convert_checkpoint(path: str | Path, output_dir: str | Path, labels_file: str | Path | None = None) -> str:
    """Writes a ParlAI classifier as a model folder: safetensors, config, tokenizer and a card with its provenance.

    Args:
        path: The checkpoint, as `read_checkpoint`.
        output_dir: The folder to write, which must be new; it is written whole or not at all.
        labels_file: The labels, as `read_labels`.

    Returns:
        A summary of the classifier, for the terminal.

    Raises:
        ValueError: The checkpoint cannot be converted, or the labels do not fit it.
        OSError: A file does not exist, or the folder is not empty.
    """
    folder = Path(output_dir)
    if folder.exists():
        raise FileExistsError(f"{folder} exists; pass a new folder as --output_dir")
    try:
        checkpoint = read_checkpoint(path)
        labels = read_labels(checkpoint, labels_file)
        max_tokens = _max_tokens(checkpoint)
        tokenizer = read_vocabulary(checkpoint, max_tokens=max_tokens)
        model = _model(checkpoint, labels, tokenizer)
    except (ValueError, OSError):
        raise
    except Exception as error:  # options and weights that do not belong together may raise anything
        raise ValueError(
            f"{path}: its weights, options and dictionary do not fit each other ({one_line(error)}); use the files of "
            "one checkpoint, as downloaded"
        ) from error
    files = [checkpoint.path, Path(f"{checkpoint.path}.opt"), *dictionary_files(checkpoint)]
    digests = {file.name: file_digest(file) for file in files}
    model.config.parlai = {"agent": checkpoint.agent, "kind": checkpoint.kind, "files": digests}
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        card = model_card(checkpoint, labels, digests, model.num_parameters(), max_tokens)
        (partial / "README.md").write_text(card, encoding="utf-8")
        partial.chmod(0o755)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return (
        f"{folder}: a {checkpoint.kind} classifier of {len(labels)} labels and {model.num_parameters():,} parameters, "
        f"which reads {max_tokens} tokens of a text.\n"
        f"Measure with it: holistic-bias measure --{checkpoint.option} {folder} ...\n"
        "Its README.md states its origin. The licence of its weights is an open question: do not share the folder "
        "until you have settled it."
    )


def _max_tokens(checkpoint: Checkpoint) -> int:
    """The number of tokens of a text that ParlAI keeps, at most the number of positions."""
    cut = checkpoint.opt.get("text_truncate") or checkpoint.opt.get("truncate", -1)
    positions = _positions(checkpoint)
    return positions if cut is None or cut < 0 else min(cut, positions)


def _positions(checkpoint: Checkpoint) -> int:
    opt = checkpoint.opt
    lengths = [opt.get(name) or 0 for name in ("truncate", "text_truncate", "label_truncate")]
    return opt.get("n_positions") or max(*lengths, 0) or _DEFAULT_POSITIONS


def _model(checkpoint: Checkpoint, labels: list[str], tokenizer: ParlaiTokenizer) -> PreTrainedModel:
    """The model with the checkpoint's weights."""
    model_class: type[PreTrainedModel]
    if checkpoint.opt["variant"] == "xlm":
        model_class, (config, weights) = XLMForSequenceClassification, _xlm(checkpoint, tokenizer)
    else:
        model_class, (config, weights) = ParlaiClassifier, _prelayernorm(checkpoint, tokenizer)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: index for index, label in enumerate(labels)}
    dtypes = {tensor.dtype for tensor in weights.values()}
    config.dtype = next(iter(dtypes)) if len(dtypes) == 1 else torch.float32
    with torch.device("meta"):
        model = model_class(config)
    model.load_state_dict({name: tensor.to(config.dtype) for name, tensor in weights.items()}, assign=True)
    model.tie_weights()
    return model


def _prelayernorm(
    checkpoint: Checkpoint, tokenizer: ParlaiTokenizer
) -> tuple[PreTrainedConfig, dict[str, torch.Tensor]]:
    opt, style = checkpoint.opt, checkpoint.style
    layers = [_layers(checkpoint, part) for part in ("encoder", "decoder")]
    config = ParlaiClassifierConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=_positions(checkpoint),
        d_model=opt["embedding_size"],
        encoder_layers=layers[0],
        encoder_ffn_dim=opt["ffn_size"],
        encoder_attention_heads=opt["n_heads"],
        decoder_layers=layers[1] if style else 0,
        decoder_ffn_dim=opt["ffn_size"],
        decoder_attention_heads=opt["n_heads"],
        activation_function=opt.get("activation", "relu"),
        scale_embedding=opt.get("embeddings_scale", True),
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.bos_token_id,
        forced_eos_token_id=None,
        is_encoder_decoder=False,
    )
    weights = {}
    for name, tensor in _encoder_weights(checkpoint).items():
        part, *rest = name.split(".")
        if part in ("classifier_head", "additional_linear_layer"):
            new = ["head", *rest]
        elif rest[0] == "layers":
            names = {**_LAYER, **_NORMS[part]}
            new = [part, *(names.get(word, word) for word in rest if word != "ffn")]
        else:
            new = [part, _EMBEDDINGS.get(rest[0], rest[0]), *rest[1:]]
        weights[".".join(new)] = tensor
    scaling = opt.get("output_scaling", 1.0)
    if scaling != 1:  # of the encoder's output, which its last layer norm makes
        for name in ("encoder.layer_norm.weight", "encoder.layer_norm.bias"):
            weights[name] = weights[name].float() * scaling
    return config, weights


def _xlm(checkpoint: Checkpoint, tokenizer: ParlaiTokenizer) -> tuple[PreTrainedConfig, dict[str, torch.Tensor]]:
    opt = checkpoint.opt
    size = opt["embedding_size"]
    config = XLMConfig(
        vocab_size=len(tokenizer),
        emb_dim=size,
        n_layers=_layers(checkpoint, "encoder"),
        n_heads=opt["n_heads"],
        max_position_embeddings=_positions(checkpoint),
        gelu_activation=opt.get("activation") == "gelu",
        layer_norm_eps=1e-5,
        n_langs=1,
        use_lang_emb=False,
        pad_index=tokenizer.pad_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_index=tokenizer.bos_token_id,
        bos_token_id=tokenizer.bos_token_id,
        summary_type="first",
        summary_use_proj=True,
        summary_proj_to_labels=True,
        summary_activation=None,
    )
    weights = {}
    for name, tensor in _encoder_weights(checkpoint).items():
        layer = re.fullmatch(r"encoder\.layers\.(\d+)\.(attention|norm1|ffn|norm2)\.(.+)", name)
        if layer:
            index, module, rest = layer.groups()
            module = {"attention": "attentions", "norm1": "layer_norm1", "ffn": "ffns", "norm2": "layer_norm2"}[module]
            new = f"transformer.{module}.{index}.{rest}"
        elif name.startswith("additional_linear_layer."):
            new = name.replace("additional_linear_layer", "sequence_summary.summary")
        else:
            new = name.replace("encoder.norm_embeddings", "encoder.layer_norm_emb").replace("encoder.", "transformer.")
        weights[new] = tensor
    # transformers' XLM scales neither, so that the factors go into the weights.
    if opt.get("embeddings_scale", True):
        weights["transformer.embeddings.weight"] = weights["transformer.embeddings.weight"].float() * math.sqrt(size)
    if (scaling := opt.get("output_scaling", 1.0)) != 1:
        head = "sequence_summary.summary.weight"
        weights[head] = weights[head].float() * scaling
    return config, weights


def _encoder_weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """The weights under `encoder.`, `decoder.` and the head's name."""
    return {
        re.sub(r"^transformer\.", "encoder.", name): tensor
        for name, tensor in checkpoint.weights.items()
        # Of a style_gen classifier: the ids of tokens, and the embeddings that encoder and decoder have as theirs.
        if name not in ("START", "NULL_IDX", "embeddings.weight")
    }


def _layers(checkpoint: Checkpoint, part: str) -> int:
    own = checkpoint.opt.get(f"n_{part}_layers") or -1
    return own if own > 0 else checkpoint.opt["n_layers"]
