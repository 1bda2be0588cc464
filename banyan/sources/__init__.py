"""Where models come from: names, catalogue, downloads, the cache, and the headers of model files. No torch."""
