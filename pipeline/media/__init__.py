"""Turns one media file into units on one source clock; runs only as a process of its own."""
