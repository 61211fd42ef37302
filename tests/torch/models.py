"""Architectures of torchvision and transformers, in small configurations with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.transformers_library import define_operators_of_torchvision

define_operators_of_torchvision(torch)

SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "vocab_size": 96, "max_position_embeddings": 64,
}  # fmt: skip
DECODER = {**SMALL, "num_key_value_heads": 2, "use_cache": False, "pad_token_id": 0}
VISION = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip

Model = tuple[torch.nn.Module, dict[str, torch.Tensor]]


def text(name: str, **config: Any) -> Callable[[], Model]:
    """Return what makes a model of transformers that reads tokens."""

    def make() -> Model:
        import transformers

        made = getattr(transformers, f"{name}Config")(**config)
        model = getattr(transformers, f"{name}Model")(made)
        return model, {"input_ids": torch.randint(1, 96, (2, 12))}

    return make


def sequences(name: str, **config: Any) -> Callable[[], Model]:
    """Return what makes a model of transformers with an encoder and a decoder."""

    def make() -> Model:
        model, given = text(name, **config)()
        return model, {**given, "decoder_input_ids": torch.randint(1, 96, (2, 7))}

    return make


def pixels(name: str, **config: Any) -> Callable[[], Model]:
    """Return what makes a model of transformers that sees images."""

    def make() -> Model:
        import transformers

        model = getattr(transformers, f"{name}Model")(
            getattr(transformers, f"{name}Config")(**config)
        )
        return model, {"pixel_values": torch.randn(2, 3, 32, 32)}

    return make


def vision(name: str, size: int = 64, **options: Any) -> Callable[[], Model]:
    """Return what makes a model of torchvision."""

    def make() -> Model:
        import torchvision

        model = getattr(torchvision.models, name)(weights=None, num_classes=10, **options)
        return model, {"x": torch.randn(2, 3, size, size)}

    return make


MODELS: dict[str, Callable[[], Model]] = {
    "bert": text("Bert", **SMALL),
    "roberta": text("Roberta", **SMALL),
    "distilbert": text(
        "DistilBert", dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=96,
        max_position_embeddings=64,
    ),
    "albert": text("Albert", **SMALL, embedding_size=16),
    "electra": text("Electra", **SMALL, embedding_size=16),
    "mpnet": text("MPNet", **SMALL),
    "deberta": text("DebertaV2", **SMALL),
    "gpt2": text("GPT2", n_embd=32, n_layer=2, n_head=4, vocab_size=96, n_positions=64,
                 use_cache=False),
    "gpt_neox": text("GPTNeoX", **SMALL, use_cache=False),
    "opt": text("OPT", hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
                vocab_size=96, max_position_embeddings=64, use_cache=False,
                word_embed_proj_dim=32),
    "bloom": text("Bloom", hidden_size=32, n_layer=2, n_head=4, vocab_size=96, use_cache=False),
    "llama": text("Llama", **DECODER),
    "mistral": text("Mistral", **DECODER),
    "qwen2": text("Qwen2", **DECODER),
    "gemma": text("Gemma", **DECODER, head_dim=8),
    "phi": text("Phi", **DECODER),
    "falcon": text("Falcon", hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                   vocab_size=96, use_cache=False),
    "t5": sequences("T5", d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=96,
                    use_cache=False),
    "bart": sequences("Bart", d_model=32, encoder_layers=2, decoder_layers=2,
                      encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
                      decoder_ffn_dim=64, vocab_size=96, max_position_embeddings=64,
                      use_cache=False),
    "vit": pixels("ViT", **VISION),
    "deit": pixels("DeiT", **VISION),
    "dinov2": pixels("Dinov2", **VISION),
    "swin": pixels("Swin", image_size=32, patch_size=4, embed_dim=16, depths=[1, 1],
                   num_heads=[2, 4], window_size=4),
    "convnext": pixels("ConvNext", hidden_sizes=[16, 32], depths=[1, 1], num_stages=2),
    "segformer": pixels("Segformer", hidden_sizes=[16, 32], depths=[1, 1], num_encoder_blocks=2,
                        num_attention_heads=[1, 2], sr_ratios=[2, 1], patch_sizes=[7, 3],
                        strides=[4, 2], mlp_ratios=[2, 2]),
    "resnet18": vision("resnet18"),
    "vgg11": vision("vgg11", 32),
    "squeezenet": vision("squeezenet1_1"),
    "mobilenet_v2": vision("mobilenet_v2"),
    "mobilenet_v3": vision("mobilenet_v3_small"),
    "shufflenet": vision("shufflenet_v2_x0_5"),
    "mnasnet": vision("mnasnet0_5"),
    "efficientnet": vision("efficientnet_b0"),
    "regnet": vision("regnet_y_400mf"),
    "densenet": vision("densenet121"),
}  # fmt: skip


def first_output(found: Any) -> torch.Tensor:
    """Return the tensor that a model is trained by."""
    if isinstance(found, torch.Tensor):
        return found
    return (
        found["last_hidden_state"] if "last_hidden_state" in found else next(iter(found.values()))
    )
