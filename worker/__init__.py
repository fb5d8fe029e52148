"""The worker host: supervisor, queue and lifecycle."""
