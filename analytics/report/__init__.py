"""An audit's report: one HTML page that needs nothing beside it."""
