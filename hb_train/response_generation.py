r"""Teaches a model to respond as people do, and scores its responses (Barikeri et al., 2021, section 3, "CRG").

    accelerate launch hb_train/response_generation.py --model_name_or_path microsoft/DialoGPT-small \
        --dialogues train.convos.txt --output_dir tasks/crg

The model reads the last turn of a dialogue and learns the response to it. All responses to a prompt are in the same
split. In the test split, they are the references with which the model's response is compared. The defaults are the
paper's settings (5.1), but with fewer pairs, so that training is possible on two CPU cores. crg.json contains BLEU-4,
METEOR, NIST-2, Entropy-4 and Dist-2.

The measures are those of DialoGPT (Zhang et al., 2020). The paper does not name a tokenizer. This toolkit uses
sacrebleu's tokenizer `13a` on lower-case text, so figures are comparable only between runs of this toolkit. METEOR
compares words and stems, but no synonyms. nltk uses the parameters of Banerjee and Lavie (2005), and not those of the
program METEOR 1.5.
"""

import math
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, replace
from functools import reduce
from itertools import chain, zip_longest
from operator import or_
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from datasets import Dataset
from nltk.translate.meteor_score import meteor_score
from nltk.util import ngrams
from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from trl import SFTConfig

from hb_dataset.dialogue_pairs import DialoguePairs, read_dialogue
from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.collect.engines.local import LocalEngine
from hb_metrics.collect.replies.requests import make_requests
from hb_metrics.collect.scoring.reply_scoring import encode_dialogue
from hb_metrics.measurements.settings import check_least, option
from hb_metrics.models.chats import DEFAULT_CHAT
from hb_metrics.models.contexts import encode_messages, reply_end
from hb_metrics.models.layout import Layout
from hb_metrics.models.loading import LoadedModel
from hb_metrics.run.run_folder import REPLIES
from hb_train.training.encoding import encode_pair
from hb_train.training.models import length_limit, load_whole_model, padding_tokenizer, trained_model
from hb_train.training.options import PAPER, parse_options, run_script
from hb_train.training.runs import divergence, finish, open_training_run, training_description
from hb_train.training.trainers import ReplySFTTrainer

CRG_FILE = "crg.json"
BATCH_SIZE, NUM_BATCHES = 16, 5  # per step, over all processes
# NIST halves the score if the responses are two thirds as long as the references.
_NIST_BETA = math.log(0.5) / math.log(1.5) ** 2
_TOKENIZER = Tokenizer13a()


@dataclass
class ResponseArguments:
    model_name_or_path: str = option(MISSING, "The causal model: a Hub id, a local folder or 'embedded'.")
    dialogues: str | None = option(
        None, "DSTC-7's convos.txt, or a table with the columns prompt and reply. Default: chitchat-dataset."
    )
    num_pairs: int = option(1000, "The total number of prompt–reply pairs for training and testing.")
    num_test: int = option(200, "The number of test prompts. All replies to a test prompt serve as references.")
    max_new_tokens: int = option(40, "The maximum number of tokens in a response.")

    def __post_init__(self) -> None:
        check_least(self, num_pairs=1, num_test=1, max_new_tokens=1)


def main(argv: list[str] | None = None) -> None:
    run_script("response_generation.py", lambda: respond(*parse(argv)))


