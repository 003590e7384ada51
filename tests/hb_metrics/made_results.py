"""Made-up results of runs, made of made-up scores, replies and labels by the functions that make real ones."""

import copy
import json
import shutil
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hb_dataset import load_table
from hb_dataset.own_prompts import Choice, OwnPrompt
from hb_metrics.collect.classifiers.censoring import term_mentioned
from hb_metrics.collect.judges.rubric import read_rubric
from hb_metrics.command.arguments import settings_of
from hb_metrics.language_model_bias.paired_test import language_model_bias
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.decisions.answers import DecisionAnswer
from hb_metrics.measurements.decisions.compute import decisions
from hb_metrics.measurements.generation.nouns import noun_bias, noun_kernels, nouns_of
from hb_metrics.measurements.generation.results import Frequency, Generation, ShownReply, refusals_results
from hb_metrics.measurements.generation.styles import style_results
from hb_metrics.measurements.identity_leakage import Leakage
from hb_metrics.measurements.judge.compute import judged_results
from hb_metrics.measurements.judge.results import Served
from hb_metrics.measurements.likelihood.compute import MarkedPairs, likelihood_results
from hb_metrics.measurements.means import reply_means
from hb_metrics.measurements.offensiveness.compute import Classified, prompt_results, reply_results
from hb_metrics.measurements.results import Results, results_from_json
from hb_metrics.regard_bias.regard_results import regard_bias
from hb_metrics.reply_checks.refusal_rules import match_rules, read_refusal_rules
from hb_metrics.reply_checks.refusal_shares import reply_shares
from hb_metrics.run.replies import RatedReplies, Replies, reply_number, whole_prompts
from hb_metrics.run.run_folder import LAYOUT
from hb_metrics.run.schema import about_prompts
from hb_metrics.run.typed_json import to_json
from hb_metrics.stats.cell_sums import PAPER_CLUSTERS
from hb_metrics.stats.clusters import Estimate

SORRY = "i'm sorry to hear"
AXES = ["ability", "gender_and_sex", "race_ethnicity"]
LABELS = [style for styles in PAPER_CLUSTERS.values() for style in styles] + ["Calm", "Silly"]
CLASSIFIER = {"name": "a/classifier", "is_embedded": False, "digest": "12", "notes": []}
CLASSIFIER |= {"num_styles": len(LABELS), "temperature": 2.5}
PAIRS = {"gender": ("man", "woman"), "race": ("white person", "black person")}
PAIRS["orientation"] = ("straight person", "gay person")
GROUPS = [group for pair in PAIRS.values() for group in pair]
REGARDS = np.array(["negative", "neutral", "positive", "other"])


def as_stored(results):
    """As results.json gives it back: no dataclasses, no tuples, no NumPy."""
    return json.loads(json.dumps(to_json(results)))


def loaded(results):
    """The results as `read_run` gives them back."""
    return results if isinstance(results, Results) else results_from_json({"run": {}, **as_stored(results)})


def only(prompts, **values):
    for column, allowed in values.items():
        prompts = prompts.filter(pc.is_in(prompts[column], pa.array(allowed)))
    return prompts


def some_prompts():
    """Those of three axes, each with six terms in four templates."""
    return only(load_table("v1.0-small"), axis=AXES)


def run_record(prompts, model="tiny-model"):
    """results["run"] without the sections of its measurements."""
    settings = {"model": model, "dataset_config": "v1.0-small", "vocabulary_dir": None, "variations": False, "seed": 0}
    return {
        "layout": {"version": LAYOUT, "measurements": []},
        "settings": settings,
        "model": {"name": model, "kind": "causal", "digest": "00ff", "dtype": "float32", "num_parameters": 1234},
        "data": {
            "config": "v1.0-small",
            "digest": "ff00",
            "num_prompts": len(prompts),
            "num_descriptors": len(prompts.group_by(["axis", "descriptor"]).aggregate([])),
            "num_axes": len(prompts["axis"].unique()),
            "num_templates": len(prompts["template"].unique()),
        },
        "versions": {"torch": "2.13.0", "holistic-bias": None},
    }


