"""The heads and the tokenizer that ParlAI's classifiers need and transformers does not have.

Importing this module makes them known to transformers' auto classes, so that a converted folder loads without
`trust_remote_code`:

    import hb_metrics.inference.classifiers.parlai.models
    AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)

A classifier of the variant "xlm" is transformers' own `XLMForSequenceClassification`, and needs the tokenizer alone.
"""

from collections.abc import Sequence
from typing import Any, TypedDict

import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BatchEncoding,
    BlenderbotConfig,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.models.blenderbot.modeling_blenderbot import (
    BlenderbotDecoder,
    BlenderbotEncoder,
    BlenderbotPreTrainedModel,
)
from transformers.tokenization_utils_base import PaddingStrategy, TruncationStrategy

MODEL_TYPE = "parlai-classifier"


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


class InputOptions(TypedDict):
    """A checkpoint's options for texts.

    Attributes:
        start_tokens: The number of start tokens before a text.
        end_tokens: The number of end tokens after it.
        line_delimiter: Stands between the lines of a text, which are encoded one by one; `None`: a text is
            encoded whole.
        max_lines: The number of lines that are kept, the last ones; `None`: all of them.
    """

    start_tokens: int
    end_tokens: int
    line_delimiter: str | None
    max_lines: int | None


class ParlaiTokenizer(PreTrainedTokenizerFast):
    """Makes the token ids of ParlAI's `TorchAgent` for a text that is the only turn of a conversation.

    Two things differ from other tokenizers. A text is cut on the left after the start and end tokens were added, so a
    long text loses its start token. A null token in a text is left out, as ParlAI masks it. A text without tokens
    becomes the unknown token, where ParlAI has padding.

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
            input_ids = [ids[-max_length:] for ids in input_ids]
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
        backend = self.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        encodings = backend.encode_batch(lines, add_special_tokens=False)
        ids = [token for encoding in encodings for token in encoding.ids if token != self.pad_token_id]
        if not add_special_tokens:
            return ids
        starts, ends = options["start_tokens"], options["end_tokens"]
        ids = ids if ids or starts + ends else [self.unk_token_id]
        return [self.bos_token_id] * starts + ids + [self.eos_token_id] * ends


AutoConfig.register(MODEL_TYPE, ParlaiClassifierConfig, exist_ok=True)
AutoModelForSequenceClassification.register(ParlaiClassifierConfig, ParlaiClassifier, exist_ok=True)
AutoTokenizer.register(ParlaiClassifierConfig, fast_tokenizer_class=ParlaiTokenizer, exist_ok=True)
