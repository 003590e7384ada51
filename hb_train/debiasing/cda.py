"""Counterfactual data augmentation (CDA) trains on the phrases and their counterfactuals (section 4.4)."""

from hb_train.debiasing.method import Method

METHOD = Method(trained_sides=("text_t1", "text_t2"))
