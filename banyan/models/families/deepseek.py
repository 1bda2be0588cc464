"""DeepSeek V2 and V3: latent attention, and experts of which some are shared."""

from torch import Tensor

from banyan.config.architecture import Architecture
from banyan.models.names import Entry, Family, Names, Source, experts, layer_norms, mlp, module, outer, tensor
from banyan.models.spec import decoder_spec


def names(shape: Architecture) -> Names:
    """Name the tensors. The first layers have one block, the others experts."""
    shared, gguf = ("layers.{i}.mlp.shared", "layers.{i}.mlp.shared_experts"), "blk.{i}.exp_probs_b.bias"
    return {
        **outer(),
        **layer_norms(),
        **_attention(shape),
        **mlp(),
        **experts(),
        **mlp(*shared, suffix="_shexp"),
        **tensor("layers.{i}.mlp.router.score_bias", "layers.{i}.mlp.gate.e_score_correction_bias", gguf),
    }


def _attention(shape: Architecture) -> Names:
    if shape.mla is None:
        raise ValueError(f"{shape.family} without latent attention")
    compressed = shape.mla.q_rank > 0
    path, hf, gguf = "layers.{i}.attn", "layers.{i}.self_attn", "blk.{i}"

    def by_head(stored: Tensor) -> Tensor:
        return stored.reshape(shape.num_heads, -1, stored.shape[-1])

    return {
        **module(f"{path}.q_a", f"{hf}.q_a_proj", f"{gguf}.attn_q_a"),
        **tensor(f"{path}.q_norm.weight", f"{hf}.q_a_layernorm.weight", f"{gguf}.attn_q_a_norm.weight"),
        **module(
            f"{path}.q", f"{hf}.{'q_b_proj' if compressed else 'q_proj'}", f"{gguf}.attn_q{'_b' if compressed else ''}"
        ),
        **module(f"{path}.kv_a", f"{hf}.kv_a_proj_with_mqa", f"{gguf}.attn_kv_a_mqa"),
        **tensor(f"{path}.kv_norm.weight", f"{hf}.kv_a_layernorm.weight", f"{gguf}.attn_kv_a_norm.weight"),
        # GGUF keeps the two projections of the latent apart, and that of keys the other way round.
        f"{path}.kv_b": Source(
            (Entry(f"{hf}.kv_b_proj.weight", by_head),),
            (Entry(f"{gguf}.attn_k_b.weight", _turned), Entry(f"{gguf}.attn_v_b.weight")),
        ),
        **module(f"{path}.o", f"{hf}.o_proj", f"{gguf}.attn_output"),
    }


def _turned(stored: Tensor) -> Tensor:
    return stored.transpose(1, 2)


def ignored(shape: Architecture) -> tuple[str, ...]:
    """Pass over the layers behind the last one, which predict further tokens, and what some GGUF files have twice."""
    return (*(f"{path}.{shape.num_layers}.*" for path in ("model.layers", "layers", "blk")), "blk.*.attn_kv_b.weight")


FAMILY = Family(decoder_spec, names, ignored=ignored)
