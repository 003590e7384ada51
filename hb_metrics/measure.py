"""Measures a language model on HolisticBias and writes a report. The main job.

    accelerate launch hb_metrics/measure.py --model openai-community/gpt2 --dataset_config v1.0 --output_dir runs/gpt2

Any Hub id or local folder of a causal, masked or encoder–decoder language model, or `embedded`. It measures how likely
the model finds the prompts, how the style of its replies to them varies, and how offensive a classifier finds prompts
and replies. Options can stand in a YAML file: `--config options.yaml`; the command line has the last word. A run that
was interrupted goes on where it stopped when the same command is given again, with any number of processes.
"""

import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hb_dataset.hints import did_you_mean
from hb_metrics.arguments import MEASUREMENTS, MeasureArguments, parse_arguments
from hb_metrics.run_folder import (
    OFFENSIVENESS,
    PERPLEXITIES,
    REPLIES,
    REPORT_FILE,
    RESULTS_FILE,
    STYLE_MEANS_FILE,
    STYLES,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_metrics.inference.models import LoadedModel
    from hb_metrics.inference.offensive import OffensivenessClassifier
    from hb_metrics.inference.processes import PartialState
    from hb_metrics.inference.replies import ReplyPlan
    from hb_metrics.inference.styles import StyleClassifier
    from hb_metrics.inference.units import ScoringPlan

# torch and the model classes take seconds to import: not before the options are known to be right.

DEFAULT_FREQUENCIES = Path(__file__).parents[1] / "hb_dataset" / "frequencies" / "chitchat.csv"
MASKED_ERROR = (
    "model '{name}' is a masked language model, which gives no replies; leave generation out of --measurements, or "
    "give a causal or encoder-decoder model"
)


class Work(NamedTuple):
    """What is to be done in a run; `None` for what is not measured."""

    prompts: "pa.Table"
    loaded: "LoadedModel"
    scoring: "ScoringPlan | None"
    replied: "pa.Table | None"  # the prompts that are replied to
    replies: "ReplyPlan | None"
    styles: "StyleClassifier | None"
    clusters: dict[str, list[str]] | None
    offensiveness: "OffensivenessClassifier | None"


def main(argv: list[str] | None = None) -> None:
    """Score, reply, classify, measure, report."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        measure(parse_arguments(argv, (__doc__ or "").split("\n", 1)[0]))
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"measure.py: {error}") from error
    except KeyboardInterrupt:
        again = shlex.join(["python", "-m", "hb_metrics.measure", *argv])
        message = f"\ninterrupted; finished shards are kept. To go on, give the same command again:\n  {again}"
        raise SystemExit(message if os.environ.get("RANK", "0") == "0" else 1) from None


def measure(arguments: MeasureArguments) -> Path:
    """Runs the measurements and returns the path of the report."""
    from hb_dataset.prompts import load_table

    prompts = load_table(arguments.dataset_config, arguments.vocabulary_dir)
    if arguments.axes is not None:
        prompts = only_axes(prompts, arguments.axes, arguments.vocabulary_dir or "v1.0")
    read_user_files(arguments)

    from hb_metrics.inference.processes import process_state
    from hb_metrics.report import write_report
    from hb_metrics.run_folder import open_run, write_json

    state = process_state()
    with state.main_process_first():  # which converts and fits what is embedded the first time
        work = prepare(arguments, prompts, state)
    folder = Path(arguments.output_dir or _default_folder(arguments))
    run = describe_run(arguments, work)
    if state.is_main_process:
        open_run(folder, run)
    state.wait_for_everyone()

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
    report = folder / REPORT_FILE
    if state.is_main_process:
        results["frequencies"] = _frequencies(arguments, prompts)
        write_json(folder / RESULTS_FILE, results)
        write_report(results, report)
        _print_summary(results, report)
    state.wait_for_everyone()
    return report


def only_axes(prompts: "pa.Table", axes: list[str], vocabulary: str) -> "pa.Table":
    """The prompts of these axes.

    Raises:
        ValueError: An axis is not there.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    known = sorted(prompts["axis"].unique().to_pylist())
    for axis in axes:
        if axis not in known:
            hint = did_you_mean(axis, known)
            raise ValueError(f"axis '{axis}' is not in {vocabulary}; {hint}allowed: {', '.join(known)}")
    return prompts.filter(pc.is_in(prompts["axis"], pa.array(axes, pa.string())))


def read_user_files(arguments: MeasureArguments) -> None:
    """Reads the files that options name, for the faults they may have: sooner than the model runs."""
    from hb_dataset.frequency import read_frequencies
    from hb_metrics.reply_checks.phrase_rates import read_phrases

    if arguments.phrases_file is not None:
        read_phrases(arguments.phrases_file)
    if arguments.frequencies is not None:
        read_frequencies(arguments.frequencies)


def prepare(arguments: MeasureArguments, prompts: "pa.Table", state: "PartialState") -> Work:
    """Loads the models and plans the work.

    Raises:
        ValueError: The model cannot do what was asked.
    """
    from hb_metrics.inference.models import load_model

    loaded = load_model(
        arguments.model,
        revision=arguments.revision,
        dtype=arguments.dtype,
        device=state.device,
        trust_remote_code=arguments.trust_remote_code,
    )
    asked = arguments.asked_measurements()
    if asked is not None and "generation" in asked and loaded.kind == "masked":
        raise ValueError(MASKED_ERROR.format(name=arguments.model))
    can = [name for name in MEASUREMENTS if name != "generation" or loaded.kind != "masked"]
    measurements = can if asked is None else asked
    state.print(f"{loaded.name}: {loaded.kind}, {loaded.dtype}, on {state.device} x {state.num_processes}")
    replied, replies, styles, clusters = None, None, None, None
    if "generation" in measurements:
        replied, replies = _plan_replies(arguments, prompts, loaded)
        styles, clusters = _load_styles(arguments, state)
    return Work(
        prompts=prompts,
        loaded=loaded,
        scoring=_plan_scoring(arguments, prompts, loaded) if "likelihood" in measurements else None,
        replied=replied,
        replies=replies,
        styles=styles,
        clusters=clusters,
        offensiveness=_load_offensiveness(arguments, state) if "offensiveness" in measurements else None,
    )


def describe_run(arguments: MeasureArguments, work: Work) -> dict[str, Any]:
    """Everything the results depend on, for run.json; how many processes there are is not among it."""
    from hb_metrics.results import table_digest
    from hb_metrics.run_folder import package_versions

    loaded, ignored = work.loaded, {"output_dir", "batch_size"}
    run: dict[str, Any] = {
        "settings": {name: value for name, value in asdict(arguments).items() if name not in ignored},
        "model": {
            "name": loaded.name,
            "kind": loaded.kind,
            "digest": loaded.digest,
            "dtype": loaded.dtype,
            "num_parameters": loaded.model.num_parameters(),
        },
        "data": {
            "config": arguments.dataset_config,
            "digest": table_digest(work.prompts),
            "num_prompts": work.prompts.num_rows,
            "num_distinct_texts": len(work.prompts["text"].unique()),
        },
    }
    if work.scoring is not None:
        run["scoring"] = {
            "path": work.scoring.scoring,
            "reason": work.scoring.scoring_reason,
            "start_token": work.scoring.start_token,
            "positions": work.scoring.positions,
            "predicted_tokens": int(work.scoring.num_tokens.sum()),
        }
    if work.replies is not None:
        run["generation"] = work.replies.description()
    if work.styles is not None:
        run["style_classifier"] = {
            "name": work.styles.name,
            "digest": work.styles.digest,
            "num_styles": len(work.styles.labels),
            "multi_label": work.styles.multi_label,
            "temperature": work.styles.temperature,
            "clusters": work.clusters,
            "notes": list(work.styles.notes),
        }
    if work.offensiveness is not None:
        run["offensiveness_classifier"] = {
            "name": work.offensiveness.name,
            "digest": work.offensiveness.digest,
            "version": work.offensiveness.version,
            "offensive_labels": list(work.offensiveness.offensive_labels),
            "notes": list(work.offensiveness.notes),
        }
    return {**run, "versions": package_versions()}


def _plan_scoring(arguments: MeasureArguments, prompts: "pa.Table", loaded: "LoadedModel") -> "ScoringPlan":
    from hb_dataset.prompts import descriptor_noun_spans
    from hb_metrics.inference.perplexity import MAX_POSITIONS, plan_perplexity
    from hb_metrics.inference.pseudo_likelihood import plan_pseudo_log_likelihood

    texts = prompts["text"].to_pylist()
    max_positions = MAX_POSITIONS if arguments.max_positions is None else arguments.max_positions
    if loaded.kind == "masked":
        spans = [(start, end) for start, end in descriptor_noun_spans(prompts).tolist()]
        return plan_pseudo_log_likelihood(texts, spans, loaded.model, loaded.tokenizer, max_positions=max_positions)
    return plan_perplexity(
        texts,
        loaded.model,
        loaded.tokenizer,
        scoring=arguments.scoring,
        max_positions=max_positions,
        add_start_token=arguments.add_start_token,
        encoder_context=arguments.encoder_context,
    )


def _plan_replies(
    arguments: MeasureArguments, prompts: "pa.Table", loaded: "LoadedModel"
) -> tuple["pa.Table", "ReplyPlan"]:
    from hb_metrics.inference.bias_tags import choose_tag, read_bias_tuning
    from hb_metrics.inference.contexts import PERSONAS_FILE, detect_context, read_personas
    from hb_metrics.inference.replies import decoding_preset, plan_replies, select_prompts

    changes = ("num_beams", "temperature", "top_k", "top_p", "min_new_tokens", "max_new_tokens")
    decoding = decoding_preset(arguments.decoding, **{name: getattr(arguments, name) for name in changes})
    tuning = read_bias_tuning(loaded.source, loaded.revision)
    tag, tag_reason = choose_tag(arguments.tag, tuning)
    context, reason = detect_context(loaded.model, loaded.tokenizer)
    if arguments.context != "auto":
        context, reason = arguments.context, f"--context {arguments.context} was asked for"
    elif tuning is not None:
        context, reason = tuning.context, "the model was tuned in it"
    replied = select_prompts(prompts, arguments.replies_per_cell or None, seed=arguments.seed)
    plan = plan_replies(
        replied,
        loaded,
        decoding=decoding,
        context=context,
        context_reason=reason,
        tag=tag,
        tag_reason=tag_reason,
        personas=read_personas(arguments.personas_file or PERSONAS_FILE),
        num_personas=arguments.personas,
        variations=arguments.variations,
        seed=arguments.seed,
    )
    return replied, plan


def _load_styles(
    arguments: MeasureArguments, state: "PartialState"
) -> tuple["StyleClassifier", dict[str, list[str]] | None]:
    from hb_metrics.full_gen_bias.gen_bias import cluster_columns
    from hb_metrics.inference.styles import clusters_for, load_style_classifier, read_style_clusters

    classifier = load_style_classifier(
        arguments.style_classifier, device=state.device, trust_remote_code=arguments.trust_remote_code
    )
    if arguments.style_clusters is None:
        return classifier, clusters_for(classifier.labels)
    clusters = read_style_clusters(arguments.style_clusters)
    cluster_columns(classifier.labels, clusters)  # refuses what the classifier does not know
    return classifier, clusters


def _load_offensiveness(arguments: MeasureArguments, state: "PartialState") -> "OffensivenessClassifier":
    from hb_metrics.inference.offensive import load_offensiveness_classifier

    return load_offensiveness_classifier(
        arguments.offensiveness_classifier,
        device=state.device,
        trust_remote_code=arguments.trust_remote_code,
        offensive_label=arguments.offensive_label,
    )


def _measure_likelihood(arguments: MeasureArguments, work: Work, folder: Path) -> dict[str, Any]:
    from hb_metrics.inference.shards import score_into_shards
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
    from hb_metrics.inference.replies import read_replies, reply_into_shards

    assert work.replies is not None
    replies = reply_into_shards(work.replies, work.loaded, folder / REPLIES, batch_size=arguments.batch_size)
    process_state().wait_for_everyone()
    return read_replies(work.replies, folder / REPLIES) if replies is None else replies


def _measure_styles(arguments: MeasureArguments, work: Work, replies: "pa.Table", folder: Path) -> dict[str, Any]:
    import pyarrow.parquet as pq

    from hb_dataset.vocabulary import read_vocabulary
    from hb_dataset.whole_files import write_atomically
    from hb_metrics.generation_results import generation_results, said_replies, style_means_table
    from hb_metrics.inference.censoring import censor_replies
    from hb_metrics.inference.styles import style_array, styles_into_shards
    from hb_metrics.reply_checks.phrase_rates import PAPER_PHRASES, read_phrases

    assert work.replied is not None
    assert work.styles is not None
    said = said_replies(work.replied, replies)
    plurals = {each.term: each.plural for each in read_vocabulary(arguments.vocabulary_dir).descriptors if each.plural}
    censored = censor_replies(said.texts, said.descriptors, plurals)
    styles = styles_into_shards(censored, said.ids, work.styles, folder / STYLES, precision=arguments.style_precision)
    if styles is None:
        return {}
    results, biases = generation_results(
        said,
        style_array(styles),
        work.styles.labels,
        clusters=work.clusters,
        phrases=PAPER_PHRASES if arguments.phrases_file is None else read_phrases(arguments.phrases_file),
        n_resamples=arguments.n_resamples,
        confidence_level=arguments.confidence_level,
        seed=arguments.seed,
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
    from hb_metrics.inference.offensive import offensiveness_into_shards

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


def _default_folder(arguments: MeasureArguments) -> str:
    return f"runs/{Path(arguments.model).name}-{arguments.dataset_config}"


def _print_summary(results: dict[str, Any], report: Path) -> None:
    if "likelihood_bias" in results:
        likelihood = results["likelihood_bias"]
        print(f"\nLikelihood Bias  {likelihood['likelihood_bias']:6.1%}  of {likelihood['num_tests']:,} tests")
        _print_by_axis(likelihood["by_axis"], "{:6.1%}")
    if "generation" in results:
        bias = results["generation"]["gen_bias"]
        interval = "" if bias["intervals"] is None else "  [{:.2f}, {:.2f}]".format(*bias["intervals"]["full_gen_bias"])
        noise = "" if bias["noise_floor"] is None else f", of which sampling noise about {bias['noise_floor']:.2f}"
        print(f"\nFull Gen Bias  {bias['full_gen_bias']:.2f}{noise}{interval}  from {bias['num_replies']:,} replies")
        debiased = results["generation"]["debiased"]
        _print_by_axis((debiased or bias)["by_axis"], "{:6.2f}")
    for name, found in results.get("offensiveness", {}).items():
        print(f"\nOffensive {name}  {found['offensive_share']:6.1%}  of {found['num_sentences']:,}")
    print(f"\nreport: {report.resolve()}")


def _print_by_axis(values: dict[str, float | None], form: str) -> None:
    known: Sequence[tuple[str, float]] = [(axis, value) for axis, value in values.items() if value is not None]
    for axis, value in sorted(known, key=lambda item: -item[1]):
        print(f"  {axis:<22} {form.format(value)}")


if __name__ == "__main__":
    main()
