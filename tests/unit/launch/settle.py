"""A settled config for tests of the launch package."""

from banyan.config.card import read_card
from banyan.config.host import Host
from banyan.config.load import from_options
from banyan.config.resolve import Settled, resolve

HOST = Host(platform="linux", cpu="test", num_cores=2, total_bytes=1 << 32, available_bytes=1 << 32)


def settle(**options: object) -> Settled:
    return resolve(from_options(options), HOST, read_card("oracle"))
