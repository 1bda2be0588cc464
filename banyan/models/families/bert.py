"""BERT: an encoder, for embeddings and classification."""

from banyan.config.architecture import Architecture
from banyan.models.names import Family, Names, merged, module, tensor
from banyan.models.spec import encoder_spec


def names(shape: Architecture) -> Names:
    """Name the tensors."""
    del shape
    path, hf, gguf = "layers.{i}", "encoder.layer.{i}", "blk.{i}"
    return {
        **tensor("embed.weight", "embeddings.word_embeddings.weight", "token_embd.weight"),
        **tensor("positions.weight", "embeddings.position_embeddings.weight", "position_embd.weight"),
        **tensor("types.weight", "embeddings.token_type_embeddings.weight", "token_types.weight"),
        **module("embed_norm", "embeddings.LayerNorm", "token_embd_norm"),
        **merged(
            f"{path}.attn.qkv",
            tuple(f"{hf}.attention.self.{part}" for part in ("query", "key", "value")),
            tuple(f"{gguf}.attn_{part}" for part in "qkv"),
        ),
        **module(f"{path}.attn.o", f"{hf}.attention.output.dense", f"{gguf}.attn_output"),
        **module(f"{path}.attn_norm", f"{hf}.attention.output.LayerNorm", f"{gguf}.attn_output_norm"),
        **module(f"{path}.mlp.up", f"{hf}.intermediate.dense", f"{gguf}.ffn_up"),
        **module(f"{path}.mlp.down", f"{hf}.output.dense", f"{gguf}.ffn_down"),
        **module(f"{path}.mlp_norm", f"{hf}.output.LayerNorm", f"{gguf}.layer_output_norm"),
        **module("head.dense", "pooler.dense"),
        **module("head.score", "classifier"),
    }


def ignored(shape: Architecture) -> tuple[str, ...]:
    """Pass over what pre-training alone needs, and the pooler where nothing is scored."""
    pooler = () if shape.head == "score" else ("*pooler.dense.*",)
    return ("*embeddings.position_ids", "cls.predictions.*", "cls.seq_relationship.*", *pooler)


FAMILY = Family(encoder_spec, names, prefixes=("bert.",), ignored=ignored)
