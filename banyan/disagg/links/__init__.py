"""Ways for KV pages to get from a prefill server to a decode server."""
