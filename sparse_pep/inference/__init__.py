"""Power EP: rows in shards, the fixed point of their sites, and the gradient of the evidence."""
