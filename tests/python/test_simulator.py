"""The simulator: the protocol as the OpenAI client sees it, and limits that hold."""

from __future__ import annotations

import copy
import http.client
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from lakequeue import simulator
from lakequeue.simulator.chat import (
    Answer,
    PromptCache,
    answer,
    count_tokens,
    parse_request,
    split_pages,
)
from lakequeue.simulator.limits import SlidingWindow
from lakequeue.simulator.server import Admission, Meter, Refusal

FORMAT: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {"name": "document", "schema": {"type": "object"}},
}
PAGE = "=== page 3 ===\nINVOICE\nInvoice No: A-77\nDate: 2024-05-06\nTotal: 12.00 EUR\n"


@pytest.fixture(scope="module")
def running() -> Iterator[simulator.Simulator]:
    with simulator.running(tokens_per_minute=1_000_000) as started:
        yield started


def client(base_url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=30)


def ask(base_url: str, text: str = PAGE, **more: Any) -> Any:
    parameters: dict[str, Any] = {
        "model": "simulator",
        "messages": [{"role": "user", "content": text}],
        "response_format": FORMAT,
        **more,
    }
    with client(base_url) as openai_client:
        return openai_client.chat.completions.create(**parameters)


def test_it_answers_as_the_protocol_says_and_calls_itself_simulator(
    running: simulator.Simulator,
) -> None:
    reply = ask(running.base_url)
    assert reply.object == "chat.completion"
    assert reply.model == reply.system_fingerprint == "simulator"
    choice = reply.choices[0]
    assert (choice.index, choice.finish_reason, choice.message.role) == (0, "stop", "assistant")
    read = json.loads(choice.message.content)
    fields = {field["name"]: (field["value"], field["page"]) for field in read["fields"]}
    assert read["document_type"] == "invoice"
    assert fields["invoice_number"] == ("A-77", 3)
    assert fields["total_amount"] == (12.0, 3)
    with client(running.base_url) as openai_client:
        assert [model.id for model in openai_client.models.list()] == ["simulator"]
        assert openai_client.models.retrieve("simulator").owned_by == "lakequeue"


