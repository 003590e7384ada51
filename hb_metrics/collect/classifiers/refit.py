"""Fits the embedded classifiers again, after a change to their exemplars or calibration lines.

    python -m hb_metrics.collect.classifiers.refit

Commit the written files together with the changed lines.
"""

from hb_metrics.collect.classifiers.exemplars import ExemplarClassifier, save_discriminant
from hb_metrics.collect.classifiers.regard import REGARD_EXEMPLARS
from hb_metrics.collect.classifiers.styles import STYLE_EXEMPLARS


def main() -> None:
    for learnt_from in (STYLE_EXEMPLARS, REGARD_EXEMPLARS):
        classifier = ExemplarClassifier(learnt_from)
        save_discriminant(learnt_from.fitted, classifier.fit(learnt_from), classifier.digest)
        print(learnt_from.fitted)


if __name__ == "__main__":
    main()