LOVE_HATE = MarkedPairs([("I love {plural_noun_phrase}.", "I hate {plural_noun_phrase}.")], [])


def scored(prompts, perplexities, num_tokens):
    """The table of perplexities of prompts."""
    columns = {"text": prompts["text"]} if "text" in prompts.column_names else {}
    columns |= {"perplexity": perplexities, "num_tokens": num_tokens}
    about = about_prompts(prompts)
    return pa.table({"id": prompts["id"], **dict(zip(about.column_names, about.columns, strict=True)), **columns})


def likelihood_run(prompts):
    """A run of likelihood alone: perplexities are higher in some axes and for some terms."""
    rng = np.random.default_rng(0)
    codes = [prompts[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in ("axis", "descriptor")]
    perplexities = rng.lognormal(3 + 0.1 * codes[0] + 0.3 * (codes[1] % 7), 0.5)
    num_tokens = 5 + codes[1] % 3
    scores = scored(prompts, perplexities, num_tokens)
    run = run_record(prompts)
    run["scoring"] = {"path": "tree", "reason": "as asked", "start_token": "<s>", "positions": 9, "predicted_tokens": 8}
    return {"run": run, "likelihood": as_stored(likelihood_results(scores, LOVE_HATE))}


def replies_to(prompts, replies_per_cell=8, seed=0, prefix="I hear you"):
    """Some prompts of each cell with made-up replies, a few of them parroting or sorry."""
    rng, counts, rows = np.random.default_rng(seed), {}, []
    for row in prompts.to_pylist():
        cell = row["axis"], row["descriptor"], row["template"]
        counts[cell] = counts.get(cell, 0) + 1
        if counts[cell] <= replies_per_cell:
            rows.append(row)
    kinds = rng.choice(3, len(rows), p=[0.8, 0.1, 0.1]).tolist()
    texts = [
        (f"{prefix}, number {index}.", row["text"], "I'm sorry to hear that.")[kind]
        for index, (row, kind) in enumerate(zip(rows, kinds, strict=True))
    ]
    columns = ([row[name] for row in rows] for name in ("id", "axis", "descriptor", "template", "text"))
    return Replies(*columns, texts)


def style_vectors(replies, seed=0):
    """Each term has a style mix of its own, and each reply its own luck."""
    rng = np.random.default_rng(seed)
    mixes = {term: rng.dirichlet(np.full(len(LABELS), 0.3)) for term in sorted(set(replies.descriptors))}
    return np.stack([rng.dirichlet(8 * mixes[term] + 0.01) for term in replies.descriptors])


def generation_of(replies, seed=0, labels=LABELS, clusters=PAPER_CLUSTERS, vectors=None):
    """results["generation"] and the bias values it rests on; no term has a known frequency."""
    vectors = style_vectors(replies, seed) if vectors is None else vectors
    prompts = load_table("v1.0-small")
    named = nouns_of(prompts, replies.ids)
    computed, biases = style_results(replies, vectors, labels, clusters=clusters, nouns=named)
    keys = sorted({(row.axis, row.descriptor) for row in computed.by_descriptor})
    rules = read_refusal_rules()
    terms = list(zip(replies.axes, replies.descriptors, strict=True))
    generation = Generation(
        **vars(computed),
        num_prompts=len(replies.ids) + 5,
        num_replies=len(replies.ids),
        num_empty_replies=5,
        num_filtered_replies=0,
        num_truncated_replies=7,
        num_distinct_replies=len(set(replies.texts)),
        num_decisions=0,
        short_share=0.0,
        most_frequent_share=0.25,
        num_with_reasoning=3,
        num_unclosed_reasoning=0,
        mean_num_reasoning_tokens=40.5,
        num_invented_turns=0,
        shown_replies=[ShownReply(*shown, None) for shown in zip(replies.prompts[:3], replies.texts[:3], strict=True)],
        num_cut_for_classifier=0,
        identity_leakage=None,
        uptake=reply_shares(RatedReplies(replies, term_mentioned(replies, {})), 0.95),
        nouns=noun_bias(noun_kernels(vectors, named, replies.templates, terms)),
        refusals=refusals_results(replies, match_rules(replies.texts, rules), rules, prompts),
        refusal_rules=rules.digest,
        frequencies=[Frequency(*key, 3.5 * (row % 4) ** 3, " " not in key[1]) for row, key in enumerate(keys[1:])],
    )
    return as_stored(generation), biases


def offensiveness_of(texts, seed=0, *, are_replies=False):
    """results["offensiveness"]["prompts"], or those of replies."""
    probabilities = np.random.default_rng(seed).beta(1, 4, len(texts.ids))
    classified = Classified(texts, probabilities, 0)
    return as_stored(reply_results(classified, some_prompts()) if are_replies else prompt_results(classified))


def full_run(**how):
    """A run of likelihood, generation and offensiveness; see `_full_run`."""
    return copy.deepcopy(_full_run(**how))


@cache
def _full_run(replies_per_cell=8, seed=0):
    prompts = some_prompts()
    results, replies = likelihood_run(prompts), replies_to(prompts, replies_per_cell, seed)
    results["run"] |= {
        "generation": {
            "context": "chat",
            "tag": None,
            "tag_reason": "the model was not tuned with tags",
            "reply": "whole",
            "reply_reason": "the model is a chat model",
            "thinks": True,
            "max_reasoning_tokens": 2048,
            "ignored_settings": None,
        },
        "frequencies": {"source": "chats.csv", "is_default": False},
        "style_classifier": CLASSIFIER,
        "offensiveness_classifier": CLASSIFIER | {"name": "another/classifier", "digest": "13", "notes": ["a note"]},
    }
    results["generation"], _ = generation_of(replies, seed)
    results["offensiveness"] = {
        "prompts": offensiveness_of(whole_prompts(prompts), seed),
        "replies": offensiveness_of(replies, seed + 1, are_replies=True),
    }
    return as_stored(results)


def add_dialogue(results, perplexity=41.26, interval=(38.04, 1045.5)):
    """Makes results those of a run that also measured dialogue perplexity."""
    results["run"]["dialogue"] = {"source": "chats.csv", "digest": "dd", "num_replies": 90}
    results["dialogue"] = {
        "perplexity": perplexity,
        "interval": None if interval is None else list(interval),
        "no_interval": "few replies" if interval is None else None,
        "num_replies": 1234,
        "num_tokens": 9999,
        "num_too_long": 3,
    }
    return results


def add_awareness(results):
    """Makes results those of a run that also measured difference awareness."""
    values = {"needs": Estimate(0.5, (0.4, 0.6), None), "neutral": Estimate(0.2, (0.1, 0.3), None)}
    values |= {"difference": Estimate(0.3, (0.15, 0.45), None), "taken_up": Estimate(0.4, None, "few terms")}
    results["run"]["awareness"] = {"prompts_digest": "ee", "words_digest": "ff"}
    results["awareness"] = {
        **as_stored(values),
        "num_prompts": 40,
        "num_terms": 18,
        "num_empty_replies": 2,
        "examples": [{"prompt": "I'm a man. Why?", "reply": "Well.", "taken_up": False}],
    }
    return results


def add_decisions(results, seed=0):
    """Makes results those of a run whose decisions were also measured: the terms of one axis differ."""
    choice, rng = Choice(("yes", "no"), "yes"), np.random.default_rng(seed)
    prompts = [
        OwnPrompt(f"{row}-{word}", "{options}", f"{row}", None, choice, f"topic {row % 2}", {}, {})
        for row in range(20)
        for word in range(2)
    ]
    answers = [
        DecisionAnswer(prompt.id, None, None, None, "person", 0, 0.4, False, 0.8, "about a person", "yes: 40%")
        for prompt in prompts
    ]
    terms = ("age", "old", 0.2), ("age", "young", 0.7), ("ability", "Deaf", 0.5), ("ability", "blind", 0.5)
    for prompt, (axis, term, mean), order in product(prompts, terms, (0, 1)):
        value = float(np.clip(rng.normal(mean, 0.1), 0, 1))
        about = prompt.id, axis, term, None, "person", order, value, False, 0.8
        answers.append(DecisionAnswer(*about, f"about {term}", f"yes: {value:.0%}"))
    answers.append(answers[-1]._replace(value=None, is_refusal=True, shown="I can't."))
    results["run"]["decisions"] = {"answers": "probabilities", "num_prompts": len(prompts), "digest": "dd"}
    results["decisions"] = as_stored(decisions(prompts, answers))
    return results


def add_judge(results, seed=0):
    """Makes results those of a run whose replies were also judged."""
    replies, rubric = replies_to(some_prompts(), seed=seed), read_rubric("condescending")
    chances = np.random.default_rng(seed).beta(1, 3, len(replies.ids))
    probabilities = np.stack([chances, 1 - chances, np.zeros_like(chances)], axis=1)
    probabilities[:3] = [0, 0, 1]
    judge = {"name": "a judge", "is_embedded": True, "digest": "14", "version": "served", "notes": ["nobody checked"]}
    results["run"]["judge"] = {"condescending": {**judge, "reads": "5 answers", **rubric.description()}}
    judged = judged_results(replies, rubric, probabilities, some_prompts())
    leakage = Leakage(2.5, 1.0, {}, num_terms=18, num_sentences=4, mean_move=0.1, most_moved=[])
    more = {"num_suspected": 2, "num_cut_for_judge": 1, "identity_leakage": leakage, "served": Served(500, 100, 500)}
    results["judge"] = as_stored({"condescending": replace(judged, **more)})
    return results


def add_length(results, seed=0):
    """Makes results those of a run that also counted words."""
    prompts = some_prompts()
    replies = replies_to(prompts, seed=seed)
    words = np.array([len(text.split()) for text in replies.texts])
    results["length"] = as_stored(reply_means(RatedReplies(replies, words), prompts))
    return results


def dialogue_run(perplexity=41.26, interval=(38.04, 1045.5)):
    """A run of dialogue perplexity alone."""
    return add_dialogue({"run": run_record(some_prompts())}, perplexity, interval)


def reddit_test(lean=0.0, num_pairs=200, seed=0, **change):
    """results["reddit"]["by_bias_type"][…]: negative `lean` makes the stereotyped side likelier."""
    rng = np.random.default_rng(seed)
    base = rng.normal(6, 1, num_pairs)
    t1 = np.exp(base + lean + rng.normal(0, 0.5, num_pairs))
    return as_stored({**language_model_bias(t1, np.exp(base)), **change})


def reddit_run(lmp=31.5, **by_bias_type):
    """A run of RedditBias alone."""
    run = run_record(some_prompts())
    tests = by_bias_type or {"race": reddit_test(-0.5), "gender": reddit_test(0.0, seed=3)}
    about = {"digest": "cc", "predicted_tokens": 900, "num_skipped": {"one_token": 2, "too_long": 1}}
    run["reddit"] = {name: {"num_pairs": test["num_pairs"], **about} for name, test in tests.items()}
    run["reddit"]["reference"] = {"source": "chats.txt", "num_texts": 503, **about}
    return {"run": run, "reddit": {"by_bias_type": tests, "lmp": lmp, "lmp_num_texts": 500}}


def regard_of(
    *,
    groups=GROUPS,
    pairs=PAIRS,
    num_structures=13,
    num_seeds=6,
    num_verbs=8,
    fixed_gaps=None,
    gaps=None,
    num_other=True,
    seed=0,
    continuation="a good song.",
):
    """results["regard"] of made-up labels: groups differ by `gaps`, and in the fixed structure by `fixed_gaps`."""
    rng = np.random.default_rng(seed)
    names = ["original", *(f"structure-{number}" for number in range(num_structures - 1))]
    rows = list(product(groups, names, range(num_verbs), range(num_seeds)))
    labels = []
    for group, structure, _, _ in rows:
        about = (fixed_gaps or {}) if structure == "original" else (gaps or {})
        lean = next((about.get(name, 0) / 2 for name, pair in pairs.items() if group == pair[0]), 0)
        lean += next((-about.get(name, 0) / 2 for name, pair in pairs.items() if group == pair[1]), 0)
        shares = np.array([0.3 - lean / 2, 0.38, 0.3 + lean / 2, 0.02 if num_other else 0])
        labels.append(rng.choice(REGARDS, p=shares / shares.sum()))
    columns = [list(column) for column in zip(*rows, strict=True)]
    about = {"structures": columns[1], "prompts": list(map(str, columns[2])), "seeds": columns[3]}
    bias = regard_bias(list(map(str, labels)), columns[0], **about, pairs=pairs)
    kinds = {
        name: {
            "kind": ("declarative", "interrogative")[number % 2] if name != "original" else "original",
            "parse": "(ROOT (S (NP ) (VP ) (. )))",
            "generalizes": number == 3,
        }
        for number, name in enumerate(names)
    }
    examples = [
        {"structure": structure, "group": group, "text": f"the {group} was known for", "regard": "positive"}
        | {"continuation": continuation if group == groups[0] else "a good song."}
        for structure in names
        for group in groups
    ]
    return as_stored(
        {
            "bias": bias,
            "num_prompts": len(groups) * len(names) * num_verbs,
            "num_structures": len(names),
            "num_seeds": num_seeds,
            "num_continuations": len(rows) + 7,
            "num_blank": 7,
            "num_truncated": 0,
            "num_cut_for_classifier": 2,
            "num_unanswered": 0,
            "structures": kinds,
            "examples": examples,
        }
    )


def regard_run(regard, is_embedded=False):
    """A run of regard alone."""
    run = run_record(some_prompts())
    about = {**CLASSIFIER, "is_embedded": is_embedded, "notes": ["a note"], "groups": list(regard["bias"]["by_group"])}
    run["regard"] = {**about, "pairs": regard["bias"]["pairs"], "temperature": 0.7, "top_k": 40}
    return {"run": run, "regard": regard}


def whole_run():
    """A run of everything that can be measured."""
    results = add_judge(add_length(add_awareness(add_dialogue(add_decisions(full_run())))))
    for other in (reddit_run(), regard_run(regard_of(gaps={"orientation": 0.6}))):
        results |= {name: part for name, part in other.items() if name != "run"}
        results["run"] = other["run"] | results["run"]
    return results


def write_run(folder, results, prompts=None, *, seed=0, prefix="I hear you", replies_per_cell=8, made=None):
    """A finished run's folder with replies of its own, and what the comparison reads of it.

    Args:
        made: Replies and their style vectors; `None`: those that `replies_to` and `style_vectors` make up.

    Returns:
        Its results and replies.
    """
    prompts = some_prompts() if prompts is None else prompts
    replies, vectors = (replies_to(prompts, replies_per_cell, seed, prefix), None) if made is None else made
    results = copy.deepcopy(results)
    results["generation"], _ = generation_of(replies, seed, vectors=vectors)
    results["offensiveness"]["replies"] = offensiveness_of(replies, seed, are_replies=True)
    results["run"]["settings"]["replies_per_cell"] = replies_per_cell
    write_results(folder, results)
    plurals = pa.nulls(len(prompts), pa.string())
    pq.write_table(prompts.append_column("descriptor_plural", plurals), folder / "prompts.parquet")
    write_replies(folder, replies.ids, replies.prompts, replies.texts)
    return results, replies


def write_replies(folder, ids, texts, replies):
    """The replies of a run, in two shards."""
    prompts = [reply_number(str(each))[0] for each in ids]
    columns = {"id": ids, "prompt_id": prompts, "text": texts, "reply": pa.array(replies, pa.string())}
    table = pa.table({**columns, "question": pa.nulls(len(ids), pa.string())})
    (folder / "replies").mkdir()
    pq.write_table(table.slice(0, 20), folder / "replies" / "00000-of-00002.parquet")
    pq.write_table(table.slice(20), folder / "replies" / "00001-of-00002.parquet")


def write_vectors(folder, ids, vectors, shard="00000-of-00001"):
    """The probabilities of a classifier ([replies, labels]), in one shard."""
    folder.mkdir(parents=True, exist_ok=True)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    columns = {"id": ids, "probabilities": column, "truncated": pa.array([False] * len(vectors), pa.bool_())}
    pq.write_table(pa.table(columns), folder / f"{shard}.parquet")


def write_results(folder, results):
    """A folder with results.json alone, which is all that most measurements compare."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(as_stored(results)), encoding="utf-8")
    return folder


def read_results(folder):
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


def change_results(folder, change):
    """Rewrites a folder's results.json after `change(results)`."""
    results = read_results(folder)
    change(results)
    write_results(folder, results)


def forget_debiased(results):
    """For `change_results`: the noise is unknown, so there are no debiased values and no intervals."""
    results["generation"]["debiased"] = None
    results["generation"]["gen_bias"] |= {"noise_floor": None, "intervals": None, "no_intervals": None}


def write_tuning_runs(root):
    """Writes folders of a run before tuning and three after, of which the last was tuned without tags.

    After tuning, bias is 0.05, 1.1 and 1 times what it was. The last run has no dialogue, and in the first the
    debiased value of the second axis is below 0.
    """
    first, _ = write_run(root / "a", full_run())
    for name in "bcd":
        shutil.copytree(root / "a", root / name)
    for name, model, tag, perplexity, scale in (
        ("a", "small", None, 40.0, 1),
        ("b", "tuned", "no_bias", 31.26, 0.05),
        ("c", "tuned", "bias", 30.0, 1.1),
        ("d", "self-chat", None, None, 1),
    ):
        results = copy.deepcopy(first)
        if name == "a":
            results["generation"]["debiased"]["by_axis"][AXES[1]] = -1.5
            results["generation"]["gen_bias"]["intervals"]["by_axis"][AXES[1]] = [-4.0, 1.0]
        _tune(results, model, tag, perplexity, scale)
        write_results(root / name, results)


def check_margins(changes):
    """Checks that `--no_worse_than` accepts the figures of two runs, in their units, before the runs exist."""
    units = {name: unit for part in MEASUREMENTS for name, unit in part.margin_units(settings_of({})).items()}
    assert changes.main
    assert {row.key: "pt" if row.is_share else "" for row in changes.main}.items() <= units.items()


def _tune(results, model, tag, perplexity, scale):
    """Makes results those of another model, whose bias is so many times what it was, all alike."""
    results["run"]["model"] = {**results["run"]["model"], "name": model, "digest": model}
    results["run"]["generation"] = {"context": "chat", "tag": tag, "tag_reason": f"{tag} was asked for"}
    generation = results["generation"]
    for part in (generation["debiased"], generation["gen_bias"]["intervals"]):
        for metric in ("full_gen_bias", "by_axis", "partial_gen_bias", "summed_cluster_gen_bias"):
            part[metric] = _scaled(part[metric], scale)
    if perplexity is not None:
        add_dialogue(results, perplexity, (perplexity - 2.5, perplexity + 3))


def _scaled(part, scale):
    if part is None:
        return None
    if isinstance(part, dict):
        return {name: _scaled(value, scale) for name, value in part.items()}
    return [_scaled(value, scale) for value in part] if isinstance(part, list) else part * scale
