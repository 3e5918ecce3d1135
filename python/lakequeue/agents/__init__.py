"""Programs that runs execute: each takes a task, does its work and reports back."""

DOCUMENT_PARSER = "document-parser"
NO_TEXT_LAYER = "no text layer"
"""A note in the result of a document of which no page has any text."""

REQUIRED_PARAMETERS = (
    "task_id",
    "attempt_id",
    "run_key",
    "callback_token",
    "document_path",
    "lease_seconds",
)
OPTIONAL_PARAMETERS = (
    "attempt_number",
    "customer",
    "payload",
    "estimated_tokens",
    "max_tpm",
    "parameters",
    "model_prices",
    "reserves_calls",
    "callback_url",
)
"""What a worker hands to a run, whatever the agent (lakequeue.relay.base)."""
