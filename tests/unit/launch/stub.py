"""A child that does what its config says, word by word; for tests of those who watch children."""

import os
import signal
import sys
import time

import msgspec


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main() -> None:
    config_fd, ready_fd = int(sys.argv[1]), int(sys.argv[2])
    with os.fdopen(config_fd, "rb") as file:
        words = file.read().decode().split()
    signal.signal(signal.SIGUSR2, lambda *_: say("stacks"))
    ready = os.fdopen(ready_fd, "wb")
    for word in words:
        name, _, argument = word.partition(":")
        if name == "log":
            say(argument.replace("_", " "))
        elif name == "ready":
            ready.write(msgspec.json.encode({"type": "Ready", "schema": argument, "pid": os.getpid()}))
            ready.close()
        elif name == "fail":
            ready.write(msgspec.json.encode({"type": "Failed", "reason": argument.replace("_", " ")}))
            ready.close()
        elif name == "garbage":
            ready.write(b"{}")
            ready.close()
        elif name == "exit":
            sys.exit(int(argument))
        elif name == "kill":
            os.kill(os.getpid(), int(argument))
        elif name == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        elif name == "sleep":
            time.sleep(float(argument or 60))


main()