def parse(argv: Sequence[str] | None) -> Any:
    return parse_options(
        (ResponseArguments, SFTConfig),
        argv,
        __doc__,
        **PAPER,
        max_length=128,
        per_device_train_batch_size=max(1, BATCH_SIZE // int(os.environ.get("WORLD_SIZE", "1"))),
        gradient_accumulation_steps=NUM_BATCHES,
        gradient_checkpointing=False,
        save_strategy="no",
        logging_steps=5,
    )


def respond(arguments: ResponseArguments, training_args: SFTConfig) -> None:
    source = None if arguments.dialogues is None else Path(arguments.dialogues)
    dialogue = read_dialogue(source, num_replies=arguments.num_pairs, seed=training_args.seed)
    pairs, tested = split_pairs(dialogue, arguments.num_test, training_args.seed)
    loaded = load_whole_model(arguments.model_name_or_path, trust_remote_code=training_args.trust_remote_code)
    engine = LocalEngine(loaded)
    layout = engine.layout(context="auto", tag="none", chat=DEFAULT_CHAT)
    decoding, _ = engine.decoding("greedy", "first_line", max_new_tokens=arguments.max_new_tokens)
    prompts = pa.table({"id": [row[0] for row in tested], "text": [row[1] for row in tested]})
    requests = make_requests(prompts, decoding=decoding, layout=layout, seed=training_args.seed, max_reasoning_tokens=0)
    plan = engine.plan_replies(requests)  # before the training, because a prompt may be too long for the model
    # As in training, the model does not think first.
    contexts = encode_messages(requests.messages, loaded, layout.context, chat=layout.chat, thought=False)
    plan = replace(plan, contexts=contexts, thoughts=None, ends=replace(plan.ends, thoughts=None))
    description = {
        **training_description(arguments, training_args, loaded),
        "dialogue": dialogue.description(),
        "decoding": asdict(decoding),
        "context": {"format": layout.context, "reason": layout.context_reason},
    }
    folder = open_training_run(training_args, description, CRG_FILE)
    if folder is None:
        return

    train, num_cut, num_too_long = encode_responses(pairs, loaded, layout, training_args.max_length)
    tokenizer = padding_tokenizer(loaded)
    trainer = ReplySFTTrainer(model=loaded.model, args=training_args, train_dataset=train, processing_class=tokenizer)
    trainer.train()
    trained_model(trainer).eval()
    with training_args.main_process_first(local=False):
        if training_args.process_index == 0:  # replies left by an interrupted run come from another model
            shutil.rmtree(folder / REPLIES, ignore_errors=True)
    try:
        replies = engine.reply(plan, folder / REPLIES)
    except ValueError as error:
        raise divergence(training_args, "score of a token") from error
    results = {
        **description,
        **response_metrics(replies["reply"].to_pylist(), [references for _, _, references in tested]),
        "num_truncated": sum(replies["truncated"].to_pylist()),
        "num_steps": trainer.state.global_step,
        "num_train_rows": len(train),
        "num_cut_contexts": num_cut,
        "num_too_long_responses": num_too_long,
        "num_skipped": dialogue.num_skipped,
    }
    lines = []
    for name in ("bleu_4", "meteor_exact_stem", "nist_2", "entropy_4", "dist_2"):
        lines.append(f"  {name:<18}{'undefined' if results[name] is None else format(results[name], '.3f')}")
    finish(trainer, folder / CRG_FILE, results, lines)


def split_pairs(
    dialogue: DialoguePairs, num_test: int, seed: int
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, list[str]]]]:
    """Splits prompt–reply pairs into training and test pairs. No prompt is in both splits.

    The seed and the words of the prompts determine the `num_test` prompts of the test split.
    """
    by_prompt: dict[str, list[tuple[str, str, str]]] = {}
    for row in zip(dialogue.ids, dialogue.prompts, dialogue.replies, strict=True):
        by_prompt.setdefault(row[1], []).append(row)
    if num_test >= len(by_prompt):
        raise ValueError(f"num_test is {num_test:,}; set a number below that of different prompts, {len(by_prompt):,}")
    order = sorted(by_prompt, key=lambda prompt: (seeded_generator(seed, "response test", prompt).random(), prompt))
    in_test = set(order[:num_test])
    train = [row for prompt, rows in by_prompt.items() if prompt not in in_test for row in rows]
    test = [(rows[0][0], prompt, [row[2] for row in rows]) for prompt, rows in by_prompt.items() if prompt in in_test]
    return train, test


def encode_responses(
    rows: Sequence[tuple[str, str, str]], loaded: LoadedModel, layout: Layout, max_length: int | None
) -> tuple[Dataset, int, int]:
    """Encodes contexts and responses, of which only the responses are learnt.

    If a context is too long, its beginning is cut. A row is dropped if its response has at least half of
    `max_length` tokens. Such a response would leave little room for the context, and would be truncated in generation.

    Returns:
        The rows, the number of cut contexts, and the number of dropped rows.
    """
    tokenizer, limit = loaded.tokenizer, length_limit(loaded, max_length)
    ids, prompts, texts = zip(*rows, strict=True)
    contexts, replies = encode_dialogue(prompts, texts, loaded, layout)
    ends = [] if (end := reply_end(tokenizer, layout.context)) is None else [end]
    encoded, num_cut = [], 0
    for name, given, reply in zip(ids, contexts, replies, strict=True):
        if max_length is not None and len(reply) >= max_length // 2:
            continue
        num_over = 0 if limit is None else len(given) + len(reply + ends) - limit
        if num_over > 0:
            num_cut += 1
            start = given[:1] if given[0] in tokenizer.all_special_ids else []
            given = [*start, *given[num_over + len(start) :]]
        encoded.append(encode_pair(name, given, reply + ends, limit))
    if not encoded:
        raise ValueError(f"no response is shorter than half of max_length {max_length}; raise --max_length")
    return Dataset.from_list(encoded), num_cut, len(rows) - len(encoded)


