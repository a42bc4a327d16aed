"""Requests to a server: answers are the golden model's, refusals say what is wrong, and lost boards lose nothing."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import time
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden
from hwflow.serve.errors import BadRequest
from hwflow.serve.protocol import Interface, request_of
from hwflow.serve.service import is_loopback, token_of
from tests.e2e.networks import rows_for, small_network
from tests.serve.serving import LIMITS, MODEL, Answer, Boards, Client, pool_of, serving

TOKEN = "0123456789abcdef-test"


def request_for(x: np.ndarray, **more: object) -> dict[str, object]:
    """A request with rows [n, 1, 2, 4, 4] of the small network's input."""
    entry = {"name": "x", "datatype": "FP32", "shape": [len(x), 2, 4, 4], "data": x.reshape(-1).tolist()}
    return {"inputs": [entry], **more}


def require_golden(quantized, x: np.ndarray, answer: Answer) -> None:
    """The answer has the golden model's rows for the rows of the request."""
    assert answer.status == 200, answer.body
    expected = golden.predict(quantized, {"x": x})
    assert [each["name"] for each in answer.json["outputs"]] == list(expected)
    for entry in answer.json["outputs"]:
        values = expected[entry["name"]]
        assert entry["shape"] == [len(x), *values.shape[2:]]
        made = np.array(entry["data"], values.dtype).reshape(values.shape)
        np.testing.assert_array_equal(made, values)


