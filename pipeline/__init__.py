"""One recording, second by second, to a brief; knows neither the web nor the queue."""
