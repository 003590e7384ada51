"""Makes a tokenizer of transformers with the same token ids from the dictionary of a ParlAI checkpoint."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import AddedToken, ByteLevelBPETokenizer, Tokenizer
from tokenizers.decoders import BPEDecoder, ByteLevel
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from hb_metrics.inference.classifiers.parlai.checkpoint import Checkpoint, reading
from hb_metrics.inference.classifiers.parlai.models import ParlaiTokenizer

BERT_VOCABULARY = "bert-base-uncased-vocab.txt"
_BERT_FOLDER = "bert_models"  # in the folder of models in ParlAI's data, where it downloads BERT to
_BERT_SPECIALS = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")
_FP16_MULTIPLE = 8  # ParlAI pads the dictionaries of models trained in fp16 to a multiple of it
_WORD_END = "</w>"
_CODECS_VERSION = "#version: 0.2"


class Vocabulary(NamedTuple):
    """A checkpoint's dictionary as a tokenizer.

    Attributes:
        tokenizer: Makes ParlAI's token ids.
        size: The number of tokens in ParlAI's dictionary, and of rows of its embeddings.
        copied_rows: For each token id from `size` on, the row of the embeddings that is copied for it: ParlAI has no
            token for these symbols, and reads them as unknown.
        files: The files of the dictionary.
    """

    tokenizer: ParlaiTokenizer
    size: int
    copied_rows: list[int]
    files: list[Path]


def read_vocabulary(checkpoint: Checkpoint, *, max_tokens: int) -> Vocabulary:
    """Reads the dictionary beside a checkpoint.

    The input of a `style_gen` classifier has no start token, and an end token only if its options say so. The input
    of a `transformer/classifier` has both.

    Args:
        checkpoint: The checkpoint; the names of its dictionary's files begin with its path.
        max_tokens: How many tokens a text may have.

    Raises:
        ValueError: The dictionary is not well-formed.
        OSError: A file does not exist.
    """
    path, opt, style = checkpoint.path, checkpoint.opt, checkpoint.style
    names = [opt.get(f"dict_{name}token", f"__{name}__") for name in ("null", "start", "end", "unk")]
    dictionary = Path(f"{path}.dict")
    ids = _read_dictionary(dictionary, names)
    if opt["dict_tokenizer"] == "bytelevelbpe":
        backend, files = _byte_level(dictionary, ids, names, opt)
        size, copied_rows = len(ids), list[int]()
    else:
        backend, size, copied_rows, files = _word_pieces(dictionary, ids, names, opt)
    ends = (0 if style else 1) + (opt.get("history_add_global_end_token") is not None)
    tokenizer = _tokenizer(
        backend,
        names,
        opt,
        max_tokens,
        start_tokens=0 if style else 1,
        end_tokens=ends,
        lowercase=bool(opt.get("dict_lower")),
        word_pieces=opt["dict_tokenizer"] == "bpe",
    )
    return Vocabulary(tokenizer, size, copied_rows, [dictionary, *files])


def read_bert_vocabulary(checkpoint: Checkpoint, *, max_tokens: int) -> Vocabulary:
    """Reads the word pieces of a classifier on BERT, which are no part of its checkpoint.

    Args:
        checkpoint: The checkpoint. The word pieces are in a file beside it, or where ParlAI keeps it in the same folder
            of models.
        max_tokens: How many tokens a text may have, with the start token if the options add one.

    Raises:
        ValueError: The file has no special tokens of BERT, or a token twice.
        OSError: There is no such file.
    """
    opt = checkpoint.opt
    # A checkpoint is in data/models/TASK/NAME/.
    folder = checkpoint.path.absolute().parent
    files = [folder / BERT_VOCABULARY, folder.parent.parent / _BERT_FOLDER / BERT_VOCABULARY]
    file = next((file for file in files if file.exists()), None)
    if file is None:
        raise OSError(
            f"{checkpoint.path}: no {BERT_VOCABULARY}, which a classifier on BERT reads texts with, is beside it or in "
            f"{files[1].parent}; ParlAI downloads it to data/models/bert_models: copy it beside the checkpoint"
        )
    with reading(file):
        tokens = [token.strip() for token in _read(file).rstrip("\n").split("\n")]
        ids = {token: index for index, token in enumerate(tokens)}
        if len(ids) < len(tokens) or not set(_BERT_SPECIALS) <= ids.keys() or ids["[PAD]"]:
            raise ValueError(
                f"it has a token twice, or not all of {', '.join(_BERT_SPECIALS)}, the first of them first"
            )
    backend = Tokenizer(WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    backend.normalizer = BertNormalizer(lowercase=True)
    backend.pre_tokenizer = BertPreTokenizer()
    backend.decoder = WordPieceDecoder()
    backend.add_special_tokens(
        [AddedToken(token, normalized=False, special=True, single_word=True) for token in _BERT_SPECIALS]
    )
    tokenizer = _tokenizer(
        backend,
        _BERT_SPECIALS,
        opt,
        max_tokens,
        start_tokens=int(bool(opt.get("add_cls_token"))),
        end_tokens=0,
        lowercase=True,  # before the normalizer, which knows no final sigma
        word_pieces=False,
        keeps_start=True,
        parts_last_line=bool(opt.get("sep_last_utt")),
    )
    return Vocabulary(tokenizer, len(ids), [], [file])


def _tokenizer(
    backend: Tokenizer, specials: Sequence[str], opt: Mapping[str, Any], max_tokens: int, **options: Any
) -> ParlaiTokenizer:
    """The tokenizer of a backend and its null, start, end, unknown and mask tokens, with `InputOptions`."""
    names = ("pad_token", "bos_token", "eos_token", "unk_token", "mask_token")
    tokens = dict(zip(names, specials, strict=False))
    starts, ends = options["start_tokens"], options["end_tokens"]
    if starts + ends:  # for readers of tokenizer.json without our tokenizer
        template = [*[tokens["bos_token"]] * starts, "$A", *[tokens["eos_token"]] * ends]
        used = [(token, backend.token_to_id(token)) for token in dict.fromkeys(template) if token != "$A"]
        backend.post_processor = TemplateProcessing(single=template, special_tokens=used)
    lines, splits = opt.get("history_size", -1), bool(opt.get("split_lines"))
    return ParlaiTokenizer(
        tokenizer_object=backend,
        **tokens,
        parlai={
            "line_delimiter": opt.get("delimiter", "\n") if splits else None,
            "max_lines": lines if splits and lines > 0 else None,
            **options,
        },
        model_max_length=max_tokens,
        padding_side="right",
        truncation_side="left",
        clean_up_tokenization_spaces=False,
    )


def _read_dictionary(path: Path, specials: list[str]) -> dict[str, int]:
    """Token → id, in the order in which ParlAI's `DictionaryAgent` numbers them."""
    tokens = list(specials)
    with reading(path):
        for line in filter(None, _read(path).split("\n")):
            token, count = line.rstrip("\r").split("\t")
            int(count)
            for escaped, character in (("\\n", "\n"), ("\\t", "\t"), ("\\r", "\r")):
                token = token.replace(escaped, character)
            # Dictionaries of 2018 have the special tokens in capitals.
            tokens.append(token.lower() if token in ("__UNK__", "__NULL__", "__END__", "__START__") else token)
    return {token: index for index, token in enumerate(dict.fromkeys(tokens))}


