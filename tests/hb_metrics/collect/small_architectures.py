"""Every architecture family of transformers as a model of a few layers with random weights."""

from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from tests.hb_metrics.conftest import far_from_uniform

# What makes a config small, by the names that configs have for it. Windows are shorter than most sentences.
SMALL: dict[str, int] = {
    name: value
    for value, names in {
        400: "vocab_size vocab_size_per_layer_input",
        32: "hidden_size d_model n_embd dim emb_dim embedding_size lru_width moe_intermediate_size "
        "shared_expert_intermediate_size shared_intermediate_size",
        4: "num_hidden_layers n_layer n_layers num_layers num_blocks num_attention_heads n_head n_heads num_heads "
        "encoder_attention_heads decoder_attention_heads num_encoder_attention_heads num_decoder_attention_heads "
        "num_experts num_local_experts n_routed_experts moe_num_experts linear_num_value_heads time_step_rank "
        "mamba_dt_rank mamba_d_conv",
        2: "encoder_layers decoder_layers num_decoder_layers num_encoder_layers num_key_value_heads num_kv_heads "
        "num_experts_per_tok num_experts_per_token moe_topk moe_k moe_top_k top_k_experts linear_num_key_heads "
        "mamba_expand index_n_heads",
        8: "head_dim d_kv attention_head_dim kv_channels qk_rope_head_dim qk_nope_head_dim v_head_dim "
        "linear_key_head_dim linear_value_head_dim sliding_window attention_window_size attention_chunk_size "
        "window_size mamba_n_heads mamba_num_heads mamba_d_head mamba_head_dim mamba_headdim mamba_d_state state_size "
        "ssm_state_size index_head_dim",
        64: "mamba_chunk_size chunk_size intermediate_size ffn_dim d_ff encoder_ffn_dim decoder_ffn_dim n_inner "
        "ffn_hidden_size mamba_d_ssm",
        16: "q_lora_rank kv_lora_rank qk_head_dim",
        1024: "index_topk max_position_embeddings n_positions n_ctx max_seq_len",
        1: "n_group topk_group first_k_dense_replace n_shared_experts mamba_n_groups mamba_ngroups n_groups "
        "n_mamba_heads eos_token_id",
        0: "bos_token_id decoder_start_token_id",
    }.items()
    for name in names.split()
} | {"pad_token_id": 2}

