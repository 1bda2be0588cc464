"""Who owns which page: allocator, slots, prefix tree, leases. Pure."""
