"""The keys of a broker's configuration, as documented by Kafka, with a file per subject."""
