"""No process of a server ever unpickles: neither the front nor, by their own hooks, the children."""

import subprocess
import sys

SCRIPT = """
from banyan.wire.audit import UnpickleError, install_audit_hook
install_audit_hook()
import banyan
with banyan.Engine("oracle", dp_size=2, recovery="stop") as engine:
    answers = engine.generate(["a", "b", "c"], {"max_new_tokens": 8, "n": 2, "ignore_eos": True}, return_logprob=True)
    assert [a["meta_info"]["completion_tokens"] for a in answers] == [8] * 6
    engine.encode("d")
    engine.flush_cache()
    assert engine.get_server_info()["replicas"]
import pickle
try:
    pickle.loads(pickle.dumps(print))
except UnpickleError:
    print("the hook is there")
"""


def test_a_whole_life_without_pickle() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the hook is there\n"
