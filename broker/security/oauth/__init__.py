"""Tokens of OAUTHBEARER: their text, their claims, and the keys that sign them."""
