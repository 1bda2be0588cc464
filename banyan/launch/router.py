"""run_data_parallel_controller_process: the controller and its sockets."""

import time
from collections.abc import Callable, Iterable

from banyan.launch.child import Life, run_child
from banyan.obs.flight import FlightRecord
from banyan.route.balance import make_balance
from banyan.route.controller import DataParallelController
from banyan.wire.channel import PullChannel, PushChannel
from banyan.wire.codec import Codec, Frames
from banyan.wire.control import LoadReport, PeerLost, PeerRestarted, ToScheduler

ToController = ToScheduler | LoadReport | PeerRestarted | PeerLost


def run_data_parallel_controller_process(life: Life) -> None:
    """Pass messages from the fronts on to the replicas until the process ends."""
    args, config = life.args, life.args.settled.config
    num_replicas = config.parallel.dp_size
    controller = DataParallelController(num_replicas, make_balance(config.parallel.load_balance_method, num_replicas))
    flight = FlightRecord(args.ports.record("controller", args.index), num_slots=1)
    inbox: PullChannel[ToController] = PullChannel(args.ports.requests, Codec(ToController))
    codec: Codec[ToScheduler] = Codec(ToScheduler)
    replicas = [PushChannel(args.ports.replica(index), codec) for index in range(num_replicas)]
    life.ready()
    idle_s = min(1.0, config.observe.watchdog_timeout_s / 4)  # an idle process, too, gives signs of life
    while True:
        flight.beat(time.monotonic(), busy=True)
        life.watchdog.beat()
        route(controller, inbox.drain_raw(), lambda replica, frames: replicas[replica].send_raw(frames))
        inbox.wait(idle_s)


def route(
    controller: DataParallelController,
    taken: Iterable[tuple[ToController, Frames]],
    send: Callable[[int, Frames], object],
) -> None:
    """Do with each message what it is for; what is passed on is not encoded again."""
    for message, frames in taken:
        match message:
            case LoadReport():
                controller.report(message)
            case PeerRestarted() | PeerLost():
                controller.peer(message)
            case _:
                for replica in controller.dispatch(message):
                    send(replica, frames)


if __name__ == "__main__":
    run_child(run_data_parallel_controller_process)