def test_what_the_server_says_of_itself(quantized, client):
    assert client("GET", "/v2/health/live").json == {"live": True}
    ready = client("GET", "/v2/health/ready")
    assert (ready.status, ready.json["ready"]) == (200, True)
    assert client("GET", "/v2").json["name"] == "hwflow"
    facts = client("GET", f"/v2/models/{MODEL}").json
    assert facts["name"] == client("GET", f"/v2/models/{MODEL}/ready").json["name"] == MODEL != quantized.graph.name
    assert facts["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2, 4, 4]}]
    assert client("GET", f"/v2/models/{MODEL}/versions/1").json == facts
    assert client("GET", f"/v2/models/{MODEL}/ready").json["ready"]


def test_answers_are_the_golden_models(quantized, client):
    x = rows_for(small_network(), 9)["x"]
    answer = client.infer(request_for(x, id="seven"))
    require_golden(quantized, x, answer)
    assert (answer.json["id"], answer.json["model_name"], answer.json["model_version"]) == ("seven", MODEL, "1")
    nested = request_for(x[:2])
    nested["inputs"][0]["data"] = x[:2, 0].tolist()
    require_golden(quantized, x[:2], client.infer(nested))
    large = np.concatenate([x] * 40)  # several batches
    require_golden(quantized, large, client.infer(request_for(large)))


def test_binary_tensors(quantized, client):
    x = rows_for(small_network(), 5)["x"]
    (name,) = (value.name for value in quantized.epilogue.graph.outputs)
    sent = {"name": "x", "datatype": "FP32", "shape": [5, 2, 4, 4], "parameters": {"binary_data_size": x.nbytes}}
    head = json.dumps({
        "inputs": [sent],
        "outputs": [{"name": name, "parameters": {"binary_data": True}}]}).encode()
    sizes = {"Inference-Header-Content-Length": str(len(head))}
    answer = client.infer(head + x.tobytes(), headers=sizes)
    assert answer.status == 200, answer.body
    length = int(answer.headers["Inference-Header-Content-Length"])
    (entry,) = json.loads(answer.body[:length])["outputs"]
    expected = golden.predict(quantized, {"x": x})[name]
    assert entry["parameters"]["binary_data_size"] == expected.nbytes == len(answer.body) - length
    np.testing.assert_array_equal(np.frombuffer(answer.body[length:], expected.dtype), expected.reshape(-1))
    assert "must have 640 bytes behind the JSON" in client.infer(head + x.tobytes()[:-1], headers=sizes).json["error"]
    assert "1 bytes behind the tensors" in client.infer(head + x.tobytes() + b"0", headers=sizes).json["error"]


def changed(**more: object) -> dict[str, object]:
    """A request with one row, whose input says something else."""
    made = request_for(np.zeros((1, 1, 2, 4, 4), np.float32))
    made["inputs"][0] |= more
    return made


@pytest.mark.parametrize("body, message", [
    (b"", "the body must be JSON, which it is not (Expecting value"),
    (b"\xff", "the body must be JSON in UTF-8"),
    (b"[" * 100_000, "brackets inside of each other"),
    (b"[]", "the body must be a JSON object, not a list"),
    (b'{"inputs": [NaN]}', "the body must be JSON, which has no NaN"),
    ({}, "'inputs' must be a list of tensors"),
    ({"inputs": [3]}, "each entry of 'inputs' must be an object with a 'name'"),
    (changed(name="y"), "the model has no input 'y', only 'x'"),
    (changed(datatype="INT8"), "input 'x' must have the datatype FP32, not \"INT8\""),
    (changed(shape=[1, 4, 4]), "input 'x' must have the shape [n, 2, 4, 4] with n of 1 or more, not [1, 4, 4]"),
    (changed(shape=[0, 2, 4, 4]), "with n of 1 or more, not [0, 2, 4, 4]"),
    (changed(shape=[2, 2, 4, 4]), "input 'x' must have 64 numbers in 'data', not 32"),
    (changed(data=[1.0] * 31 + ["1"]), "input 'x' must have numbers in 'data', and nothing else"),
    (changed(data=[1.0] * 31 + [[1.0]]), "input 'x' must have numbers in 'data', and nothing else"),
    (changed(data=[1.0] * 31 + [True]), "input 'x' must have numbers in 'data', and nothing else"),
    (changed(data=[0.0] * 31 + [1e39]), "must have numbers in 'data' that all fit FP32"),
    (changed(data=[0.0] * 31 + [10**400]), "must have numbers in 'data' that all fit FP32"),
    (changed(data=None), "input 'x' must have a list 'data', or the parameter binary_data_size"),
    ({**changed(), "outputs": [{"name": "no"}]}, "the model has no output 'no', only "),
    ({**changed(), "parameters": {"binary_data_output": 1}}, "the parameter binary_data_output must be true or false"),
])
def test_what_is_wrong_with_a_request_is_said(quantized, body, message):
    with pytest.raises(BadRequest) as error:
        request_of(body if isinstance(body, bytes) else json.dumps(body).encode(), None, Interface.of(quantized, MODEL))
    assert message in str(error.value)


def test_a_bad_request_is_an_answer(client):
    answer = client.infer(changed(name="y"))
    assert (answer.status, answer.json) == (400, {"error": "the model has no input 'y', only 'x'"})
    answer = client.infer(changed(shape=[1025, 2, 4, 4], data=[0] * 32 * 1025))
    assert (answer.status, answer.json["error"][:50]) == (400, "a request must have at most 1024 rows, not 1025; s")


def test_packed_bodies(quantized, client):
    """Whole ones are unpacked; what is none, is cut or is packed in a way that nobody knows is the client's mistake."""
    x = rows_for(small_network(), 3)["x"]
    plain = json.dumps(request_for(x)).encode()

    def sent(body: bytes, coding: str) -> Answer:
        return client("POST", f"/v2/models/{MODEL}/infer", data=body, headers={"Content-Encoding": coding},
                      compress=False)

    require_golden(quantized, x, sent(gzip.compress(plain), "gzip"))
    require_golden(quantized, x, sent(zlib.compress(plain), "Deflate"))
    require_golden(quantized, x, sent(plain, "identity"))
    for body, coding in ((plain, "gzip"), (plain, "deflate"), (gzip.compress(plain), "deflate")):
        answer = sent(body, coding)
        assert (answer.status, answer.json) == (400, {"error": (
            "the body must be what its headers Content-Encoding and Transfer-Encoding say, and it is not "
            f"(Content-Encoding: {coding}); send it as it is, without Content-Encoding")})
    assert sent(gzip.compress(plain)[:-20], "gzip").status == 400
    for coding in ("compress", "gzip, gzip"):
        answer = sent(plain, coding)
        assert (answer.status, answer.json) == (415, {"error": (
            "the Content-Encoding of the body must be one of identity, gzip, deflate, br, zstd, not "
            f"'{coding}'; send it as it is")})
    require_golden(quantized, x, client.infer(request_for(x)))


async def endless() -> AsyncIterator[bytes]:
    """A body whose length nobody says."""
    while True:
        yield b" " * 1500


def test_what_is_not_there_or_too_long(quantized, boards):
    boards.plug("a")
    with serving(quantized, pool_of(boards, ("a",), replace(LIMITS, max_body=2000))) as client:
        x = rows_for(small_network(), 9)["x"]
        assert client.infer(request_for(x)).status == 413
        stream = client("POST", f"/v2/models/{MODEL}/infer", data=endless())
        assert (stream.status, "at most" in stream.json["error"]) == (413, True)
        assert client("POST", "/v2/models/other/infer", json={}).status == 404
        assert client("GET", "/v2/models/small/versions/2").status == 404
        assert client("GET", "/elsewhere").json["error"].startswith("there is no /elsewhere; ")
        assert client("GET", f"/v2/models/{MODEL}/infer").status == 405
        assert client.infer({}, headers={"Origin": "https://elsewhere"}).status == 403
        require_golden(quantized, x[:1], client.infer(request_for(x[:1])))


def test_a_token(quantized, boards):
    boards.plug("a")
    x = rows_for(small_network(), 1)["x"]
    with serving(quantized, pool_of(boards, ("a",)), TOKEN) as client:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
            answer = client.infer(request_for(x), headers=headers)
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert client("GET", "/metrics", headers=headers).status == 401
        assert client("GET", "/v2/health/ready").status == 200
        require_golden(quantized, x, client.infer(request_for(x), headers={"Authorization": f"Bearer {TOKEN}"}))


def test_a_full_queue_and_a_board_that_takes_too_long(quantized, boards):
    """The board computes nothing: what is on it and what waits is answered with 504, more than may wait with 503."""
    boards.options = {"speed": 0.0}
    boards.plug("a")
    x = rows_for(small_network(), 10)["x"]

    async def ask() -> list[Answer]:
        path = f"/v2/models/{MODEL}/infer"
        return await asyncio.gather(*(client.ask("POST", path, json=request_for(x)) for _ in range(30)))

    with serving(quantized, pool_of(boards, ("a",), replace(LIMITS, timeout=1.0, queue=64))) as client:
        began = time.monotonic()
        answers = asyncio.run_coroutine_threadsafe(ask(), client.loop).result(20)
        assert time.monotonic() - began < 5
        assert {answer.status for answer in answers} == {503, 504}
        for answer in answers:
            wanted = "frames wait already" if answer.status == 503 else "1 s|until its time was over"
            assert any(text in answer.json["error"] for text in wanted.split("|"))
            assert ("Retry-After" in answer.headers) == (answer.status == 503)
        assert "hwflow_requests_total{status=\"504\"}" in client("GET", "/metrics").body.decode()


def test_nobody_there(quantized, boards):
    boards.plug("a")
    with serving(quantized, pool_of(boards, ("a",))) as client:
        boards.unplug("a")
        while client("GET", "/v2/health/ready").status == 200:
            time.sleep(0.05)
        x = rows_for(small_network(), 1)["x"]
        answer = client.infer(request_for(x))
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert "no board is there at the moment (a: " in answer.json["error"]
        boards.plug("a")
        while client("GET", "/v2/health/ready").status != 200:
            time.sleep(0.05)
        require_golden(quantized, x, client.infer(request_for(x)))


async def load(client: Client, x: np.ndarray, clients: int, requests: int) -> list[tuple[int, Answer]]:
    """So many clients, each with one request after another of one to three rows."""
    async def one(number: int) -> list[tuple[int, Answer]]:
        found = []
        for k in range(requests):
            begin, count = (number * 7 + k) % (len(x) - 3), 1 + (number + k) % 3
            body = request_for(x[begin:begin + count], id=f"{begin} {count}")
            found.append((begin, await client.ask("POST", f"/v2/models/{MODEL}/infer", json=body)))
        return found

    made = await asyncio.gather(*(one(k) for k in range(clients)))
    return [each for part in made for each in part]


def test_many_clients_and_a_board_unplugged_in_the_middle(quantized, boards: Boards):
    """Every request has the golden model's answer, on whichever board; the lost board is used again when it is back."""
    boards.plug("a")
    boards.plug("b")
    x = rows_for(small_network(), 40)["x"]
    with serving(quantized, pool_of(boards, ("a", "b"))) as client:
        pool = client.service.pool
        loading = asyncio.run_coroutine_threadsafe(load(client, x, 30, 25), client.loop)
        while pool.workers[0].frames < 200:
            time.sleep(0.005)
        boards.unplug("a")
        while pool.workers[0].up:
            time.sleep(0.005)
        boards.plug("a")
        while not pool.workers[0].up:
            time.sleep(0.005)
        again = pool.workers[0].frames
        answers = loading.result(60)
        assert len(answers) == 30 * 25
        for begin, answer in answers:
            count = int(answer.json["id"].split()[1]) if answer.status == 200 else 0
            require_golden(quantized, x[begin:begin + count], answer)
        assert (pool.workers[0].opened, pool.workers[0].lost, pool.workers[1].lost) == (2, 1, 0)
        assert pool.workers[0].frames > again
        assert pool.workers[1].frames > 0
        assert pool.outstanding == pool.backlog.frames == client.service.held == 0


def test_the_end_answers_what_was_accepted(quantized, boards):
    boards.plug("a")
    pool = pool_of(boards, ("a",))
    x = rows_for(small_network(), 600)["x"]
    frames = golden.run_prologue(quantized, {"x": x})
    with serving(quantized, pool) as client:
        asking = asyncio.run_coroutine_threadsafe(
            client.ask("POST", f"/v2/models/{MODEL}/infer", json=request_for(x)), client.loop)
        while not pool.outstanding:
            time.sleep(0.001)
        pool.close(20.0)
        require_golden(quantized, x, asking.result(5))
        refused = client.infer(request_for(x[:1]))
        assert (refused.status, "Retry-After" in refused.headers) == (503, True)
    assert len(next(iter(frames.values()))) == 600


def test_tokens_and_addresses(tmp_path):
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example")] == [
        True, True, True, False, False]
    assert token_of("127.0.0.1", None, {}) is None
    assert token_of("0.0.0.0", None, {"HWFLOW_SERVE_TOKEN": TOKEN}) == TOKEN
    (tmp_path / "token").write_text(TOKEN + "\n")
    assert token_of("0.0.0.0", tmp_path / "token", {}) == TOKEN
    for text in ("short", "", "a b" * 10):
        (tmp_path / "token").write_text(text)
        with pytest.raises(HwflowError, match="token"):
            token_of("127.0.0.1", tmp_path / "token", {})
    with pytest.raises(HwflowError, match=r"a token must be given where others reach the server \('0.0.0.0' is not"):
        token_of("0.0.0.0", None, {})


