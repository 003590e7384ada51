"""Fits the embedded classifiers again, after a change to their exemplars or calibration lines.

    python -m hb_metrics.collect.classifiers.refit

Commit the written files together with the changed lines.
"""

import numpy as np

from hb_metrics.collect.classifiers.exemplars import ExemplarClassifier
from hb_metrics.collect.classifiers.regard import REGARD_EXEMPLARS
from hb_metrics.collect.classifiers.styles import STYLE_EXEMPLARS


def main() -> None:
    for learnt_from in (STYLE_EXEMPLARS, REGARD_EXEMPLARS):
        classifier = ExemplarClassifier(learnt_from)
        path = learnt_from.folder / "discriminant.npz"
        np.savez(path, **classifier.fit()._asdict(), digest=np.array(classifier.digest))
        print(path)


if __name__ == "__main__":
    main()
