"""Small versions of the vocabulary to publish in tests."""

import json
import shutil
from contextlib import contextmanager

import pytest
import yaml

from hb_dataset import vocabulary as package
from hb_dataset.prompts import config_table, version_configs
from hb_dataset.versions import frozen_record, read_version, table_counts
from hb_dataset.vocabulary import VOCABULARIES, read_vocabulary

REPO_ID = "ORG/holistic_bias"
SMALL_AXES = ("age", "nonce", "sexual_orientation")


@contextmanager
def versions_of(root):
    """Lets the versions in `root` replace those of the package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package, "VOCABULARIES", root)
        yield


def freeze_small(root, version, *, without=""):
    """Freezes v1.0 as a version with three axes and the four small templates in `root`, without the axis `without`."""
    copy_small("v1.0", root / version, without=without)
    record_as_frozen(root, version)
    return root


def copy_small(version, folder, *, without=""):
    """Copies three axes and the four small templates of a version, and not which words go together."""
    shutil.copytree(VOCABULARIES / version, folder)
    for file in folder.iterdir():
        if "\naxis:" in file.read_text(encoding="utf-8"):
            left_out = file.stem not in SMALL_AXES or file.stem == without
        else:
            left_out = file.stem.startswith(("adjective_order", "left_out", "standalone"))
        if left_out:
            file.unlink()
    templates = folder / "templates.yaml"
    document = yaml.safe_load(templates.read_text(encoding="utf-8"))
    document["templates"] = [entry for entry in document["templates"] if entry.get("small")]
    templates.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def edit(path, old, new):
    """Replaces a text in a file."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def record_as_frozen(root, version, **changed_counts):
    """Records a version of `root` as it is, as freeze_version.py would; with other counts where they are given."""
    vocabulary = read_vocabulary(root / version)
    frozen_file = root / "frozen.json"
    frozen = json.loads(frozen_file.read_text()) if frozen_file.exists() else {}
    key = (version, vocabulary.digest)
    if key not in _TABLE_COUNTS:
        tables = {config.name: config_table(config, vocabulary) for config in version_configs(version, root)}
        _TABLE_COUNTS[key] = table_counts(tables)
    record = frozen_record(version, vocabulary, _TABLE_COUNTS[key] | changed_counts, "2026-01-02")
    frozen_file.write_text(json.dumps({**frozen, version: record}))


_TABLE_COUNTS = {}  # by version and digest: what takes long


def table_of(root, version, config):
    """The table of a config of a version in `root`."""
    (found,) = (entry for entry in version_configs(version, root) if entry.name == config)
    return config_table(found, read_version(version, root))
