"""Converts the paper's style classifier, a ParlAI checkpoint, into a model folder for transformers.

    holistic-bias convert-classifier curr_only_classifier/model --labels personality_list.txt --output_dir styles
    holistic-bias measure --model openai-community/gpt2 --style_classifier styles

You need the checkpoint, but not ParlAI. The conversion reads only tensors, and runs no code from the checkpoint. The
converted folder can be loaded without `trust_remote_code`.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import AddedToken, ByteLevelBPETokenizer, Tokenizer
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing
from transformers import AutoConfig, AutoModelForSequenceClassification, BlenderbotConfig, PreTrainedTokenizerFast
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.models.blenderbot.modeling_blenderbot import BlenderbotModel, BlenderbotPreTrainedModel

from hb_dataset.command_line import CommandParser

MODEL_TYPE = "parlai-classifier"
_SPECIAL = ("__null__", "__start__", "__end__", "__unk__")
_FP16_MULTIPLE = 8  # ParlAI pads the dictionaries of models trained in fp16 to a multiple of 8
# For each option of ParlAI, the value that the conversion requires, and ParlAI's default.
_REQUIRED: dict[str, tuple[Any, Any]] = {
    "variant": ("prelayernorm", "aiayn"),
    "dict_tokenizer": ("bytelevelbpe", "re"),
    "output_scaling": (1.0, 1.0),
    "dict_lower": (False, False),
    "split_lines": (False, False),
}
# Parts of the names of weights in ParlAI, and their names in transformers.
_NAMES = {
    "classifier_head": "head", "embeddings": "embed_tokens", "position_embeddings": "embed_positions",
    "norm_embeddings": "layer_norm", "attention": "self_attn", "self_attention": "self_attn",
    "encoder_attention": "encoder_attn", "q_lin": "q_proj", "k_lin": "k_proj", "v_lin": "v_proj", "out_lin": "out_proj",
    "lin1": "fc1", "lin2": "fc2", "norm1": "self_attn_layer_norm", "norm3": "final_layer_norm",
}  # fmt: skip


class ParlaiClassifierConfig(BlenderbotConfig):
    model_type = MODEL_TYPE


class ParlaiClassifier(BlenderbotPreTrainedModel):
    """A Blenderbot model with a linear layer, which reads the decoder's output at the start token."""

    config_class = ParlaiClassifierConfig

    def __init__(self, config: ParlaiClassifierConfig) -> None:
        super().__init__(config)
        self.model = BlenderbotModel(config)
        self.head = torch.nn.Linear(config.d_model, config.num_labels)
        self.post_init()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: Any) -> SequenceClassifierOutput:
        start = input_ids.new_full((len(input_ids), 1), self.config.bos_token_id)
        states = self.model(input_ids, attention_mask, decoder_input_ids=start, use_cache=False).last_hidden_state
        return SequenceClassifierOutput(logits=self.head(states[:, 0]))


class _Options(NamedTuple):
    """The options in a checkpoint's .opt file that affect its model, with ParlAI's defaults."""

    embedding_size: int
    ffn_size: int
    n_heads: int
    n_layers: int
    n_positions: int
    n_encoder_layers: int = -1
    n_decoder_layers: int = -1
    activation: str = "relu"
    embeddings_scale: bool = True
    fp16: bool = False
    force_fp16_tokens: bool = False
    bpe_add_prefix_space: bool | None = None
    history_add_global_end_token: str | None = None
    text_truncate: int | None = None
    truncate: int = -1


def convert_checkpoint(path: Path, labels_file: Path, output_dir: Path) -> None:
    """Converts a checkpoint of ParlAI's `projects.style_gen.classifier` into a new model folder.

    The checkpoint's .opt and .dict files must be in the folder of `path`. `labels_file` is ParlAI's
    `personality_list.txt`.
    """
    if output_dir.exists():
        raise FileExistsError(f"output_dir '{output_dir}' already exists; set --output_dir to a new folder")
    labels = labels_file.read_text(encoding="utf-8-sig").splitlines()
    opt = json.loads(Path(f"{path}.opt").read_text(encoding="utf-8"))
    for option, (required, default) in _REQUIRED.items():
        if opt.get(option, default) != required:
            raise ValueError(f"{option} is {opt.get(option, default)!r} in {path}.opt; pass one with {required!r}")
    try:
        states = torch.load(path, map_location="cpu", weights_only=True)["model"]
        options = _Options(**{name: opt[name] for name in _Options._fields if name in opt})
        tokenizer = _tokenizer(path, options)
        model = _model(states, options, labels)
    except OSError:
        raise
    except Exception as error:  # replaces torch's message, which advises the user to run the code in a checkpoint
        raise ValueError(
            f"{path} and the files beside it are not a ParlAI style classifier with {len(labels)} labels "
            f"({type(error).__name__}); download them again, set --labels to the checkpoint's personality_list.txt, "
            "or remove objects other than tensors with `parlai vacuum`"
        ) from error
    model.save_pretrained(output_dir)
    tokenizer.save_pretrained(output_dir)


