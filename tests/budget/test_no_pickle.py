"""No module of banyan uses the pickle family: an AST scan with an empty allowlist, proven by a planted sample."""

import ast
import re
from pathlib import Path

import pytest

import banyan

PACKAGE = Path(banyan.__file__).parent

MODULES = {
    "_pickle",
    "cPickle",
    "cloudpickle",
    "copyreg",
    "dill",
    "joblib",
    "marshal",
    "multiprocessing",
    "pickle",
    "pickletools",
    "shelve",
}
# Functions and classes that pickle behind another name, whatever object they are taken from.
NAMES = re.compile(
    r"(send|recv)_(py|serialized_)?obj(ect)?s?"  # zmq
    r"|(all_gather|all_to_all|broadcast|gather|scatter|send|recv|reduce)_object(_list)?s?"  # torch.distributed
    r"|(read|to)_pickle|ProcessPoolExecutor|SocketHandler|DatagramHandler|Unpickler|Pickler"
)
TORCH_FILES = {"load", "save"}
IMPORTERS = {"__import__", "import_module", "find_spec"}


def findings(source: str) -> list[str]:
    """Name every use of the pickle family in a module."""
    found: list[str] = []
    tree = ast.parse(source)
    torch_names = {"torch"} | {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "torch"
    }
    for node in ast.walk(tree):
        found += _imports(node)
        if isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if NAMES.fullmatch(name):
                found.append(name)
        if isinstance(node, ast.Attribute) and node.attr in TORCH_FILES:
            owner = node.value
            if isinstance(owner, ast.Name) and owner.id in torch_names:
                found.append(f"torch.{node.attr}")
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            found.append("allow_pickle")
    return found


def _imports(node: ast.AST) -> list[str]:
    names: list[str] = []
    match node:
        case ast.Import(names=aliases):
            names = [alias.name for alias in aliases]
        case ast.ImportFrom(module=str(module), names=aliases):
            names = [module] + [f"{module}.{alias.name}" for alias in aliases]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(module)), *_]):
            names = [module] if name in IMPORTERS else []
    banned = {"torch.load", "torch.save"}
    found = [name for name in names if name.split(".")[0] in MODULES or name in banned]
    return found + [name for name in names if NAMES.fullmatch(name.rpartition(".")[2])]


def test_banyan_has_none() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 10
    found = {str(path.relative_to(PACKAGE)): findings(path.read_text()) for path in files}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "import pickle",
        "import pickle as p",
        "import os, marshal",
        "from pickle import loads",
        "from multiprocessing.shared_memory import SharedMemory",
        "import multiprocessing.connection",
        "def f():\n    import shelve",
        "import importlib\nimportlib.import_module('dill')",
        "__import__('cloudpickle')",
        "socket.send_pyobj(x)",
        "x = socket.recv_pyobj()",
        "dist.broadcast_object_list(x)",
        "dist.all_gather_object(a, b)",
        "from torch.distributed import gather_object",
        "import torch\ntorch.load('x')",
        "import torch as t\nt.save(x, 'x')",
        "from torch import load",
        "np.load('x', allow_pickle=True)",
        "np.load('x', allow_pickle=flag)",
        "from concurrent.futures import ProcessPoolExecutor",
        "concurrent.futures.ProcessPoolExecutor()",
        "logging.handlers.SocketHandler('x', 1)",
        "frame.to_pickle('x')",
    ],
)
def test_a_planted_use_is_found(planted: str) -> None:
    assert len(findings(planted)) >= 1


@pytest.mark.parametrize(
    "innocent",
    [
        "import json\njson.load(file)",
        "np.load('x', allow_pickle=False)",
        "kind = 'json_object'",
        "self.pickled = 1",
        "# import pickle\nname = 'pickle'",
        "config.load(path)",
        "import torch\ntorch.zeros(1)",
        "from banyan.launch.process import Process",
    ],
)
def test_innocent_code_is_not(innocent: str) -> None:
    assert findings(innocent) == []
