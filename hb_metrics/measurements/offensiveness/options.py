from dataclasses import dataclass

from hb_metrics.measurements.settings import option


@dataclass
class OffensivenessOptions:
    _argument_group_name = "offensiveness"

    offensiveness_classifier: str = option(
        "embedded",
        "The classifier of offensive texts: a name that `holistic-bias classifiers` lists, the Hub id or local folder "
        "of a sequence classifier, or 'embedded'.",
    )
