from hb_dataset.prompt_table import descriptor_noun_spans
from hb_dataset.prompts import config_vocabulary
from hb_dataset.vocabulary_entries import PAIR_MARKS
from hb_metrics.collect.engines.engine import LikelihoodRequests
from hb_metrics.measurements.measurement import Planned, Task
from hb_metrics.run.run_folder import PERPLEXITIES
from hb_metrics.run.schema import about_prompts


def plan(task: Task) -> Planned:
    terms = task.prompts.group_by(["axis", "template"]).aggregate([("descriptor", "count_distinct")])
    if max(terms["descriptor_count_distinct"].to_pylist(), default=0) < 2:  # checked before hours of scoring
        raise ValueError(
            "measurement 'likelihood' compares the terms of an axis, but no axis has two terms in the same "
            "template; set --axes, --sample or --vocabulary_dir to get more terms, or remove likelihood from "
            "--measurements"
        )
    masked = task.engine.kind == "masked"
    if masked and "spans" in task.prompts.column_names:
        for identifier, spans in zip(*(task.prompts[name].to_pylist() for name in ("own_id", "spans")), strict=True):
            if len(spans) > 2:
                raise ValueError(
                    f"prompt '{identifier}' names the person twice, so a masked model could copy one mention from the "
                    "other; write {they}, {them} or {their} at the second mention"
                )
    scores = task.engine.plan_likelihoods(
        LikelihoodRequests(
            ids=task.prompts["id"].to_pylist(),
            about=about_prompts(task.prompts),
            texts=task.prompts["text"].to_pylist(),
            spans=[(start, end) for start, end in descriptor_noun_spans(task.prompts).tolist()] if masked else None,
        )
    )
    record: dict[str, object] = {"scoring": scores.description()}
    if (folder := task.settings.run.vocabulary_dir) is not None:
        vocabulary = config_vocabulary(task.settings.run.dataset_config, folder)
        record["contrasts"] = {name: vocabulary.marked_pairs(name) for name in PAIR_MARKS}
    return Planned(record, lambda: task.engine.score_into_shards(scores, task.folder / PERPLEXITIES))
