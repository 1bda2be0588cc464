from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from banyan.sources.ggml import GGML_TYPES


def test_sizes_are_those_of_the_format() -> None:
    for number, kind in GGML_TYPES.items():
        official = GGMLQuantizationType(number)
        assert kind == (official.name, *GGML_QUANT_SIZES[official])
