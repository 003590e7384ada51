from collections.abc import Sequence

from hb_dataset.noun_phrases import prompt_masks
from hb_dataset.prompt_table import content_digest
from hb_dataset.vocabulary import Vocabulary
from hb_dataset.vocabulary_entries import AFTER_THE_NOUN, Descriptor, Template

SMALL_TERMS_PER_AXIS = 6


def small_templates(templates: Sequence[Template]) -> list[Template]:
    return [template for template in templates if template.small] or list(templates)


def small_descriptors(descriptors: Sequence[Descriptor]) -> list[Descriptor]:
    """Selects six terms per axis, spread over the axis's buckets.

    The buckets take turns, and contribute one term per turn. The bucket of terms after the noun comes first, and then
    the largest bucket. A hash determines the order of terms in a bucket, so adding a term changes few choices. Gendered
    terms are excluded, because they can be combined with only a third of the nouns.
    """
    chosen: set[tuple[str, str]] = set()
    for axis in {descriptor.axis for descriptor in descriptors}:
        buckets: dict[str | None, list[Descriptor]] = {}
        for descriptor in descriptors:
            if descriptor.axis == axis and descriptor.gender is None:
                buckets.setdefault(descriptor.bucket, []).append(descriptor)
        turns = [buckets[name] for name in sorted(buckets, key=lambda name: _turn(name, len(buckets[name])))]
        queues = [sorted(bucket, key=lambda descriptor: content_digest(axis, descriptor.term)) for bucket in turns]
        rounds = [queue[turn] for turn in range(SMALL_TERMS_PER_AXIS) for queue in queues if turn < len(queue)]
        chosen |= {(axis, descriptor.term) for descriptor in rounds[:SMALL_TERMS_PER_AXIS]}
    return [descriptor for descriptor in descriptors if (descriptor.axis, descriptor.term) in chosen]


def _turn(bucket: str | None, size: int) -> tuple[bool, int, str]:
    return bucket != AFTER_THE_NOUN, -size, bucket or ""


def descriptors_of_most_nouns(vocabulary: Vocabulary) -> list[Descriptor]:
    masks = prompt_masks(vocabulary.descriptors, vocabulary.nouns, vocabulary.templates, vocabulary.left_out_nouns)
    return [
        descriptor
        for descriptor, mask in zip(vocabulary.descriptors, masks, strict=True)
        if mask.any(axis=1).sum() >= len(vocabulary.nouns) / 2
    ]
