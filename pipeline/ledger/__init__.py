"""What a run knows, in PostgreSQL and in the frame store; the only home of `sqlalchemy`."""
