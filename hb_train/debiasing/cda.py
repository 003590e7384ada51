"""Counterfactual data augmentation (CDA) trains on the phrases and their counterfactuals (section 4.4)."""

from hb_train.debiasing.method import Method

METHOD = Method(trained_texts=lambda phrases: [*phrases.texts_t1, *phrases.texts_t2])
