"""The rules of db/README.md said a second time, in Python and for one caller at a time.

`Queue` has a method for each function of the SQL API, of the same arguments and answers. Tasks,
attempts and extractions are known by their numbers in the order in which they were made. There is
no lock, no index and no sum that is carried along here: everything is counted when it is needed.
What chance decides or an agent has learnt is not foretold but taken from the database: see
`Task.retry_between` and `Agent.learnt`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

# The kinds of limits, in the order in which amounts stand in a list.
KINDS = ("max_concurrent_tasks", "max_tpm", "max_input_tpm", "max_output_tpm", "max_rpm")
MINUTE = timedelta(minutes=1)
FINAL = ("completed", "failed", "cancelled")
UNKNOWN = "LQ404"

Amounts = list[Decimal]


@dataclass
class Endpoint:
    limits: dict[str, int] = field(default_factory=dict)
    max_passed_over: timedelta = timedelta(minutes=2)
    cooldown_until: datetime | None = None


@dataclass
class Agent:
    endpoint: str
    job_id: int | None = None
    limits: dict[str, int] = field(default_factory=dict)
    lease_duration: timedelta = timedelta(minutes=5)
    reconcile_grace: timedelta = timedelta(minutes=5)
    max_attempts: int = 3
    max_rate_limited: int = 20
    retry_base: timedelta = timedelta(seconds=10)
    retry_cap: timedelta = timedelta(minutes=10)
    tokens_per_task: int = 1000
    tokens_per_page: int = 2000
    output_share: Decimal = Decimal("0.25")
    reserves_calls: bool = False
    breaker_failures: int = 10
    paused: bool = False
    failures_in_a_row: int = 0
    # factor of the estimate, and what a run uses in a minute: input, output, requests
    learnt: tuple[Decimal, Decimal | None, Decimal | None, Decimal | None] = (
        Decimal("1.5"),
        None,
        None,
        None,
    )


@dataclass
class Worker:
    heartbeat_at: datetime
    stopped: bool
    relay: str | None = None  # where it runs agents


@dataclass
class Extraction:
    customer: str
    created_at: datetime
    documents: list[Task] = field(default_factory=list)
    purged: bool = False


@dataclass(eq=False)
class Task:
    number: int
    agent: str
    customer: str
    dedup_key: str | None
    priority: int
    pages: int | None
    created_at: datetime
    extraction: Extraction | None
    status: str = "enqueued"
    failures: int = 0
    rate_limited: int = 0
    retry_at: datetime | None = None
    retry_between: tuple[datetime, datetime] | None = None  # to be told by the database
    worker: str | None = None
    lease_expires_at: datetime | None = None
    cancel_requested: bool = False
    passed_over_at: datetime | None = None
    finished_at: datetime | None = None
    attempts: list[Attempt] = field(default_factory=list)
    reprocessed_by: list[Task] = field(default_factory=list)
    purged: bool = False

    @property
    def place(self) -> tuple[int, datetime, int]:
        """Rule 2."""
        return -self.priority, self.created_at, self.number

    @property
    def claimable(self) -> bool:
        waits_for_retry = self.retry_at is not None or self.retry_between is not None
        return not self.purged and self.status == "enqueued" and not waits_for_retry

    @property
    def running(self) -> Attempt | None:
        return next((a for a in self.attempts if a.status == "running"), None)

    @property
    def holds_key(self) -> bool:
        return not self.purged and self.status not in ("failed", "cancelled")


@dataclass(eq=False)
class Attempt:
    task: Task
    endpoint: str
    worker: str
    estimated_tokens: int
    reserves_calls: bool
    job_id: int | None
    started_at: datetime
    status: str = "running"
    run_id: int | None = None
    has_result: bool = False
    ended_at: datetime | None = None
    reported_at: datetime | None = None
    run_ended_at: datetime | None = None
    presumed_dead_at: datetime | None = None
    checked_at: datetime | None = None
    used: Usage | None = None

    @property
    def alive(self) -> bool:
        """Whether it may still spend."""
        return self.run_ended_at is None


@dataclass(frozen=True)
class Usage:
    input: int | None = None
    output: int | None = None
    cached: int | None = None
    cost: Decimal | None = None
    complete: bool = False
    trace: bool = False

    @property
    def rank(self) -> tuple[bool, bool]:
        """Rule 10: complete beats incomplete, trace beats callback."""
        return self.complete, self.trace


def _sum_of_known(amounts: Iterable[int | Decimal | None]) -> int | Decimal | None:
    """What nobody has told is unknown, not 0."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


