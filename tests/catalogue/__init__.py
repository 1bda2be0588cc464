"""The models of the catalogue as they are: needs them in the cache, or the network to fetch them."""