# Latent attention has as many key heads as heads.
_LATENT = (
    "axk1 axk2 bailing_hybrid deepseek_v2 deepseek_v3 deepseek_v32 dots3_note_text esmc glm4_moe_lite glm_moe_dsa "
    "kimi_linear longcat_flash minicpm3 sarvam_mla youtu"
)
_WINDOWED = {"swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_head_dim": 8, "unpadded_vocab_size": 400}
_FOUR_LAYERS = ["linear_attention", "full_attention", "linear_attention", "full_attention"]
# What families need besides, or instead.
SETTINGS: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {
        "layer_group_size": 2, "linear_head_dim": 8, "linear_num_heads": 4, "num_expert_group": 1, "num_experts": 8,
    },
    "bamba": {"attn_layer_indices": [1, 3]},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
    "dots1": {
        "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 1,
        "n_group": 1, "topk_group": 1,
    },
    "dots3_note_text": {"num_hidden_layers": 2},
    "bert-generation": {"is_decoder": True},
    "big_bird": {"attention_type": "original_full"},
    "bigbird_pegasus": {"attention_type": "original_full"},
    "codegen": {"rotary_dim": 8},
    "dbrx": {
        "attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8.0},
        "ffn_config": {"hidden_size": 32, "ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dory": {"n_input_layers": 1, "n_output_layers": 1},
    "esm": {"vocab_size": 400, "mask_token_id": 3},
    "gemma3n_text": {
        "num_hidden_layers": 5, "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 8, "laurel_rank": 8,
        "intermediate_size": 64, "vocab_size_per_layer_input": 400,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "gptj": {"rotary_dim": 8},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 2},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "inkling2_loop_text": _WINDOWED,
    "inkling2_text": _WINDOWED,
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "kimi_linear": {"linear_head_dim": 8, "linear_num_heads": 4, "layer_types": _FOUR_LAYERS},
    "kosmos_2_text_model": {"embed_dim": 32, "layers": 2, "attention_heads": 4},
    "kosmos_2_5_text_model": {"embed_dim": 32, "layers": 2, "attention_heads": 4},
    "kosmos_2_5_vision_model": {"patch_embed_hidden_size": 32, "max_num_patches": 64},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "full_attention"]},
    "luke": {"entity_vocab_size": 10, "entity_emb_size": 8},
    "longcat_flash": {"zero_expert_num": 2, "expert_ffn_hidden_size": 32},
    "mamba2": {"num_heads": 8},
    "ministral": {"head_dim": 8},
    "mobilebert": {"hidden_size": 64},
    "neomme": {"head_dim": 32, "embedding_rank": 8},
    "nemotron": {"num_key_value_heads": 2, "head_dim": 8},
    "minimax": {"layer_types": _FOUR_LAYERS},
    "perceiver": {
        "d_latents": 32, "num_latents": 8, "num_self_attends_per_block": 2, "max_position_embeddings": 128,
    },
    "qwen4_exp_text": {
        "layer_types": ["linear_attention", "indexed_attention"] * 2, "indexer_n_heads": 2, "indexer_kv_heads": 1,
        "indexer_head_dim": 8, "indexer_budget": 16, "indexer_compress_ratio": 2, "hc_lowrank": 8, "ple_embed_dim": 16,
        "ngram_vocab_size_base": 100, "split_ngram_parts": 1,
    },
    "reformer": {"is_decoder": True, "axial_pos_embds": False, "attn_layers": ["local"] * 2, "feed_forward_size": 64},
    "roc_bert": {
        "pronunciation_embed_dim": 8, "shape_embed_dim": 8, "pronunciation_vocab_size": 10, "shape_vocab_size": 10,
    },
    "xlstm": {"embedding_dim": 128, "hidden_size": 128, "chunk_size": 64},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "zamba": {
        "use_mamba_kernels": False, "layers_block_type": ["linear_attention", "hybrid"] * 2,
        "attention_hidden_size": 64, "attention_head_dim": 16,
    },
    "zamba2": {"n_mamba_heads": 8, "layers_block_type": ["linear_attention", "hybrid"] * 2, "hybrid_layer_ids": [1, 3]},
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip


def longrope(length, **changes):
    """Settings with which the rotary embeddings of small models change beyond this length."""
    factors = {"short_factor": [1.0] * 4, "long_factor": [3.0] * 4, "original_max_position_embeddings": length}
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "factor": 4.0, **factors, **changes}
    return {"rope_parameters": rope, "original_max_position_embeddings": length}


def small_architecture(family: str, auto_class: Any, **changes: Any) -> Any:
    """A model of a family with random weights, far from uniform, so that a wrong mask or position shows."""
    config_class = CONFIG_MAPPING[family]
    settings = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2} | _small_settings(config_class())
    if auto_class is AutoModelForCausalLM and family in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        settings["is_decoder"] = True  # the family comes as both
    if auto_class is AutoModelForMaskedLM and "is_decoder" in settings:
        settings["is_decoder"] = False
    if family == "encoder-decoder":
        settings["decoder"] |= {"is_decoder": True, "add_cross_attention": True}
    if hasattr(config_class(), "decoder_start_token_id"):  # T5Gemma has none
        settings["decoder_start_token_id"] = 0
    config = config_class(**(settings | changes))
    with torch.device("meta"):
        number = sum(weights.numel() for weights in auto_class.from_config(config).parameters())
    assert number < 5e6, f"{number:,} parameters"
    torch.manual_seed(sum(map(ord, family)))
    return far_from_uniform(auto_class.from_config(config, dtype=torch.float32).eval())


def _small_settings(config: Any) -> dict[str, Any]:
    has = config.to_dict()
    small: dict[str, Any] = {
        name: value
        for name, value in SMALL.items()
        if isinstance(has.get(name), int) and not isinstance(has[name], bool)
    }
    parts = {name: getattr(config, name, None) for name in config.sub_configs}
    small |= {name: _small_settings(part) for name, part in parts.items() if hasattr(part, "to_dict")}
    latent = {"num_key_value_heads": 4} if config.model_type in _LATENT.split() else {}
    return small | latent | SETTINGS.get(config.model_type, {})