@dataclass(eq=False)
class Call:
    attempt: Attempt
    key: int
    priority: int
    input: int
    output: int
    seen_at: datetime
    granted: bool = False
    ended_at: datetime | None = None
    agent_limit: bool = False  # it waits for nothing but its agent's own limits

    @property
    def amounts(self) -> Amounts:
        return [Decimal(n) for n in (0, self.input + self.output, self.input, self.output, 1)]


class Queue:
    """What Lakequeue should be after everything that it was asked to do."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.endpoints: dict[str, Endpoint] = {}
        self.agents: dict[str, Agent] = {}
        self.workers: dict[str, Worker] = {}
        self.extractions: list[Extraction] = []
        self.tasks: list[Task] = []
        self.attempts: list[Attempt] = []
        self.calls: list[Call] = []  # in the order in which they were asked for

    # --- configuration ------------------------------------------------------------------------

    def advance(self, by: timedelta) -> None:
        self.now += by

    def configure_agent(self, agent: str, **settings: Any) -> None:
        endpoint = settings.pop("model_endpoint", None)
        is_new = agent not in self.agents
        if endpoint is not None or is_new:
            self.endpoints.setdefault(endpoint or agent, Endpoint())
        known = self.agents.setdefault(agent, Agent(endpoint or agent))
        known.endpoint = endpoint or known.endpoint
        if is_new and "lease_duration" in settings:
            settings.setdefault("reconcile_grace", settings["lease_duration"])
        self._set_limits(known, settings)
        if "estimate_factor" in settings:
            known.learnt = (Decimal(settings.pop("estimate_factor")), *known.learnt[1:])
        if "job_id" in settings:
            known.job_id = settings.pop("job_id") or None
        for name, value in settings.items():
            setattr(known, name, value)

    def configure_endpoint(self, endpoint: str, **settings: Any) -> None:
        known = self.endpoints.setdefault(endpoint, Endpoint())
        self._set_limits(known, settings)
        for name, value in settings.items():
            setattr(known, name, value)

    @staticmethod
    def _set_limits(holder: Agent | Endpoint, settings: dict[str, Any]) -> None:
        for kind in KINDS:
            limit = settings.pop(kind, None)
            if limit:
                holder.limits[kind] = limit
            elif limit == 0:
                holder.limits.pop(kind, None)

    def pause_agent(self, agent: str) -> None:
        self.agents[agent].paused = True

    def resume_agent(self, agent: str) -> None:
        known = self.agents[agent]
        if known.paused:
            known.paused, known.failures_in_a_row = False, 0

    def worker_heartbeat(self, worker: str, stopping: bool, relay: str | None) -> None:
        relay = relay or self._relay(worker)
        self.workers[worker] = Worker(self.now, stopping, relay)

    def _relay(self, worker: str) -> str | None:
        return self.workers[worker].relay if worker in self.workers else None

    def _serves(self, worker: str, job_id: int | None) -> bool:
        """A worker of job runs serves what has a job, one of local runs the rest."""
        relay = self._relay(worker)
        return relay is None or (relay == "databricks") == (job_id is not None)

    def _lives(self, worker: str, silent_since: datetime) -> bool:
        known = self.workers.get(worker)
        if known is None:
            return silent_since >= self.now - MINUTE
        return not known.stopped and known.heartbeat_at >= self.now - MINUTE

    # --- submitting ---------------------------------------------------------------------------

    def create_extraction(self, customer: str) -> None:
        self.extractions.append(Extraction(customer, self.now))

    def enqueue_tasks(
        self,
        agent: str,
        documents: Sequence[dict[str, Any]],
        customer: str | None = None,
        extraction: int | None = None,
    ) -> Any:
        batch = None if extraction is None else self.extractions[extraction]
        if batch is not None and batch.purged:
            return UNKNOWN
        if customer is None:
            customer = batch.customer if batch else ""
        answer = []
        for document in documents:
            key = document["dedup_key"]
            holder = self._holder(agent, customer, key)
            if holder is not None and holder.status == "processing" and holder.cancel_requested:
                holder.dedup_key = None  # who submits it once more wants it done
                holder = None
            task = holder or self._new_task(
                agent, customer, key, document["priority"], document["page_count"], batch
            )
            if batch is not None:
                batch.documents.append(task)
            answer.append((task.number, holder is None))
        return answer

    def _new_task(self, *values: Any) -> Task:
        agent, customer, key, priority, pages, batch = values
        task = Task(
            len(self.tasks), agent, customer, key, priority, pages, self.now, extraction=batch
        )
        self.tasks.append(task)
        return task

    def _holder(self, agent: str, customer: str, key: str | None) -> Task | None:
        """The task that a dedup_key returns."""
        same = (
            t
            for t in self.tasks
            if (t.agent, t.customer, t.dedup_key) == (agent, customer, key) and t.holds_key
        )
        return None if key is None else next(same, None)

    def extraction_progress(self, extraction: int) -> Any:
        batch = self.extractions[extraction]
        if batch.purged:
            return UNKNOWN
        return Counter(task.status for task in batch.documents)

    # --- claiming (rules 1 to 6) --------------------------------------------------------------

    def dequeue_tasks(self, worker: str, batch_size: int, agents: Sequence[str] | None) -> Any:
        served = [
            name
            for name, agent in self.agents.items()
            if (agents is None or name in agents)
            and not agent.paused
            and self._serves(worker, agent.job_id)
            and not self._cools(agent.endpoint)
            and any(task.agent == name and task.claimable for task in self.tasks)
        ]
        if not served:
            return []
        claimed = self._helping(worker, served, batch_size, math.ceil(batch_size / len(served)))
        # Each in rule 2's order, the second helping after the first.
        claimed += self._helping(worker, served, batch_size - len(claimed), batch_size)
        self.attempts += claimed
        return [self._claim_answer(attempt) for attempt in claimed]

    def _claim_answer(self, attempt: Attempt) -> tuple[int, int, int]:
        task = attempt.task
        return task.number, task.attempts.index(attempt) + 1, attempt.estimated_tokens

    def _cools(self, endpoint: str) -> bool:
        until = self.endpoints[endpoint].cooldown_until
        return until is not None and until > self.now

    def _helping(
        self, worker: str, served: Sequence[str], wanted: int, share: int
    ) -> list[Attempt]:
        """Claim in rule 2's order whatever every limit has room for."""
        claimed: list[Attempt] = []
        kept: list[Task] = []  # room for what this dequeue may not claim, but has waited too long
        closed: set[str] = set()  # agents and endpoints of which nothing may follow
        misfits: list[tuple[Task, str, int]] = []
        for task in sorted((t for t in self.tasks if t.claimable), key=lambda t: t.place):
            if len(claimed) >= wanted:
                break
            agent = self.agents[task.agent]
            overdue = self._overdue(task)
            taken = sum(attempt.task.agent == task.agent for attempt in claimed)
            if (
                {task.agent, agent.endpoint} & closed
                or (task.agent not in served and (agent.paused or not overdue))
                or (task.agent not in served and self._cools(agent.endpoint))
                or (taken >= share and not overdue)
            ):
                continue
            full = self._full(task, kept)
            per_minute = [holder for holder, kind in full if kind != "max_concurrent_tasks"]
            if per_minute:
                if overdue and per_minute[0] == agent.endpoint:
                    closed.add(agent.endpoint)
                elif overdue or agent.reserves_calls:
                    closed.add(task.agent)
                misfits.append((task, per_minute[0], len(claimed)))
            elif not full and task.agent in served:
                claimed.append(self._claim(task, worker))
            elif not full:
                kept.append(task)
        for task, holder, before in misfits:
            passed_by = claimed[before:]
            if any(holder in (self.agents[a.task.agent].endpoint, a.task.agent) for a in passed_by):
                task.passed_over_at = task.passed_over_at or self.now
        return claimed

    def _overdue(self, task: Task) -> bool:
        """Rule 5: it has been passed over for too long."""
        longest = self.endpoints[self.agents[task.agent].endpoint].max_passed_over
        return task.passed_over_at is not None and task.passed_over_at <= self.now - longest

    def _claim(self, task: Task, worker: str) -> Attempt:
        agent = self.agents[task.agent]
        attempt = Attempt(
            task,
            agent.endpoint,
            worker,
            self._estimate(task),
            agent.reserves_calls,
            agent.job_id if self._relay(worker) != "local" else None,
            self.now,
        )
        task.attempts.append(attempt)
        task.status, task.worker, task.passed_over_at = "processing", worker, None
        task.lease_expires_at = self.now + agent.lease_duration
        return attempt

    def _estimate(self, task: Task) -> int:
        agent = self.agents[task.agent]
        pages = 1 if task.pages is None else task.pages
        tokens = agent.tokens_per_task + agent.tokens_per_page * pages
        return max(1, math.ceil(tokens * agent.learnt[0]))

    def _full(self, task: Task, kept: Sequence[Task]) -> list[tuple[str, str]]:
        """The limits that have no room for one more task: whose, and of which kind."""
        agent = self.agents[task.agent]
        demand = self._demand(task.agent, agent.endpoint, self._estimate(task))
        full = []
        for holder in (agent.endpoint, task.agent):
            used, booked = self._spent(holder, kept)
            for i, kind in enumerate(KINDS):
                limit = self._limits(holder).get(kind)
                spent = max(used[i], booked[i])
                if limit is None:
                    continue
                if kind == "max_concurrent_tasks":
                    fits = used[i] < limit
                elif agent.reserves_calls:
                    fits = booked[i] < limit
                else:
                    fits = spent + demand[i] <= limit or spent == 0
                if not fits:
                    full.append((holder, kind))
        return full

    def _limits(self, holder: str) -> dict[str, int]:
        return (self.agents.get(holder) or self.endpoints[holder]).limits

    def _split(self, agent: str, tokens: int) -> tuple[Decimal, Decimal]:
        output = Decimal(math.ceil(tokens * self.agents[agent].output_share))
        return tokens - output, output

    def _demand(self, name: str, endpoint: str, tokens: int) -> Amounts:
        """What a task asks of a minute."""
        agent = self.agents[name]
        input_tokens, output_tokens = self._split(name, tokens)
        if not agent.reserves_calls:
            return [Decimal(1), Decimal(tokens), input_tokens, output_tokens, Decimal(1)]
        _, input_tpm, output_tpm, rpm = agent.learnt
        input_tokens = input_tokens if input_tpm is None else input_tpm
        output_tokens = output_tokens if output_tpm is None else output_tpm

        def at_most(amount: Decimal, *kinds: str) -> Decimal:
            limits = (
                self._limits(holder).get(kind) for holder in (name, endpoint) for kind in kinds
            )
            return min([amount, *(Decimal(limit) for limit in limits if limit is not None)])

        return [
            Decimal(1),
            at_most(input_tokens + output_tokens, "max_tpm"),
            at_most(input_tokens, "max_input_tpm", "max_tpm"),
            at_most(output_tokens, "max_output_tpm", "max_tpm"),
            at_most(Decimal(1) if rpm is None else rpm, "max_rpm"),
        ]

    def _spent(self, holder: str, kept: Iterable[Task] = ()) -> tuple[Amounts, Amounts]:
        """What a window of an endpoint or agent holds (rules 3 and 4): used, and booked."""
        used, booked = [Decimal(0)] * 5, [Decimal(0)] * 5

        def add(sums: Amounts, amounts: Amounts) -> None:
            sums[:] = [a + b for a, b in zip(sums, amounts, strict=True)]

        for attempt in self.attempts_of(holder):
            task = attempt.task
            if attempt.reserves_calls and attempt.alive:
                demand = self._demand(task.agent, attempt.endpoint, attempt.estimated_tokens)
                add(used, [Decimal(1), *[Decimal(0)] * 4])
                add(booked, demand)
            elif not attempt.reserves_calls and self._in_window(attempt.run_ended_at):
                add(used, self._counted(attempt))
                add(booked, self._counted(attempt))
        for call in self.calls:
            if holder not in (call.attempt.endpoint, call.attempt.task.agent):
                continue
            if call.granted and self._in_window(call.ended_at):
                add(used, call.amounts)
            elif self._waits(call):
                add(booked, call.amounts)
        for task in kept:
            agent = self.agents[task.agent]
            if holder in (agent.endpoint, task.agent):
                demand = self._demand(task.agent, agent.endpoint, self._estimate(task))
                add(booked, demand)
                add(used, demand if not agent.reserves_calls else [Decimal(1), *[Decimal(0)] * 4])
        return used, booked

    def attempts_of(self, holder: str) -> Iterable[Attempt]:
        """Of an agent or endpoint, those of a dequeue under way included."""
        for task in self.tasks:
            for attempt in task.attempts:
                if not task.purged and holder in (attempt.endpoint, task.agent):
                    yield attempt

    def _in_window(self, ended_at: datetime | None) -> bool:
        return ended_at is None or ended_at > self.now - MINUTE

    def _waits(self, call: Call) -> bool:
        return not call.granted and call.seen_at > self.now - timedelta(seconds=10)

    def _counted(self, attempt: Attempt) -> Amounts:
        """Rule 4a: the larger of estimate and used, or as used if that is all there will be."""
        used = attempt.used or Usage()
        input_tokens, output_tokens = Decimal(used.input or 0), Decimal(used.output or 0)
        total = input_tokens + output_tokens
        if attempt.alive or not used.complete:
            first, second = self._split(attempt.task.agent, attempt.estimated_tokens)
            total = max(total, Decimal(attempt.estimated_tokens))
            input_tokens, output_tokens = max(input_tokens, first), max(output_tokens, second)
        return [Decimal(attempt.alive), total, input_tokens, output_tokens, Decimal(1)]

    # --- runs ---------------------------------------------------------------------------------

    def record_runs(self, attempts: Sequence[int], run_ids: Sequence[int]) -> Any:
        answer = []
        first = set()
        for number, run_id in zip(attempts, run_ids, strict=True):
            attempt = self.attempts[number]
            if attempt.task.purged:
                answer.append("unknown")
                continue
            if attempt.run_id is None:
                attempt.run_id = run_id
                first.add(number)
            same = attempt.run_id == run_id
            answer.append(
                "conflict" if not same else "recorded" if number in first else "duplicate"
            )
        return answer

    def adopt_attempts(self, worker: str, batch_size: int) -> Any:
        adopted = [
            a
            for a in self.attempts
            if a.status == "running"
            and not a.task.purged
            and a.run_id is None
            and a.worker != worker
            and self._serves(worker, a.job_id)
            and not a.task.cancel_requested
            and a.task.lease_expires_at is not None
            and a.task.lease_expires_at > self.now
            and not self._lives(a.worker, a.started_at)
        ]
        adopted = sorted(adopted, key=lambda a: a.task.number)[:batch_size]
        for attempt in adopted:
            attempt.worker = attempt.task.worker = worker
            self._extend(attempt.task)
        adopted.sort(key=lambda a: a.task.place)
        return [self._claim_answer(attempt) for attempt in adopted]

    def _extend(self, task: Task) -> datetime:
        assert task.lease_expires_at is not None
        lease = self.now + self.agents[task.agent].lease_duration
        task.lease_expires_at = max(task.lease_expires_at, lease)
        return task.lease_expires_at

    def runs_to_check(self, worker: str) -> Any:
        answer = {}
        for number, attempt in enumerate(self.attempts):
            task, agent = attempt.task, self.agents[attempt.task.agent]
            if task.purged or attempt.run_id is None or not attempt.alive:
                continue
            if not self._serves(worker, attempt.job_id):
                continue
            if self._relay(worker) == "local" and attempt.worker != worker:
                continue
            checked = attempt.checked_at
            if checked is not None and checked > self.now - timedelta(seconds=10):
                continue
            if attempt.status == "running":
                assert task.lease_expires_at is not None
                near = task.lease_expires_at <= self.now + agent.lease_duration / 3
                over = task.lease_expires_at + agent.reconcile_grace
                if not (near or task.cancel_requested) or (checked is not None and checked >= over):
                    continue
                answer[number] = "cancel" if task.cancel_requested else "lease"
            elif attempt.status != "succeeded":
                answer[number] = "lost"
        for number in answer:
            self.attempts[number].checked_at = self.now
        return answer

    def extend_leases(self, attempts: Sequence[int], tokens: Sequence[int | None]) -> Any:
        answer: list[tuple[str, datetime | None]] = []
        for number, used in zip(attempts, tokens, strict=True):
            attempt = self.attempts[number]
            task = attempt.task
            if task.purged:
                answer.append(("lost", None))
                continue
            if used is not None:
                self._use(attempt, Usage(input=used))
            if attempt.status != "running":
                answer.append(("lost", None))
            elif task.cancel_requested:
                answer.append(("cancel", task.lease_expires_at))
            else:
                answer.append(("extended", self._extend(task)))
        return answer

    # --- model calls (rules 4b and 11) --------------------------------------------------------

    def reserve_tokens(
        self, attempt: int, call: int, input_tokens: int, max_output_tokens: int
    ) -> str:
        asking = self.attempts[attempt]
        task = asking.task
        if task.purged:
            return UNKNOWN
        if asking.status != "running":
            return "lost"
        if task.cancel_requested:
            return "cancel"
        asked = next((c for c in self.calls if (c.attempt, c.key) == (asking, call)), None)
        if asked is not None and asked.ended_at is not None:
            return "LQ409"
        holders = (asking.endpoint, task.agent)
        new = Call(asking, call, task.priority, input_tokens, max_output_tokens, self.now)
        if asked is None or not asked.granted:
            for holder in holders:
                for kind, amount in zip(KINDS, new.amounts, strict=True):
                    if kind in KINDS[1:] and amount > self._limits(holder).get(kind, amount):
                        return "LQ413"
        if asked is None:
            asked = new
            self.calls.append(asked)
        asking.reserves_calls = True
        asked.seen_at = self.now
        if asked.granted:
            more = input_tokens > asked.input or max_output_tokens > asked.output
            return "LQ409" if more else "granted"
        asked.input, asked.output = input_tokens, max_output_tokens
        waits_for = [holder for holder in holders if self._call_waits_for(asked, holder)]
        asked.agent_limit = waits_for == [task.agent]
        asked.granted = not waits_for and not self._cools(asking.endpoint)
        return "granted" if asked.granted else "wait"

    def _call_waits_for(self, call: Call, holder: str) -> bool:
        used, _booked = self._spent(holder)
        for other in self.calls:
            ahead = other.priority > call.priority or (
                other.priority == call.priority and self.calls.index(other) < self.calls.index(call)
            )
            concerned = holder == other.attempt.task.agent or (
                holder == other.attempt.endpoint and not other.agent_limit
            )
            if ahead and concerned and self._waits(other):
                used = [a + b for a, b in zip(used, other.amounts, strict=True)]
        return any(
            used[i] + call.amounts[i] > self._limits(holder)[kind]
            for i, kind in enumerate(KINDS)
            if i > 0 and kind in self._limits(holder)
        )

    def settle_tokens(
        self, attempt: int, call: int, input_tokens: int | None, output_tokens: int | None
    ) -> str:
        by = self.attempts[attempt]
        known = next((c for c in self.calls if (c.attempt, c.key) == (by, call)), None)
        if by.task.purged or known is None or not known.granted:
            return UNKNOWN
        if known.ended_at is not None:
            return "duplicate"
        known.ended_at = self.now
        known.input = known.input if input_tokens is None else input_tokens
        known.output = known.output if output_tokens is None else output_tokens
        return "settled"

    def report_rate_limit(self, attempt: int, retry_after: timedelta) -> Any:
        by = self.attempts[attempt]
        if by.task.purged:
            return UNKNOWN
        endpoint = self.endpoints[by.endpoint]
        if by.reported_at is None:
            until = self.now + min(retry_after, timedelta(hours=1))
            endpoint.cooldown_until = max(endpoint.cooldown_until or until, until)
        return endpoint.cooldown_until

    # --- outcomes (rules 7 to 11) -------------------------------------------------------------

    def record_callback(
        self,
        attempt: int,
        outcome: str,
        with_result: bool = False,
        usage: Usage | None = None,
        run_id: int | None = None,
        retry_after: timedelta | None = None,
        forged: bool = False,
    ) -> str:
        by = self.attempts[attempt]
        task = by.task
        if task.purged:
            return UNKNOWN
        if forged:
            return "LQ401"
        self._use(by, usage or Usage())
        by.run_id = run_id if by.run_id is None else by.run_id
        answer = self._outcome(by, outcome, with_result, retry_after)
        if answer != "result_missing":
            by.reported_at = by.reported_at or self.now
            self._run_ended(by)
        return answer

    def _outcome(
        self, by: Attempt, outcome: str, with_result: bool, retry_after: timedelta | None
    ) -> str:
        task = by.task
        if by.reported_at is not None:
            return "duplicate"
        if outcome == "success":
            was_final = task.status in FINAL
            stored = self._store(by) if with_result else None
            if by.status == "succeeded":
                return "accepted"
            return "superseded" if stored or was_final or by.has_result else "result_missing"
        if by.status != "running":
            return "superseded"
        how = outcome if outcome in ("rate_limited", "cancelled") else "failed"
        self._end(by, how, permanent=outcome == "permanent_failure", retry_after=retry_after)
        if outcome == "failure":
            self._count_failure(task.agent)
        return "accepted"

    def record_callbacks(self, reports: Sequence[dict[str, Any]]) -> list[str]:
        def order(n: int) -> tuple[int, int]:
            return self.attempts[reports[n]["attempt"]].task.number, n

        answers = {
            n: self.record_callback(**reports[n]) for n in sorted(range(len(reports)), key=order)
        }
        return [
            "refused" if answers[n].startswith("LQ") else answers[n] for n in range(len(reports))
        ]

    def store_result(self, attempt: int) -> str:
        by = self.attempts[attempt]
        return UNKNOWN if by.task.purged else self._store(by)

    def _store(self, by: Attempt) -> str:
        """Rule 9: a result is kept, and the first one of a task that is not final completes it."""
        task = by.task
        if by.has_result:
            return "duplicate"
        by.has_result = True
        if task.status in FINAL:
            return "superseded"
        until = max(task.lease_expires_at or self.now, self.now)
        until += self.agents[task.agent].reconcile_grace
        overtaken = task.running
        if overtaken is not None and overtaken is not by:
            overtaken.status, overtaken.ended_at = "superseded", self.now
            overtaken.presumed_dead_at = until
        by.status, by.ended_at = "succeeded", by.ended_at or self.now
        by.presumed_dead_at = by.presumed_dead_at or until
        self._leave(task, "completed")
        self.agents[task.agent].failures_in_a_row = 0
        return "accepted"

    def _leave(self, task: Task, status: str) -> None:
        task.status, task.worker, task.lease_expires_at = status, None, None
        task.retry_at = task.retry_between = None
        task.finished_at = self.now if status in FINAL else None

    def fail_attempt(self, attempt: int, outcome: str) -> str:
        by = self.attempts[attempt]
        if by.task.purged:
            return UNKNOWN
        if by.status != "running":
            self._run_ended(by)
            return "superseded"
        stopped = by.task.cancel_requested or outcome in ("cancelled", "given_back")
        how = "cancelled" if stopped else outcome if outcome == "rate_limited" else "failed"
        if how == "failed":
            self._count_failure(by.task.agent)
        self._end(
            by,
            how,
            permanent=outcome == "permanent_failure",
            given_back=outcome == "given_back",
        )
        return "accepted"

    def _end(
        self,
        by: Attempt,
        how: str,
        permanent: bool = False,
        retry_after: timedelta | None = None,
        given_back: bool = False,
    ) -> None:
        """A running attempt ends in any way but success (rules 3, 7 and 11)."""
        task, agent = by.task, self.agents[by.task.agent]
        by.status, by.ended_at = how, self.now
        self._run_ended(by)
        task.failures += how in ("failed", "expired")
        task.rate_limited += how == "rate_limited"
        if task.cancel_requested or (how == "cancelled" and not given_back):
            return self._leave(task, "cancelled")
        if how == "rate_limited":
            over = task.rate_limited > agent.max_rate_limited
        else:
            over = not given_back and (permanent or task.failures >= agent.max_attempts)
        self._leave(task, "failed" if over else "enqueued")
        if over or how not in ("failed", "rate_limited"):
            return None
        tries = task.failures if how == "failed" else task.rate_limited
        backoff = min(agent.retry_cap, agent.retry_base * 2 ** (tries - 1))
        asked, cooled = timedelta(0), self.now
        if how == "rate_limited":
            asked = min(retry_after or asked, timedelta(hours=1))
            cooled = self.endpoints[by.endpoint].cooldown_until or cooled
        earliest, latest = (
            max(cooled, self.now + max(asked, wait)) for wait in (backoff / 2, backoff)
        )
        task.retry_between = earliest, latest
        return None

    def _run_ended(self, attempt: Attempt) -> None:
        """It spends no more, nor do its calls."""
        attempt.run_ended_at = attempt.run_ended_at or self.now
        self.calls = [c for c in self.calls if c.attempt is not attempt or c.granted]
        for call in self.calls:
            if call.attempt is attempt:
                call.ended_at = call.ended_at or self.now

    def _count_failure(self, name: str) -> None:
        agent = self.agents[name]
        agent.failures_in_a_row += 1
        if 0 < agent.breaker_failures <= agent.failures_in_a_row:
            agent.paused = True

    def record_usage(self, attempt: int, usage: Usage) -> str:
        by = self.attempts[attempt]
        if by.task.purged:
            return UNKNOWN
        return "recorded" if self._use(by, usage) else "kept"

    @staticmethod
    def _use(by: Attempt, new: Usage) -> bool:
        """Rule 10: set, never added."""
        if new == Usage() or new == Usage(trace=True):
            return False
        old = by.used
        if old is not None and new.rank < old.rank:
            if old.cost is None:
                by.used = Usage(old.input, old.output, old.cached, new.cost, *old.rank)
            return False

        def larger(known: Any, reported: Any) -> Any:
            return max((n for n in (known, reported) if n is not None), default=None)

        if old is None or new.rank > old.rank:
            cost = new.cost if new.cost is not None or old is None else old.cost
            by.used = Usage(new.input, new.output, new.cached, cost, *new.rank)
        else:
            by.used = Usage(
                larger(old.input, new.input),
                larger(old.output, new.output),
                larger(old.cached, new.cached),
                larger(old.cost, new.cost),
                *new.rank,
            )
        return True

    # --- upkeep -------------------------------------------------------------------------------

    def sweep_leases(self) -> Any:
        expired = retries = lost = 0
        looked_after = any(
            worker.relay == "databricks" and self._lives(name, worker.heartbeat_at)
            for name, worker in self.workers.items()
        )
        for task in self.tasks:
            attempt = task.running
            if attempt is None or task.lease_expires_at is None:
                continue
            over = task.lease_expires_at + self.agents[task.agent].reconcile_grace
            checked = attempt.checked_at
            looked_up = checked is not None and over <= checked <= self.now - MINUTE
            is_job_run = attempt.job_id is not None and attempt.run_id is not None
            if over > self.now or (looked_after and is_job_run and not looked_up):
                continue
            self._end(attempt, "expired")
            self._count_failure(task.agent)
            expired += 1
        for task in self.tasks:
            if task.retry_at is not None and task.retry_at <= self.now:
                task.retry_at = None
                retries += 1
        dead = [
            a
            for a in self.attempts
            if a.alive
            and not a.task.purged
            and a.presumed_dead_at is not None
            and a.presumed_dead_at <= self.now
        ]
        for attempt in dead:
            self._run_ended(attempt)
        for worker in self.workers.values():
            if not worker.stopped and worker.heartbeat_at < self.now - MINUTE:
                worker.stopped = True
                lost += 1
        self.calls = [
            c for c in self.calls if c.ended_at is None or c.ended_at >= self.now - 2 * MINUTE
        ]
        return expired, retries, len(dead), lost

    def fold_rollups(self) -> None:
        """Changes nothing that can be asked for."""

    def queue_metrics(
        self,
        statuses: Sequence[str],
        agents: Sequence[str],
        customers: Sequence[str],
        days: tuple[date, date],
    ) -> Any:
        """Rule 15: of all tasks ever, purged ones included."""
        answer = {}
        for status in statuses:
            tasks = [
                t
                for t in self.tasks
                if (t.status, t.agent in agents, t.customer in customers) == (status, True, True)
                and (t.finished_at is None or days[0] <= t.finished_at.date() <= days[1])
            ]
            used = [a.used for t in tasks for a in t.attempts if a.used is not None]
            ran = [t for t in tasks if t.finished_at is not None and t.attempts]
            answer[status] = (
                len(tasks),
                _sum_of_known(u.input for u in used),
                _sum_of_known(u.output for u in used),
                _sum_of_known(u.cached for u in used),
                _sum_of_known(u.cost for u in used),
                len(ran),
                sum(all(a.used and a.used.cost is not None for a in t.attempts) for t in ran),
            )
        return answer

    def purge_tasks(self, older_than: timedelta, completed: bool) -> Any:
        before = self.now - older_than

        def met_again(task: Task) -> bool:
            return any(
                task in e.documents and e is not task.extraction and e.created_at >= before
                for e in self.extractions
                if not e.purged
            )

        gone = [
            t
            for t in self.tasks
            if not t.purged
            and t.finished_at is not None
            and t.finished_at < before
            and not any(a.alive for a in t.attempts)
            and (t.status != "completed" or (completed and not met_again(t)))
        ]
        lines = batches = 0
        for task in gone:
            task.purged = True
        for batch in self.extractions:
            left = [task for task in batch.documents if not task.purged]
            if len(left) < len(batch.documents):
                lines += len(batch.documents) - len(left)
                batch.documents = left
                batch.purged = not left and batch.created_at < before
                batches += batch.purged
        self.calls = [c for c in self.calls if not c.attempt.task.purged]
        attempts = [a for t in gone for a in t.attempts]
        results = sum(a.has_result for a in attempts)
        return len(gone), len(attempts), results, lines, batches

    # --- people -------------------------------------------------------------------------------

    def cancel_tasks(self, tasks: Sequence[int]) -> Any:
        def cancel(task: Task) -> str:
            if task.status == "enqueued":
                self._leave(task, "cancelled")
                return "cancelled"
            if task.status == "processing" and not task.cancel_requested:
                task.cancel_requested = True
                return "requested"
            return "skipped"

        return self._each(tasks, cancel)

    def retry_tasks(self, tasks: Sequence[int]) -> Any:
        def retry(task: Task) -> str:
            taken = self._holder(task.agent, task.customer, task.dedup_key)
            if task.status not in ("failed", "cancelled") or taken is not None:
                return "skipped"
            stored = [a for a in task.attempts if a.has_result]
            if stored:
                stored[-1].status = "succeeded"
                self._leave(task, "completed")
            else:
                self._leave(task, "enqueued")
                task.failures = task.rate_limited = 0
                task.cancel_requested = False
                task.passed_over_at = None
            return task.status

        return self._each(tasks, retry)

    def reprocess_tasks(self, tasks: Sequence[int]) -> Any:
        def reprocess(task: Task) -> str:
            again = [t for t in task.reprocessed_by if t.status in ("enqueued", "processing")]
            if task.status != "completed" or again:
                return "skipped"
            key, task.dedup_key = task.dedup_key, None
            task.reprocessed_by.append(
                self._new_task(
                    task.agent, task.customer, key, task.priority, task.pages, task.extraction
                )
            )
            return "enqueued"

        return self._each(tasks, reprocess)

    def set_priorities(self, tasks: Sequence[int], priority: int) -> Any:
        def change(task: Task) -> str:
            if task.status in FINAL or task.priority == priority:
                return "skipped"
            task.priority = priority
            for call in self.calls:
                if call.attempt is task.running and not call.granted:
                    call.priority = priority
            return "changed"

        return self._each(tasks, change)

    def _each(self, numbers: Sequence[int], action: Callable[[Task], str]) -> Any:
        """What an action did to each task, in the order given; it is done in order of the tasks."""
        if len(numbers) == 1 and self.tasks[numbers[0]].purged:
            return UNKNOWN
        done = {
            n: "skipped" if self.tasks[n].purged else action(self.tasks[n])
            for n in sorted(set(numbers))
        }
        return [done[n] for n in numbers]
