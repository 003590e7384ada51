"""The dictionary of a ParlAI checkpoint as a tokenizer of transformers that makes the same token ids."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import AddedToken, ByteLevelBPETokenizer, Tokenizer
from tokenizers.decoders import BPEDecoder, ByteLevel
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from hb_metrics.inference.classifiers.parlai.models import InputOptions, ParlaiTokenizer

TOKENIZERS = ("bytelevelbpe", "bpe")
BERT_VOCABULARY = "bert-base-uncased-vocab.txt"
_BERT_FOLDER = "bert_models"  # in the folder of models in ParlAI's data, where it downloads BERT to
_BERT_SPECIALS = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")
_FP16_MULTIPLE = 8  # ParlAI pads the dictionaries of models trained in fp16 to a multiple of it
_WORD_END = "</w>"
_CODECS_VERSION = "#version: 0.2"

TOKENIZER_ERROR = (
    "{path}.opt: dict_tokenizer is {tokenizer!r}; classifiers with {allowed} can be converted, which is what the "
    "paper's have"
)
FILE_ERROR = "{path} is not there or does not read ({error}); it belongs to the checkpoint, so download it again"
CODECS_ERROR = "{path}: {problem}; the codecs of subword-nmt have a first line '{version}' and two symbols a line"
BERT_ERROR = (
    "{path}: no {name}, which a classifier on BERT reads texts with, is beside it or in {folder}; ParlAI downloads it "
    "to data/models/bert_models: copy it beside the checkpoint"
)
DICTIONARY_ERROR = "{path}: {problem}; it is not the dictionary of a ParlAI checkpoint"


class Vocabulary(NamedTuple):
    """What a checkpoint's dictionary becomes.

    Attributes:
        tokenizer: Makes ParlAI's token ids.
        size: How many tokens ParlAI's dictionary has, which is how many rows its embeddings have.
        copied_rows: Of the token ids from `size` on, the rows of the embeddings that theirs are copies of: symbols
            that ParlAI has no token for, and takes for unknown.
        files: What it was read from.
    """

    tokenizer: ParlaiTokenizer
    size: int
    copied_rows: list[int]
    files: list[Path]


def read_vocabulary(path: Path, opt: Mapping[str, Any], *, style: bool, max_tokens: int) -> Vocabulary:
    """Reads the dictionary beside a checkpoint.

    Args:
        path: The checkpoint; its dictionary is in files whose names begin with it.
        opt: Its options.
        style: Whether it is a `style_gen` classifier, whose input has no start token and an end token only if the
            options say so; otherwise a `transformer/classifier`, whose input has both.
        max_tokens: How many tokens a text may have.

    Raises:
        ValueError: The tokenizer of the checkpoint is another one, or its dictionary is not well-formed.
        OSError: A file is not there.
    """
    kind = opt.get("dict_tokenizer", "re")
    if kind not in TOKENIZERS:
        allowed = " or ".join(repr(name) for name in TOKENIZERS)
        raise ValueError(TOKENIZER_ERROR.format(path=path, tokenizer=kind, allowed=allowed))
    names = [opt.get(f"dict_{name}token", f"__{name}__") for name in ("null", "start", "end", "unk")]
    dictionary = Path(f"{path}.dict")
    ids = _read_dictionary(dictionary, names)
    if kind == "bytelevelbpe":
        backend, files = _byte_level(dictionary, ids, names, opt)
        size, copied_rows = len(ids), list[int]()
    else:
        backend, size, copied_rows, files = _word_pieces(dictionary, ids, names, opt)
    split_lines = bool(opt.get("split_lines"))
    lines = opt.get("history_size", -1)
    null, start, end, unknown = names
    starts = 0 if style else 1
    ends = (0 if style else 1) + (opt.get("history_add_global_end_token") is not None)
    if starts + ends:  # for whoever reads tokenizer.json without our tokenizer
        template = [*[start] * starts, "$A", *[end] * ends]
        backend.post_processor = TemplateProcessing(
            single=template, special_tokens=[(token, ids[token]) for token in dict.fromkeys(template) if token != "$A"]
        )
    tokenizer = ParlaiTokenizer(
        tokenizer_object=backend,
        pad_token=null,
        bos_token=start,
        eos_token=end,
        unk_token=unknown,
        parlai=InputOptions(
            start_tokens=starts,
            end_tokens=ends,
            lowercase=bool(opt.get("dict_lower")),
            word_pieces=kind == "bpe",
            line_delimiter=opt.get("delimiter", "\n") if split_lines else None,
            max_lines=lines if split_lines and lines > 0 else None,
        ),
        model_max_length=max_tokens,
        padding_side="right",
        truncation_side="left",
        clean_up_tokenization_spaces=False,
    )
    return Vocabulary(tokenizer, size, copied_rows, [dictionary, *files])


def read_bert_vocabulary(path: Path, opt: Mapping[str, Any], *, max_tokens: int) -> Vocabulary:
    """Reads the word pieces of a classifier on BERT, which are no part of its checkpoint.

    Args:
        path: The checkpoint. They are in a file beside it, or where ParlAI keeps it in the same folder of models.
        opt: Its options.
        max_tokens: How many tokens a text may have, with the start token if the options add one.

    Raises:
        ValueError: The file has no special tokens of BERT, or a token twice.
        OSError: There is no such file.
    """
    # A checkpoint is in data/models/TASK/NAME/.
    file, elsewhere = path.parent / BERT_VOCABULARY, path.absolute().parent.parent.parent / _BERT_FOLDER
    if not file.exists():
        file = elsewhere / BERT_VOCABULARY
    if not file.exists():
        raise OSError(BERT_ERROR.format(path=path, name=BERT_VOCABULARY, folder=elsewhere))
    tokens = [token.strip() for token in _read(file).rstrip("\n").split("\n")]
    ids = {token: index for index, token in enumerate(tokens)}
    if len(ids) < len(tokens) or not set(_BERT_SPECIALS) <= ids.keys() or ids["[PAD]"]:
        problem = f"it has a token twice, or not all of {', '.join(_BERT_SPECIALS)}, the first of them first"
        raise ValueError(DICTIONARY_ERROR.format(path=file, problem=problem))
    backend = Tokenizer(WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    backend.normalizer = BertNormalizer(lowercase=True)
    backend.pre_tokenizer = BertPreTokenizer()
    backend.decoder = WordPieceDecoder()
    backend.add_special_tokens(
        [AddedToken(token, normalized=False, special=True, single_word=True) for token in _BERT_SPECIALS]
    )
    starts, lines = int(bool(opt.get("add_cls_token", False))), opt.get("history_size", -1)
    split_lines = bool(opt.get("split_lines"))
    if starts:
        backend.post_processor = TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", ids["[CLS]"])])
    null, start, end, unknown, mask = _BERT_SPECIALS
    tokenizer = ParlaiTokenizer(
        tokenizer_object=backend,
        pad_token=null,
        bos_token=start,
        eos_token=end,
        unk_token=unknown,
        mask_token=mask,
        parlai=InputOptions(
            start_tokens=starts,
            end_tokens=0,
            lowercase=True,  # before the normalizer, which knows no final sigma
            word_pieces=False,
            line_delimiter=opt.get("delimiter", "\n") if split_lines else None,
            max_lines=lines if split_lines and lines > 0 else None,
            keeps_start=True,
            parts_last_line=bool(opt.get("sep_last_utt")),
        ),
        model_max_length=max_tokens,
        padding_side="right",
        truncation_side="left",
        clean_up_tokenization_spaces=False,
    )
    return Vocabulary(tokenizer, len(ids), [], [file])


def _read_dictionary(path: Path, specials: list[str]) -> dict[str, int]:
    """Token → id, in the order in which ParlAI's `DictionaryAgent` numbers them."""
    tokens = list(specials)
    for number, line in enumerate(_read(path).split("\n"), 1):
        token, _, count = line.rstrip("\r").partition("\t")
        if not line:
            continue
        if not count.lstrip("-").isdigit():
            raise ValueError(
                DICTIONARY_ERROR.format(path=path, problem=f"line {number} is {line[:40]!r}, no token<tab>count")
            )
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
    try:
        vocabulary = json.loads(_read(files[0]))
    except ValueError as error:
        raise ValueError(DICTIONARY_ERROR.format(path=files[0], problem=error)) from error
    if not isinstance(vocabulary, dict) or not all(type(index) is int for index in vocabulary.values()):
        raise ValueError(DICTIONARY_ERROR.format(path=files[0], problem="it does not map tokens to numbers"))
    _read(files[1])
    prefix_space = opt.get("bpe_add_prefix_space")
    try:
        parlai = ByteLevelBPETokenizer(*map(str, files), add_prefix_space=prefix_space is None or prefix_space)
    except Exception as error:  # tokenizers raises nothing more special
        raise ValueError(DICTIONARY_ERROR.format(path=files[1], problem=error)) from error
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
    first, *lines = _read(codecs).rstrip("\n").split("\n")
    if first.strip() != _CODECS_VERSION:
        problem = f"its first line is {first[:40]!r}"
        raise ValueError(CODECS_ERROR.format(path=codecs, problem=problem, version=_CODECS_VERSION))
    merges = []
    for number, line in enumerate(lines, 2):
        merge = tuple(line.strip("\r\n ").split(" "))
        if len(merge) != 2:
            problem = f"line {number} is {line[:40]!r}"
            raise ValueError(CODECS_ERROR.format(path=codecs, problem=problem, version=_CODECS_VERSION))
        merges.append(merge)
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
    try:
        return path.read_bytes().decode("utf-8", errors="ignore")  # as ParlAI reads it
    except OSError as error:
        raise OSError(FILE_ERROR.format(path=path, error=error.strerror)) from error
