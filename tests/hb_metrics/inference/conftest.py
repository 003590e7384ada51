"""Small classifiers with random weights."""

import pytest
import torch
import transformers


@pytest.fixture(scope="session")
def texts(prompts):
    """Texts of many lengths, in no order."""
    return [" ".join(prompts[row : row + 1 + row % 3]) for row in range(0, 300, 10)]


@pytest.fixture(scope="session")
def save_classifier(tmp_path_factory, get_small_model):
    """Saves a small classifier with random weights and these labels as a folder, and returns its path."""

    def save(*labels, kind="bert", pad_token=None, **settings):
        tokenizer = get_small_model(kind)[1]
        folder = tmp_path_factory.mktemp(kind)
        tokenizer.save_pretrained(folder)
        if pad_token is not None:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, pad_token=pad_token)
            tokenizer.save_pretrained(folder)
        indices = {label: index for index, label in enumerate(labels)}
        small = {"vocab_size": 400, "id2label": dict(enumerate(labels)), "label2id": indices}
        encoder = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
        if kind == "gpt2":
            config = transformers.GPT2Config(**small, n_embd=32, n_layer=2, n_head=4, n_positions=64, **settings)
            model = transformers.GPT2ForSequenceClassification(config)
        elif kind == "roberta":
            settings = {"max_position_embeddings": 66, "pad_token_id": 2, **settings}
            config = transformers.RobertaConfig(**small, **encoder, **settings)
            model = transformers.RobertaForSequenceClassification(config)
        else:
            config = transformers.BertConfig(**small, **encoder, **{"max_position_embeddings": 64, **settings})
            model = transformers.BertForSequenceClassification(config)
        torch.manual_seed(0)
        with torch.no_grad():  # far from uniform, so that a wrong mask or position shows
            for weights in model.parameters():
                if weights.ndim > 1:
                    weights.normal_(std=0.3)
        model.save_pretrained(folder)
        return str(folder)

    return save


@pytest.fixture(scope="session")
def by_label():
    """[texts] {label: probability} by the pipeline of transformers, one text at a time."""

    def probabilities(folder, texts, **options):
        classify = transformers.pipeline("text-classification", model=folder, top_k=None, device="cpu")
        return [{entry["label"]: entry["score"] for entry in entries} for entries in classify(texts, **options)]

    return probabilities
