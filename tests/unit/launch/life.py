"""A child that lives as every child does, and does nothing; `served_model_name` says how it behaves."""

import pickle
import sys
import time

from banyan.launch.child import Life, run_child


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main(life: Life) -> None:
    name = life.args.settled.served_name
    if name == "broken" and life.args.kind == "detokenizer":
        raise ValueError("there is no such tokenizer")
    if name == "pickle":
        pickle.loads(pickle.dumps(Life))  # noqa: S301 - it must be refused
    say(f"{life.args.kind} {life.args.index} incarnation {life.args.incarnation}")
    try:
        life.ready(max_total_num_tokens=100 + life.args.index, max_req_input_len=50 + life.args.index)
        if name == "crash":
            raise RuntimeError("it was too much")
        while True:
            time.sleep(0.01)  # not signal.pause(): a signal just before it would go unnoticed
    finally:
        say("closed its files")


if __name__ == "__main__":
    run_child(main)
