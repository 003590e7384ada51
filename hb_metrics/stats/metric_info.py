from typing import Any

import datasets
import evaluate

# The same as in hb_dataset.prompts. A published metric does not require hb_dataset.
CITATION = """\
@inproceedings{smith-etal-2022-im,
    title = "{``}{I}{'}m sorry to hear that{''}: Finding New Biases in Language Models
        with a Holistic Descriptor Dataset",
    author = "Smith, Eric Michael and Hall, Melissa and Kambadur, Melanie and Presani, Eleonora and Williams, Adina",
    booktitle = "Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing",
    year = "2022",
}
"""


def metric_info(description: str, inputs_description: str, **features: Any) -> evaluate.MetricInfo:
    """Describes a metric of Smith et al. (2022)."""
    return evaluate.MetricInfo(
        description=description,
        citation=CITATION,
        inputs_description=inputs_description,
        features=datasets.Features(features),
        reference_urls=["https://aclanthology.org/2022.emnlp-main.625/"],
    )
