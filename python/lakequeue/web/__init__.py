"""The web part: pages for people, JSON for programs, a stream of changes, the agents' webhook.

`lakequeue.web.app.create_app` makes the Flask application, `lakequeue.web.server` serves it.
Every decision is in the database; this package shows what it says and moves bytes.
"""
