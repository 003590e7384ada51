"""A ParlAI checkpoint as a model folder of transformers."""

import hashlib
import math
import re
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple, NoReturn

import torch
from transformers import PreTrainedConfig, PreTrainedModel, XLMConfig, XLMForSequenceClassification

from hb_metrics.inference.classifiers.parlai.card import model_card
from hb_metrics.inference.classifiers.parlai.checkpoint import OPTION_ERROR, Checkpoint, read_checkpoint, read_labels
from hb_metrics.inference.classifiers.parlai.models import (
    ParlaiBertClassifier,
    ParlaiBertConfig,
    ParlaiClassifier,
    ParlaiClassifierConfig,
)
from hb_metrics.inference.classifiers.parlai.vocabulary import Vocabulary, read_bert_vocabulary, read_vocabulary

_DEFAULT_POSITIONS = 1024  # ParlAI's, where its options name no length
_BERT_HEAD_SIZE = 64  # of BERT in all its sizes; ParlAI's options do not name it

OUTPUT_ERROR = "{folder} is there and not empty; give a folder for --output_dir that is not there yet"
SIZES_ERROR = (
    "{path}: its weights do not fit its options and its dictionary ({error}); all its files have to be of one "
    "checkpoint"
)
MISSING_OPTION_ERROR = (
    "{path}.opt has no whole number above 0 for {option} but {value!r}; download the checkpoint again"
)

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


class Converted(NamedTuple):
    """What was written.

    Attributes:
        folder: The model folder.
        kind: "style" or "safety".
        option: The option of `measure` that takes it.
        labels: The labels of the classifier.
        num_parameters: How many numbers its weights are.
        max_tokens: How many tokens of a text it reads, the last ones.
    """

    folder: Path
    kind: str
    option: str
    labels: list[str]
    num_parameters: int
    max_tokens: int


def convert_checkpoint(path: str | Path, output_dir: str | Path, labels_file: str | Path | None = None) -> Converted:
    """Writes a ParlAI classifier as a model folder: safetensors, config, tokenizer and a card with its provenance.

    Args:
        path: The checkpoint, as `read_checkpoint`.
        output_dir: The folder to write, which must not be there yet or be empty; it is written whole or not at all.
        labels_file: The labels, as `read_labels`.

    Raises:
        ValueError: The checkpoint cannot be converted, or the labels do not fit it.
        OSError: A file is not there, or the folder is not empty.
    """
    folder = Path(output_dir)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(OUTPUT_ERROR.format(folder=folder))
    checkpoint = read_checkpoint(path)
    labels = read_labels(checkpoint, labels_file)
    max_tokens = _max_tokens(checkpoint)
    if checkpoint.bert:
        vocabulary = read_bert_vocabulary(checkpoint.path, checkpoint.opt, max_tokens=max_tokens)
    else:
        vocabulary = read_vocabulary(checkpoint.path, checkpoint.opt, style=checkpoint.style, max_tokens=max_tokens)
    model = _model(checkpoint, labels, vocabulary)
    files = [checkpoint.path, Path(f"{checkpoint.path}.opt"), *vocabulary.files]
    digests = {file.name: _sha256(file) for file in files}
    model.config.parlai = {
        "agent": checkpoint.agent,
        "kind": checkpoint.kind,
        "files": digests,
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        model.save_pretrained(partial)
        vocabulary.tokenizer.save_pretrained(partial)
        card = model_card(checkpoint, labels, digests, model.num_parameters(), max_tokens)
        (partial / "README.md").write_text(card, encoding="utf-8")
        partial.chmod(0o755)
        if folder.exists():
            folder.rmdir()
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    option = "style_classifier" if checkpoint.style else "offensiveness_classifier"
    return Converted(folder, checkpoint.kind, option, labels, model.num_parameters(), max_tokens)


def _max_tokens(checkpoint: Checkpoint) -> int:
    """How many tokens ParlAI keeps of a text, as many as there are positions at most."""
    opt = checkpoint.opt
    cut = opt.get("text_truncate") or opt.get("truncate", -1)
    positions = _positions(checkpoint)
    # Before a text for BERT the start token is put after the cut.
    added = 1 if checkpoint.bert and opt.get("add_cls_token", False) else 0
    return positions if cut is None or cut < 0 else min(cut + added, positions)


def _positions(checkpoint: Checkpoint) -> int:
    opt = checkpoint.opt
    if checkpoint.bert:
        return _bert_sizes(checkpoint)["max_position_embeddings"]
    lengths = [opt.get(name) or 0 for name in ("truncate", "text_truncate", "label_truncate")]
    return _whole(checkpoint, "n_positions") if opt.get("n_positions") else max(*lengths, 0) or _DEFAULT_POSITIONS


def _model(checkpoint: Checkpoint, labels: list[str], vocabulary: Vocabulary) -> PreTrainedModel:
    """The model with the checkpoint's weights."""
    if checkpoint.bert:
        return _loaded(checkpoint, ParlaiBertClassifier, *_bert(checkpoint, vocabulary), labels)
    size, heads = _whole(checkpoint, "embedding_size"), _whole(checkpoint, "n_heads")
    if size % heads:
        _refuse(checkpoint, "n_heads", heads, f"a divisor of embedding_size ({size})")
    variant = checkpoint.opt.get("variant", "aiayn")
    reduction = checkpoint.opt.get("reduction_type", "first")
    if not checkpoint.style and reduction != "first":
        _refuse(checkpoint, "reduction_type", reduction, "'first'")
    if variant == "xlm" and not checkpoint.style:
        config, weights = _xlm(checkpoint, vocabulary)
        model_class: type[PreTrainedModel] = XLMForSequenceClassification
    elif variant == "prelayernorm":
        config, weights = _prelayernorm(checkpoint, vocabulary)
        model_class = ParlaiClassifier
    else:
        _refuse(checkpoint, "variant", variant, "'prelayernorm'" + ("" if checkpoint.style else " or 'xlm'"))
    return _loaded(checkpoint, model_class, config, weights, labels)


def _loaded(
    checkpoint: Checkpoint,
    model_class: type[PreTrainedModel],
    config: PreTrainedConfig,
    weights: dict[str, torch.Tensor],
    labels: list[str],
) -> PreTrainedModel:
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: index for index, label in enumerate(labels)}
    dtypes = {tensor.dtype for tensor in weights.values()}
    config.dtype = next(iter(dtypes)) if len(dtypes) == 1 else torch.float32
    with torch.device("meta"):
        model = model_class(config)
    try:
        model.load_state_dict({name: tensor.to(config.dtype) for name, tensor in weights.items()}, assign=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split("\n\t")[1:3]) or str(error)
        raise ValueError(SIZES_ERROR.format(path=checkpoint.path, error=reason)) from error
    model.tie_weights()
    return model


