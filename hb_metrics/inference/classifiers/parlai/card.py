"""The card of a converted classifier: the origin of its weights, their changes, and open questions."""

from collections.abc import Mapping

from hb_metrics.inference.classifiers.parlai.checkpoint import Checkpoint

_CARD = """\
---
pipeline_tag: text-classification
library_name: transformers
---

# A ParlAI classifier for transformers

`holistic-bias convert-classifier` made it from a checkpoint of the ParlAI agent `{agent}`, without any training.
{num_parameters:,} parameters, {num_labels} labels. A text of more than {max_tokens} tokens loses its beginning.

| file of the checkpoint | SHA-256 |
| --- | --- |
{files}

The options of the checkpoint name this model file: `{model_file}`. Whether a paper used it is not
known, since no checksum was published.

## Licence: open

ParlAI's code has the MIT licence. The weights were published through its model zoo without a licence, and were
trained on data with their own conditions (dialogues crawled from Reddit; Image-Chat for the styles; Wikipedia
comments and crowdsourced dialogues for safety). Your right to share them is an open question, so this card names no
licence. Do not share the folder until you have settled it.

## Use

```python
import hb_metrics.inference.classifiers.parlai.models  # makes its classes known to transformers
from transformers import pipeline

classify = pipeline("text-classification", model="FOLDER", top_k=None)
classify("I'm sorry to hear that.", truncation=True)
```

or `holistic-bias measure --{option} FOLDER`.

## Labels

{labels}
"""


def model_card(
    checkpoint: Checkpoint, labels: list[str], digests: Mapping[str, str], num_parameters: int, max_tokens: int
) -> str:
    """Writes the card in Markdown."""
    # The last parts of a path name a model of ParlAI's zoo; the parts before describe somebody's machine.
    path = str(checkpoint.opt.get("model_file") or "none").replace("`", "'").replace("\\", "/")
    return _CARD.format(
        agent=checkpoint.agent,
        num_parameters=num_parameters,
        num_labels=len(labels),
        files="\n".join(f"| {name} | `{digest}` |" for name, digest in digests.items()),
        model_file="/".join(path.split("/")[-3:]),
        option=checkpoint.option,
        max_tokens=max_tokens,
        labels="\n".join(f"{index}. {label}" for index, label in enumerate(labels)),
    )
