"""A folder in which recordings appear, and what has become of each."""
