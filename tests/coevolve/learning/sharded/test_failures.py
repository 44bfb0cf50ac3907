"""Which error a call on all ranks raises, and when."""

from concurrent.futures import Future

import psutil

from coevolve.learning.sharded.rendezvous import LOOPBACK, interface_to
from coevolve.learning.sharded.rpc import Done
from coevolve.learning.sharded.trainer import _all_succeed, _failure
from protocols.errors import CheckpointError, LearnerError, RankError


def failed(error: Exception) -> Future[Done]:
    future: Future[Done] = Future()
    future.set_exception(error)
    return future


def done() -> Future[Done]:
    future: Future[Done] = Future()
    future.set_result(Done(cpu_s=1.0))
    return future


def test_a_rank_that_is_gone_ends_the_call_although_rank_0_waits_for_it():
    waiting: Future[Done] = Future()
    assert not _all_succeed(waiting, [done(), failed(RankError("rank 2 ended"))], 60.0)


def test_ranks_that_do_not_answer_after_rank_0_end_the_call():
    waiting: Future[Done] = Future()
    assert _all_succeed(done(), [done()], 60.0)
    assert not _all_succeed(done(), [done(), waiting], 0.01)


def test_the_error_of_one_rank_is_told_before_what_follows_from_it():
    broken = RuntimeError("Connection closed by peer")
    lost = [failed(RankError("rank 1: Connection closed by peer")), failed(RankError("2 ended"))]
    told = _failure(failed(broken), lost, "save")
    assert isinstance(told, RankError)
    assert str(told).endswith("over several devices: rank 1: Connection closed by peer; 2 ended")
    assert not told.is_permanent
    cause = CheckpointError("rank 2: the checkpoint is missing")
    assert _failure(failed(broken), [lost[0], failed(cause)], "load") is cause
    own = LearnerError("loss nan")
    assert _failure(failed(own), [failed(LearnerError("rank 1: loss nan"))], "take_step") is own
    full = OSError(28, "No space left on device")
    assert _failure(failed(full), lost, "save") is full


def test_the_interface_is_the_one_that_has_the_address():
    addresses = psutil.net_if_addrs()[interface_to(LOOPBACK, 9)]
    assert LOOPBACK in {each.address for each in addresses}