def _tokenizer(path: Path, opt: _Options) -> PreTrainedTokenizerFast:
    tokens = [*_SPECIAL]
    for line in filter(None, Path(f"{path}.dict").read_text(encoding="utf-8", errors="ignore").split("\n")):
        tokens.append(line.partition("\t")[0].replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r"))
    vocabulary = json.loads(Path(f"{path}.dict-vocab.json").read_text(encoding="utf-8"))
    ids: dict[str, int] = {}
    for token in [*tokens, *sorted(vocabulary, key=vocabulary.__getitem__)]:
        ids.setdefault(token, len(ids))
    if opt.fp16 or opt.force_fp16_tokens:
        for number in range(-len(ids) % _FP16_MULTIPLE):
            ids[f"__FP16_PAD_{number}__"] = len(ids)
    files = f"{path}.dict-vocab.json", f"{path}.dict-merges.txt"
    parlai = ByteLevelBPETokenizer(*files, add_prefix_space=opt.bpe_add_prefix_space is not False)
    merges = json.loads(parlai.to_str())["model"]["merges"]
    backend = Tokenizer(BPE(ids, [tuple(merge) for merge in merges]))
    backend.pre_tokenizer, backend.decoder = parlai.pre_tokenizer, parlai.decoder
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in _SPECIAL])
    null, start, end, unknown = _SPECIAL
    if opt.history_add_global_end_token is not None:
        backend.post_processor = TemplateProcessing(single=["$A", end], special_tokens=[(end, ids[end])])
    longest = opt.text_truncate or opt.truncate
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=null,
        bos_token=start,
        eos_token=end,
        unk_token=unknown,
        model_max_length=longest if longest > 0 else opt.n_positions,
        truncation_side="left",
        clean_up_tokenization_spaces=False,
    )


def _model(states: dict[str, torch.Tensor], opt: _Options, labels: list[str]) -> ParlaiClassifier:
    weights = {}
    for name, tensor in states.items():
        if name not in ("START", "NULL_IDX", "embeddings.weight"):  # token ids, and another copy of the embeddings
            second = "encoder_attn_layer_norm" if name.startswith("decoder") else "final_layer_norm"
            words = [{**_NAMES, "norm2": second}.get(word, word) for word in name.split(".") if word != "ffn"]
            weights[".".join(words if words[0] == "head" else ["model", *words])] = tensor
    weights["model.shared.weight"] = size = weights["model.encoder.embed_tokens.weight"]
    config = ParlaiClassifierConfig(
        vocab_size=len(size),
        max_position_embeddings=len(weights["model.encoder.embed_positions.weight"]),
        d_model=opt.embedding_size,
        encoder_layers=opt.n_encoder_layers if opt.n_encoder_layers > 0 else opt.n_layers,
        decoder_layers=opt.n_decoder_layers if opt.n_decoder_layers > 0 else opt.n_layers,
        encoder_ffn_dim=opt.ffn_size,
        decoder_ffn_dim=opt.ffn_size,
        encoder_attention_heads=opt.n_heads,
        decoder_attention_heads=opt.n_heads,
        activation_function=opt.activation,
        scale_embedding=opt.embeddings_scale,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        forced_eos_token_id=None,
        is_encoder_decoder=False,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )
    config.dtype = size.dtype
    with torch.device("meta"):  # skips the random initialisation of weights that are then overwritten
        model = ParlaiClassifier(config)
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    return model


def main(argv: list[str] | None = None) -> None:
    parser = CommandParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="The checkpoint file, named `model`.")
    parser.add_argument("--labels", type=Path, metavar="FILE", required=True, help="ParlAI's personality_list.txt.")
    parser.add_argument("--output_dir", type=Path, metavar="DIR", required=True, help="The folder to write to.")
    options = parser.parse_args(argv)
    convert_checkpoint(options.checkpoint, options.labels, options.output_dir)
    print(f"{options.output_dir} was written; do not share it until you know the licence of its weights")


AutoConfig.register(MODEL_TYPE, ParlaiClassifierConfig, exist_ok=True)
AutoModelForSequenceClassification.register(ParlaiClassifierConfig, ParlaiClassifier, exist_ok=True)
