"""banyan show: say what is known of a model without loading it."""

import functools
from collections.abc import Callable, Sequence

from banyan.commands.arguments import parse
from banyan.commands.layout import as_json, columns
from banyan.config.env import cache_dir
from banyan.sources.inventory import ModelDetails, show_model
from banyan.sources.template import chat_template

Fact = str | int | bool | dict[str, int]


def help_text() -> str:
    """Say how `banyan show` is used."""
    return (
        "usage: banyan show MODEL [--json]\n\nMODEL is a model on this machine: one that `banyan ls` lists, or a path."
    )


def prepare(argv: Sequence[str]) -> Callable[[], int]:
    """Read the arguments of `banyan show`."""
    given = parse("show", argv, takes=("a model",), switches=("--json",))
    return functools.partial(_run, given.words[0], "--json" in given.switches)


def facts(details: ModelDetails, *, has_template: bool) -> dict[str, Fact]:
    """Gather what there is to say, by names that programs may rely on."""
    model, card = details.model, details.card
    shape = card.architecture
    found: dict[str, Fact] = {
        "name": model.name,
        "kind": model.kind,
        "path": str(model.path),
        "licence": model.licence,
        "family": shape.family if shape is not None else "",
        "num_parameters": details.num_parameters,
        "tensor_formats": details.formats,
        "context_length": card.context_length,
        "vocab_size": card.vocab_size,
        "kv_bytes_per_token": card.kv_bytes_per_token,
        "makes": "text" if card.is_generation else "vectors",
        "has_chat_template": has_template,
    }
    if shape is not None:
        found |= {
            "num_layers": shape.num_layers,
            "hidden_size": shape.hidden_size,
            "num_heads": shape.num_heads,
            "num_kv_heads": shape.num_kv_heads,
        }
    return found


def _run(spec: str, is_json: bool) -> int:
    details = show_model(cache_dir(), spec)
    found = facts(details, has_template=bool(chat_template(details.model)))
    if is_json:
        print(as_json(found))
    else:
        told = [(name.removeprefix("num_").replace("_", " "), _in_words(fact)) for name, fact in found.items()]
        print(columns([row for row in told if row[1]]))
    return 0


def _in_words(fact: Fact) -> str:
    match fact:
        case bool():
            return "yes" if fact else "no"
        case int():
            return f"{fact:,}"
        case dict():
            return ", ".join(f"{count} {form}" for form, count in fact.items())
        case _:
            return fact
