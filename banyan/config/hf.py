"""HfConfig: typed reading of a Hugging Face config.json, with old spellings and omitted defaults made equal."""

from collections.abc import Mapping, Sequence

from banyan.config.errors import ConfigError


class HfConfig:
    """A config.json. A missing or ill-typed entry is refused with its name."""

    def __init__(self, raw: Mapping[str, object], defaults: Mapping[str, object] | None = None) -> None:
        # A model that also sees or hears keeps its language part in a group of its own.
        text = raw.get("text_config")
        self._given: dict[str, object] = {**raw, **(text if isinstance(text, Mapping) else {})}
        self._entries = {key: value for key, value in {**(defaults or {}), **self._given}.items() if value is not None}

    def with_defaults(self, **defaults: object) -> "HfConfig":
        """Fill what was left out: transformers does not write what equals a model class's own default. Null stays."""
        return HfConfig(self._given, defaults)

    def whole(self, key: str, default: int | None = None) -> int:
        """Read a whole number."""
        value = self._read(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"config.json: {key} should be a whole number, not {value!r}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Read a number."""
        return _number(self._read(key, default), key)

    def flag(self, key: str, default: bool) -> bool:
        """Read true or false."""
        value = self._entries.get(key, default)
        if not isinstance(value, bool):
            raise ConfigError(f"config.json: {key} should be true or false, not {value!r}")
        return value

    def word(self, key: str, default: str | None = None) -> str:
        """Read a string."""
        value = self._read(key, default)
        if not isinstance(value, str):
            raise ConfigError(f"config.json: {key} should be a string, not {value!r}")
        return value

    def words(self, key: str) -> tuple[str, ...]:
        """Read a list of strings; nothing where there is none."""
        return tuple(str(value) for value in _items(self._entries.get(key, ()), key))

    def wholes(self, key: str) -> tuple[int, ...]:
        """Read a list of whole numbers, or one; nothing where there is none."""
        value = self._entries.get(key, ())
        if isinstance(value, int):
            return (value,)
        numbers = tuple(item for item in _items(value, key) if isinstance(item, int))
        if len(numbers) != len(_items(value, key)):
            raise ConfigError(f"config.json: {key} should hold whole numbers, not {value!r}")
        return numbers

    def num_labels(self) -> int:
        """Count the labels of a classifier; two where nothing is said, as in transformers."""
        labels = self._entries.get("id2label")
        return len(labels) if isinstance(labels, Mapping) else self.whole("num_labels", 2)

    def rope(self, layer_type: str) -> "RopeEntries":
        """Read the rotary embedding of a kind of layer, in whichever spelling it is written.

        New: `rope_parameters`, for all layers or by kind of layer. Old: `rope_scaling` and `rope_theta` for full
        attention, `rope_local_base_freq` for sliding attention, which is never stretched.
        """
        entries = _group(self._entries.get("rope_parameters", {}), "rope_parameters")
        if any(isinstance(value, Mapping) for value in entries.values()):
            entries = _group(entries.get(layer_type) or {}, f"rope_parameters.{layer_type}")
        full = layer_type == "full_attention"
        if full:
            entries = {**_group(self._entries.get("rope_scaling", {}), "rope_scaling"), **entries}
        outside = {
            "rope_theta": self._entries.get("rope_theta" if full else "rope_local_base_freq"),
            "partial_rotary_factor": self._entries.get("partial_rotary_factor"),
        }
        entries = {**outside, **{key: value for key, value in entries.items() if value is not None}}
        if "original_max_position_embeddings" in self._entries:  # Phi-3 writes it outside, and it counts more
            entries["original_max_position_embeddings"] = self._entries["original_max_position_embeddings"]
        return RopeEntries(entries)

    def _read(self, key: str, default: object) -> object:
        value = self._entries.get(key, default)
        if value is None:
            raise ConfigError(f"config.json has no {key}: it is incomplete, or not of a model that banyan can run")
        return value


class RopeEntries:
    """The entries of one rotary embedding."""

    def __init__(self, entries: Mapping[str, object]) -> None:
        self._entries = {key: value for key, value in entries.items() if value is not None}

    def kind(self) -> str:
        """Name the scaling, by its current name."""
        if "short_factor" in self._entries:
            return "longrope"  # also called su and yarn, but no other kind has these factors
        return str(self._entries.get("rope_type", self._entries.get("type", "default")))

    def has(self, key: str) -> bool:
        """Tell whether there is a value other than null."""
        return key in self._entries

    def number(self, key: str, default: float) -> float:
        """Read a number."""
        return _number(self._entries.get(key, default), f"rope {key}")

    def required(self, key: str) -> float:
        """Read a number that the kind of scaling cannot do without."""
        if key not in self._entries:
            raise ConfigError(f"config.json: rope scaling {self.kind()} has no {key}")
        return self.number(key, 0.0)

    def flag(self, key: str, default: bool) -> bool:
        """Read true or false."""
        return bool(self._entries.get(key, default))

    def numbers(self, key: str) -> tuple[float, ...]:
        """Read a list of numbers; nothing where there is none."""
        return tuple(_number(value, f"rope {key}") for value in _items(self._entries.get(key, ()), f"rope {key}"))


def _number(value: object, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"config.json: {key} should be a number, not {value!r}")
    return float(value)


def _items(value: object, key: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"config.json: {key} should be a list, not {value!r}")
    return value


def _group(value: object, key: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"config.json: {key} should be a group of entries, not {value!r}")
    return {str(name): entry for name, entry in value.items()}