def response_metrics(responses: Sequence[str | None], references: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Computes all measures of responses. An undefined measure is `None`.

    All measures include empty responses. BLEU-4 and METEOR range from 0 to 100. NIST-2 is in bits and `entropy_4` in
    nats. `dist_2` is the number of distinct bigrams per 100 bigrams (Li et al., 2016). Each prompt needs a reference
    that contains a word.

    BLEU-4 and NIST-2 are computed over the whole set. If no n-gram of some length matches, BLEU-4 is smoothed as in
    mteval. METEOR is the mean over responses, and compares each response with its best reference.
    """
    texts = [response or "" for response in responses]
    tokens = [words(text) for text in texts]
    reference_tokens = [list(filter(None, map(words, replies))) for replies in references]
    bleu = BLEU(lowercase=True, tokenize="13a")
    # sacrebleu takes a list of all first references, then a list of all second references, and so on, with `None` for a
    # missing reference.
    streams: list[Any] = list(zip_longest(*references))
    no_synonyms: Any = SimpleNamespace(synsets=lambda word: [])
    meteor = [
        meteor_score(replies, response, wordnet=no_synonyms) if response else 0.0
        for replies, response in zip(reference_tokens, tokens, strict=True)
    ]
    bigrams = ngrams_of(tokens, 2)
    return {
        "bleu_4": bleu.corpus_score(texts, streams).score,
        "nist_2": nist(tokens, reference_tokens, 2),
        "meteor_exact_stem": 100 * math.fsum(meteor) / len(tokens),
        "entropy_4": ngram_entropy(tokens, 4),
        "dist_2": 100 * (len(bigrams) / bigrams.total()) if bigrams else None,
        "mean_length": sum(map(len, tokens)) / len(tokens),
        "num_responses": len(tokens),
        "num_empty": sum(not response for response in tokens),
        "num_references": sum(map(len, reference_tokens)),
        "bleu_signature": str(bleu.get_signature()),
    }


def words(text: str) -> list[str]:
    return _TOKENIZER(text.lower()).split()


def ngrams_of(tokens: Sequence[Sequence[str]], size: int) -> Counter[tuple[str, ...]]:
    return Counter(ngram for sentence in tokens for ngram in ngrams(sentence, size))


def ngram_entropy(tokens: Sequence[Sequence[str]], size: int) -> float | None:
    """Computes the entropy −Σ p ln p of the n-grams of all responses (Zhang et al., 2018, "Ent-n")."""
    counts = ngrams_of(tokens, size)
    shares = [count / counts.total() for count in counts.values()]
    return 0.0 - math.fsum(share * math.log(share) for share in shares) if shares else None


def nist(tokens: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]], size: int) -> float | None:
    """Computes NIST of all responses in bits, for n-grams up to the length `size` (Doddington, 2002; mteval-v13a).

    Each n-gram that a response shares with a reference is weighted by its information, log2(a / b). b is the number of
    times that the n-gram occurs in the references. a is the number of times that its first n − 1 words occur in the
    references or, if n = 1, the number of all words in the references. In a response, an n-gram counts at most as often
    as it occurs in any one reference.

    The length of a response is compared with the mean length of its references. (mteval requires the same number of
    references for all responses.) Returns `None` if all responses are shorter than `size` words.
    """
    every_reply = list(chain(*references))
    counts: Counter[tuple[str, ...]] = Counter({(): sum(map(len, every_reply))})
    score = 0.0
    for order in range(1, size + 1):
        counts += ngrams_of(every_reply, order)
        information, total = 0.0, 0
        for response, replies in zip(tokens, references, strict=True):
            own = ngrams_of([response], order)
            most = reduce(or_, (ngrams_of([reply], order) for reply in replies))
            total += own.total()
            for ngram, number in (own & most).items():
                information += number * math.log2(counts[ngram[:-1]] / counts[ngram])
        if not total:
            return None
        score += information / total
    reference_length = math.fsum(fmean(map(len, replies)) for replies in references)
    ratio = min(sum(map(len, tokens)) / reference_length, 1)
    return score * math.exp(_NIST_BETA * math.log(ratio) ** 2)


if __name__ == "__main__":
    main()
