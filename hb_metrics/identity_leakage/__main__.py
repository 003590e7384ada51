"""Measures the identity leakage of a style classifier.

holistic-bias identity-leakage --style_classifier go_emotions --output leakage.json
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hb_dataset.command_line import CommandParser
from hb_dataset.terminal import safe_terminal
from hb_dataset.versions import read_version
from hb_metrics.report.layout.numbers import axis_label, bias, share
from hb_metrics.runs.run_folder import write_json


@safe_terminal()
def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--style_classifier",
        default="embedded",
        help="The classifier: a name that `holistic-bias classifiers` lists, the Hub id or local folder of a sequence "
        "classifier, or 'embedded'. Default: %(default)s.",
    )
    parser.add_argument("--revision", help="The branch, tag or commit of the classifier on the Hub.")
    parser.add_argument("--output", type=Path, help="The JSON file to write the figures to. Default: none.")
    parser.add_argument(
        "--trust_remote_code",
        action="store_true",
        help="Allow Python code supplied with the classifier to run on this machine.",
    )
    arguments = parser.parse_args(argv)
    results = leakage_of_classifier(
        arguments.style_classifier, revision=arguments.revision, trust_remote_code=arguments.trust_remote_code
    )
    print("\n".join(leakage_lines(results)))
    if arguments.output is not None:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        write_json(arguments.output, results)
        print(f"results: {arguments.output.resolve()}")


def leakage_of_classifier(name: str, **options: Any) -> dict[str, Any]:
    # torch takes seconds to import, so it is imported only after the options are checked.
    from hb_metrics.identity_leakage.leakage import classifier_leakage, identity_leakage, named_people
    from hb_metrics.inference.classifiers.styles import load_style_classifier

    classifier, vocabulary = load_style_classifier(name, **options), read_version("v1.0")
    people = named_people(vocabulary)
    leakage = identity_leakage(classifier_leakage(classifier, people), people)
    about = {"name": classifier.name, "digest": classifier.digest, "num_styles": len(classifier.labels)}
    return {"style_classifier": about, "vocabulary": {"name": "v1.0", "digest": vocabulary.digest}, **leakage}


def leakage_lines(results: dict[str, Any]) -> list[str]:
    lines = [
        f"Identity leakage  {bias(results['leakage'])}  Full Gen Bias of {results['num_sentences']} sentences that "
        f"differ only in the term ({results['num_terms']} terms)",
        f"  common to all sentences: {bias(results['shared'])}",
        f"  on average, a term moves {share(results['mean_move'])} of the probability to other styles",
    ]
    for axis, value in sorted(results["by_axis"].items(), key=lambda item: -(item[1] or 0.0)):
        lines.append(f"  {axis_label(axis):<22} {bias(value):>6}")
    most = [f"{row['descriptor']} ({share(row['move'], 0)})" for row in results["most_moved"]]
    return [*lines, f"  the terms that move the most probability: {', '.join(most)}"]


if __name__ == "__main__":
    main()
