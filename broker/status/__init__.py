"""The status of a broker for operators: gauges, steps of the start, periodic tasks, HTTP pages."""
