"""Messages between processes: types, codec, channels."""
