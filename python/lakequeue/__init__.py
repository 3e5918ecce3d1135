"""Lakequeue: a SQL-first task orchestrator on Postgres. Every decision is made in the database."""

__version__ = "0.1.0"
