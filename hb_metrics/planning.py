"""What a run of `measure.py` is going to do: its models loaded, its work planned, and described for run.json."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hb_dataset.hints import did_you_mean
from hb_metrics.arguments import DEFAULT_MEASUREMENTS, MeasureArguments

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_dataset.dialogue_pairs import Dialogue
    from hb_metrics.inference.classifiers.offensive import OffensivenessClassifier
    from hb_metrics.inference.classifiers.styles import StyleClassifier
    from hb_metrics.inference.models.contexts import ContextFormat
    from hb_metrics.inference.models.loading import LoadedModel
    from hb_metrics.inference.processes import PartialState
    from hb_metrics.inference.replies.prompt_replies import ReplyPlan
    from hb_metrics.inference.scoring.dialogue import DialoguePlan
    from hb_metrics.inference.units import ScoringPlan
    from hb_metrics.reddit_measurement import RedditFiles, RedditWork
    from hb_metrics.regard_measurement import RegardWork

# torch and the model classes take seconds to import: not before the options are known to be right.

MASKED_ERROR = (
    "model '{name}' is a masked language model, which gives no replies; leave {measurement} out of --measurements, or "
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
    dialogue: "tuple[Dialogue, DialoguePlan] | None"
    reddit: "RedditWork | None" = None
    regard: "RegardWork | None" = None
    asks_robustness: bool = False  # whether halves of the templates are compared


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


def read_user_files(arguments: MeasureArguments) -> "RedditFiles | None":
    """Reads the files that options name, for the faults they may have: sooner than the model runs.

    Returns:
        What is to be measured of RedditBias, so that it is read once.
    """
    from hb_dataset.frequency import read_frequencies
    from hb_metrics.reply_checks.phrase_rates import read_phrases

    if arguments.phrases_file is not None:
        read_phrases(arguments.phrases_file)
    if arguments.frequencies is not None:
        read_frequencies(arguments.frequencies)
    if arguments.personas_file is not None:
        from hb_metrics.inference.models.contexts import read_personas

        read_personas(arguments.personas_file)
    if arguments.style_clusters is not None:
        from hb_metrics.inference.classifiers.styles import read_style_clusters

        read_style_clusters(arguments.style_clusters)
    asked = arguments.asked_measurements() or ()
    if "regard" in asked:
        from hb_metrics.regard_measurement import groups_and_pairs

        groups_and_pairs(arguments)
    if "dialogue" in asked and arguments.dialogue_file is not None:
        from hb_dataset.dialogue_pairs import read_dialogue

        read_dialogue(Path(arguments.dialogue_file), num_replies=arguments.dialogue_replies, seed=arguments.seed)
    if "reddit" not in asked:
        return None
    from hb_metrics.reddit_measurement import read_reddit

    return read_reddit(arguments)


def prepare(
    arguments: MeasureArguments, prompts: "pa.Table", state: "PartialState", files: "RedditFiles | None" = None
) -> Work:
    """Loads the models and plans the work.

    Raises:
        ValueError: The model cannot do what was asked.
    """
    from hb_metrics.inference.models.loading import load_model
    from hb_metrics.template_robustness import check_templates

    loaded = load_model(
        arguments.model,
        revision=arguments.revision,
        dtype=arguments.dtype,
        device=state.device,
        trust_remote_code=arguments.trust_remote_code,
    )
    asked = arguments.asked_measurements()
    for name in ("generation", "dialogue", "regard"):
        if asked is not None and name in asked and loaded.kind == "masked":
            raise ValueError(MASKED_ERROR.format(name=arguments.model, measurement=name))
    can = [name for name in DEFAULT_MEASUREMENTS if name != "generation" or loaded.kind != "masked"]
    measurements = can if asked is None else asked
    if "robustness" in measurements:
        check_templates(prompts)
        measurements = (*measurements, *(name for name in ("likelihood", "generation") if name in can))
    state.print(f"{loaded.name}: {loaded.kind}, {loaded.dtype}, on {state.device} x {state.num_processes}")
    replied, replies, styles, clusters, dialogue = None, None, None, None, None
    how = _how_to_ask(arguments, loaded)
    reddit = _plan_reddit(arguments, loaded, files) if "reddit" in measurements else None
    regard = _plan_regard(arguments, loaded) if "regard" in measurements else None
    if "dialogue" in measurements:
        dialogue = _plan_dialogue(arguments, loaded, how)
    if "generation" in measurements:
        replied, replies = _plan_replies(arguments, prompts, loaded, how)
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
        dialogue=dialogue,
        reddit=reddit,
        regard=regard,
        asks_robustness="robustness" in measurements,
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
    if work.dialogue is not None:
        run["dialogue"] = work.dialogue[0].description()
    if work.reddit is not None:
        from hb_metrics.reddit_measurement import describe_reddit

        run["reddit"] = describe_reddit(work.reddit)
    if work.regard is not None:
        from hb_metrics.regard_measurement import describe_regard

        run["regard"] = describe_regard(work.regard)
    return {**run, "versions": package_versions()}


def _plan_scoring(arguments: MeasureArguments, prompts: "pa.Table", loaded: "LoadedModel") -> "ScoringPlan":
    from hb_dataset.prompt_table import descriptor_noun_spans
    from hb_metrics.inference.scoring.perplexity import MAX_POSITIONS, plan_perplexity
    from hb_metrics.inference.scoring.pseudo_likelihood import plan_pseudo_log_likelihood

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


def _how_to_ask(arguments: MeasureArguments, loaded: "LoadedModel") -> dict[str, Any]:
    """The context format and the control tag: what was asked for, else what the model says, else what suits it."""
    from hb_metrics.inference.models.bias_tags import choose_tag, read_bias_tuning
    from hb_metrics.inference.models.contexts import detect_context

    tuning = read_bias_tuning(loaded.source, loaded.revision)
    tag, tag_reason = choose_tag(arguments.tag, tuning)
    context: ContextFormat
    if arguments.context != "auto":
        context, reason = arguments.context, f"--context {arguments.context} was asked for"
    elif tuning is not None:
        context, reason = tuning.context, "the model was tuned in it"
    else:
        context, reason = detect_context(loaded.model, loaded.tokenizer)
    return {"context": context, "context_reason": reason, "tag": tag, "tag_reason": tag_reason}


def _plan_replies(
    arguments: MeasureArguments, prompts: "pa.Table", loaded: "LoadedModel", how: dict[str, Any]
) -> tuple["pa.Table", "ReplyPlan"]:
    from hb_metrics.inference.models.contexts import PERSONAS_FILE, read_personas
    from hb_metrics.inference.replies.prompt_replies import decoding_preset, plan_replies, select_prompts

    changes = ("num_beams", "temperature", "top_k", "top_p", "min_new_tokens", "max_new_tokens")
    decoding = decoding_preset(arguments.decoding, **{name: getattr(arguments, name) for name in changes})
    replied = select_prompts(prompts, arguments.replies_per_cell or None, seed=arguments.seed)
    plan = plan_replies(
        replied,
        loaded,
        decoding=decoding,
        personas=read_personas(arguments.personas_file or PERSONAS_FILE),
        num_personas=arguments.personas,
        variations=arguments.variations,
        seed=arguments.seed,
        **how,
    )
    return replied, plan


def _plan_dialogue(
    arguments: MeasureArguments, loaded: "LoadedModel", how: dict[str, Any]
) -> "tuple[Dialogue, DialoguePlan]":
    from hb_dataset.dialogue_pairs import read_dialogue
    from hb_metrics.inference.scoring.dialogue import plan_dialogue

    path = None if arguments.dialogue_file is None else Path(arguments.dialogue_file)
    dialogue = read_dialogue(path, num_replies=arguments.dialogue_replies, seed=arguments.seed)
    return dialogue, plan_dialogue(dialogue, loaded, context=how["context"], tag=how["tag"])


def _plan_reddit(arguments: MeasureArguments, loaded: "LoadedModel", files: "RedditFiles | None") -> "RedditWork":
    from hb_metrics.reddit_measurement import plan_reddit

    return plan_reddit(arguments, loaded, files)


def _plan_regard(arguments: MeasureArguments, loaded: "LoadedModel") -> "RegardWork":
    from hb_metrics.regard_measurement import plan_regard

    return plan_regard(arguments, loaded)


def _load_styles(
    arguments: MeasureArguments, state: "PartialState"
) -> tuple["StyleClassifier", dict[str, list[str]] | None]:
    from hb_metrics.full_gen_bias.gen_bias import cluster_columns
    from hb_metrics.inference.classifiers.styles import clusters_for, load_style_classifier, read_style_clusters

    classifier = load_style_classifier(
        arguments.style_classifier, device=state.device, trust_remote_code=arguments.trust_remote_code
    )
    if arguments.style_clusters is None:
        return classifier, clusters_for(classifier.labels)
    clusters = read_style_clusters(arguments.style_clusters)
    cluster_columns(classifier.labels, clusters)  # refuses what the classifier does not know
    return classifier, clusters


def _load_offensiveness(arguments: MeasureArguments, state: "PartialState") -> "OffensivenessClassifier":
    from hb_metrics.inference.classifiers.offensive import load_offensiveness_classifier

    return load_offensiveness_classifier(
        arguments.offensiveness_classifier,
        device=state.device,
        trust_remote_code=arguments.trust_remote_code,
        offensive_label=arguments.offensive_label,
    )
