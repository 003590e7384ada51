"""The heads and the tokenizer that ParlAI's classifiers need and transformers does not have.

Importing this module makes them known to transformers' auto classes, so that a converted folder loads without
`trust_remote_code`:

    import hb_metrics.inference.classifiers.parlai.models
    AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)

A classifier of the variant "xlm" is transformers' own `XLMForSequenceClassification`, and needs the tokenizer alone.
"""

import re
from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BatchEncoding,
    BertConfig,
    BertModel,
    BertPreTrainedModel,
    BlenderbotConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.models.blenderbot.modeling_blenderbot import (
    BlenderbotDecoder,
    BlenderbotEncoder,
    BlenderbotPreTrainedModel,
)
from transformers.tokenization_utils_base import PaddingStrategy, TruncationStrategy

MODEL_TYPE, BERT_MODEL_TYPE = "parlai-classifier", "parlai-bert-classifier"
MODEL_TYPES = (MODEL_TYPE, BERT_MODEL_TYPE)
_WORDS = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"\S+")


class ParlaiClassifierConfig(BlenderbotConfig):
    """The sizes of a `ParlaiClassifier`; with `decoder_layers=0` it is an encoder alone."""

    model_type = MODEL_TYPE


class ParlaiClassifier(BlenderbotPreTrainedModel):
    """A transformer with layer norms first, and a linear head on one position of it.

    With a decoder (`projects.style_gen.classifier`) that is the decoder's output at the start token, otherwise
    (`transformer/classifier`) the encoder's at the first token.
    """

    config_class = ParlaiClassifierConfig

    def __init__(self, config: ParlaiClassifierConfig) -> None:
        super().__init__(config)
        self.encoder = BlenderbotEncoder(config)
        self.decoder = BlenderbotDecoder(config) if config.decoder_layers else None
        self.head = torch.nn.Linear(config.d_model, config.num_labels)
        if self.decoder is not None:
            self._tied_weights_keys = {"decoder.embed_tokens.weight": "encoder.embed_tokens.weight"}
        self.post_init()

    def get_input_embeddings(self) -> torch.nn.Module:
        """The embeddings of the encoder."""
        return self.encoder.embed_tokens

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, **_: Any
    ) -> SequenceClassifierOutput:
        """Logits [texts, labels] of token ids [texts, tokens], which are padded on the right."""
        if attention_mask is None:
            attention_mask = input_ids.ne(self.config.pad_token_id).long()
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        if self.decoder is not None:
            start = input_ids.new_full((len(input_ids), 1), self.config.decoder_start_token_id)
            states = self.decoder(
                input_ids=start, encoder_hidden_states=states, encoder_attention_mask=attention_mask, use_cache=False
            ).last_hidden_state
        return SequenceClassifierOutput(logits=self.head(states[:, 0]))


class ParlaiBertConfig(BertConfig):
    """The sizes of a `ParlaiBertClassifier`; `sep_token_id`, if there is one, parts the last turn from those before."""

    model_type = BERT_MODEL_TYPE


class ParlaiBertClassifier(BertPreTrainedModel):
    """BERT and a linear head on its first position, without BERT's own pooling (`bert_classifier`).

    With `sep_token_id` all tokens from the separator on are in BERT's second segment; without a separator in the text
    all but the start token are. ParlAI does the latter only if no text of the batch has a separator; here a text's
    numbers do not depend on its batch, and are those of the text alone.
    """

    config_class = ParlaiBertConfig

    def __init__(self, config: ParlaiBertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.head = torch.nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, **_: Any
    ) -> SequenceClassifierOutput:
        """Logits [texts, labels] of token ids [texts, tokens], which are padded on the right."""
        if attention_mask is None:
            attention_mask = input_ids.ne(self.config.pad_token_id).long()
        segments = torch.zeros_like(input_ids)
        if (separator := self.config.sep_token_id) is not None:
            last_turn = input_ids.eq(separator).cumsum(1).gt(0)
            only_turn = input_ids.ne(self.config.bos_token_id)
            segments = torch.where(last_turn.any(1, keepdim=True), last_turn, only_turn).long()
        states = self.bert(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=segments)
        return SequenceClassifierOutput(logits=self.head(states.last_hidden_state[:, 0]))


