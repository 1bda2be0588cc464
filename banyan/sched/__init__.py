"""What runs next. Pure: no torch, no sockets, no clock."""
