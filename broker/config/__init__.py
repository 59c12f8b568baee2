"""The configs of a broker and of topics: keys, types, rules, layers, and the answers about them."""
