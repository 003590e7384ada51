from dataclasses import dataclass, field
from typing import Literal

from hb_train.training.options import check_least, option

METHODS = ("lmd", "add", "hd", "cda")  # each method is a file in this folder
DEBIAS_FILE = (
    "debias.json"  # contains the bias and perplexity before and after debiasing, in the debiased model's folder
)


@dataclass
class DebiasArguments:
    method: str | None = field(
        default=None,
        metadata={
            "choices": METHODS,
            "help": "The debiasing method: language model debiasing (lmd), attribute "
            "distance debiasing (add), hard debiasing (hd) or counterfactual augmentation (cda).",
        },
    )
    bias_type: str | None = option(
        None,
        "The bias specification with target terms and attributes: gender, race, religion1, religion2, queerness, "
        "or a YAML file.",
    )
    reddit_folder: str | None = option(
        None,
        "The folder of the phrases: the repository of RedditBias's authors, or a folder in its layout.",
    )
    train_file: str | None = option(
        None,
        "A file with your own training phrases, instead of --reddit_folder: CSV, JSONL or Parquet with the column "
        "text_t1 (and optionally text_t2, with counterfactual twins), or TXT with a phrase per line.",
    )
    validation_file: str | None = option(
        None, "A file with your own phrases for measuring the bias, in any format of --train_file."
    )
    lambda_lm: float = option(0.01, "The weight λ_LM of the language modelling loss; the paper tries 0.001 and 0.01.")
    lambda_d: float = option(10.0, "The weight λ_D of the debiasing loss; the paper tries 10, 50 and 100.")
    neutralized_states: Literal["attributes", "targets", "rest", "targets_and_rest"] = option(
        "attributes",
        "The hidden states from which method hd removes the bias directions: attributes (at the attributes, as in the "
        "paper), targets (states that predict target terms), rest (states that predict the words after the first "
        "target term) or targets_and_rest. The bias measure depends on targets and rest.",
    )
    target_vectors: Literal["detached", "learned"] = option(
        "detached",
        "Whether the loss of method add trains the output vectors of target terms (learned) or not (detached, as "
        "published).",
    )
    reference_texts: str | None = option(
        None,
        "A TXT file with one reference text per line. The perplexity of these texts (LMP) shows the cost of "
        "debiasing. Default: replies from chitchat-dataset.",
    )
    num_reference_texts: int = option(200, "The number of reference texts to score; 0 skips LMP.")

    def __post_init__(self) -> None:
        check_least(self, lambda_lm=0, lambda_d=0, num_reference_texts=0)
