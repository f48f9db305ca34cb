import gc

import pytest

from etalstm.host.garbage import seldom_collected


def test_garbage_is_looked_for_less_often_until_the_end_or_an_error():
    usual = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), seldom_collected():
        assert gc.get_threshold()[0] > 10 * usual[0]
        raise ZeroDivisionError
    assert gc.get_threshold() == usual