def _prelayernorm(checkpoint: Checkpoint, vocabulary: Vocabulary) -> tuple[PreTrainedConfig, dict[str, torch.Tensor]]:
    opt, style = checkpoint.opt, checkpoint.style
    layers = [_layers(checkpoint, part) for part in ("encoder", "decoder")]
    heads, ffn_size = _whole(checkpoint, "n_heads"), _whole(checkpoint, "ffn_size")
    tokenizer = vocabulary.tokenizer
    config = ParlaiClassifierConfig(
        vocab_size=vocabulary.size + len(vocabulary.copied_rows),
        max_position_embeddings=_positions(checkpoint),
        d_model=_whole(checkpoint, "embedding_size"),
        encoder_layers=layers[0],
        encoder_ffn_dim=ffn_size,
        encoder_attention_heads=heads,
        decoder_layers=layers[1] if style else 0,
        decoder_ffn_dim=ffn_size,
        decoder_attention_heads=heads,
        activation_function=_activation(checkpoint),
        scale_embedding=opt.get("embeddings_scale", True),
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.bos_token_id,
        forced_eos_token_id=None,
        is_encoder_decoder=False,
        dropout=opt.get("dropout", 0.0),
        attention_dropout=opt.get("attention_dropout", 0.0),
    )
    weights = {}
    for name, tensor in _encoder_weights(checkpoint, vocabulary).items():
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


def _xlm(checkpoint: Checkpoint, vocabulary: Vocabulary) -> tuple[PreTrainedConfig, dict[str, torch.Tensor]]:
    opt = checkpoint.opt
    size, ffn_size = _whole(checkpoint, "embedding_size"), _whole(checkpoint, "ffn_size")
    if ffn_size != 4 * size:
        _refuse(
            checkpoint, "ffn_size", ffn_size, f"four times embedding_size ({4 * size}), as transformers' XLM has it,"
        )
    tokenizer = vocabulary.tokenizer
    config = XLMConfig(
        vocab_size=vocabulary.size + len(vocabulary.copied_rows),
        emb_dim=size,
        n_layers=_layers(checkpoint, "encoder"),
        n_heads=_whole(checkpoint, "n_heads"),
        max_position_embeddings=_positions(checkpoint),
        gelu_activation=_activation(checkpoint) == "gelu",
        layer_norm_eps=1e-5,
        n_langs=1,
        use_lang_emb=False,
        pad_index=tokenizer.pad_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_index=tokenizer.bos_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_index=tokenizer.eos_token_id,
        unk_index=tokenizer.unk_token_id,
        dropout=opt.get("dropout", 0.0),
        attention_dropout=opt.get("attention_dropout", 0.0),
        summary_type="first",
        summary_use_proj=True,
        summary_proj_to_labels=True,
        summary_activation=None,
        summary_first_dropout=0.0,
    )
    weights = {}
    for name, tensor in _encoder_weights(checkpoint, vocabulary).items():
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


