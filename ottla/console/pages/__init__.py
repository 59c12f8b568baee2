"""The live pages: each is a function of the samples and the request."""