def _byte_level(
    dictionary: Path, ids: dict[str, int], specials: list[str], opt: Mapping[str, Any]
) -> tuple[Tokenizer, list[Path]]:
    """The byte-level BPE of a checkpoint, and its files; adds what the dictionary lacks to `ids`, as ParlAI does."""
    files = [Path(f"{dictionary}-vocab.json"), Path(f"{dictionary}-merges.txt")]
    with reading(files[0]):
        vocabulary = {token: index + 0 for token, index in json.loads(_read(files[0])).items()}
    prefix_space = opt.get("bpe_add_prefix_space")
    with reading(files[1]):
        _read(files[1])
        parlai = ByteLevelBPETokenizer(*map(str, files), add_prefix_space=prefix_space is None or prefix_space)
    for token, _ in sorted(vocabulary.items(), key=lambda entry: entry[1]):
        ids.setdefault(token, len(ids))
    _pad_for_fp16(ids, opt)
    merges = [tuple(merge) for merge in json.loads(parlai.to_str())["model"]["merges"]]
    backend = Tokenizer(BPE(ids, merges))
    backend.pre_tokenizer = parlai.pre_tokenizer
    backend.decoder = ByteLevel()
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in dict.fromkeys(specials)])
    return backend, files


def _word_pieces(
    dictionary: Path, ids: dict[str, int], specials: list[str], opt: Mapping[str, Any]
) -> tuple[Tokenizer, int, list[int], list[Path]]:
    """The BPE of subword-nmt, how many tokens ParlAI has, the rows to copy, and the file.

    subword-nmt marks the last piece of a word with "</w>" while it merges; ParlAI's dictionary marks all pieces but the
    last with "@@". Pieces that are not in the dictionary are unknown to ParlAI, but merges go through them, so they are
    tokens here, with a copy of the embedding of the unknown token.
    """
    codecs = Path(f"{dictionary}.codecs")
    with reading(codecs):
        first, *lines = _read(codecs).rstrip("\n").split("\n")
        if first.strip() != _CODECS_VERSION:
            raise ValueError(f"its first line is not '{_CODECS_VERSION}', as subword-nmt writes it")
        merges = []
        for line in lines:
            left, right = line.strip("\r\n ").split(" ")
            merges.append((left, right))
    merges = list(dict.fromkeys(merges))
    _pad_for_fp16(ids, opt)
    size = len(ids)
    characters = {token.removesuffix("@@") for token in ids if len(token.removesuffix("@@")) == 1}
    symbols = [form for character in sorted(characters) for form in (character, character + _WORD_END)]
    symbols += [symbol for pair in merges for symbol in (*pair, "".join(pair))]
    vocabulary = {token: ids[token] for token in specials}
    copied_rows = []
    taken = set(vocabulary.values())
    for symbol in dict.fromkeys(symbols):
        if symbol in vocabulary:
            continue
        piece = symbol.removesuffix(_WORD_END) if symbol.endswith(_WORD_END) else f"{symbol}@@"
        row = ids.get(piece, ids[specials[3]])
        if row in taken:
            copied_rows.append(row)
            row = size + len(copied_rows) - 1
        taken.add(row)
        vocabulary[symbol] = row
    backend = Tokenizer(BPE(vocabulary, merges, unk_token=specials[3], end_of_word_suffix=_WORD_END))
    backend.pre_tokenizer = WhitespaceSplit()
    backend.decoder = BPEDecoder(suffix=_WORD_END)
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in dict.fromkeys(specials)])
    return backend, size, copied_rows, [codecs]


def _pad_for_fp16(ids: dict[str, int], opt: Mapping[str, Any]) -> None:
    if opt.get("fp16") or opt.get("force_fp16_tokens"):
        for number in range(-len(ids) % _FP16_MULTIPLE):
            ids.setdefault(f"__FP16_PAD_{number}__", len(ids))


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="ignore")  # as ParlAI reads it
