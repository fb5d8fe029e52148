"""Generated text to evidence and findings: only what was said, only when it was complete."""
