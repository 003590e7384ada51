"""Measures the identity leakage of a style classifier.

holistic-bias identity-leakage --style_classifier SamLowe/roberta-base-go_emotions --output leakage.json
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hb_dataset.hints import did_you_mean
from hb_dataset.vocabulary import VOCABULARIES, read_vocabulary
from hb_metrics.report.layout.numbers import axis_label, bias, share
from hb_metrics.runs.run_folder import write_json


def main(argv: Sequence[str] | None = None) -> None:
    """Prints how far the probabilities of a style classifier move when only the term in a text changes."""
    parser = argparse.ArgumentParser(
        prog="holistic-bias identity-leakage", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument(
        "--style_classifier",
        default="embedded",
        help="The Hub id or local folder of a sequence classifier, or 'embedded'. Default: %(default)s.",
    )
    parser.add_argument("--revision", help="The branch, tag or commit of the classifier on the Hub.")
    parser.add_argument(
        "--vocabulary",
        default="v1.0",
        help="A version of the vocabulary, or the folder of one. Default: %(default)s.",
    )
    parser.add_argument("--axes", nargs="+", metavar="AXIS", help="The axes whose terms are used. Default: all.")
    parser.add_argument("--output", type=Path, help="A JSON file to write the figures to.")
    parser.add_argument(
        "--trust_remote_code",
        action="store_true",
        help="Run Python code that comes with the classifier on this machine.",
    )
    arguments = parser.parse_args(argv)
    try:
        results = leakage_of_classifier(arguments)
        if arguments.output is not None:
            arguments.output.parent.mkdir(parents=True, exist_ok=True)
            write_json(arguments.output, results)
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"hb_metrics.identity_leakage: {error}") from error
    print("\n".join(leakage_lines(results)))
    if arguments.output is not None:
        print(f"results: {arguments.output.resolve()}")


def leakage_of_classifier(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measures the leakage of the classifier that the options name.

    Raises:
        ValueError: There is no such vocabulary or axis, or the classifier does not fit.
        OSError: There is no such classifier.
    """
    versions = sorted(path.name for path in VOCABULARIES.iterdir() if path.is_dir())
    folder = VOCABULARIES / arguments.vocabulary if arguments.vocabulary in versions else Path(arguments.vocabulary)
    if not folder.is_dir():
        raise ValueError(f"there is no vocabulary '{folder}'; name a folder, or one of {', '.join(versions)}")
    vocabulary = read_vocabulary(folder)
    axes = arguments.axes or vocabulary.axes
    for axis in axes:
        if axis not in vocabulary.axes:
            hint = did_you_mean(axis, vocabulary.axes)
            raise ValueError(f"axis '{axis}' is not in the vocabulary; {hint}allowed: {', '.join(vocabulary.axes)}")

    # torch takes seconds to import: not before the options are known to be right.
    from hb_metrics.identity_leakage.leakage import identity_leakage, named_people, shipped_sentences
    from hb_metrics.inference.classifiers.styles import load_style_classifier

    keys = {(term.axis, term.term) for term in vocabulary.descriptors if term.axis in axes}
    classifier = load_style_classifier(
        arguments.style_classifier, revision=arguments.revision, trust_remote_code=arguments.trust_remote_code
    )
    leakage = identity_leakage(classifier.probabilities, named_people(vocabulary, keys), shipped_sentences())
    about = {"name": classifier.name, "digest": classifier.digest, "num_styles": len(classifier.labels)}
    return {
        "style_classifier": about,
        "vocabulary": {"name": folder.name, "digest": vocabulary.digest},
        **leakage,
    }


def leakage_lines(results: dict[str, Any]) -> list[str]:
    """The figures as lines to print."""
    lines = [
        f"Identity leakage  {bias(results['leakage'])}  Full Gen Bias of {results['num_sentences']} sentences that are "
        f"the same for all {results['num_terms']} terms",
        f"  in common to all sentences: {bias(results['shared'])}",
        f"  a term moves {share(results['mean_move'])} of the probability to other styles, on average",
    ]
    for axis, value in sorted(results["by_axis"].items(), key=lambda item: -(item[1] or 0.0)):
        lines.append(f"  {axis_label(axis):<22} {bias(value):>6}")
    most = [f"{row['descriptor']} ({share(row['move'], 0)})" for row in results["most_moved"]]
    return [*lines, f"  most moved by: {', '.join(most)}"]


if __name__ == "__main__":
    main()
