"""Shared by all tests: caches of their own, no network, and small models made on the spot."""

import gc
import os
import signal
from functools import lru_cache
from pathlib import Path

import pytest
from filelock import FileLock

from tests.forked_programs import ForkedPrograms

ROOT = Path(__file__).parent.parent

# Before anything imports a Hugging Face library. The user's caches are neither read nor written; this one is kept
# between runs, since converting the embedded model takes a while.
os.environ["HF_HOME"] = str(ROOT / ".test_cache" / "huggingface")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# Each worker of xdist has a core. With more threads than cores they wait for each other, up to fifty times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # What a shell starts in the background ignores Ctrl-C, and so would the programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Imports make a million objects, next to none of them garbage; searching them takes a fifth of the time.
gc.disable()


def pytest_collection_finish():
    """Nor is garbage searched for in what the libraries hold from here to the end."""
    gc.freeze()
    gc.set_threshold(10_000)  # new objects; 700 by default, for every so many of which the young ones are searched
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def inputs_once():
    """Makes the tables of configs, and reads the chit-chat dataset, once, since hundreds of tests use them.

    No test of this process ends the machine, so files need not reach its disk.
    """
    from hb_dataset import dialogue_pairs, prompts

    table, kept = prompts.config_table, lru_cache(maxsize=16)(prompts.config_table)
    chitchat, pairs_of = lru_cache(dialogue_pairs._chitchat), dialogue_pairs._pairs_of
    pairs_of_chitchat = lru_cache(lambda: pairs_of(chitchat()))

    def read(config, vocabulary):  # tests' own vocabularies are small, and would push the large ones out
        return (kept if len(vocabulary.descriptors) > 100 else table)(config, vocabulary)

    def pairs_once(conversations):
        return pairs_of_chitchat() if conversations is chitchat() else pairs_of(conversations)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prompts, "config_table", read)
        patch.setattr(dialogue_pairs, "_pairs_of", pairs_once)
        patch.setattr(dialogue_pairs, "_chitchat", chitchat)
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Makes a folder by a function that is given it, in the first worker of pytest-xdist that needs it."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root

    def make(name, write):
        folder, done = root / name, root / f"{name}.made"
        with FileLock(root / f"{name}.lock"):
            if not done.exists():
                write(folder)
                done.touch()
        return folder

    return make


@pytest.fixture(scope="session")
def forked_programs(tmp_path_factory):
    """Starts programs in two processes, as `torchrun` does, without the seconds that imports take."""
    programs = ForkedPrograms(tmp_path_factory.mktemp("logs"))
    yield programs
    programs.close()
