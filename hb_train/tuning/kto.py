"""Defines KTO, which makes "no_bias" replies likelier and "bias" replies less likely (Ethayarajh et al., 2024).

The prompts have no tags. KTO's reference model is the model before tuning.
"""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from datasets import Dataset
from trl import KTOTrainer, get_peft_config

from hb_metrics.inference.models.bias_tags import NO_BIAS
from hb_train.training.encoding import IGNORED, length_limit
from hb_train.training.models import padding_tokenizer
from hb_train.training.trainers import LOSS, Resuming
from hb_train.tuning.method import CardText, Method, Tuning
from hb_train.tuning.sft import CLASSIFIER_LIMIT, encode, labelled_rows

if TYPE_CHECKING:
    from transformers import Trainer

    from hb_metrics.inference.models.bias_tags import BiasTuning


class ReplyKTOTrainer(Resuming, KTOTrainer):
    metric = LOSS

    def _prepare_dataset(self, dataset: Dataset, processing_class: Any, args: Any, dataset_name: str) -> Dataset:
        """Adds to each row the reply of the previous row in the batch. The first row gets the reply of the last row.

        TRL uses these mismatched replies to estimate the divergence from the reference model, as in the paper
        (Ethayarajh et al., 2024, section 4.1).
        """
        if not self.calculate_KL:
            return dataset
        replies = dataset["completion_ids"]
        size = args.per_device_train_batch_size
        batches = (replies[first : first + size] for first in range(0, len(replies), size))
        return dataset.add_column("KL_completion_ids", [row for batch in batches for row in (batch[-1], *batch[:-1])])


def make_trainer(tuning: Tuning) -> "Trainer":
    """Makes the trainer, and sets `undesirable_weight` if it is `None`.

    The default gives desirable and undesirable replies the same total weight, which is within the range that Ethayarajh
    et al. (2024, equation 8) recommend.
    """
    training_args, loaded = tuning.training_args, tuning.loaded
    if training_args.precompute_ref_log_probs and training_args.world_size > 1:
        raise ValueError(
            f"precompute_ref_log_probs does not work with {training_args.world_size} processes; omit it, or use one "
            "process"
        )
    labelled = {name: kto_rows(tuning.rows[name], tuning.encoded[name].dataset, name) for name in tuning.rows}
    if training_args.undesirable_weight is None:
        wanted = labelled["train"]["label"]
        training_args.undesirable_weight = training_args.desirable_weight * sum(wanted) / (len(wanted) - sum(wanted))
    # A context with another row's reply may exceed the limit. TRL then cuts the end of the reply.
    training_args.max_length = length_limit(loaded, training_args.max_length)
    # TRL pairs each row with the previous row. Without shuffling, both rows would often belong to the same term and
    # template.
    seed = training_args.seed if training_args.data_seed is None else training_args.data_seed
    shuffled = {name: split.shuffle(seed=seed).flatten_indices() for name, split in labelled.items()}
    # With LoRA, the reference is the model without its adapter. If log-probabilities are precomputed, no reference is
    # needed.
    needs_copy = not tuning.model_args.use_peft and not training_args.precompute_ref_log_probs
    return ReplyKTOTrainer(
        model=loaded.model,
        ref_model=deepcopy(loaded.model) if needs_copy else None,
        args=training_args,
        train_dataset=shuffled["train"],
        eval_dataset=shuffled["validation"],
        processing_class=padding_tokenizer(loaded),
        peft_config=get_peft_config(tuning.model_args),
        callbacks=tuning.callbacks,
    )


def kto_rows(rows: Dataset, encoded: Dataset, split: str) -> Dataset:
    tags = rows["tag"][:]
    if len(set(tags)) < 2:
        raise ValueError(
            f"all {len(tags)} replies of {split} are tagged '{tags[0]}', but method kto needs both tags in each split; "
            "set --beta in bias_labels.py to a value that assigns both tags, or label more replies"
        )
    columns: dict[str, list[Any]] = {"prompt_ids": [], "completion_ids": [], "label": [tag == NO_BIAS for tag in tags]}
    for tokens, labels in zip(encoded["input_ids"], encoded["labels"], strict=True):
        length = labels.count(IGNORED)
        columns["prompt_ids"].append(tokens[:length])
        columns["completion_ids"].append(tokens[length:])
    return Dataset.from_dict(columns)


def card(tuning: "BiasTuning") -> CardText:
    training = tuning.training
    learnt = """\
The model was tuned on its own replies to HolisticBias prompts. The label of a reply depends on how strongly the reply
shows the characteristic style of the prompt's term (Smith et al., 2022, section 4 and appendix C). KTO (Ethayarajh et
al., 2024) raised the probability of replies tagged "no_bias", and lowered the probability of replies tagged "bias"."""
    weights = f"""
* The weight of a reply tagged "no_bias" is {training["desirable_weight"]:.3g}. The weight of a reply tagged "bias" is
  {training["undesirable_weight"]:.3g}."""
    return CardText(learnt, labelled_rows(tuning) + weights, CLASSIFIER_LIMIT)


METHOD = Method(
    encode=encode,
    make_trainer=make_trainer,
    card=card,
    kinds=("causal",),
    recorded=("desirable_weight", "undesirable_weight"),
)
