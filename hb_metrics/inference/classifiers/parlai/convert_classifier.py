"""Converts a classifier of ParlAI into a model folder of transformers, such as the paper's classifiers of style.

    holistic-bias convert-classifier CHECKPOINT --labels personality_list.txt --output_dir style-classifier
    holistic-bias measure --model openai-community/gpt2 --style_classifier style-classifier

CHECKPOINT is a downloaded checkpoint: its file, with the .opt and .dict files beside it, or their folder. This package
contains no checkpoint and does not need ParlAI. Only the tensors of a checkpoint are unpickled.
docs/comparing-with-the-paper.md names the paper's checkpoints and the source of the labels.
"""

import argparse


def main(argv: list[str] | None = None) -> None:
    """Converts the checkpoint that the command line names, and prints a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="The file of a ParlAI checkpoint, or its folder.")
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help="The labels, one per line in the order of the classifier's outputs. A style_gen classifier needs them "
        "(ParlAI's personality_list.txt); default: the classes that the checkpoint's options name.",
    )
    parser.add_argument("--output_dir", metavar="DIR", required=True, help="The folder to write, which must be new.")
    options = parser.parse_args(argv)
    from transformers.utils import logging

    from hb_metrics.inference.classifiers.parlai.conversion import convert_checkpoint

    logging.disable_progress_bar()
    try:
        print(convert_checkpoint(options.checkpoint, options.output_dir, options.labels))
    except (ValueError, OSError) as error:
        raise SystemExit(f"convert_classifier.py: {error}") from error


if __name__ == "__main__":
    main()
