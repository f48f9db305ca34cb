from etalstm.host.processors import worker_processes

state = ["as imported"]


def begin(text):
    state.append(text)


def state_there():
    return state


def test_processes_are_not_forked_and_begin_with_a_call():
    state[0] = "as it is in the parent"
    with worker_processes(1, begin, ("begun",)) as pool:
        assert pool.submit(state_there).result() == ["as imported", "begun"]
