import numpy as np
import pytest

from hb_metrics.full_gen_bias.full_gen_bias import FullGenBias
from hb_metrics.partial_gen_bias.partial_gen_bias import PartialGenBias
from hb_metrics.stats.gen_bias import CellSums, gen_bias
from hb_metrics.summed_cluster_gen_bias.summed_cluster_gen_bias import SummedClusterGenBias

MODULES = {"full_gen_bias": FullGenBias, "partial_gen_bias": PartialGenBias}
MODULES["summed_cluster_gen_bias"] = SummedClusterGenBias
LABELS = ["Calm", "Curious", "Questioning", "Earnest"]
CLUSTERS = {"Curiosity": ["Curious", "Questioning"], "Rest": ["Calm", "Earnest"]}
# Where each module's values stand in the results of `gen_bias`.
FIELDS = {
    "full_gen_bias": ("by_axis", "noise_floor"),
    "partial_gen_bias": ("partial_by_axis", "partial_noise_floor"),
    "summed_cluster_gen_bias": ("summed_cluster_by_axis", "summed_cluster_noise_floor"),
}


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(0)
    number = 120
    return {
        "predictions": rng.dirichlet(np.ones(4), number).tolist(),
        "descriptors": [f"d{index}" for index in rng.integers(0, 6, number)],
        "templates": [f"t{index}" for index in rng.integers(0, 3, number)],
        "axes": ["age"] * 60 + ["nonce"] * 60,
    }


def expected(name, columns, labels=LABELS, clusters=CLUSTERS, **options):
    """What the module is to give, from the function."""
    cells = CellSums(labels, clusters, keep_replies=True)
    cells.add(*columns.values())
    result = gen_bias(cells, **options)._asdict()
    by_axis, noise_floor = FIELDS[name]
    return {
        name: result[name],
        "by_axis": result[by_axis],
        "noise_floor": result[noise_floor],
        **{
            key: result[key] and {name: getattr(result[key], name), "by_axis": getattr(result[key], by_axis)}
            for key in ("intervals", "no_intervals")
        },
        **({"by_style": result["by_style"]} if name == "full_gen_bias" else {"clusters": result["clusters"]}),
        **{key: result[key] for key in list(result)[list(result).index("num_descriptors") :]},
    }


@pytest.fixture(params=MODULES)
def name(request):
    return request.param


@pytest.fixture
def load(name, tmp_path):
    return lambda **options: MODULES[name](cache_dir=str(tmp_path), **options)


def test_replies_can_come_with_the_last_call(name, load, columns):
    metric = load(labels=LABELS, clusters=CLUSTERS)
    metric.add_batch(**{key: column[:100] for key, column in columns.items()})
    last = {key: column[100:] for key, column in columns.items()}

    with pytest.raises(ValueError, match="ddof is 3;"):
        metric.compute(**last, ddof=3)

    assert len(metric) == 100  # as before the call
    assert metric.compute(**last) == expected(name, columns)


def test_without_labels_only_the_full_value_is_known(name, load, columns):
    metric = load()
    if name == "full_gen_bias":
        assert metric.compute(**columns)["by_style"] is None
        return

    with pytest.raises(ValueError, match="need labels"):
        metric.compute(**columns)
    with pytest.raises(ValueError, match="labels lack 17 styles of the paper's clusters"):
        metric.compute(**columns, labels=LABELS)


def test_inputs_that_do_not_fit_are_rejected(name, load, columns):
    metric = load(labels=LABELS, clusters=CLUSTERS)
    for given in ({}, {"predictions": [], "descriptors": [], "templates": []}):
        with pytest.raises(ValueError, match="there are no replies"):
            metric.compute(**given)
    with pytest.raises(ValueError, match="templates: nothing was given; pass a list"):
        metric.compute(predictions=columns["predictions"], descriptors=columns["descriptors"])
    with pytest.raises(ValueError, match="takes no references; omit them"):
        metric.compute(**columns, references=[1])
    with pytest.raises(ValueError, match="num_process is 2; this metric sums replies in one process"):
        load(num_process=2)
    metric.add_batch(**columns)
    with pytest.raises(ValueError, match=r"confidence_level=0\.95 needs the replies.* keep_replies=True"):
        metric.compute(confidence_level=0.95)
    for late in ({"labels": LABELS}, {"clusters": CLUSTERS}):
        with pytest.raises(ValueError, match=rf"once replies have been added; .*\('{name}', labels=labels\)"):
            metric.compute(**late)
    assert len(metric) == 120
