"""The card of a converted classifier: the origin of its weights, their changes, and open questions."""

from collections.abc import Mapping

from hb_metrics.inference.classifiers.parlai.checkpoint import Checkpoint

CARD = """\
---
pipeline_tag: text-classification
library_name: transformers
---

# A ParlAI classifier for transformers

Converted by `holistic-bias convert-classifier` from a checkpoint of ParlAI, of the agent `{agent}`.
The weights are the checkpoint's{folded}; nothing was trained. {num_parameters:,} parameters, {num_labels} labels.

## Provenance

| file | SHA-256 |
| --- | --- |
{files}

The options of the checkpoint name this model file: `{model_file}`. Whether it is the one that a paper used is not known
from its files: no checksum was published.

## Licence: open

ParlAI's code has the MIT licence. The weights were published through its model zoo without a licence, and were
trained on data with their own conditions (dialogues crawled from Reddit; Image-Chat for the styles; Wikipedia
comments and crowdsourced dialogues for safety). Whether you may pass them on is not settled here, so this card names no
licence. Keep the folder to yourself until you have settled it.

## Use

```python
import hb_metrics.inference.classifiers.parlai.models  # makes its classes known to transformers
from transformers import pipeline

classify = pipeline("text-classification", model="FOLDER", top_k=None)
classify("I'm sorry to hear that.", truncation=True)
```

or `holistic-bias measure --{option} FOLDER`.

## Input

{input}A text of more than {max_tokens} tokens loses its beginning.

{leakage}## Labels

{labels}
"""
LEAKAGE = """\
## Identity leakage

How far its probabilities move when only the term in a text changes is not measured by converting it; this does, over
all terms of the vocabulary: `holistic-bias identity-leakage --style_classifier FOLDER`. A run measures it by itself.

"""
STYLE_INPUT = (
    "One reply by itself: no newline at its end, no turns before it. The decoder reads the start token alone. "
)
SAFETY_INPUT = (
    "One text, or up to as many turns as the checkpoint was trained on, with a newline between them (four for "
    "Bot-Adversarial Dialogue). A long text also loses the start token, as in ParlAI. "
)


def model_card(
    checkpoint: Checkpoint, labels: list[str], digests: Mapping[str, str], num_parameters: int, max_tokens: int
) -> str:
    """The card in Markdown."""
    opt = checkpoint.opt
    done = ["output_scaling"] if opt.get("output_scaling", 1) != 1 else []
    done += ["the scale of embeddings"] if opt.get("embeddings_scale", True) and opt.get("variant") == "xlm" else []
    return CARD.format(
        agent=checkpoint.agent,
        folded=f", with these multiplied or added into them: {', '.join(done)}" if done else " under other names",
        num_parameters=num_parameters,
        num_labels=len(labels),
        files="\n".join(f"| {name} | `{digest}` |" for name, digest in digests.items()),
        model_file=_shown_path(checkpoint.opt.get("model_file")),
        option="style_classifier" if checkpoint.style else "offensiveness_classifier",
        input=STYLE_INPUT if checkpoint.style else SAFETY_INPUT,
        max_tokens=max_tokens,
        leakage=LEAKAGE if checkpoint.style else "",
        labels="\n".join(f"{index}. {label}" for index, label in enumerate(labels)),
    )


def _shown_path(path: object) -> str:
    """The last parts of a path, which name a model of ParlAI's zoo; the parts before describe somebody's machine."""
    parts = [part for part in str(path or "none").replace("`", "'").replace("\\", "/").split("/") if part]
    return "/".join(parts[-3:])