def _bert(checkpoint: Checkpoint, vocabulary: Vocabulary) -> tuple[PreTrainedConfig, dict[str, torch.Tensor]]:
    opt, tokenizer, sizes = checkpoint.opt, vocabulary.tokenizer, _bert_sizes(checkpoint)
    if (end := opt.get("history_add_global_end_token")) is not None:
        _refuse(checkpoint, "history_add_global_end_token", end, "none, if they are on BERT,")
    if sizes["vocab_size"] != vocabulary.size:
        reason = f"embeddings of {sizes['vocab_size']:,} tokens, and a vocabulary of {vocabulary.size:,}"
        raise ValueError(SIZES_ERROR.format(path=checkpoint.path, error=reason))
    config = ParlaiBertConfig(
        **sizes,
        num_attention_heads=max(sizes["hidden_size"] // _BERT_HEAD_SIZE, 1),
        hidden_act="gelu",
        layer_norm_eps=1e-12,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        sep_token_id=tokenizer.eos_token_id if opt.get("sep_last_utt") else None,
    )
    weights = {
        name.replace("bert_model.", "bert.").replace("additional_linear_layer.", "head."): tensor
        for name, tensor in checkpoint.weights.items()
        if not name.startswith("bert_model.pooler.")  # ParlAI multiplies what it gives by 0
    }
    return config, weights


def _bert_sizes(checkpoint: Checkpoint) -> dict[str, int]:
    """The sizes of BERT, which the options do not name, from its weights."""
    weights = checkpoint.weights
    try:
        vocab_size, hidden_size = weights["bert_model.embeddings.word_embeddings.weight"].shape
        return {
            "vocab_size": vocab_size,
            "hidden_size": hidden_size,
            "max_position_embeddings": len(weights["bert_model.embeddings.position_embeddings.weight"]),
            "num_hidden_layers": len({name.split(".")[3] for name in weights if ".encoder.layer." in name}),
            "intermediate_size": len(weights["bert_model.encoder.layer.0.intermediate.dense.weight"]),
        }
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(SIZES_ERROR.format(path=checkpoint.path, error=f"no size of BERT: {error}")) from error


def _encoder_weights(checkpoint: Checkpoint, vocabulary: Vocabulary) -> dict[str, torch.Tensor]:
    """The weights under `encoder.`, `decoder.` and the head's name, with what is the same for all variants done."""
    weights = {
        re.sub(r"^transformer\.", "encoder.", name): tensor
        for name, tensor in checkpoint.weights.items()
        # Of a style_gen classifier: the ids of tokens, and the embeddings that encoder and decoder have as theirs.
        if name not in ("START", "NULL_IDX", "embeddings.weight")
    }
    if vocabulary.copied_rows:
        for name in [name for name in weights if name.endswith(".embeddings.weight")]:
            weights[name] = torch.cat([weights[name], weights[name][vocabulary.copied_rows]])
    segments = weights.pop("encoder.segment_embeddings.weight", None)
    if segments is not None:  # all tokens of a text are in the first segment
        positions = "encoder.position_embeddings.weight"
        weights[positions] = weights[positions].float() + segments[0].float()
    return weights


def _layers(checkpoint: Checkpoint, part: str) -> int:
    own = checkpoint.opt.get(f"n_{part}_layers") or -1
    return own if own > 0 else _whole(checkpoint, "n_layers")


def _activation(checkpoint: Checkpoint) -> str:
    activation = checkpoint.opt.get("activation", "relu")
    if activation not in ("relu", "gelu"):
        _refuse(checkpoint, "activation", activation, "'relu' or 'gelu'")
    return activation


def _whole(checkpoint: Checkpoint, option: str) -> int:
    value = checkpoint.opt.get(option)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(MISSING_OPTION_ERROR.format(path=checkpoint.path, option=option, value=value))
    return value


def _refuse(checkpoint: Checkpoint, option: str, value: Any, allowed: str) -> NoReturn:
    raise ValueError(OPTION_ERROR.format(path=checkpoint.path, option=option, value=value, allowed=allowed))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
