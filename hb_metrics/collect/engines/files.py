import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from hb_metrics.collect.engines.engine import Ability, Engine, EnginePlan, Lack, LikelihoodRequests
from hb_metrics.collect.replies.decoding_settings import Extent
from hb_metrics.collect.replies.requests import ReplyAnswer, ReplyRequests, answer_of, reply_columns
from hb_metrics.collect.shards import copy_into_shards
from hb_metrics.models.sources import file_digest
from hb_metrics.models.thoughts import read_written
from hb_metrics.run.answer_files import (
    GivenReply,
    check_ids,
    check_turns,
    read_log_probabilities_file,
    read_replies_file,
    replies_by_prompt,
)
from hb_metrics.run.replies import reply_id
from hb_metrics.run.run_record import last_part
from hb_metrics.run.schema import PERPLEXITY_SCHEMA, REPLY_SCHEMA

ROWS_PER_SHARD = 16384


class FileEngine(Engine):
    """Answers requests from files. The user names the model, and the program cannot verify this name."""

    lacks: ClassVar[dict[Ability, Lack]] = {
        "replies": Lack("has no file of replies here", "set --replies_file"),
        "likelihoods": Lack("has no file of log-probabilities here", "set --logprobs_file"),
        "weights": Lack(
            "is not loaded here", "set --model to a loadable model, without --replies_file and --logprobs_file"
        ),
    }

    def __init__(self, name: str, replies: str | None, log_probabilities: str | None) -> None:
        self.name = name
        self._replies, self._log_probabilities = replies, log_probabilities
        self.words = "answers from " + " and ".join(filter(None, [replies, log_probabilities]))
        abilities: dict[Ability, str | None] = {"replies": replies, "likelihoods": log_probabilities}
        self.gives = frozenset(ability for ability, path in abilities.items() if path is not None)

    def identity(self) -> dict[str, object]:
        digests = [file_digest(Path(path)) for path in (self._replies, self._log_probabilities) if path is not None]
        digest = hashlib.sha256("".join(digests).encode()).hexdigest()
        return {**super().identity(), "digest": digest, "answered_in_files": True}

    def plan_replies(self, requests: ReplyRequests) -> EnginePlan:
        assert self._replies is not None
        path, file = self._replies, last_part(self._replies)
        given = read_replies_file(path)
        if requests.turn == 1:
            check_turns(path, given, requests.turns)
        given = [reply for reply in given if reply.turn == requests.turn]
        check_ids(path, given, requests.ids, requests.texts, what="reply")
        by_prompt, num_copies = replies_by_prompt(given)
        several = next((prompt for prompt, rows in by_prompt.items() if len({row.reply for row in rows}) > 1), None)
        if several is not None and requests.turn > 1:
            raise ValueError(
                f"'{path}' has different replies to {several} at turn {requests.turn}, but a prompt may have several "
                "replies only at turn 1; pass one reply per conversation at each later turn"
            )
        if several is not None and not requests.decoding.sample:
            raise ValueError(
                f"'{path}' has different replies to {several}; set --decoding sample, or pass one per prompt"
            )
        numbered = [
            (row, reply_id(prompt, number), reply)
            for row, prompt in enumerate(requests.ids)
            for number, reply in enumerate(by_prompt[prompt], start=1)
        ]
        rows, ids, replies = map(list, zip(*numbered, strict=True))
        answers = [_answer(reply, requests.extent) for reply in replies]
        numbers = [len(rows) for rows in by_prompt.values()]
        about = {
            **requests.description(),
            **asdict(requests.decoding),
            "thinks": any(answer.reasoning is not None for answer in answers),
            "replies_from": file,
            "replies_a_prompt": [min(numbers), max(numbers)],
            "num_copied_replies": num_copies,
            "num_cut_to_first_line": sum(
                requests.extent != "whole" and "\n" in read_written(reply.reply).reply for reply in replies
            ),
        }
        columns = {"id": ids, **reply_columns(requests, rows, answers)}
        return EnginePlan(pa.table(columns, schema=REPLY_SCHEMA), about)

    def reply(self, plan: EnginePlan, folder: Path) -> pa.Table:
        copy_into_shards(plan.work, folder, ROWS_PER_SHARD)
        return plan.work

    def plan_likelihoods(self, requests: LikelihoodRequests) -> EnginePlan:
        assert self._log_probabilities is not None
        path = self._log_probabilities
        given = read_log_probabilities_file(path)
        check_ids(path, given, requests.ids, requests.texts, what="log-probability")
        by_id = {row.id: row for row in given}
        log_likelihoods = np.array([by_id[identifier].log_probability for identifier in requests.ids])
        num_tokens = np.array([by_id[identifier].num_tokens for identifier in requests.ids])
        columns = {
            "id": requests.ids,
            **requests.about.to_pydict(),
            "text": requests.texts,
            "perplexity": np.exp(-log_likelihoods / num_tokens),
            "log_likelihood": log_likelihoods,
            "num_tokens": num_tokens,
        }
        about = {
            "path": "file",
            "reason": f"the log-probabilities come from {last_part(path)}, and are assumed to be natural logarithms",
            "predicted_tokens": sum(row.num_tokens for row in given),
        }
        return EnginePlan(pa.table(columns, schema=PERPLEXITY_SCHEMA), about)

    def score_into_shards(self, plan: EnginePlan, folder: Path) -> None:
        copy_into_shards(plan.work, folder, ROWS_PER_SHARD)


def _answer(given: GivenReply, extent: Extent) -> ReplyAnswer:
    written = read_written(given.reply)
    reasoning = "\n".join(filter(None, [given.reasoning, written.reasoning])) or None
    is_all = written.reply == given.reply
    return answer_of(
        written._replace(reasoning=reasoning),
        extent,
        num_tokens=given.num_tokens if is_all else None,
        truncated=given.truncated,
        num_reasoning_tokens=0 if reasoning is None else None,
    )
