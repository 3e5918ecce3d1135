"""Tokens and what they cost: the formula of `procedures/_price.sql` once more.

A run says what each of its model calls cost, in the spans of its trace, and in sum in its report;
both are there before the database could price anything. A test compares the two.

Source of the convention: the OpenAI chat protocol, which Databricks model serving follows, counts
cached tokens inside prompt_tokens (`prompt_tokens_details.cached_tokens`), so they are taken out
before the input price applies. Prices are the database's, in USD per million tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Usage:
    """Tokens as the endpoint counts them: `cached` is a part of `input`."""

    input: int = 0
    output: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input, self.output + other.output, self.cached + other.cached
        )


@dataclass(frozen=True)
class Cost:
    """USD."""

    input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)

    @property
    def total(self) -> Decimal:
        return self.input + self.output

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.input + other.input, self.output + other.output)


@dataclass(frozen=True)
class Prices:
    """USD per million tokens. Without a price of their own, cached tokens cost like others."""

    input_usd: Decimal
    output_usd: Decimal
    cached_usd: Decimal

    @classmethod
    def of(cls, model_prices: Mapping[str, Any], model: str) -> Prices | None:
        """A model's prices as handed over with the run; None if it has none."""
        prices = model_prices.get(model)
        if not isinstance(prices, Mapping) or prices.get("input_usd") is None:
            return None
        input_usd = Decimal(str(prices["input_usd"]))
        cached = prices.get("cached_usd")
        return cls(
            input_usd=input_usd,
            output_usd=Decimal(str(prices.get("output_usd") or 0)),
            cached_usd=input_usd if cached is None else Decimal(str(cached)),
        )

    def cost(self, usage: Usage) -> Cost:
        """((input - cached) * input price + cached * cached price, output * output price).

        Cached tokens are a part of the input: an endpoint that counts more of them is not believed.
        """
        cached = min(usage.cached, usage.input)
        return Cost(
            ((usage.input - cached) * self.input_usd + cached * self.cached_usd) / _MILLION,
            usage.output * self.output_usd / _MILLION,
        )
