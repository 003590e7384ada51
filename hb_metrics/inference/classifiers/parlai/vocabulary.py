"""Makes a tokenizer of transformers with the same token ids from the dictionary of a ParlAI checkpoint."""

import json
from pathlib import Path

from tokenizers import AddedToken, ByteLevelBPETokenizer, Tokenizer
from tokenizers.decoders import ByteLevel
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing

from hb_metrics.inference.classifiers.parlai.checkpoint import Checkpoint, reading
from hb_metrics.inference.classifiers.parlai.models import ParlaiTokenizer

_FP16_MULTIPLE = 8  # ParlAI pads the dictionaries of models trained in fp16 to a multiple of it


def dictionary_files(checkpoint: Checkpoint) -> list[Path]:
    """The files of a checkpoint's dictionary: its tokens, the vocabulary and the merges of the byte-level BPE."""
    return [Path(f"{checkpoint.path}.dict{name}") for name in ("", "-vocab.json", "-merges.txt")]


def read_vocabulary(checkpoint: Checkpoint, *, max_tokens: int) -> ParlaiTokenizer:
    """Reads the dictionary beside a checkpoint.

    The input of a `style_gen` classifier has no start token, and an end token only if its options say so. The input
    of a `transformer/classifier` has both.

    Args:
        checkpoint: The checkpoint; the names of its dictionary's files begin with its path.
        max_tokens: The most tokens of a text.

    Raises:
        ValueError: The dictionary is not well-formed.
        OSError: A file does not exist.
    """
    opt = checkpoint.opt
    specials = [opt.get(f"dict_{name}token", f"__{name}__") for name in ("null", "start", "end", "unk")]
    null, start, end, unknown = specials
    backend = _byte_level(checkpoint, specials)
    starts = 0 if checkpoint.style else 1
    ends = starts + (opt.get("history_add_global_end_token") is not None)
    if starts + ends:  # for readers of tokenizer.json without our tokenizer
        template = [start] * starts + ["$A"] + [end] * ends
        used = [(token, backend.token_to_id(token)) for token in dict.fromkeys(template) if token != "$A"]
        backend.post_processor = TemplateProcessing(single=template, special_tokens=used)
    lines, splits = opt.get("history_size", -1), bool(opt.get("split_lines"))
    return ParlaiTokenizer(
        tokenizer_object=backend,
        pad_token=null,
        bos_token=start,
        eos_token=end,
        unk_token=unknown,
        parlai={
            "start_tokens": starts,
            "end_tokens": ends,
            "line_delimiter": opt.get("delimiter", "\n") if splits else None,
            "max_lines": lines if splits and lines > 0 else None,
        },
        model_max_length=max_tokens,
        padding_side="right",
        truncation_side="left",
        clean_up_tokenization_spaces=False,
    )


def _byte_level(checkpoint: Checkpoint, specials: list[str]) -> Tokenizer:
    """The byte-level BPE of a checkpoint, with the tokens numbered as ParlAI's `DictionaryAgent` numbers them."""
    dictionary, vocabulary_file, merges_file = dictionary_files(checkpoint)
    ids = _read_dictionary(dictionary, specials)
    with reading(vocabulary_file):
        vocabulary = {token: index + 0 for token, index in json.loads(_read(vocabulary_file)).items()}
    prefix_space = checkpoint.opt.get("bpe_add_prefix_space")
    with reading(merges_file):
        _read(merges_file)
        parlai = ByteLevelBPETokenizer(
            str(vocabulary_file), str(merges_file), add_prefix_space=prefix_space is None or prefix_space
        )
    for token in sorted(vocabulary, key=vocabulary.__getitem__):
        ids.setdefault(token, len(ids))
    if checkpoint.opt.get("fp16") or checkpoint.opt.get("force_fp16_tokens"):
        for number in range(-len(ids) % _FP16_MULTIPLE):
            ids.setdefault(f"__FP16_PAD_{number}__", len(ids))
    merges = [tuple(merge) for merge in json.loads(parlai.to_str())["model"]["merges"]]
    backend = Tokenizer(BPE(ids, merges))
    backend.pre_tokenizer = parlai.pre_tokenizer
    backend.decoder = ByteLevel()
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in dict.fromkeys(specials)])
    return backend


def _read_dictionary(path: Path, specials: list[str]) -> dict[str, int]:
    """Token → id, in the order of ParlAI."""
    tokens = list(specials)
    with reading(path):
        for line in filter(None, _read(path).split("\n")):
            token, count = line.rstrip("\r").split("\t")
            int(count)
            for escaped, character in (("\\n", "\n"), ("\\t", "\t"), ("\\r", "\r")):
                token = token.replace(escaped, character)
            tokens.append(token)
    return {token: index for index, token in enumerate(dict.fromkeys(tokens))}


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="ignore")  # as ParlAI reads it
