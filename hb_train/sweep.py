r"""Runs a training script with several settings, each in a folder of its own, and finds the best.

    python hb_train/sweep.py --config hb_train/recipes/dialogpt.yaml --dataset_name labels/dialogpt \
        --output_dir sweeps/dialogpt
    python hb_train/sweep.py --script debias --method lmd --bias_type religion1 --reddit_folder RedditBias \
        --model_name_or_path microsoft/DialoGPT-small --output_dir sweeps/lmd

`tune.py` is run with several learning rates (Smith et al., 2022, C.1). The paper's grid for DialoGPT is the default: 15
rates from 3e-7 to 3e0; its grid for BlenderBot: `--highest 3e-3 --num_runs 9`. The best model has the lowest validation
perplexity. `debias.py` is run with a grid of options (Barikeri et al., 2021, 5.1), by default the paper's; others:
`--grid lambda_d=10,100 learning_rate=1e-5,5e-5`. The best is the least biased whose perplexity of other text is hardly
higher (see debiasing/grid_sweep.py).

Each run gets all options that are not the sweep's; with graphics cards, one card each. A sweep that was interrupted
resumes when the same command is given again. Weights of all but the best are removed unless `--keep all` is given.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from hb_train.debiasing.grid_sweep import GridArguments, sweep_grid
from hb_train.training.options import first_line
from hb_train.training.sweeps import option_name
from hb_train.tuning.learning_rate_sweep import SweepArguments, sweep_learning_rates

# The scripts, each with the options of its sweep and the function that sweeps.
SWEEPS: dict[str, tuple[type, Callable[[Any, Sequence[str]], Any]]] = {
    "tune": (SweepArguments, sweep_learning_rates),
    "debias": (GridArguments, sweep_grid),
}

SCRIPT_ERROR = "script '{script}' is not known; give tune or debias"
TWICE_ERROR = "--output_dir cannot be given here: give it once, in full; each run has a folder in it"


def main(argv: list[str] | None = None) -> None:
    """Reads the options, sweeps, and prints which model is the best."""
    from transformers import HfArgumentParser

    argv = sys.argv[1:] if argv is None else argv
    script_option = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    script_option.add_argument(
        "--script", default="tune", help="The script that is swept, tune or debias; it decides on the other options."
    )
    script = script_option.parse_known_args(argv)[0].script
    if script not in SWEEPS:
        raise SystemExit(f"sweep.py: {SCRIPT_ERROR.format(script=script)}")
    arguments_class, sweep = SWEEPS[script]
    parser = HfArgumentParser(
        arguments_class, parents=[script_option], description=first_line(__doc__), allow_abbrev=False
    )
    options, others = parser.parse_known_args(argv)
    del options.script
    handler_before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the runs are stopped too
    try:
        if [option_name(word) for word in argv if word.startswith("--")].count("output_dir") > 1:
            raise ValueError(TWICE_ERROR)
        sweep(arguments_class(**vars(options)), others)
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"sweep.py: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted; to resume, give the same command again") from None
    finally:
        signal.signal(signal.SIGTERM, handler_before)


if __name__ == "__main__":
    main()
