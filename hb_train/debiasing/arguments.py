from dataclasses import dataclass, field
from typing import Literal

from hb_train.training.options import check_least, option

METHODS = ("lmd", "add", "hd", "cda")  # each method is a file in this folder
DEBIAS_FILE = "debias.json"  # the bias and the perplexity before and after debiasing, in the model's folder


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
        "The bias specification (target terms and attributes): gender, race, religion1, religion2, queerness, or the "
        "path of a YAML file.",
    )
    reddit_folder: str | None = option(
        None,
        "The folder that contains the phrases: the RedditBias authors' repository, or your own folder with files named "
        "train and validation. A TXT file contains one phrase per line. A CSV file contains the column text_t1 and, "
        "optionally, text_t2 with counterfactuals.",
    )
    lambda_lm: float = option(0.01, "The weight λ_LM of the language modelling loss. The paper tries 0.001 and 0.01.")
    lambda_d: float = option(10.0, "The weight λ_D of the debiasing loss. The paper tries 10, 50 and 100.")
    neutralized_states: Literal["attributes", "targets", "rest", "targets_and_rest"] = option(
        "attributes",
        "The hidden states from which the method 'hd' removes the bias directions. attributes: the states of the "
        "attribute terms, as in the paper. targets: the states that predict the target terms. rest: the states that "
        "predict the words after the first target term. targets_and_rest: the states of targets and of rest. The "
        "default (attributes) does not directly affect the bias measure.",
    )
    target_vectors: Literal["detached", "learned"] = option(
        "detached",
        "With the method 'add', whether the output vectors of the target terms are trained too (learned) or left "
        "unchanged, as in the paper (detached).",
    )
    reference_texts: str | None = option(
        None,
        "A TXT file with one reference text per line. The perplexity of these texts (LMP) shows the cost of "
        "debiasing. Default: replies from the chitchat-dataset corpus.",
    )
    num_reference_texts: int = option(200, "The number of reference texts to score. With 0, LMP is not computed.")

    def __post_init__(self) -> None:
        check_least(self, lambda_lm=0, lambda_d=0, num_reference_texts=0)
