"""Fits a linear erasure, so that a model's activations tell nothing about a descriptor's axis to a linear reader.

    python hb_train/erase.py --model embedded --leave_out v1.0-small --output_dir models/embedded-erased
    accelerate launch hb_metrics/measure.py --model models/embedded-erased

LEACE (Belrose et al., 2023) changes activations as little as possible in the mean square. Afterwards no linear reader
of the prompts' activations predicts the axis better than a constant does. The fit needs one forward pass of a few
hundred prompts and no training. The folder holds a small file and the name of the base model, like an adapter's folder.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from transformers import HfArgumentParser

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.inference.devices import input_device
from hb_metrics.inference.models.architecture import first_position
from hb_metrics.inference.models.chats import ChatOptions
from hb_metrics.inference.models.contexts import encode_rendered, render_contexts
from hb_metrics.inference.models.erasure import Erasure, after_layer, decoder_layers, save_erasures
from hb_metrics.inference.models.layout import choose_layout
from hb_metrics.inference.models.loading import load_model
from hb_metrics.runs.run_folder import table_digest
from hb_train.baseline_replies import training_prompts
from hb_train.training.options import check_least, first_line, option, run_script

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SMALLEST = 1e-10  # of the largest eigenvalue or singular value: below it there is only rounding


@dataclass
class EraseArguments:
    """The options of the erasure."""

    output_dir: str = field(metadata={"help": "The folder of the erasure."})
    model: str = option("embedded", "The causal model to erase in: a Hub id, a local folder, or 'embedded'.")
    dataset_config: str = option("v1.0", "The config of the dataset with the prompts.")
    leave_out: str | None = option(
        None, "The config whose descriptors are excluded from the fit, for measurements on unseen descriptors."
    )
    first_layer: float = option(0.25, "The share of layers below the first erasure, from 0 to below 1.")
    num_prompts: int = option(1024, "The number of prompts, which run as one batch.")
    system_prompt: str | None = option(None, "The system message of a chat. Default: the template's.")
    context: str = option("auto", "The format of prompts: auto, plain, dialogpt, chat or blenderbot.")
    seed: int = option(0, "The seed of the draw of prompts.")
    revision: str | None = option(None, "The revision of a model on the Hub.")
    dtype: str = option("auto", "The number format of the weights, such as bfloat16.")
    trust_remote_code: bool = option(False, "Allow code that comes with the model to run on this machine.")

    def __post_init__(self) -> None:
        """Raises `ValueError` if a number is out of range."""
        check_least(self, num_prompts=2, seed=0, first_layer=0)
        if self.first_layer >= 1:
            raise ValueError(f"first_layer is {self.first_layer}; set a share from 0 to below 1")


def main(argv: list[str] | None = None) -> None:
    """Reads the options, and fits the erasure."""
    parser = HfArgumentParser(EraseArguments, description=first_line(__doc__), allow_abbrev=False)
    options = vars(parser.parse_args(sys.argv[1:] if argv is None else argv))
    run_script("erase.py", lambda: erase(EraseArguments(**options)))


def erase(arguments: EraseArguments) -> None:
    """Fits an erasure after each upper layer, and writes its folder.

    Raises:
        ValueError: The options, the model and the vocabulary do not fit together.
        OSError: The model does not exist.
    """
    prompts = draw_prompts(training_prompts(arguments), arguments.num_prompts, seed=arguments.seed)
    loaded = load_model(
        arguments.model,
        revision=arguments.revision,
        dtype=arguments.dtype,
        trust_remote_code=arguments.trust_remote_code,
    )
    if loaded.adapter is not None:
        raise ValueError(f"model '{arguments.model}' is an adapter; set the model that it was trained on")
    chat = ChatOptions({}, arguments.system_prompt)
    layout = choose_layout(loaded, context=arguments.context, tag="auto", chat=chat)  # type: ignore[arg-type]
    number = len(decoder_layers(loaded.model))
    texts = prompts["text"].to_pylist()
    rendered = render_contexts(
        texts,
        [[]] * len(texts),
        loaded.tokenizer,
        layout.context,
        is_encoder_decoder=False,
        tag=layout.tag,
        chat=layout.chat,
        thought=False,
    )
    contexts = encode_rendered(rendered, loaded.tokenizer, layout.context, is_encoder_decoder=False)
    layers = range(int(arguments.first_layer * number), number)
    erasures = fit_erasures(loaded.model, contexts, prompts["axis"].to_pylist(), layers)
    folder = Path(arguments.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "settings": {name: value for name, value in asdict(arguments).items() if name not in ("output_dir", "model")},
        "prompts_digest": table_digest(prompts),
        "layers": list(erasures),
        "ranks": [erasure.reads.shape[0] for erasure in erasures.values()],
    }
    base = {"name": arguments.model, "revision": loaded.revision, "digest": loaded.digest}
    save_erasures(folder, erasures, base, record)
    print(f"\nerasures after {len(erasures)} layers, fitted on {len(texts):,} prompts: {folder.resolve()}")


def draw_prompts(prompts: pa.Table, number: int, *, seed: int) -> pa.Table:
    """Draws prompts; all descriptors are equally frequent, up to a difference of one.

    Args:
        prompts: Prompts with `id` and `descriptor`.
        number: The number of drawn prompts.
        seed: The seed of the draw.
    """
    by_descriptor: dict[str, list[int]] = {}
    for row, descriptor in enumerate(prompts["descriptor"].to_pylist()):
        by_descriptor.setdefault(descriptor, []).append(row)
    generator = seeded_generator(seed, "erase")
    columns = [generator.permutation(by_descriptor[name]) for name in generator.permutation(sorted(by_descriptor))]
    longest = max(map(len, columns))
    rows = [int(column[turn]) for turn in range(longest) for column in columns if turn < len(column)]
    return prompts.take(pa.array(rows[:number], pa.int64()))


def fit_erasures(
    model: "PreTrainedModel", contexts: Sequence[Sequence[int]], concepts: Sequence[str], layers: Sequence[int]
) -> dict[int, Erasure]:
    """Fits erasures from the lowest layer up, each on activations that those below it have changed.

    Args:
        model: A causal model in evaluation mode.
        contexts: [prompts] Token ids.
        concepts: [prompts] What the activations are to hide.
        layers: The layers that an erasure follows.

    Returns:
        Index of each layer → its erasure.
    """
    erasures: dict[int, Erasure] = {}
    values = sorted(set(concepts))
    one_hot = torch.tensor([[float(concept == value) for value in values] for concept in concepts])
    forward = Forward(model, contexts, cached=False)
    of_context = torch.zeros(len(forward.contexts), len(values)).index_copy(0, forward.which.cpu(), one_hot)

    def fit(index: int, activations: torch.Tensor) -> torch.Tensor:
        ends = activations[:, -num_positions:]
        erasures[index] = leace(ends.flatten(0, 1), of_context.repeat_interleave(ends.shape[1], 0))
        return erasures[index](activations)

    modules = decoder_layers(model)
    hooks = [modules[index].register_forward_hook(after_layer(partial(fit, index))) for index in layers]
    with torch.inference_mode():
        forward.first()
    for hook in hooks:
        hook.remove()
    return erasures


def leace(activations: torch.Tensor, concept: torch.Tensor) -> Erasure:
    """The map that leaves no linear trace of a concept and moves activations the least (Belrose et al., 2023, theorem 4.3).

    With W the whitening of activations x: x ↦ x − W⁺ P W (x − mean), where P projects onto the columns of W cov(x, z).

    Args:
        activations: [rows, width].
        concept: [rows, values] the concept z, one-hot.
    """
    x, z = activations.double(), concept.double()
    mean = x.mean(0)
    x, z = x - mean, z - z.mean(0)
    variances, axes = torch.linalg.eigh(x.T @ x / len(x))
    kept = variances > _SMALLEST * variances[-1]
    variances, axes = variances[kept], axes[:, kept]
    whiten, unwhiten = axes * variances.rsqrt() @ axes.T, axes * variances.sqrt() @ axes.T
    columns, sizes, _ = torch.linalg.svd(whiten @ x.T @ z / len(x), full_matrices=False)
    columns = columns[:, sizes > _SMALLEST * sizes[0]]
    return Erasure((unwhiten @ columns).float(), (columns.T @ whiten).float(), mean.float())
