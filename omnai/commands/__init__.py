"""One file a command; what a command needs is imported when it runs."""
