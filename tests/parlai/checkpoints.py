"""Small ParlAI checkpoints with random weights: what is in them, in files as ParlAI writes them.

Imported in two environments: by `make_references.py` in ParlAI's own, and by the tests, which have no ParlAI. So
nothing but NumPy and torch is imported here. The weights come from `RandomState`, whose numbers NumPy keeps for ever.
"""

import json
import shutil
import zlib
from pathlib import Path

import numpy as np
import torch

REFERENCES = Path(__file__).parent / "references"
STYLES = ["Sympathetic", "Curious", "Envious (Jealous)", "Calm", "Hateful", "Kind", "Vacuous"]
SAFETY = ["__notok__", "__ok__"]

_ENCODER_DECODER = {
    "model": "projects.style_gen.classifier:ClassifierAgent",
    "classes": None,
    "embedding_size": 16,
    "ffn_size": 24,
    "n_heads": 2,
    "n_layers": 2,
    "n_encoder_layers": 1,
    "n_decoder_layers": 3,
    "n_positions": 32,
    "variant": "prelayernorm",
    "activation": "gelu",
    "embeddings_scale": True,
    "dict_tokenizer": "bytelevelbpe",
    "text_truncate": 24,
    "label_truncate": 8,
    "history_add_global_end_token": "end",
}
_ENCODER = {
    "model": "transformer/classifier",
    "classes": SAFETY,
    "embedding_size": 16,
    "ffn_size": 64,
    "n_heads": 4,
    "n_layers": 2,
    "n_positions": 32,
    "activation": "gelu",
    "reduction_type": "first",
    "learn_positional_embeddings": True,
    "dict_tokenizer": "bytelevelbpe",
    "text_truncate": 24,
}
# What each checkpoint is made of, beside ParlAI's defaults. The comments name the published ones that it is like.
CASES = {
    # zoo:style_gen/curr_only_classifier; its dictionary is padded to a multiple of 8, as of all models trained in fp16.
    "style": {**_ENCODER_DECODER, "force_fp16_tokens": True},
    "style-other-settings": {
        **_ENCODER_DECODER,
        "activation": "relu",
        "embeddings_scale": False,
        "output_scaling": 0.7,
        "history_add_global_end_token": None,
        "split_lines": True,
        "history_size": 3,
        "bpe_add_prefix_space": False,
    },
    # zoo:bot_adversarial_dialogue/multi_turn: a transformer of 24 layers and 1024 dimensions.
    "safety-prelayernorm": {**_ENCODER, "variant": "prelayernorm", "output_scaling": 0.5, "embeddings_scale": True},
    "safety-xlm": {**_ENCODER, "variant": "xlm", "output_scaling": 0.5, "embeddings_scale": True, "activation": "relu"},
}
_LETTERS = "a b c d e f g h i j k l m n o p q r s t u v w x y z"
TEXTS = [
    "",
    " ",
    "a",
    "Hi!",
    "I'm a mother who is hard of hearing. How are you?",
    "I am sorry to hear that, I'm sure you have a lot of challenges in your life.",
    "  leading, trailing and  double   spaces  ",
    "tabs\tand\r\nodd\x0bspace\x1fand\u00a0more\u2003of\u200bit",
    "line one\nline two\n\nline four\n",
    "\n",
    "ΟΔΥΣΣΕΥΣ İstanbul STRASSE straße ΣΑΣ",
    "Naïve café — 漢字 🙂👩‍🦽 ½² हिन्दी עברית e\u0301",
    "literal __start__ and __unk__ or __end__, a __newln__, __FP16_PAD_0__ and __p1__",
    "word@@ pieces</w> of@@others @@ </w>",
    "a __null__ in the middle",
    "a [SEP] by itself and one that is[SEP]not, [MASK] or [CLS]",
    *(_LETTERS[: 2 * length - 1] for length in range(19, 27)),  # around where ParlAI cuts
    "This reply is much too long for the classifier. " * 8,
    "unbroken" * 40,
]


def write_vocabulary(path: Path) -> None:
    """Copies the dictionary of a checkpoint beside it, under the names that ParlAI gives its files."""
    for name in ("", "-merges.txt", "-vocab.json"):
        shutil.copyfile(REFERENCES / f"bytelevelbpe.dict{name}", f"{path}.dict{name}")


def random_weights(shapes: dict[str, list[int]]) -> dict[str, torch.Tensor]:
    """[name → shape] → random weights; large enough that a wrong mask, position or token shows in the logits."""
    weights: dict[str, torch.Tensor] = {}
    for name, shape in shapes.items():
        # The embeddings are in a state dict once for each module that has them.
        seed = "embeddings.weight" if name.endswith("r.embeddings.weight") else name
        values = np.random.RandomState(zlib.crc32(seed.encode())).uniform(-1, 1, shape)
        is_norm = "norm" in name.lower() and name.endswith("weight")
        weights[name] = torch.tensor(1 + 0.3 * values if is_norm else 0.9 * values, dtype=torch.float32)
    return weights


def write_checkpoint(name: str, folder: Path) -> Path:
    """Writes the checkpoint of a case without ParlAI, from the shapes it has recorded, and returns its path."""
    reference = read_reference(name)
    path = folder / "model"
    write_vocabulary(path)
    weights = random_weights({key: shape for key, shape in reference["shapes"].items() if key != "START"})
    if "START" in reference["shapes"]:
        weights["START"] = torch.tensor([1])
    torch.save({"model": weights, "number_training_updates": 0}, path)
    Path(f"{path}.opt").write_text(json.dumps(reference["opt"]), encoding="utf-8")
    return path


def read_reference(name: str) -> dict:
    """What `make_references.py` recorded of a case."""
    return json.loads((REFERENCES / f"{name}.json").read_text(encoding="utf-8"))
