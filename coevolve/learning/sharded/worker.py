"""A rank that another process drives: ``python -m coevolve.learning.sharded.worker DESCRIPTOR``.

It executes orders from the connection, one after the other, and answers each. It ends when the
connection ends, and thus with the driving process. It also ends after a failed order, because the
ranks are then out of step.
"""

import sys
from contextlib import suppress
from multiprocessing.connection import Connection

from coevolve.learning.sharded.rendezvous import find_meeting, join, leave
from coevolve.learning.sharded.rpc import Done, Enlistment, Failed, Order
from coevolve.learning.trainer import Trainer


def main(arguments: list[str]) -> int:
    """Serve until the connection ends; return the exit status."""
    connection = Connection(int(arguments[0]))
    try:
        enlistment: Enlistment = connection.recv()
        connection.send(Done(cpu_s=0.0))
        trainer = _trainer(enlistment)
        while True:
            connection.send(Done(cpu_s=trainer.cpu_s()))
            order: Order = connection.recv()
            getattr(trainer, order.method)(*order.arguments)
    except (EOFError, ConnectionError):
        return 0
    except Exception as error:  # noqa: BLE001 -- the driving process must learn of any error
        with suppress(ConnectionError):
            connection.send(Failed(reason=f"{type(error).__name__}: {error}"))
        return 1
    finally:
        leave()


def _trainer(enlistment: Enlistment) -> Trainer:
    config = enlistment.config
    count = config.learner.devices
    ranks = join(
        find_meeting(enlistment.port, count),
        rank=enlistment.rank,
        count=count,
        device=config.policy.device,
        timeout_s=config.learner.device_timeout_s,
    )
    return Trainer(
        config,
        enlistment.base,
        weights=enlistment.weights,
        checkpoint=enlistment.checkpoint,
        ranks=ranks,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
