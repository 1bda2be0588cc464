import pytest

from banyan.config.card import card_from_hf
from banyan.config.errors import ConfigError
from tests.unit.sources.files import llama_config


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ({"num_attention_heads": 0}, "num_attention_heads is 0; it must be from 1 to 65536"),
        ({"num_attention_heads": -4}, "num_attention_heads is -4"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers is 1000000000000; it must be from 1 to 4096"),
        ({"text_config": {"hidden_size": 2**70}}, "hidden_size is"),
        ({"vocab_size": -5}, "vocab_size is -5"),
        ({"max_position_embeddings": 0}, "max_position_embeddings is 0"),
        ({"num_key_value_heads": 3}, "4 heads cannot share 3 heads"),
        ({"rms_norm_eps": -1.0}, "norms add -1.0"),
        ({"head_dim": 7}, "7 of 7 numbers of a head cannot be turned in pairs"),
        ({"partial_rotary_factor": 9.0}, "72 of 8 numbers"),
        ({"rope_theta": 0}, "base of the rotary embedding is 0"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 0.0}}, "factor of the rotary embedding is 0"),
        ({"rope_scaling": {"type": "linear", "factor": -3}}, "longest sequence is -384"),
        (
            {"rope_scaling": {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}},
            r"has \[1\] factors for 4 pairs",
        ),
    ],
)
def test_numbers_that_cannot_be_true_are_refused(lie: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        card_from_hf(llama_config() | lie)


def test_a_model_that_can_be_is_not() -> None:
    assert card_from_hf(llama_config()).context_length == 128