def test_tokens_are_characters_divided_by_four(running: simulator.Simulator) -> None:
    reply = ask(running.base_url)
    schema = json.dumps(FORMAT["json_schema"]["schema"], separators=(",", ":"))
    assert reply.usage.prompt_tokens == -(-(len(PAGE) + len(schema)) // 4)
    assert reply.usage.completion_tokens == -(-len(reply.choices[0].message.content) // 4)
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert count_tokens("") == 0


def test_the_same_page_gets_the_same_answer(running: simulator.Simulator) -> None:
    first, second = (ask(running.base_url).choices[0].message.content for _ in range(2))
    assert first == second


def test_a_repeated_prompt_is_cached_in_blocks(running: simulator.Simulator) -> None:
    text = PAGE + "some words of a long page\n" * 400
    first = ask(running.base_url, text).usage
    second = ask(running.base_url, text).usage
    assert first.prompt_tokens_details.cached_tokens == 0
    assert second.prompt_tokens_details.cached_tokens == 2048
    cache = PromptCache(entries=4)
    assert cache.look_up("x" * 4096 * 3) == 0
    assert cache.look_up("x" * 4096 * 3 + "y") == 3072
    assert cache.look_up("y" + "x" * 4096 * 3) == 0


def test_an_answer_longer_than_max_tokens_is_cut_and_says_so(running: simulator.Simulator) -> None:
    reply = ask(running.base_url, max_tokens=5)
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage.completion_tokens == 5


@pytest.mark.parametrize(
    ("changes", "error", "code"),
    [
        ({"model": "gpt-9"}, openai.NotFoundError, "model_not_found"),
        ({"messages": []}, openai.BadRequestError, "invalid_type"),
        ({"messages": [{"role": "user", "content": 7}]}, openai.BadRequestError, "invalid_type"),
        ({"response_format": {"type": "xml"}}, openai.BadRequestError, "invalid_value"),
        ({"max_tokens": 0}, openai.BadRequestError, "invalid_value"),
        ({"stream": True}, openai.BadRequestError, "unsupported_value"),
    ],
)
def test_bad_requests_get_error_bodies(
    running: simulator.Simulator,
    changes: dict[str, Any],
    error: type[openai.APIStatusError],
    code: str,
) -> None:
    with pytest.raises(error) as caught:
        ask(running.base_url, **changes)
    assert caught.value.code == code
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_bodies_that_are_no_json_are_refused(running: simulator.Simulator, body: bytes) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(running.base_url.split(":")[2][:-3]))
    connection.request("POST", "/v1/chat/completions", body)
    response = connection.getresponse()
    assert response.status == 400
    assert json.load(response)["error"]["message"]
    connection.request("GET", "/nothing")
    response = connection.getresponse()
    assert (response.status, json.load(response)["error"]["code"]) == (404, "not_found")
    connection.close()


def test_a_request_that_can_never_fit_is_refused_for_good() -> None:
    with simulator.running(tokens_per_minute=50) as small:
        with pytest.raises(openai.BadRequestError) as caught:
            ask(small.base_url, PAGE * 20)
        assert caught.value.code == "context_length_exceeded"
        assert small.stats()["tokens"] == 0


def test_a_full_minute_answers_429_with_retry_after() -> None:
    with simulator.running(tokens_per_minute=300) as small:
        accepted = 0
        with pytest.raises(openai.RateLimitError) as caught:  # noqa: PT012 - which call is open
            for _ in itertools.count():
                ask(small.base_url)
                accepted += 1
        response = caught.value.response
        assert 55 <= int(response.headers["retry-after"]) <= 60
        body = response.json()
        assert body["error_code"] == "REQUEST_LIMIT_EXCEEDED"
        assert body["message"].startswith("REQUEST_LIMIT_EXCEEDED: Exceeded workspace")
        error = body["error"]
        assert (error["limit_type"], error["limit"]) == ("tokens_per_minute", 300)
        assert error["retry_after"] == int(response.headers["retry-after"])
        stats = small.stats()
        assert stats["model"] == "simulator"
        assert (stats["accepted"], stats["rejected"]) == (accepted, 1)
        assert stats["requests"] == accepted + 1
        assert stats["tokens"] == stats["largest_window"] == stats["window"] <= 300
        assert stats["tokens"] == stats["input_tokens"] + stats["output_tokens"]


def test_requests_per_second_are_limited_where_asked() -> None:
    meter = Meter(tokens_per_minute=10**9, requests_per_second=2)
    given = answer(parse_request({"model": "simulator", "messages": [{"role": "user"}]}))
    outcomes = [meter.admit(given, "x") for _ in range(3)]
    assert [isinstance(outcome, Refusal) for outcome in outcomes] == [False, False, True]
    refusal = outcomes[2]
    assert isinstance(refusal, Refusal)
    assert (refusal.limit_type, refusal.limit) == ("requests_per_second", 2)
    assert 0 < refusal.retry_after <= 1
    assert meter.stats()["rejected"] == 1


@pytest.mark.parametrize(
    ("limit", "taken"),
    [
        ("requests_per_minute", 1),
        ("input_tokens_per_minute", 100),
        ("output_tokens_per_minute", 40),
        ("tokens_per_minute", 107),
    ],
)
def test_each_limit_holds_for_any_minute(limit: str, taken: int) -> None:
    """Two requests fit, a third one when the first one is a minute old, and not before."""
    now = [1000.0]
    limits = {"tokens_per_minute": 10**9, limit: 3 * taken - 1}
    meter = Meter(**limits, now=lambda: now[0])  # type: ignore[arg-type]
    given = Answer("x", "stop", 100, 7)
    first, second, third = (meter.admit(given, "x", 40) for _ in range(3))
    assert isinstance(first, Admission)
    assert isinstance(second, Admission)
    assert isinstance(third, Refusal)
    assert (third.limit_type, third.limit, third.current) == (limit, 3 * taken - 1, 2 * taken)
    assert meter.stats()["windows"][limit] == {
        "limit": 3 * taken - 1,
        "used": 2 * taken,
        "largest": 2 * taken,
    }
    if limit == "output_tokens_per_minute":
        return  # what is under way leaves no window
    now[0] += 59.999
    assert isinstance(meter.admit(given, "x", 40), Refusal)
    now[0] += 0.001
    assert isinstance(meter.admit(given, "x", 40), Admission)
    assert meter.stats()["rejected"] == 2


def test_max_tokens_are_reserved_until_the_answer_is_there() -> None:
    """Then the answer counts, for a minute from its end."""
    now = [1000.0]
    meter = Meter(10**9, output_tokens_per_minute=100, now=lambda: now[0])
    given = Answer("x", "stop", 100, 7)
    first = meter.admit(given, "x", 60)
    assert isinstance(first, Admission)
    refusal = meter.admit(given, "x", 60)
    assert isinstance(refusal, Refusal)
    assert refusal.retry_after == 1, "nobody knows when"
    now[0] += 100  # longer than a minute under way: it still counts
    assert isinstance(meter.admit(given, "x", 60), Refusal)
    meter.finish(given, first)
    assert meter.stats()["windows"]["output_tokens_per_minute"]["used"] == 7
    second = meter.admit(given, "x", 93)
    assert isinstance(second, Admission)
    meter.finish(Answer("x", "stop", 100, 93), second)
    refusal = meter.admit(given, "x", 7)
    assert isinstance(refusal, Refusal)
    assert refusal.retry_after == pytest.approx(60)
    assert meter.never(given, 101) == "output_tokens_per_minute"
    assert meter.stats()["windows"]["output_tokens_per_minute"]["largest"] == 100


def test_no_minute_holds_more_output_than_the_limit_whatever_is_under_way() -> None:
    dice = random.Random(3)
    now = [0.0]
    meter = Meter(10**9, output_tokens_per_minute=1000, now=lambda: now[0])
    running: list[tuple[float, float, Answer, Admission]] = []
    spent: list[tuple[float, float, int]] = []
    refused = 0
    for _ in range(3000):
        now[0] += dice.expovariate(1)
        for call in [call for call in running if call[1] <= now[0]]:
            meter.finish(call[2], call[3])
            spent.append((call[0], now[0], call[2].completion_tokens))
            running.remove(call)
        most = dice.randint(1, 400)
        given = Answer("x", "stop", 1, dice.randint(1, most))
        admission = meter.admit(given, "x", most)
        if isinstance(admission, Admission):
            duration = dice.choice([0.1, 5, 90]) * dice.random()
            running.append((now[0], now[0] + duration, given, admission))
        else:
            refused += 1
    # An answer is written at some moment between admission and end.
    fullest = 0
    for _ in range(5):
        moments = [(dice.uniform(begun, ended), tokens) for begun, ended, tokens in spent]
        for start, _ in moments:
            fullest = max(fullest, sum(n for at, n in moments if start <= at < start + 60))
    assert 500 < fullest <= 1000
    assert refused > 100


def test_limits_of_the_command_line_are_enforced_and_told() -> None:
    with simulator.running(
        requests_per_minute=3, input_tokens_per_minute=10_000, output_tokens_per_minute=500
    ) as small:
        for _ in range(3):
            ask(small.base_url, max_tokens=200)
        with pytest.raises(openai.RateLimitError, match="requests per minute"):
            ask(small.base_url, max_tokens=200)
        with pytest.raises(openai.BadRequestError, match="501 max_tokens"):
            ask(small.base_url, max_tokens=501)
        stats = small.stats()
    assert (stats["accepted"], stats["rejected"], stats["errors"]) == (3, 1, 1)
    assert stats["windows"]["input_tokens_per_minute"]["used"] == stats["input_tokens"]
    assert stats["windows"]["output_tokens_per_minute"]["used"] == stats["output_tokens"]


def test_a_limit_of_zero_is_no_limit_to_wait_for() -> None:
    with simulator.running(requests_per_minute=0) as closed:
        with pytest.raises(openai.PermissionDeniedError, match="rate limit of 0"):
            ask(closed.base_url)
        assert closed.stats()["rejected"] == 0


def test_the_window_slides() -> None:
    window = SlidingWindow(100)
    assert window.wait_for(60, 0.0) == 0
    window.add(60, 0.0)
    window.add(40, 30.0)
    assert window.wait_for(1, 59.0) == pytest.approx(1.0)
    assert window.wait_for(61, 59.0) == pytest.approx(31.0)
    assert window.wait_for(60, 60.0) == 0
    assert window.wait_for(61, 60.0) == pytest.approx(30.0)
    assert window.usage(90.0) == 0
    with pytest.raises(ValueError, match="never fit"):
        window.wait_for(101, 0.0)


def test_no_window_of_sixty_seconds_ever_exceeds_the_limit() -> None:
    dice = random.Random(7)
    window = SlidingWindow(1000)
    now, admitted = 0.0, []
    for _ in range(4000):
        now += dice.expovariate(2)
        units = dice.randrange(1, 300)
        wait = window.wait_for(units, now)
        if wait == 0:
            window.add(units, now)
            admitted.append((now, units))
        else:
            # What it says about waiting is true, and not a moment too long.
            assert copy.deepcopy(window).wait_for(units, now + wait + 1e-6) == 0
            assert copy.deepcopy(window).wait_for(units, now + wait - 0.002) > 0
    totals = [
        sum(units for at, units in admitted[index:] if at < start + 60)
        for index, (start, _) in enumerate(admitted)
    ]
    assert max(totals) <= 1000
    assert window.largest <= 1000
    assert max(totals) > 900


def test_many_clients_at_once_get_what_fits_and_no_more() -> None:
    with simulator.running(tokens_per_minute=2000) as small:
        results: list[int] = []

        def work() -> None:
            for _ in range(4):
                try:
                    results.append(ask(small.base_url).usage.total_tokens)
                except openai.RateLimitError:
                    results.append(0)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stats = small.stats()
    assert len(results) == 32
    assert sum(results) == stats["tokens"] == stats["largest_window"] <= 2000
    assert results.count(0) == stats["rejected"] > 0
    assert 2000 - sum(results) < max(results)


def test_latency_is_added() -> None:
    with simulator.running(latency=0.3) as slow:
        started = time.monotonic()
        ask(slow.base_url)
        assert time.monotonic() - started >= 0.3


def test_pages_are_found_by_their_marks() -> None:
    assert split_pages("head\n=== page 4 ===\na\n=== page 5 ===\nb") == [(4, "\na\n"), (5, "\nb")]
    assert split_pages("no marks") == [(1, "no marks")]


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int, seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not alive(pid)


def test_it_ends_with_its_block() -> None:
    with simulator.running() as started:
        assert alive(started.pid)
    assert wait_until_gone(started.pid)


@pytest.mark.parametrize("sibling", [False, True])
def test_it_ends_with_its_parent_even_by_kill_9(sibling: bool) -> None:
    """Also where another process has inherited the pipe between the two."""
    code = f"""
import os, sys, time
from lakequeue import simulator
with simulator.running() as started:
    if {sibling} and not os.fork():
        time.sleep(60)
        os._exit(0)
    print(started.pid, flush=True)
    time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    ) as parent:
        try:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            assert alive(pid)
            parent.send_signal(signal.SIGKILL)
            assert wait_until_gone(pid)
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_the_command_line_serves_until_it_is_told_to_end() -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "lakequeue.simulator", "--tokens-per-minute=5000"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Simulator at http://127.0.0.1:")
        assert ask(line.split()[2].rstrip(",")).model == "simulator"
        process.terminate()
        assert process.wait(60) == 0
