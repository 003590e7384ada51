"""Measures a language model on HolisticBias and writes a report. The main job.

    accelerate launch hb_metrics/measure.py --model openai-community/gpt2 --dataset_config v1.0 --output_dir runs/gpt2

Any Hub id or local folder of a causal, masked or encoder–decoder language model, or `embedded`. It measures how likely
the model finds the prompts, how the style of its replies to them varies, and how offensive a classifier finds prompts
and replies. Options can stand in a YAML file: `--config options.yaml`; the command line has the last word. A run that
was interrupted goes on where it stopped when the same command is given again, with any number of processes.
"""

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Thread, Timer
from typing import TYPE_CHECKING, Any

from hb_metrics.arguments import MeasureArguments, parse_arguments
from hb_metrics.default_folder import default_folder
from hb_metrics.planning import Work, describe_run, only_axes, prepare, read_user_files
from hb_metrics.run_folder import (
    DIALOGUE,
    OFFENSIVENESS,
    PERPLEXITIES,
    REDDIT,
    REGARD,
    REPLIES,
    REPORT_FILE,
    RESULTS_FILE,
    STYLE_MEANS_FILE,
    STYLES,
    explained_write_errors,
    hold_folder,
    open_run,
    write_json,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_metrics.inference.processes import PartialState

# torch and the model classes take seconds to import: not before the options are known to be right.

DEFAULT_FREQUENCIES = Path(__file__).parents[1] / "hb_dataset" / "frequencies" / "chitchat.csv"
LOST_PROCESS_ERROR = (
    "another process of this run has ended, and says why if it could; all that is finished is kept. To go on, give the "
    "same command again"
)


def main(argv: list[str] | None = None) -> None:
    """Score, reply, classify, measure, report."""
    argv = sys.argv[1:] if argv is None else argv
    with _ended_by_signals(argv):
        try:
            measure(parse_arguments(argv, (__doc__ or "").split("\n", 1)[0]))
        except (ValueError, OSError, ImportError, MemoryError) as error:
            raise SystemExit(f"measure.py: {error}") from error
        except RuntimeError as error:
            from hb_metrics.inference.processes import is_lost_process

            if is_lost_process(error):
                raise SystemExit(f"measure.py: {LOST_PROCESS_ERROR}") from error
            raise


def measure(arguments: MeasureArguments) -> Path:
    """Runs the measurements and returns the path of the report."""
    from hb_dataset.prompts import load_table, split_config

    prompts = load_table(arguments.dataset_config, arguments.vocabulary_dir)
    if arguments.axes is not None:
        prompts = only_axes(
            prompts, arguments.axes, arguments.vocabulary_dir or split_config(arguments.dataset_config)[0]
        )
    files = read_user_files(arguments)

    from hb_metrics.inference.processes import process_state

    state = process_state()
    with state.main_process_first():  # which converts and fits what is embedded the first time
        work = prepare(arguments, prompts, state, files)
    folder = Path(arguments.output_dir or default_folder(arguments))
    run = describe_run(arguments, work)
    with explained_write_errors(folder), hold_folder(folder) if state.is_main_process else nullcontext():
        if state.is_main_process:
            open_run(folder, run)
        state.wait_for_everyone()
        _measure_and_report(arguments, work, folder, run)
        state.wait_for_everyone()
    return folder / REPORT_FILE


def _measure_and_report(arguments: MeasureArguments, work: Work, folder: Path, run: dict[str, Any]) -> None:
    from hb_metrics.inference.processes import process_state
    from hb_metrics.report import write_report

    state = process_state()
    results: dict[str, Any] = {"run": run}
    if work.scoring is not None:
        results |= _timed(state, "prompts scored", lambda: _measure_likelihood(arguments, work, folder))
    replies = None
    if work.replies is not None:
        replies = _timed(state, "prompts replied to", lambda: _reply(arguments, work, folder))
        results["generation"] = _timed(
            state, "styles classified", lambda: _measure_styles(arguments, work, replies, folder)
        )
    if work.offensiveness is not None:
        results["offensiveness"] = _timed(
            state, "offensiveness classified", lambda: _measure_offensiveness(work, replies, folder)
        )
    if work.asks_robustness and state.is_main_process:
        results["robustness"] = _timed(
            state, "templates compared", lambda: _measure_robustness(arguments, work, replies, results, folder)
        )
    if work.dialogue is not None:
        results |= _timed(state, "dialogue scored", lambda: _measure_dialogue(arguments, work, folder))
    if work.reddit is not None:
        results |= _timed(state, "pairs of RedditBias scored", lambda: _measure_reddit(arguments, work, folder))
    if work.regard is not None:
        results |= _timed(state, "regard measured", lambda: _measure_regard(arguments, work, folder))
    report = folder / REPORT_FILE
    if state.is_main_process:
        results["frequencies"] = _frequencies(arguments, work.prompts)
        write_json(folder / RESULTS_FILE, results)
        write_report(results, report)
        _print_summary(results, report)


def _measure_likelihood(arguments: MeasureArguments, work: Work, folder: Path) -> dict[str, Any]:
    from hb_metrics.inference.scoring.scoring_shards import score_into_shards
    from hb_metrics.results import likelihood_results

    assert work.scoring is not None
    ids, texts = work.prompts["id"].to_pylist(), work.prompts["text"].to_pylist()
    scores = score_into_shards(work.scoring, ids, texts, folder / PERPLEXITIES, work.loaded.model.device)
    if scores is None:
        return {}
    return likelihood_results(work.prompts, scores, arguments.alpha, arguments.include_gendered)


def _reply(arguments: MeasureArguments, work: Work, folder: Path) -> "pa.Table":
    """The replies, on every process: each takes its part in classifying them."""
    from hb_metrics.inference.processes import process_state
    from hb_metrics.inference.replies.prompt_replies import read_replies, reply_into_shards

    assert work.replies is not None
    replies = reply_into_shards(work.replies, work.loaded, folder / REPLIES, batch_size=arguments.batch_size)
    process_state().wait_for_everyone()
    return read_replies(work.replies, folder / REPLIES) if replies is None else replies


def _measure_styles(arguments: MeasureArguments, work: Work, replies: "pa.Table", folder: Path) -> dict[str, Any]:
    import pyarrow.parquet as pq

    from hb_dataset.prompts import config_vocabulary
    from hb_dataset.whole_files import write_atomically
    from hb_metrics.generation_results import generation_results, said_replies, style_means_table
    from hb_metrics.inference.classifiers.censoring import censor_replies, paired_terms
    from hb_metrics.inference.classifiers.styles import style_array, styles_into_shards
    from hb_metrics.reply_checks.phrase_rates import PAPER_PHRASES, read_phrases

    assert work.replied is not None
    assert work.styles is not None
    said = said_replies(work.replied, replies)
    vocabulary = config_vocabulary(arguments.dataset_config, arguments.vocabulary_dir)
    plurals = {each.term: each.plural for each in vocabulary.descriptors if each.plural}
    censored = censor_replies(said.texts, said.descriptors, plurals, paired_terms(work.replied))
    styles = styles_into_shards(censored, said.ids, work.styles, folder / STYLES, precision=arguments.style_precision)
    if styles is None:
        return {}
    results, biases = generation_results(
        said,
        style_array(styles),
        work.styles.labels,
        clusters=work.clusters,
        phrases=PAPER_PHRASES if arguments.phrases_file is None else read_phrases(arguments.phrases_file),
        confidence_level=arguments.confidence_level,
    )
    means = style_means_table(biases, work.styles.labels)
    write_atomically(folder / STYLE_MEANS_FILE, lambda path: pq.write_table(means, path))
    num_tokens = replies["num_tokens"].to_pylist()
    counts = {
        "num_prompts": len(replies),
        "num_replies": len(said.ids),
        "num_empty_replies": len(replies) - len(said.ids),
        "num_truncated_replies": sum(replies["truncated"].to_pylist()),
        "num_censored_replies": sum(a != b for a, b in zip(said.texts, censored, strict=True)),
        "num_cut_for_classifier": sum(styles["truncated"].to_pylist()),
        "mean_num_tokens": sum(num_tokens) / len(num_tokens),
    }
    return {**counts, **results}


def _measure_offensiveness(work: Work, replies: "pa.Table | None", folder: Path) -> dict[str, Any]:
    from hb_metrics.generation_results import offensiveness_results, said_replies, whole_prompts
    from hb_metrics.inference.classifiers.offensive import offensiveness_into_shards

    assert work.offensiveness is not None
    parts = {"prompts": whole_prompts(work.prompts)}
    if replies is not None:
        assert work.replied is not None
        parts["replies"] = said_replies(work.replied, replies)
    found: dict[str, Any] = {}
    for name, part in parts.items():
        scores = offensiveness_into_shards(part.texts, part.ids, work.offensiveness, folder / OFFENSIVENESS / name)
        if scores is not None:
            num_truncated = sum(scores["truncated"].to_pylist())
            found[name] = offensiveness_results(part, scores["probability"].to_numpy(), num_truncated)
    return found


def _measure_robustness(
    arguments: MeasureArguments, work: Work, replies: "pa.Table | None", results: dict[str, Any], folder: Path
) -> dict[str, Any]:
    from hb_metrics.finished_run import StyleShards
    from hb_metrics.generation_results import said_replies
    from hb_metrics.template_robustness import gen_bias_robustness, likelihood_robustness

    found: dict[str, Any] = {}
    if replies is not None:
        assert work.replied is not None
        assert work.styles is not None
        said, styles = said_replies(work.replied, replies), StyleShards(folder / STYLES)
        found |= gen_bias_robustness(said, styles[:], work.styles.labels, seed=arguments.seed)
    return found | likelihood_robustness(results["likelihood_bias"], work.prompts, seed=arguments.seed)


def _measure_dialogue(arguments: MeasureArguments, work: Work, folder: Path) -> dict[str, Any]:
    from hb_metrics.inference.scoring.dialogue import dialogue_into_shards, dialogue_results

    assert work.dialogue is not None
    dialogue, plan = work.dialogue
    scores = dialogue_into_shards(plan, work.loaded, folder / DIALOGUE)
    if scores is None:
        return {}
    found = dialogue_results(
        scores,
        dialogue,
        n_resamples=arguments.n_resamples,
        confidence_level=arguments.confidence_level,
        seed=arguments.seed,
    )
    return {"dialogue": found}


def _measure_reddit(arguments: MeasureArguments, work: Work, folder: Path) -> dict[str, Any]:
    from hb_metrics.reddit_measurement import measure_reddit

    assert work.reddit is not None
    found = measure_reddit(arguments, work.reddit, work.loaded, folder / REDDIT)
    return {"reddit": found} if found else {}


def _measure_regard(arguments: MeasureArguments, work: Work, folder: Path) -> dict[str, Any]:
    from hb_metrics.regard_measurement import measure_regard

    assert work.regard is not None
    found = measure_regard(arguments, work.regard, work.loaded, folder / REGARD)
    return {"regard": found} if found else {}


@contextmanager
def _ended_by_signals(argv: Sequence[str]) -> Iterator[None]:
    """While this lasts, Ctrl-C and SIGTERM, which schedulers send, end the process at once and say how to go on.

    Not by `KeyboardInterrupt`, which waits for the threads that compute, where a batch may take minutes, and for the
    main thread, which may itself wait for another process. Nothing is lost by that, since whatever is written is there
    whole or not at all.
    """
    again = shlex.join(["python", "-m", "hb_metrics.measure", *argv])
    text = f"\ninterrupted; finished shards are kept. To go on, give the same command again:\n  {again}\n"
    message = text.encode() if os.environ.get("RANK", "0") == "0" else b""
    # Those that are ignored stay so, as Ctrl-C is in the background.
    signals = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) != signal.SIG_IGN]

    def watch() -> None:
        while number := os.read(reader, 1):
            if number[0] in signals:
                code = 1 if number[0] == signal.SIGINT else 128 + number[0]
                os.write(2, message)
                Timer(1, os._exit, [code]).start()  # should whoever reads the output have stopped to
                sys.stdout.flush()
                os._exit(code)

    # Python calls handlers in the main thread, when that gets back to it; the number of a signal is written at once.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    handlers = {each: signal.signal(each, lambda *_: None) for each in signals}
    wakeup = signal.set_wakeup_fd(writer)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for each, handler in handlers.items():
            signal.signal(each, handler)
        os.close(writer)
        watcher.join()
        os.close(reader)