class InputOptions(TypedDict):
    """A checkpoint's options for texts.

    Attributes:
        start_tokens: How many start tokens are put before a text.
        end_tokens: How many end tokens are put behind it.
        lowercase: Whether texts are lower-cased.
        word_pieces: Whether they are split into words before they are encoded (`dict_tokenizer` "bpe"), in which
            special tokens are not recognised; otherwise into bytes.
        line_delimiter: Stands between the lines of a text, which are encoded one by one; `None`: a text is
            encoded whole.
        max_lines: How many lines are kept, the last ones; `None`: all of them.
        keeps_start: Whether the start token is put before a text that was cut already, which so never loses it.
        parts_last_line: Whether an end token is put before the last of several lines.
    """

    start_tokens: int
    end_tokens: int
    lowercase: bool
    word_pieces: bool
    line_delimiter: str | None
    max_lines: int | None
    keeps_start: NotRequired[bool]
    parts_last_line: NotRequired[bool]


class ParlaiTokenizer(PreTrainedTokenizerFast):
    """Makes the token ids of ParlAI's `TorchAgent` for a text that is the only turn of a conversation.

    Two things differ from other tokenizers. A text is cut on the left after the start and end tokens were added, so a
    long text loses its start token (but for BERT). A null token in a text is left out, as ParlAI masks it. A text
    without tokens becomes the unknown token, where ParlAI has padding.

    Make it as a `PreTrainedTokenizerFast`, with `parlai=` an `InputOptions` as a dictionary. (It has no `__init__`
    because transformers would then build its backend anew from the vocabulary alone.)
    """

    def _encode_plus(
        self,
        text: str | Sequence[str],
        text_pair: Any = None,
        add_special_tokens: bool = True,
        padding_strategy: PaddingStrategy = PaddingStrategy.DO_NOT_PAD,
        truncation_strategy: TruncationStrategy = TruncationStrategy.DO_NOT_TRUNCATE,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_tensors: str | None = None,
        return_attention_mask: bool | None = None,
        **_: Any,
    ) -> BatchEncoding:
        if text_pair is not None:
            raise ValueError("a classifier of ParlAI takes one text, not a pair; join turns with newlines")
        texts = [text] if isinstance(text, str) else list(text)
        input_ids = [self._ids(one, add_special_tokens) for one in texts]
        if truncation_strategy != TruncationStrategy.DO_NOT_TRUNCATE and max_length is not None:
            options: InputOptions = self.init_kwargs["parlai"]
            kept = options["start_tokens"] if options.get("keeps_start") and add_special_tokens else 0
            input_ids = [ids[:kept] + ids[max(kept, len(ids) - max_length + kept) :] for ids in input_ids]
        return self.pad(
            {"input_ids": input_ids if return_tensors or not isinstance(text, str) else input_ids[0]},
            padding=padding_strategy,
            max_length=max_length,
            pad_to_multiple_of=pad_to_multiple_of,
            padding_side=padding_side,
            return_attention_mask=return_attention_mask,
            return_tensors=return_tensors,
        )

    def _ids(self, text: str, add_special_tokens: bool) -> list[int]:
        """The token ids of a text, however long it is."""
        options: InputOptions = self.init_kwargs["parlai"]
        lines = [text]
        if (delimiter := options["line_delimiter"]) is not None:
            lines = text.split("\n")[-(options["max_lines"] or 0) :]
            lines = [part for line in lines for part in (delimiter, line)][1:]
        if options["lowercase"]:
            specials = set(self.all_special_tokens)  # by themselves they are tokens, and keep their capitals
            lines = [
                _WORD.sub(lambda word: word[0] if word[0] in specials else word[0].lower(), line) for line in lines
            ]
        if options["word_pieces"]:
            lines = [" ".join(_WORDS.findall(line.replace("\n", " __newln__ "))) for line in lines]
        backend = self.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = options["word_pieces"]
        encodings = [encoding.ids for encoding in backend.encode_batch(lines, add_special_tokens=False)]
        if options.get("parts_last_line") and len(encodings) > 1:
            encodings.insert(-1, [self.eos_token_id])
        ids = [token for encoding in encodings for token in encoding if token != self.pad_token_id]
        if not add_special_tokens:
            return ids
        ids = ids if ids or options["start_tokens"] + options["end_tokens"] else [self.unk_token_id]
        return [self.bos_token_id] * options["start_tokens"] + ids + [self.eos_token_id] * options["end_tokens"]


_CLASSES: tuple[tuple[type[PreTrainedConfig], type[PreTrainedModel]], ...] = (
    (ParlaiClassifierConfig, ParlaiClassifier),
    (ParlaiBertConfig, ParlaiBertClassifier),
)
for _config, _model in _CLASSES:
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    AutoModelForSequenceClassification.register(_config, _model, exist_ok=True)
    AutoTokenizer.register(_config, fast_tokenizer_class=ParlaiTokenizer, exist_ok=True)
