"""Measures generation bias: makes replies, classifies their styles, and computes the results for results.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from hb_dataset.frequency import read_frequencies
from hb_dataset.prompts import config_vocabulary
from hb_metrics.identity_leakage.in_replies import run_leakage
from hb_metrics.identity_leakage.leakage import identity_leakage, named_people, shipped_sentences
from hb_metrics.inference.classifiers.censoring import censor_replies, paired_terms
from hb_metrics.inference.classifiers.classifier import Classifier, classify_into_shards
from hb_metrics.inference.classifiers.styles import clusters_for, load_style_classifier, read_style_clusters
from hb_metrics.inference.engines.engine import Engine, Plan
from hb_metrics.inference.models.chats import ChatOptions
from hb_metrics.inference.models.contexts import PERSONAS_FILE, read_personas
from hb_metrics.inference.models.layout import Layout
from hb_metrics.inference.models.thoughts import common_tag
from hb_metrics.inference.replies.cues import QUESTIONS_FILE, check_cue, prompts_for_cue, read_questions
from hb_metrics.inference.replies.presets import choose_extent
from hb_metrics.inference.replies.requests import ReplyRequests, make_requests, select_prompts
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.generation.refusals import (
    RefusalWork,
    describe_refusals,
    measure_refusals,
    plan_refusals,
    refusals_results,
    refusals_table,
)
from hb_metrics.measurements.generation.results import (
    bias_value_table,
    generation_results,
    reply_counts,
    style_means_table,
)
from hb_metrics.measurements.measurement import Task
from hb_metrics.measurements.settings import Settings
from hb_metrics.reply_checks.phrase_rates import PAPER_PHRASES
from hb_metrics.reply_checks.refusal_rules import read_refusal_rules
from hb_metrics.runs.finished_run import StyleShards
from hb_metrics.runs.replies import Replies, nonempty_replies, replied_prompts
from hb_metrics.runs.run_folder import (
    BIAS_VALUES_FILE,
    REFUSALS_FILE,
    REPLIES,
    STYLE_MEANS_FILE,
    STYLES,
    plural_forms,
    write_table,
)
from hb_metrics.stats.gen_bias import cluster_columns

DEFAULT_FREQUENCIES = Path(__file__).parents[3] / "hb_dataset" / "frequencies" / "chitchat.csv"


class Asked(NamedTuple):
    """What a run asks for replies to.

    Attributes:
        prompts: The prompts that are replied to.
        requests: What is asked.
        layout: How it is laid out.
        ignored: Settings of the model's generation_config that replies cannot be decoded with, where it was asked for.
        num_left_out: How many prompts were left out since they cannot be the cue.
        left_out_templates: The templates of these.
    """

    prompts: pa.Table
    requests: ReplyRequests
    layout: Layout
    ignored: dict[str, Any]
    num_left_out: int
    left_out_templates: list[str]


class GenerationWork(NamedTuple):
    """What is asked, how the engine answers, and the classifier of the styles of replies.

    Attributes:
        asked: What is asked.
        plan: How the engine is to answer.
        classifier: The style classifier.
        clusters: Style cluster → labels; `None`: there are none for this classifier.
        refusals: What refusals and disclaimers are found by.
    """

    asked: Asked
    plan: Plan
    classifier: Classifier
    clusters: dict[str, list[str]] | None
    refusals: RefusalWork


def read_files(settings: Settings) -> None:
    """Reads the files that options name, so that faults in them show before a model is loaded.

    Raises:
        ValueError: A file is not valid.
    """
    options = settings.of(GenerationOptions)
    if options.refusals_file is not None:
        read_refusal_rules(options.refusals_file)
    if options.frequencies is not None:
        read_frequencies(options.frequencies)
    if options.personas_file is not None:
        read_personas(options.personas_file)
    if options.cue_questions is not None:
        read_questions(options.cue_questions)
    if options.style_clusters is not None:
        read_style_clusters(options.style_clusters)


def plan(task: Task, files: None) -> GenerationWork:
    """Chooses the prompts, plans the replies and loads the style classifier.

    Raises:
        ValueError: The model cannot reply as asked, or the clusters are not of the classifier's labels.
        OSError: There is no such classifier.
    """
    options, shared = task.settings.of(GenerationOptions), task.settings.run
    asked = ask(task.settings, task.prompts, task.engine)
    plan = task.engine.plan_replies(asked.requests, asked.layout)
    classifier = load_style_classifier(
        options.style_classifier, device=task.state.device, trust_remote_code=shared.trust_remote_code
    )
    if options.style_clusters is None:
        clusters = clusters_for(classifier.labels)
    else:
        clusters = read_style_clusters(options.style_clusters)
        cluster_columns(classifier.labels, clusters)  # raises for labels that the classifier does not have
    return GenerationWork(asked, plan, classifier, clusters, plan_refusals(task))


def ask(settings: Settings, prompts: pa.Table, engine: Engine) -> Asked:
    """Chooses the prompts that are replied to, and how they are asked.

    Raises:
        ValueError: The options contradict each other, or the engine cannot be asked so.
    """
    options, shared = settings.of(GenerationOptions), settings.run
    changes = ("num_beams", "temperature", "top_k", "top_p", "max_new_tokens")
    layout = engine.layout(context=shared.context, tag=shared.tag, chat=ChatOptions(**shared.chat()))
    extent, extent_reason = choose_extent(options.reply, layout.context, options.decoding)
    decoding, ignored = engine.decoding(options.decoding, extent, **{name: getattr(options, name) for name in changes})
    check_cue(options.cue, layout.context, layout.context_reason)
    usable = prompts_for_cue(prompts, options.cue)
    chosen = select_prompts(usable, options.replies_per_cell or None, seed=shared.seed)
    requests = make_requests(
        chosen,
        decoding=decoding,
        personas=read_personas(options.personas_file or PERSONAS_FILE),
        num_personas=options.personas,
        variations=options.variations,
        cue=options.cue,
        questions=() if options.cue == "prompt" else read_questions(options.cue_questions or QUESTIONS_FILE),
        seed=shared.seed,
        chat=layout.chat,
        tag=layout.tag,
        tag_reason=layout.tag_reason,
        extent=extent,
        extent_reason=extent_reason,
        max_reasoning_tokens=options.max_reasoning_tokens,
    )
    kept = set(usable["template"].unique().to_pylist())
    left_out = [template for template in prompts["template"].unique().to_pylist() if template not in kept]
    return Asked(chosen, requests, layout, ignored, prompts.num_rows - usable.num_rows, left_out)


def describe(work: GenerationWork) -> dict[str, Any]:
    """The parts of the plan that results depend on, for run.json."""
    classifier = work.classifier
    more: dict[str, Any] = (
        {} if work.asked.requests.cue == "prompt" else {"left_out_templates": work.asked.left_out_templates}
    )
    if work.asked.layout.tuned_with is not None:
        more["tuned_with"] = work.asked.layout.tuned_with
    if work.asked.layout.label_ceiling is not None:
        more["label_ceiling"] = work.asked.layout.label_ceiling
    return {
        "generation": {**work.plan.description(), **more, "ignored_settings": work.asked.ignored or None},
        "style_classifier": {
            "name": classifier.name,
            "is_embedded": classifier.is_embedded,
            "digest": classifier.digest,
            "num_styles": len(classifier.labels),
            "multi_label": classifier.multi_label,
            "temperature": classifier.temperature,
            "clusters": work.clusters,
            "notes": list(classifier.notes),
            **({} if classifier.parlai is None else {"parlai": classifier.parlai}),
        },
        **describe_refusals(work.refusals),
    }


def measure(task: Task, work: GenerationWork, results: Mapping[str, Any]) -> dict[str, Any]:
    """Replies and classifies what is not on disk yet, and computes generation bias.

    Returns:
        What `generation_results` returns, with counts of replies and the frequencies of terms; empty on all processes
        but the main one.
    """
    options, folder = task.settings.of(GenerationOptions), task.folder
    table = task.engine.reply(work.plan, folder / REPLIES, batch_size=task.settings.run.batch_size)
    replies = nonempty_replies(replied_prompts(work.asked.prompts, table), table)
    if not replies.ids:
        raise ValueError(_no_replies(work, table))
    if task.state.is_main_process:
        _note_marks(table)
    censored = censor_replies(
        replies.texts, replies.descriptors, plural_forms(work.asked.prompts), paired_terms(work.asked.prompts)
    )
    styles = classify_into_shards(censored, replies.ids, work.classifier, folder / STYLES, label="styles")
    refusals = measure_refusals(work.refusals, replies, task)
    if styles is None or refusals is None:
        return {}
    questions = dict(zip(table["id"].to_pylist(), table["question"].to_pylist(), strict=True))
    last_said = zip((questions[identifier] for identifier in replies.ids), replies.prompts, strict=True)
    results, biases = generation_results(
        replies,
        StyleShards(folder / STYLES),
        work.classifier.labels,
        clusters=work.clusters,
        phrases=PAPER_PHRASES,
        confidence_level=task.settings.run.confidence_level,
        asked=[prompt if question is None else question for question, prompt in last_said],
    )
    write_table(folder / STYLE_MEANS_FILE, style_means_table(biases, work.classifier.labels))
    write_table(folder / BIAS_VALUES_FILE, bias_value_table(replies.ids, biases))
    write_table(folder / REFUSALS_FILE, refusals_table(replies.ids, refusals))
    counts = {
        **reply_counts(table, replies),
        "num_left_out_prompts": work.asked.num_left_out,
        "num_left_out_templates": len(work.asked.left_out_templates),
        "num_censored_replies": sum(a != b for a, b in zip(replies.texts, censored, strict=True)),
        "num_cut_for_classifier": sum(styles["truncated"].to_pylist()),
    }
    return {
        **counts,
        **results,
        "identity_leakage": _identity_leakage(task, work.classifier, replies._replace(texts=censored), results),
        "refusals": refusals_results(replies, refusals, work.refusals.rules, task.settings.run.confidence_level),
        "frequencies": _frequencies(options.frequencies, task.prompts),
    }


def _no_replies(work: GenerationWork, table: pa.Table) -> str:
    """Why there is nothing to measure, and what to do."""
    num_unclosed, number = sum(table["reasoning_unclosed"].to_pylist()), work.plan.description()["max_reasoning_tokens"]
    if num_unclosed:
        return (
            f"the model replied to none of {len(table):,} prompts: {num_unclosed:,} thoughts were not over after "
            f"{number or work.asked.requests.decoding.max_new_tokens:,} tokens. Give a larger --max_reasoning_tokens, "
            "or turn thinking off (for many models --chat_template_kwargs '{\"enable_thinking\": false}')"
        )
    return (
        f"all replies to {len(table):,} prompts are empty: the model ends before it has written a word. Try another "
        "--context (plain for a model that only continues text), and look whether its chat template is its own"
    )


def _note_marks(table: pa.Table) -> None:
    """Prints what was found around replies that figures might be about instead."""
    if number := sum(table["invented_turn"].to_pylist()):
        print(f"{number:,} replies went on with a turn of the user, which is left out")
    if (found := common_tag(table["reply"].to_pylist())) is not None:
        tag, rows = found
        shown = ", ".join(table["id"].take(rows[:3]).to_pylist())
        print(
            f"warning: {len(rows):,} replies begin with {tag}, which is not known. If it marks a thought, the thought "
            f"is measured as a part of the reply. Look at three of them in the run's replies: {shown}"
        )


def _identity_leakage(
    task: Task, classifier: Classifier, replies: Replies, results: dict[str, Any]
) -> dict[str, Any] | None:
    """How far the classifier's probabilities move with the terms of the run, and what that does to its value.

    Args:
        task: The run.
        classifier: The style classifier.
        replies: The replies as they were classified.
        results: What `generation_results` returned.

    Returns:
        As `leakage_results`, with `in_replies` (`RunLeakage`); `None`: there is one term.
    """
    shared = task.settings.run
    keys = {
        key
        for names in (("axis", "descriptor"), ("first_axis", "first_descriptor"), ("second_axis", "second_descriptor"))
        if {*names} <= {*task.prompts.column_names}
        for key in zip(*(task.prompts[name].to_pylist() for name in names), strict=True)
    }
    people = named_people(config_vocabulary(shared.dataset_config, shared.vocabulary_dir), keys)
    if len(people) < 2:
        return None
    leakage = identity_leakage(classifier.probabilities, people, shipped_sentences())
    in_replies = run_leakage(
        replies.texts,
        StyleShards(task.folder / STYLES),
        replies.descriptors,
        replies.templates,
        replies.axes,
        people,
        classifier.probabilities,
        debias=results["debiased"] is not None,
    )
    return {**leakage, "in_replies": in_replies}


def _frequencies(file: str | None, prompts: pa.Table) -> dict[str, Any]:
    """How often each descriptor of the run occurs in a text corpus, per million examples."""
    path = DEFAULT_FREQUENCIES if file is None else Path(file)
    known = read_frequencies(path)
    keys = dict.fromkeys(zip(prompts["axis"].to_pylist(), prompts["descriptor"].to_pylist(), strict=True))
    rows = [
        {"axis": axis, "descriptor": descriptor, **known[axis, descriptor]}
        for axis, descriptor in keys
        if (axis, descriptor) in known
    ]
    return {
        "source": path.name,
        "is_default": file is None,
        "num_without": len(keys) - len(rows),
        "by_descriptor": rows,
    }
