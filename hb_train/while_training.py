import logging
import math
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from transformers import PreTrainedTokenizerBase, Trainer, TrainerCallback

from hb_dataset.prompts import config_vocabulary, load_table
from hb_dataset.seeded_draws import balanced_sample
from hb_metrics.collect.classifiers.censoring import masked_texts
from hb_metrics.collect.classifiers.styles import load_style_classifier
from hb_metrics.collect.engines.local import LocalEngine
from hb_metrics.collect.replies.prompt_replies import ReplyPlan, reply_to_rows
from hb_metrics.collect.replies.requests import select_prompts
from hb_metrics.measurements.reply_requests import request_replies
from hb_metrics.measurements.settings import RunOptions
from hb_metrics.models.adapters import keep_slices_whole
from hb_metrics.models.loading import LoadedModel, model_kind
from hb_metrics.run.plurals import terms_of_prompts, with_plurals
from hb_metrics.run.replies import Replies, is_empty
from hb_metrics.run.schema import rows_of
from hb_metrics.stats.gen_bias import CellSums, gen_bias
from hb_metrics.stats.inputs import DescriptorKey
from hb_train.training.runs import check_whole_weights

GEN_BIAS = ("full_gen_bias", "full_gen_bias_low", "full_gen_bias_high")

logger = logging.getLogger(__name__)


