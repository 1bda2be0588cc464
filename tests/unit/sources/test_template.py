from pathlib import Path

import msgspec
import pytest

from banyan.sources.errors import BadFileError
from banyan.sources.local import ORACLE, local_model
from banyan.sources.template import chat_template
from tests.unit.sources.files import make_folder, make_gguf

SOURCE = "{{ messages }}"


def test_a_gguf_keeps_it_in_its_metadata(tmp_path: Path) -> None:
    assert chat_template(local_model(make_gguf(tmp_path / "a.gguf"))) == ""
    assert chat_template(local_model(make_gguf(tmp_path / "b.gguf", {"tokenizer.chat_template": SOURCE}))) == SOURCE
    assert chat_template(ORACLE) == ""


@pytest.mark.parametrize(
    "said", [SOURCE, [{"name": "tool_use", "template": "x"}, {"name": "default", "template": SOURCE}]]
)
def test_a_folder_keeps_it_in_the_tokenizers_config(tmp_path: Path, said: object) -> None:
    folder = make_folder(tmp_path)
    assert chat_template(local_model(folder)) == ""
    (folder / "tokenizer_config.json").write_bytes(msgspec.json.encode({"chat_template": said, "other": [1]}))
    assert chat_template(local_model(folder)) == SOURCE
    (folder / "chat_template.jinja").write_text("of its own")
    assert chat_template(local_model(folder)) == "of its own"


@pytest.mark.parametrize("content", [b"{", b'{"chat_template": 5}', b'{"chat_template": "\xff"}', b'{"a":' * 100_000])
def test_what_cannot_be_read_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = make_folder(tmp_path)
    (folder / "tokenizer_config.json").write_bytes(content)
    with pytest.raises(BadFileError, match="cannot be read"):
        chat_template(local_model(folder))


def test_one_that_is_too_long_is_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    (folder / "chat_template.jinja").write_text("x" * 1_000_001)
    with pytest.raises(BadFileError, match="longer than 1000000"):
        chat_template(local_model(folder))
