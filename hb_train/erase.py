"""Fits a linear erasure, which hides the descriptor in a model's activations from linear classifiers.

    python hb_train/erase.py --model embedded --leave_out v1.0-small --output_dir models/embedded-erased
    accelerate launch hb_metrics/measure.py --model models/embedded-erased

The method is LEACE (Belrose et al., 2023), which changes the activations as little as possible (in mean square). If all
directions are erased, no linear classifier predicts the descriptor better than a constant does. Like an adapter's
folder, the output folder contains only the erasure and the name of the base model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import torch
from torch.nn.functional import one_hot
from transformers import HfArgumentParser

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.inference.models.contexts import encode_rendered, encode_replies
from hb_metrics.inference.models.erasure import Erasure, after_layer, decoder_layers, save_erasures
from hb_metrics.inference.models.layout import render_prompts
from hb_metrics.inference.replies.forward import Forward
from hb_metrics.runs.run_folder import table_digest
from hb_train.baseline_replies import ReplyArguments, own_model, own_replies, training_prompts
from hb_train.training.options import check_least, first_line, option, run_script
from hb_train.tuning.baseline_rows import rows_by_place

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MAX_NEW_TOKENS = 16  # per reply; the fit includes replies because an erasure also changes the tokens of replies
_SMALLEST = 1e-10  # values below this share of the largest eigenvalue or singular value are rounding errors


@dataclass
class EraseArguments(ReplyArguments):
    layers: list[float] = field(
        default_factory=lambda: [0.5],
        metadata={
            "help": "The layers after which to erase, as shares of the model's depth (at least 0 and less than 1)."
        },
    )
    rank: int = option(32, "The maximum number of directions to erase after each layer.")
    num_prompts: int = option(260, "The number of prompts. All prompts and their replies form a single batch.")

    def __post_init__(self) -> None:
        check_least(self, num_prompts=2, rank=1, seed=0)
        for share in self.layers:
            if not 0 <= share < 1:
                raise ValueError(f"layers contains {share}; set shares that are at least 0 and less than 1")


def main(argv: list[str] | None = None) -> None:
    parser = HfArgumentParser(EraseArguments, description=first_line(__doc__), allow_abbrev=False)
    options = parser.parse_args(argv)
    run_script("erase.py", lambda: erase(EraseArguments(**vars(options))))


def erase(arguments: EraseArguments) -> None:
    prompts = training_prompts(arguments.dataset_config, arguments.leave_out)
    prompts = draw_prompts(prompts, arguments.num_prompts, seed=arguments.seed)
    loaded, folder = own_model(arguments), Path(arguments.output_dir).expanduser()
    number = len(decoder_layers(loaded.model))
    layers = sorted({int(share * number) for share in arguments.layers})
    layout, replies = own_replies(arguments, prompts, loaded, "greedy", max_new_tokens=MAX_NEW_TOKENS)
    if replies is None:  # only the main process fits
        return
    rendered = render_prompts(prompts["text"].to_pylist(), loaded, layout)
    asked = encode_rendered(rendered, loaded.tokenizer, layout.context, is_encoder_decoder=False)
    written = [reply or "" for reply in replies["reply"].to_pylist()]
    said = encode_replies(rendered, written, loaded.tokenizer, layout.context, is_encoder_decoder=False)
    sequences = [[*context, *reply] for context, reply in zip(asked, said, strict=True)]
    erasures = fit_erasures(loaded.model, sequences, prompts["descriptor"].to_pylist(), layers, arguments.rank)
    record = {"prompts_digest": table_digest(prompts), "layers": layers, "rank": arguments.rank}
    base = {"name": arguments.model, "revision": loaded.revision, "digest": loaded.digest}
    save_erasures(folder, erasures, base, record)
    print(f"\nerasures after layers {layers}, fitted on {len(rendered):,} prompts with replies: {folder.resolve()}")


def draw_prompts(prompts: pa.Table, number: int, *, seed: int) -> pa.Table:
    """Draws random pairs of a noun and a template, and one prompt per axis for each pair."""
    by_place = rows_by_place(prompts)
    generator = seeded_generator(seed, "erase", "prompts")
    places = sorted(by_place)
    rows = [
        int(generator.choice(by_axis[axis]))
        for by_axis in (by_place[places[index]] for index in generator.permutation(len(places)))
        for axis in sorted(by_axis)
    ]
    return prompts.take(pa.array(rows[:number], pa.int64()))


def fit_erasures(
    model: "PreTrainedModel",
    sequences: Sequence[Sequence[int]],
    concepts: Sequence[str],
    layers: Sequence[int],
    rank: int,
) -> dict[int, Erasure]:
    """Returns an erasure for each layer, by the layer's index.

    The erasures are fitted from the lowest layer to the highest, each to activations that the lower erasures have
    already changed. The fit uses all tokens of `sequences` (prompts with their replies), because an erasure changes the
    activations at every token. `concepts` contains the value to hide in each sequence, such as the descriptor.
    """
    erasures: dict[int, Erasure] = {}
    values = one_hot(torch.from_numpy(np.unique(concepts, return_inverse=True)[1]))
    forward = Forward(model, sequences, cached=False)
    taken = torch.ones_like(forward.contexts) if forward.mask is None else forward.mask
    shown = torch.zeros(len(taken), values.shape[1], dtype=values.dtype)
    shown[forward.which.cpu()] = values  # equal sequences are run only once
    concept = shown.repeat_interleave(taken.sum(1).cpu(), 0)

    def fit(index: int, activations: torch.Tensor) -> torch.Tensor:
        if activations.shape[:-1] != taken.shape:
            raise ValueError(
                f"layer {index} of {type(model).__name__} returns activations of shape {[*activations.shape]} for "
                f"tokens of shape {[*taken.shape]}, but erasure needs one activation per token; set --model to "
                "a model with such layers, such as a Llama or GPT-2 model"
            )
        erasures[index] = leace(activations[taken.bool()].cpu(), concept, rank)
        return erasures[index].apply(activations)

    modules = decoder_layers(model)
    hooks = [modules[index].register_forward_hook(after_layer(partial(fit, index))) for index in layers]
    with torch.inference_mode():
        forward.first()
    for hook in hooks:
        hook.remove()
    return erasures


def leace(activations: torch.Tensor, concept: torch.Tensor, rank: int) -> Erasure:
    """Computes the smallest change that hides a concept from linear classifiers (Belrose et al., 2023, theorem 4.3).

    The change is x ↦ x − W⁺ P W (x − mean), where x are the activations and z is the one-hot concept. W whitens x, and
    P projects onto the columns of W cov(x, z), or onto the `rank` directions most correlated with z.
    """
    x, z = activations.double(), concept.double()
    mean = x.mean(0)
    x, z = x - mean, z - z.mean(0)
    variances, axes = torch.linalg.eigh(x.T @ x / len(x))
    kept = variances > _SMALLEST * variances[-1]
    variances, axes = variances[kept], axes[:, kept]
    whiten, unwhiten = axes * variances.rsqrt() @ axes.T, axes * variances.sqrt() @ axes.T
    columns, sizes, _ = torch.linalg.svd(whiten @ x.T @ z / len(x), full_matrices=False)
    columns = columns[:, sizes > _SMALLEST * sizes[0]][:, :rank]
    return Erasure((unwhiten @ columns).float(), (columns.T @ whiten).float(), mean.float())


if __name__ == "__main__":
    main()
