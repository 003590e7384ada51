import shutil
from collections import Counter
from pathlib import Path

import datasets
import pytest

from hb_dataset import load_table
from hb_dataset import vocabulary as vocabulary_module
from hb_dataset.builder import HolisticBias

V1_FOLDER = Path(vocabulary_module.__file__).parent / "vocabulary" / "v1.0"


@pytest.fixture(autouse=True)
def quiet():
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


@pytest.fixture
def cache(tmp_path):
    yield tmp_path / "cache"
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)  # v1.0 is large, and pytest keeps its folders


@pytest.fixture
def own_folder(tmp_path):
    return shutil.copytree(V1_FOLDER, tmp_path / "own")


def prepare(cache, config_name=None, **kwargs):
    builder = HolisticBias(config_name, cache_dir=str(cache), **kwargs)
    builder.download_and_prepare()
    return builder.as_dataset()


def test_a_vocabulary_of_your_own_is_kept_beside_v1(cache, own_folder):
    (own_folder / "age.yaml").unlink()
    own = prepare(cache, "v1.0-small", vocabulary_dir=str(own_folder))
    rows = own["test"].with_format("arrow")[:].replace_schema_metadata(None)
    assert rows.equals(load_table("v1.0-small", own_folder))
    assert own["test"].num_rows == 12 * 6 * 30 * 4
    assert prepare(cache, "v1.0-small")["test"].num_rows == 13 * 6 * 30 * 4


def test_structured_prompts_are_about_the_groups_asked_for(cache, tmp_path):
    def groups_of(groups):
        return Counter(prepare(cache, "robust-fixed", groups=groups)["test"]["group"])

    assert groups_of(["Deaf woman", "tall"]) == {"Deaf woman": 10, "tall person": 10}
    path = tmp_path / "groups.yaml"
    for name in ("nurse", "surgeon"):  # the same path, another content
        path.write_text(f"groups:\n  {name}:\n    plural: {name}s\n")
        assert groups_of(str(path)).keys() == {name}
    assert groups_of(None).keys() >= {"man", "gay person"}
