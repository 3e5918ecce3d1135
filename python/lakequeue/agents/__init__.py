"""Programs that runs execute: each takes a task, does its work and reports back."""

DOCUMENT_PARSER = "document-parser"