#: What stands where something else is expected.
WRONG = [None, True, -1, 0, 1.5, 1 << 70, 1e308, "", "x", "\x00", [], [[]], [1, "2"], [[1], [2, 3]], {}, {"name": "x"},
         [None] * 5, {"parameters": {"binary_data_size": -1}}, [{"name": "x"}] * 2]


def mutated(value: object, chance: random.Random) -> object:
    """The value with something else at a random place in it."""
    if chance.random() < 0.15 or not isinstance(value, dict | list) or not value:
        return chance.choice(WRONG)
    if isinstance(value, list):
        place = chance.randrange(len(value))
        return [mutated(each, chance) if k == place else each for k, each in enumerate(value)]
    place = chance.choice(list(value))
    return {name: mutated(each, chance) if name == place else each for name, each in value.items()}


def test_no_body_is_more_than_a_bad_request(quantized):
    """Thousands of requests with something wrong in them, in their JSON and in their bytes: one kind of error."""
    interface, chance = Interface.of(quantized, MODEL), random.Random(7)
    messages: list[str] = []
    whole = {**request_for(np.ones((2, 1, 2, 4, 4), np.float32), id="a"), "parameters": {"binary_data_output": False},
             "outputs": [{"name": interface.outputs[0].name, "parameters": {"binary_data": True}}]}
    for _ in range(4000):
        body = json.dumps(mutated(whole, chance)).encode()
        if chance.random() < 0.5:
            damaged = bytearray(body)
            for _ in range(chance.randrange(1, 4)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            body = bytes(damaged)
        header = chance.choice([None, None, "0", str(len(body)), str(len(body) // 2), "-1", "\u0663", "9" * 30])
        try:
            request_of(body, header, interface)
        except BadRequest as error:
            messages.append(str(error))
    assert 3000 < len(messages) < 4000
    assert max(map(len, messages)) < 400