class GenBiasCallback(TrainerCallback):
    """Measures a model at each evaluation: `trainer.add_callback(GenBiasCallback(trainer))`.

    At each evaluation, the model replies to the same prompts with the same random draws. The figures are logged, and
    added to the evaluation's metrics:

    * `eval_full_gen_bias` (debiased, ×1000), and the bounds of its interval, `eval_full_gen_bias_low` and
      `eval_full_gen_bias_high`.
    * `eval_distinct_share`, the share of distinct replies.
    * `eval_num_replies`, the number of non-empty replies.

    An undefined figure is not logged. In the metrics, it is NaN, so it does not affect the selection of a checkpoint.

    Args:
        trainer: The trainer.
        num_replies: The approximate number of replies at each evaluation. The default is enough for one term per
            axis.
        replies_per_cell: The number of replies per term and template. Intervals need at least 4.
        num_templates: The number of templates.
        prompts: Any value that `measure` accepts for `--dataset_config`, or a table of prompts with the plural forms of
            terms (`with_plurals`).
        seed: The seed for drawing prompts and sampling replies.
        style_classifier: As in `--style_classifier` of `measure`.
        decoding: The preset, as in `--decoding`.

    Raises:
        ValueError: There are too few prompts, the trainer has no tokenizer, or the weights are sharded.
    """

    def __init__(
        self,
        trainer: Trainer,
        *,
        num_replies: int = 312,
        replies_per_cell: int = 12,
        num_templates: int = 2,
        prompts: str | pa.Table = "v1.0-small",
        seed: int = 0,
        style_classifier: str = "embedded",
        decoding: str = "sample",
    ) -> None:
        check_whole_weights(trainer.accelerator)
        self.trainer, self.seed, self.decoding = trainer, seed, decoding
        self.tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
        if not isinstance(self.tokenizer, PreTrainedTokenizerBase):
            raise ValueError("the trainer has no tokenizer to encode prompts; set processing_class=tokenizer")
        if isinstance(prompts, str):
            prompts = with_plurals(load_table(prompts), config_vocabulary(prompts))
        self.prompts = draw_prompts(prompts, num_replies, replies_per_cell, num_templates, seed=seed)
        keep_slices_whole(trainer.model)
        with torch.random.fork_rng(devices=[]):  # the classifier must not change what training draws
            self.styles = load_style_classifier(style_classifier, device=trainer.args.device)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Checks the options, and moves this callback before all other callbacks, because they may read its figures."""
        name = (args.metric_for_best_model or "").removeprefix("eval_")
        if args.eval_strategy == "no":
            raise ValueError("eval_strategy is 'no', so Gen Bias is never measured; set eval_strategy='steps'")
        if name in GEN_BIAS and args.greater_is_better:
            raise ValueError(f"greater_is_better is True, but the lowest '{name}' is best; set greater_is_better=False")
        handler = self.trainer.callback_handler
        with evaluated(self.trainer.model) as model:
            self._plan(model)
        handler.callbacks = [self, *(callback for callback in handler.callbacks if callback is not self)]

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        names = self.trainer.eval_dataset
        if isinstance(names, dict) and any(f"eval_{name}_runtime" in metrics for name in list(names)[1:]):
            return  # measure once per evaluation, whatever the number of datasets
        figures = {f"eval_{name}": value for name, value in self.measure().items()}
        metrics.update(figures)
        self.trainer.log({name: value for name, value in figures.items() if not math.isnan(value)})

    def measure(self) -> dict[str, float]:
        """Measures the model in its current state. Each process writes its share of the replies, and reads all."""
        figures = dict.fromkeys((*GEN_BIAS, "distinct_share"), math.nan) | {"num_replies": 0}
        state = PartialState()
        with evaluated(self.trainer.model) as model:
            plan, loaded = self._plan(model)
            own = range(state.process_index, len(plan.ids), state.num_processes)
            try:
                written = reply_to_rows(plan, loaded, own)
            except ValueError as error:  # for example, because the weights are not finite
                step = self.trainer.state.global_step
                logger.warning("step %d: the model could not reply, so there is no Gen Bias (%s)", step, error)
                written = [""] * len(own)
        replies = [reply for _, reply in sorted(gather_object(list(zip(own, written, strict=True))))]
        rows = [row for row, reply in enumerate(replies) if not is_empty(reply)]
        if not rows:
            return figures
        texts = [replies[row] for row in rows]
        prompts = self.prompts.take(pa.array(rows, pa.int64()))
        axes, terms, templates = (prompts[name].to_pylist() for name in ("axis", "descriptor", "template"))
        masked = masked_texts(Replies([], axes, terms, [], [], texts), terms_of_prompts(self.prompts))
        cells = CellSums(self.styles.labels, keep_replies=True)
        cells.add(self.styles.probabilities(masked).astype(np.float32), terms, templates, axes)
        with suppress(ValueError):  # no cell has two replies, or no template has replies to two terms
            result = gen_bias(cells, debias=True, confidence_level=0.95)
            bounds = (result.intervals and result.intervals.full_gen_bias) or ()
            figures |= dict(zip(GEN_BIAS, (result.full_gen_bias, *bounds), strict=False))
        return {**figures, "distinct_share": len(set(texts)) / len(texts), "num_replies": len(texts)}

    def _plan(self, model: Any) -> tuple[ReplyPlan, LoadedModel]:
        about: dict[str, Any] = dict.fromkeys(("name", "source"), str(model.config.name_or_path))
        about |= {"digest": "", "dtype": str(model.dtype).removeprefix("torch."), "kind": model_kind(model.config)}
        loaded = LoadedModel(tokenizer=self.tokenizer, config=model.config, revision=None, model=model, **about)
        engine, options = LocalEngine(loaded), RunOptions(tag="none", seed=self.seed)
        requests, _ = request_replies(self.prompts, engine, options, self.decoding, {})
        return engine.plan_replies(requests), loaded


def draw_prompts(prompts: pa.Table, number: int, per_cell: int, num_templates: int, *, seed: int) -> pa.Table:
    """Draws about `number` prompts: `per_cell` per term in each template. The terms are balanced over axes."""
    names = sorted(set(prompts["template"].to_pylist()))
    names = random.Random(seed).sample(names, min(num_templates, len(names)))
    prompts = prompts.filter(pc.is_in(prompts["template"], pa.array(names, pa.string())))
    terms = rows_of(prompts, DescriptorKey)
    cells = Counter(zip(terms, prompts["template"].to_pylist(), strict=True))
    most, of_term = max(cells.values(), default=0), per_cell * num_templates
    if len(names) < num_templates or not 1 <= per_cell <= most or not 2 <= number // of_term <= len(set(terms)):
        raise ValueError(
            f"num_replies is {number}, replies_per_cell is {per_cell} and num_templates is {num_templates}; set "
            f"num_templates to at most {len(names)}, replies_per_cell to at most {most}, and num_replies to a number "
            f"from {2 * of_term} to {len(set(terms)) * of_term}"
        )
    drawn = balanced_sample(prompts, number // of_term, seed=seed)
    chosen = set(rows_of(drawn, DescriptorKey))
    return select_prompts(prompts.filter(pa.array([term in chosen for term in terms])), per_cell, seed=seed)


@contextmanager
def evaluated(model: Any) -> Iterator[Any]:
    """Yields the model in evaluation mode without autocast, but with its adapter.

    The trainer sets the mode again before each step.
    """
    model.eval()
    if hasattr(model, "get_base_model"):
        if getattr(model.active_peft_config, "is_prompt_learning", False):
            raise ValueError("the adapter learns prompts and does not change the model's layers; use LoRA")
        model = model.get_base_model()
    forward, original = model.__dict__.get("forward"), model.__dict__.get("_original_forward")
    if original is not None:
        model.forward = original
    try:
        yield model
    finally:
        if original is not None:
            model.forward = forward
