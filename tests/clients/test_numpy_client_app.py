import logging
from collections.abc import Iterator

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

from clients.numpy_client_app import named_arrays, named_reply, numpy_client_app
from clients.packing import plain_arrays
from fedsuite.messages.instructions import Instruction, Whole
from simulations.engines.inprocess import server_identity
from strategies.runtime.packing import arrays_of, is_packed, packed_record, plain_record


class Probe(NumPyClient):
    """Says what it got; behaves as its fields tell."""

    def __init__(self, reply=None, error: Exception | None = None, loss: float = 0.5) -> None:
        self.reply, self.error, self.loss = reply, error, loss
        self.seen: dict = {}

    def get_properties(self, config):
        self.seen = dict(config)
        return {"partition": 3, "name": "p", "num-examples": 2}

    def fit(self, parameters, config):
        self.seen = {"arrays": named_arrays(parameters, config), **config}
        if self.error is not None:
            raise self.error
        return self.reply if self.reply is not None else (parameters, 5, {"steps": np.int64(2)})

    def evaluate(self, parameters, config):
        return self.loss, 7, {"sr": 0.25}


@pytest.fixture(autouse=True)
def identity() -> Iterator[None]:
    with server_identity():
        yield


def ask(
    client: Probe, kind: str, arrays: dict[str, np.ndarray] | None = None, node=None, **config
) -> Message:
    """The answer; node: the node-config, that of a simulated node if it says its partition."""
    content = RecordDict({"config": ConfigRecord(config)})
    if arrays is not None:
        content["arrays"] = ArrayRecord({k: Array(v) for k, v in arrays.items()})
    message = Message(content, 77, kind)
    context = Context(1, 77, node or {}, RecordDict(), {})
    return numpy_client_app(lambda _: client)(message, context)


SENT = {"lang.w": np.ones((2, 3), np.float32), "n": np.array(4), "b": np.array([True, False])}


def test_names_types_and_shapes_are_kept_both_ways() -> None:
    client = Probe()
    reply = ask(client, "train", SENT, round=3, rate=0.5)
    assert client.seen["round"] == 3 and client.seen["rate"] == 0.5
    assert client.seen["array-names"] == "lang.w\nn\nb"
    for got in (client.seen["arrays"], {k: v.numpy() for k, v in reply.content["arrays"].items()}):
        assert list(got) == list(SENT)
        for name, value in SENT.items():
            np.testing.assert_array_equal(got[name], value)
            assert (got[name].dtype, got[name].shape) == (value.dtype, value.shape)
    assert dict(reply.content["metrics"]) == {"num-examples": 5, "steps": 2}
    assert reply.content["timing"]["seconds"] >= 0


def test_a_client_may_send_other_arrays_than_it_got() -> None:
    other = {"delta": np.zeros(3, np.float32)}
    reply = ask(Probe(reply=named_reply(other, 1, {"loss": 0.1})), "train", SENT)
    assert list(reply.content["arrays"]) == ["delta"]
    assert dict(reply.content["metrics"]) == {"num-examples": 1, "loss": 0.1}
    nothing = ask(Probe(reply=named_reply({}, 1, {})), "train", SENT)
    assert list(nothing.content["arrays"]) == []


def test_evaluate_and_query() -> None:
    reply = ask(Probe(), "evaluate", SENT)
    assert dict(reply.content["metrics"]) == {"num-examples": 7, "loss": 0.5, "sr": 0.25}
    assert "arrays" not in reply.content
    client = Probe()
    reply = ask(client, "query", **{"resume-round": 4})
    assert client.seen == {"resume-round": 4}
    assert dict(reply.content["properties"]) == {"partition": 3, "name": "p", "num-examples": 2}


@pytest.mark.parametrize(
    ("client", "line"),
    [
        (Probe(error=ValueError("boom\nsecond")), "ValueError: boom second"),
        (Probe(reply=([np.ones(1)], 1, {})), "ValueError: zip() argument 2 is"),
        (
            Probe(reply=named_reply(SENT, 1, {"note": "x"})),
            "TypeError: metric 'note' must be a number",
        ),
        (
            Probe(reply=named_reply(SENT, 1, {"on": True})),
            "TypeError: metric 'on' must be a number",
        ),
        (Probe(reply=named_reply(SENT, 1, {"v": np.ones(2)})), "TypeError: metric 'v' must be"),
    ],
)
def test_what_goes_wrong_is_one_line_and_a_simulation_tells_where(
    client: Probe, line: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real node's traceback holds paths and code lines of its own, so it stays in the node's log."""
    caplog.set_level(logging.ERROR, "flwr")
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)  # Flower's hands nothing on
    real = ask(client, "train", SENT)
    assert real.has_error() and not real.has_content()
    assert str(real.error.reason).startswith(line) and "\n" not in str(real.error.reason)
    assert "Traceback" in caplog.text and "numpy_client_app.py" in caplog.text
    simulated = str(ask(client, "train", SENT, node={"partition-id": 3}).error.reason)
    assert "Traceback" in simulated
    assert simulated.splitlines()[-1] == real.error.reason


def test_a_client_that_says_what_it_answers_is_asked_first() -> None:
    class Careful(Probe):
        def instruction(self, kind: str, config: dict) -> Instruction:
            assert kind in ("train", "query")
            return Instruction({"round": Whole(0, 3)} if kind == "train" else {})

    client = Careful()
    lie = ask(client, "train", SENT, round=4)
    assert str(lie.error.reason).startswith(
        "InputError: train message: the server's message has round = 4"
    )
    assert client.seen == {}  # nothing was computed
    assert not ask(client, "train", SENT, round=3).has_error()
    assert ask(client, "query", **{"resume-round": 0}).has_error()


def test_arrays_leave_in_the_form_in_which_they_came() -> None:
    asked = Message(
        RecordDict({"config": ConfigRecord(), "arrays": packed_record(SENT)}), 77, "train"
    )
    client = Probe()
    reply = numpy_client_app(lambda _: client)(asked, Context(1, 77, {}, RecordDict(), {}))
    assert client.seen["array-names"] == "lang.w\nn\nb"
    assert list(reply.content["arrays"]) == ["packed"]
    for got in (client.seen["arrays"], arrays_of(reply.content["arrays"])):
        assert [(k, v.dtype, v.shape) for k, v in got.items()] == [
            (k, v.dtype, v.shape) for k, v in SENT.items()
        ]


def flowers_own(message: Message, context: Context) -> Message:
    """A client of somebody else's, written for Flower's arrays: all of them plus one."""
    arrays = {k: v.numpy() + 1 for k, v in message.content["arrays"].items()}
    return Message(RecordDict({"arrays": plain_record(arrays)}), reply_to=message)


def test_a_client_of_somebody_elses_needs_the_mod() -> None:
    """Without it, Flower says in one line that it does not know the format."""
    context = Context(1, 77, {}, RecordDict(), {})
    sent = {"w": np.zeros(2, np.float32), "n": np.array(4)}

    def ask_own(*mods: Mod) -> Message:
        app = ClientApp(mods=[*mods])
        app.train()(flowers_own)
        return app(Message(RecordDict({"arrays": packed_record(sent)}), 77, "train"), context)

    with pytest.raises(TypeError, match=r"Unsupported serialization type .*: 'safetensors'"):
        ask_own()
    answer = ask_own(plain_arrays).content["arrays"]
    assert is_packed(answer)
    assert {k: v.tolist() for k, v in arrays_of(answer).items()} == {"w": [1.0, 1.0], "n": 5}
