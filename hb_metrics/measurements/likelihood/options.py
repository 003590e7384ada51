"""The options of Likelihood Bias."""

from dataclasses import dataclass, field


@dataclass
class LikelihoodOptions:
    """How sentences are scored, and which terms are compared."""

    _argument_group_name = "likelihood"

    add_start_token: bool | None = field(
        default=None,
        metadata={
            "help": "Whether the model is given its BOS token before each sentence. Default: if the tokenizer has one."
        },
    )
    encoder_context: str = field(
        default="",
        metadata={"help": "What the encoder of an encoder-decoder model is given while sentences are scored."},
    )
    include_gendered: bool = field(
        default=True,
        metadata={
            "help": "Whether terms for one gender only take part in the tests; the published code leaves them out."
        },
    )