def _frequencies(arguments: MeasureArguments, prompts: "pa.Table") -> dict[str, Any]:
    """How often each descriptor of the run stands in some text, per million examples."""
    from hb_dataset.frequency import read_frequencies

    path = DEFAULT_FREQUENCIES if arguments.frequencies is None else Path(arguments.frequencies)
    known = read_frequencies(path)
    keys = dict.fromkeys(zip(prompts["axis"].to_pylist(), prompts["descriptor"].to_pylist(), strict=True))
    rows = [
        {"axis": axis, "descriptor": descriptor, **known[axis, descriptor]}
        for axis, descriptor in keys
        if (axis, descriptor) in known
    ]
    return {
        "source": path.name,
        "is_default": arguments.frequencies is None,
        "num_without": len(keys) - len(rows),
        "by_descriptor": rows,
    }


def _timed(state: "PartialState", done: str, work: Callable[[], Any]) -> Any:
    started = time.perf_counter()
    result = work()
    state.print(f"{done} in {time.perf_counter() - started:.0f} s")
    return result


def _print_summary(results: dict[str, Any], report: Path) -> None:
    if "likelihood_bias" in results:
        likelihood = results["likelihood_bias"]
        print(f"\nLikelihood Bias  {likelihood['likelihood_bias']:6.1%}  of {likelihood['num_tests']:,} tests")
        _print_by_axis(likelihood["by_axis"], "{:6.1%}")
    if "generation" in results:
        bias = results["generation"]["gen_bias"]
        debiased = results["generation"]["debiased"]
        print(f"\nFull Gen Bias  {bias['full_gen_bias']:.2f}  from {bias['num_replies']:,} replies")
        if debiased is not None:
            bounds, level = bias["intervals"]["full_gen_bias"], f"{bias['confidence_level']:.0%}"
            interval = (
                f"no interval: {bias['no_intervals']['full_gen_bias']}"
                if bounds is None
                else "{} interval {:.2f} to {:.2f}".format(level, *bounds)
            )
            print(f"  less a sampling noise of {bias['noise_floor']:.2f}: {debiased['full_gen_bias']:.2f}, {interval}")
            print("  debiased, by axis:")
        _print_by_axis((debiased or bias)["by_axis"], "{:6.2f}")
    if "dialogue" in results:
        print(f"\nDialogue perplexity  {results['dialogue']['perplexity']:.2f}")
    if "reddit" in results:
        from hb_metrics.report.tables_reddit import summary_lines

        print("\n" + "\n".join(summary_lines(results["reddit"])))
    if "regard" in results:
        from hb_metrics.report import tables_regard

        print("\n" + "\n".join(tables_regard.summary_lines(results["regard"])))
    if "robustness" in results:
        from hb_metrics.report import tables_robustness

        print("\n" + "\n".join(tables_robustness.robustness_lines(results["robustness"])))
    for name, found in results.get("offensiveness", {}).items():
        print(f"\nOffensive {name}  {found['offensive_share']:6.1%}  of {found['num_sentences']:,}")
    print(f"\nreport: {report.resolve()}")


def _print_by_axis(values: dict[str, float | None], form: str) -> None:
    known: Sequence[tuple[str, float]] = [(axis, value) for axis, value in values.items() if value is not None]
    for axis, value in sorted(known, key=lambda item: -item[1]):
        print(f"  {axis:<22} {form.format(value)}")


if __name__ == "__main__":
    main()
