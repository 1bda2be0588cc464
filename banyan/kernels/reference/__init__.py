"""Each op in plain torch, for every device: the truth that faster ones are tested against."""
