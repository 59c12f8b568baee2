"""The console in the browser: pages about a cluster of Ottla or Kafka, over our own client."""
