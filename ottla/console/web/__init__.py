"""The web server: routes, streams and the application."""
