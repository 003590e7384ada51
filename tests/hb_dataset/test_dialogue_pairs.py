import json
import re
import sys
from collections import Counter
from pathlib import Path

import chitchat_dataset
import pytest

from hb_dataset import dialogue_pairs
from hb_dataset.dialogue_pairs import DialoguePairs, read_dialogue


def test_the_chitchat_dataset_is_read_and_drawn_from():
    conversations = json.loads(Path(chitchat_dataset.__file__).with_name("dataset.json").read_text(encoding="utf-8"))
    dialogue = read_dialogue()
    assert (len(dialogue.ids), dialogue.source) == (500, "chitchat-dataset 0.9.0")
    replied, drawn = [], []
    for identifier, prompt, reply in zip(*dialogue[:3], strict=True):
        name, _, place = identifier.rpartition(":")
        before, after = conversations[name]["messages"][int(place) - 1 :][:2]
        assert {message["sender"] for message in before}.isdisjoint(message["sender"] for message in after)
        for turn, text in ((before, prompt), (after, reply)):
            assert " ".join(text.split()) == text
            assert text.split() == " ".join(message["text"] for message in turn).split()
            assert " " in text
        replied.append(after[0]["sender"])
        drawn.append(name)
    assert max(Counter(drawn).values()) == max(Counter(replied).values()) == 1
    assert drawn == [name for name in conversations if name in set(drawn)]
    # The rest of the conversation is drawn from as well, not its beginning alone.
    assert len({identifier.rpartition(":")[2] for identifier in dialogue.ids}) > 30

    senders = [
        {m["sender"] for turn in conversation["messages"] for m in turn} for conversation in conversations.values()
    ]
    assert dialogue.num_skipped["one_person"] == sum(len(people) == 1 for people in senders) == 3150
    assert dialogue.num_skipped == {"one_person": 3150, "one_word": 194}

    assert dialogue.description() == {"source": "chitchat-dataset 0.9.0", "digest": dialogue.digest, "num_replies": 500}


def test_without_the_chitchat_dataset_the_message_says_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "chitchat_dataset", None)
    with pytest.raises(ModuleNotFoundError, match="is not installed; run `pip install chitchat-dataset`"):
        dialogue_pairs._chitchat.__wrapped__()  # not the one that the tests keep


def turns(*texts):
    """Turns written as "person: message | message"."""
    split = [text.partition(": ") for text in texts]
    return {"messages": [[{"sender": who, "text": m} for m in text.split("|")] for who, _, text in split]}


def test_what_is_a_pair(monkeypatch):
    made = {
        "empty": {"messages": []},
        "alone": turns("a: Is anybody there?", "a: I am still waiting."),
        "short": turns("a: Hello", "b: Hello to you", "a: Yes", "b: | "),
        "twice": turns("a: How are you?", "c: Not so bad.", "c: And how are you? | I am  well. "),
        "gap": {"messages": [*turns("a: Are you there?")["messages"], [], *turns("d: I\nam here.|")["messages"]]},
    }
    monkeypatch.setattr(dialogue_pairs, "_chitchat", lambda: made)
    dialogue = read_dialogue(num_replies=2)
    assert dialogue.ids == ["twice:1", "gap:1"]
    assert dialogue.prompts == ["How are you?", "Are you there?"]
    assert dialogue.replies == ["Not so bad.", "I am here."]
    assert dialogue.num_skipped == {"one_person": 2, "one_word": 1}
    made["by d again"] = turns("e: What is your name?", "d: It is a secret.")
    seen = {tuple(read_dialogue(num_replies=2, seed=seed).ids) for seed in range(30)}
    assert seen == {("twice:1", "gap:1"), ("twice:1", "by d again:1")}
    with pytest.raises(ValueError, match="the number of replies is 3; set a number from 1 to 2, the pairs of"):
        read_dialogue(num_replies=3)


ROWS = [
    ("How are you?", "Fine, and you?"),
    ("你好吗？", "好。"),  # words are not told apart by spaces here
    ("Nobody answers.", ""),
    ("  ", "To nothing."),
    ("Two lines?\nYes.", " One\r\nreply,\tthen.  "),
    ("How are you?", "Fine, and you?"),
    ("And then", None),
]


def test_a_file_of_pairs(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": a, "reply": b, "other": [1]}) for a, b in ROWS), encoding="utf-8")
    dialogue = read_dialogue(path, num_replies=4)
    assert dialogue == DialoguePairs(
        ids=["0", "1", "4", "5"],
        prompts=["How are you?", "你好吗？", "Two lines? Yes.", "How are you?"],
        replies=["Fine, and you?", "好。", "One reply, then.", "Fine, and you?"],
        source="pairs.jsonl",
        num_skipped={"blank": 3},
    )
    draws = [read_dialogue(path, num_replies=2, seed=seed) for seed in range(40)]
    assert {tuple(draw.ids) for draw in draws} == {(a, b) for a in "0145" for b in "0145" if a < b}
    assert read_dialogue(path, num_replies=1, seed=3).ids[0] in draws[3].ids
    assert draws[3] == read_dialogue(path, num_replies=2, seed=3)
    message = "the number of replies is 5; set a number from 1 to 4, the pairs of pairs.jsonl"
    with pytest.raises(ValueError, match=re.escape(message) + "$"):
        read_dialogue(path, num_replies=5)
    with pytest.raises(ValueError, match="the number of replies is 0; set a number from 1 to 4"):
        read_dialogue(path, num_replies=0)


def test_the_papers_own_file_is_read(tmp_path):
    """DSTC-7's convos.txt: hash, subreddit, conversation, score, turn, context, response."""
    path = tmp_path / "train.convos.txt"
    lines = [
        "a1\ttodayilearned\tf2ruz\t145\t1\tSTART\ttil that it fell from 30,000 feet .",
        "a2\ttodayilearned\tf2ruz\t14\t2\tSTART EOS til that it fell .\tthe page says only 800 .",
        "a3\ttodayilearned\tf2ruz\t5\t3\tSTART EOS til that it fell . EOS the page says so .\tand who wrote it ?",
        "a4\ttodayilearned\tf2ruz\t5\t9\tlong ago . EOS cut at its beginning .\tyes .",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    dialogue = read_dialogue(path, num_replies=3)
    assert dialogue.prompts == ["til that it fell .", "the page says so .", "cut at its beginning ."]
    assert dialogue.replies == ["the page says only 800 .", "and who wrote it ?", "yes ."]
    assert dialogue.num_skipped == {"blank": 1}  # the first comment answers nobody
    path.write_text("Hello.\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 1 of .* has 1 columns"):
        read_dialogue(path, num_replies=1)
